//! Commands of the sqlite3 shell that this one does not have, and what to use in their place.

/// By name.
const INSTEAD: &[(&str, &str)] = &[
    ("archive", "use tar, or another program for archives"),
    (
        "auth",
        "open the file with .open --readonly to change nothing",
    ),
    ("cd", "leave the shell, or write the whole path"),
    ("check", "use densite check, or PRAGMA integrity_check"),
    ("clone", "use .backup FILE, or VACUUM INTO 'FILE'"),
    (
        "connection",
        "use ATTACH 'FILE' AS name for a second database",
    ),
    (
        "dbinfo",
        "use densite info, or SELECT * FROM densite_info('main')",
    ),
    ("eqp", "write EXPLAIN QUERY PLAN before the statement"),
    ("excel", "use .once FILE.csv after .mode csv"),
    ("expert", "write EXPLAIN QUERY PLAN before the statement"),
    (
        "explain",
        "write EXPLAIN, or EXPLAIN QUERY PLAN, before the statement",
    ),
    ("fullschema", "use .schema, and .dump sqlite_stat%"),
    ("limit", "use SQLite's limits as they are"),
    (
        "load",
        "the extension is built in, and others cannot be loaded",
    ),
    ("log", "errors are printed to stderr"),
    (
        "recover",
        "use densite check to see what is damaged, and a backup",
    ),
    (
        "restore",
        "use .open FILE, or copy the file while no program uses it",
    ),
    ("scanstats", "use .timer on"),
    ("sha3sum", "use .dump, and a program for checksums"),
    ("stats", "use .timer on, or densite info for the file"),
    ("trace", "use .echo on"),
    ("vfsinfo", "use SELECT * FROM densite_info('main')"),
    ("vfslist", "use SELECT * FROM densite_info('main')"),
    ("vfsname", "use SELECT * FROM densite_info('main')"),
    (
        "width",
        "columns are as wide as their values; use .mode line for long ones",
    ),
    ("www", "use .once FILE after .mode markdown"),
];

/// What to use in place of a command.
pub(super) fn of(name: &str) -> Option<&'static str> {
    let found = INSTEAD.iter().find(|(known, _)| *known == name);
    found.map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_exists_and_is_replaced() {
        assert!(INSTEAD.is_sorted());
        for (name, _) in INSTEAD {
            let exists = super::super::COMMANDS
                .iter()
                .any(|c| c.name.starts_with(name));
            assert!(!exists, ".{name}");
        }
    }
}
