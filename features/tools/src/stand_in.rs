//! Stand-ins for the collations and functions that only an application has, for copying b-trees in
//! their order.
//!
//! VACUUM copies the records of each b-tree in their order, and needs collations only to find the
//! place of the next key. A stand-in puts it behind all others. A function is not called at all
//! unless a stored column is generated with it: then the stand-in is an error. The proof of a
//! rewrite compares records and order with the source ([`crate::proof`]), whatever a stand-in did.

use densite_sqlite::{self as sqlite, Code, Connection, Value, create_function, ffi};

/// More names than this are not looked for.
const MOST: usize = 1000;

/// Gives `db` stand-ins for all collations and functions that its tables and indexes need and that
/// it lacks.
///
/// # Errors
/// SQLite's.
pub(crate) fn provide(db: &Connection) -> sqlite::Result<()> {
    sqlite::stand_in_for_collations(db)?;
    for name in missing_functions(db)? {
        function(db, &name)?;
    }
    Ok(())
}

/// A function that must not be called.
pub(crate) fn function(db: &Connection, name: &str) -> sqlite::Result<()> {
    let message = format!("only the application has the function {name}");
    let flags = ffi::DETERMINISTIC | ffi::INNOCUOUS;
    create_function(db, name, -1, flags, move |_, _| {
        Err::<Value, _>(sqlite::Error::new(Code::ERROR, message.clone()))
    })
}

/// The functions that the schema names and that are missing: its statements run in an empty database
/// until it has all of them.
fn missing_functions(db: &Connection) -> sqlite::Result<Vec<String>> {
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_NOMUTEX;
    let empty = Connection::open(db.api(), ":memory:", flags, None)?;
    sqlite::stand_in_for_collations(&empty)?;
    let mut names: Vec<String> = Vec::new();
    let mut schema = db.prepare(
        "SELECT sql FROM main.sqlite_master WHERE rootpage > 0 AND sql LIKE 'CREATE %' ORDER BY type DESC",
    )?;
    while schema.step()? {
        let Some(sql) = schema.column(0).as_str().map(str::to_owned) else {
            continue;
        };
        while names.len() < MOST {
            let Err(e) = empty.prepare(&sql).and_then(|mut one| one.step()) else {
                break;
            };
            // Other errors are those of VACUUM, too, which reports them.
            let Some(name) = unknown_function(&e.message).map(str::to_owned) else {
                break;
            };
            if names.contains(&name) {
                break;
            }
            function(&empty, &name)?;
            names.push(name);
        }
    }
    Ok(names)
}

/// The function that SQLite's message says is missing.
pub(crate) fn unknown_function(message: &str) -> Option<&str> {
    ["no such function: ", "unknown function: "]
        .into_iter()
        .find_map(|what| message.strip_prefix(what))
        .map(|name| name.strip_suffix("()").unwrap_or(name))
}
