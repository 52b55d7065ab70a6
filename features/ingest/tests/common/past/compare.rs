//! Comparing and copying the contents of databases.

use crate::common::{all, one};
use rusqlite::Connection;

pub(super) const OWN: &str = "name NOT LIKE 'densite_%' AND name NOT LIKE 'sqlite_%'";

/// All rows of all tables.
pub(super) fn dump(con: &Connection) -> Vec<String> {
    let tables = all(
        con,
        &format!("SELECT name FROM sqlite_schema WHERE type = 'table' AND {OWN} ORDER BY 1"),
    );
    let mut lines = Vec::new();
    for table in tables {
        let mut rows = all(con, &format!("SELECT * FROM {table}"));
        rows.sort_unstable();
        lines.extend(rows.into_iter().map(|r| format!("{table}: {r}")));
    }
    lines
}

/// A database in memory with the tables of another one, except Densite's own.
pub(super) fn copy(con: &Connection) -> Connection {
    let to = Connection::open_in_memory().expect("opens");
    let encoding: String = one(con, "PRAGMA encoding");
    to.execute_batch(&format!(
        "PRAGMA encoding = '{encoding}'; PRAGMA foreign_keys = OFF"
    ))
    .expect("set");
    let schema = |kind: &str| {
        all(
            con,
            &format!(
                "SELECT sql FROM sqlite_schema WHERE type = '{kind}' AND {OWN} AND tbl_name NOT LIKE 'densite_%' AND sql IS NOT NULL ORDER BY rowid"
            ),
        )
    };
    for sql in schema("table") {
        to.execute_batch(&sql).expect("a table");
    }
    let tables = all(
        con,
        &format!("SELECT name FROM sqlite_schema WHERE type = 'table' AND {OWN}"),
    );
    for table in tables {
        let columns = all(
            con,
            &format!("SELECT name FROM pragma_table_xinfo('{table}') WHERE hidden = 0"),
        );
        let has_rowid: bool = one(
            con,
            &format!(
                "SELECT wr = 0 FROM pragma_table_list WHERE name = '{table}' AND schema = 'main'"
            ),
        );
        let mut names = columns.join(", ");
        let is_alias = all(
            con,
            &format!(
                "SELECT 1 FROM pragma_table_info('{table}') WHERE pk = 1 AND type = 'INTEGER'"
            ),
        );
        if has_rowid && is_alias.is_empty() {
            names.push_str(", rowid");
        }
        let mut from = con
            .prepare(&format!("SELECT {names} FROM {table}"))
            .expect("reads");
        let width = from.column_count();
        let places = vec!["?"; width].join(", ");
        let mut into = to
            .prepare(&format!("INSERT INTO {table}({names}) VALUES ({places})"))
            .expect("an insert");
        let mut rows = from.query([]).expect("reads");
        while let Some(row) = rows.next().expect("a row") {
            let values: Vec<rusqlite::types::Value> =
                (0..width).map(|i| row.get(i).expect("a value")).collect();
            into.execute(rusqlite::params_from_iter(values))
                .expect("inserts");
        }
    }
    for kind in ["index", "trigger"] {
        for sql in schema(kind) {
            to.execute_batch(&sql).expect("an index or a trigger");
        }
    }
    to.execute_batch("PRAGMA foreign_keys = ON").expect("set");
    to
}

/// Reports the differences.
pub(super) fn same(found: &[String], expected: &[String], what: impl Fn() -> String) {
    if found != expected {
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            let mut left = b.to_vec();
            let mut is_extra = |line: &&String| match left.iter().position(|l| l == *line) {
                Some(at) => {
                    left.swap_remove(at);
                    false
                }
                None => true,
            };
            a.iter()
                .filter(|line| is_extra(line))
                .take(9)
                .cloned()
                .collect()
        };
        panic!(
            "{}: only found {:?}, only expected {:?}",
            what(),
            only(found, expected),
            only(expected, found)
        );
    }
}

/// Applies one change. Returns whether the table accepts it.
pub(super) fn apply(con: &Connection, sql: &str) -> bool {
    // A refused row leaves nothing, although RAISE(FAIL) keeps what a trigger did before it.
    con.execute_batch("SAVEPOINT change").expect("begins");
    let done = con.execute(sql, []);
    let end = match done {
        Ok(_) => "RELEASE change",
        Err(_) => "ROLLBACK TO change; RELEASE change",
    };
    con.execute_batch(end).expect("ends");
    match done {
        Err(_) => false,
        Ok(0) if sql.starts_with("UPDATE") => {
            // If a trigger ignored the update, the row exists.
            let (change, key) = sql.rsplit_once(" WHERE ").expect("a condition");
            let (before, _) = change.split_once(" SET ").expect("columns");
            let name = before.rsplit(' ').next().expect("a name");
            one(con, &format!("SELECT count(*) > 0 FROM {name} WHERE {key}"))
        }
        Ok(_) => true,
    }
}

/// Copies one database over another, all at once; false if a lock prevents it.
pub(super) fn rusqlite_backup(from: &Connection, to: &mut Connection) -> bool {
    use rusqlite::ffi;
    // SAFETY: both connections are open, and no other thread uses them meanwhile.
    unsafe {
        let backup = ffi::sqlite3_backup_init(
            to.handle(),
            c"main".as_ptr(),
            from.handle(),
            c"main".as_ptr(),
        );
        if backup.is_null() {
            return false;
        }
        let done = ffi::sqlite3_backup_step(backup, -1);
        ffi::sqlite3_backup_finish(backup);
        done == ffi::SQLITE_DONE
    }
}
