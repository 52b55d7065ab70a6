//! A database file with ingest, through the SQLite that the tests link.

pub(crate) mod away;
pub(crate) mod hooked;
pub(crate) mod leader;
pub(crate) mod past;
pub(crate) mod storage;
pub(crate) mod waiting;

use densite_ingest::DatabaseLog;
use densite_sqlite::{Api, Connection};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The function table of the linked library.
pub(crate) fn api() -> Api {
    densite_linked::api().expect("the linked SQLite is new enough")
}

/// A folder with one database in it.
pub(crate) struct Db {
    dir: tempfile::TempDir,
}

impl Db {
    /// A database in WAL mode with these tables.
    pub(crate) fn new(schema: &str) -> Db {
        let db = Db {
            dir: tempfile::tempdir().expect("a folder"),
        };
        let plain = rusqlite::Connection::open(db.path()).expect("opens");
        plain
            .execute_batch("PRAGMA journal_mode = WAL")
            .expect("WAL");
        plain.execute_batch(schema).expect("the schema");
        db
    }

    /// As [`Db::new`], but the statements of the schema run first: only then an encoding can be
    /// set.
    pub(crate) fn with_schema_first(schema: &str) -> Db {
        let db = Db {
            dir: tempfile::tempdir().expect("a folder"),
        };
        let plain = rusqlite::Connection::open(db.path()).expect("opens");
        plain.execute_batch(schema).expect("the schema");
        plain
            .execute_batch("PRAGMA journal_mode = WAL")
            .expect("WAL");
        db
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("app.db")
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.dir.path().join("app.db-log")
    }

    /// Number of segments of the log.
    pub(crate) fn segments(&self) -> usize {
        let names = std::fs::read_dir(self.log_dir()).expect("a log");
        let names = names.map(|n| n.expect("a name").file_name());
        names
            .filter(|n| n.to_string_lossy().ends_with(".seg"))
            .count()
    }

    /// Bytes of the WAL.
    pub(crate) fn wal_len(&self) -> u64 {
        std::fs::metadata(self.path().with_extension("db-wal")).map_or(0, |m| m.len())
    }

    /// A connection with ingest.
    pub(crate) fn open(&self) -> rusqlite::Connection {
        open(&self.path())
    }

    /// A connection with ingest into `table` as `<table>_in`.
    pub(crate) fn ingest(&self, table: &str, options: &str) -> rusqlite::Connection {
        let con = self.open();
        create(&con, table, options).expect("the ingest table");
        con
    }
}

/// Makes `<table>_in`.
pub(crate) fn create(
    con: &rusqlite::Connection,
    table: &str,
    options: &str,
) -> rusqlite::Result<()> {
    con.execute_batch(&format!(
        "CREATE VIRTUAL TABLE temp.{table}_in USING densite_ingest({table}{options})"
    ))
}

/// A connection with ingest.
pub(crate) fn open(path: &Path) -> rusqlite::Connection {
    let api = api();
    let con = rusqlite::Connection::open(path).expect("opens");
    con.busy_timeout(std::time::Duration::from_secs(10))
        .expect("a timeout");
    functions(api, &con);
    con
}

/// Adds ingest to a connection.
pub(crate) fn functions(api: Api, con: &rusqlite::Connection) {
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { Connection::borrow(api, con.handle().cast()) }.expect("a connection");
    densite_ingest::create_functions(&lent).expect("functions");
}

/// The log of a connection's database.
pub(crate) fn database_log(con: &rusqlite::Connection) -> Arc<DatabaseLog> {
    // SAFETY: it is an open connection of that library.
    let lent = unsafe { Connection::borrow(api(), con.handle().cast()) }.expect("a connection");
    DatabaseLog::of(&lent).expect("a log").expect("a log")
}

/// One value.
pub(crate) fn one<T: rusqlite::types::FromSql>(con: &rusqlite::Connection, sql: &str) -> T {
    con.query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// All rows, as text.
pub(crate) fn all(con: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = con.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values: Vec<String> = (0..columns)
            .map(|i| match row.get_ref(i).expect("a column") {
                rusqlite::types::ValueRef::Null => "NULL".to_owned(),
                rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                rusqlite::types::ValueRef::Real(x) => format!("{x:?}"),
                rusqlite::types::ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
                rusqlite::types::ValueRef::Blob(b) => format!("{b:x?}"),
            })
            .collect();
        Ok(values.join("|"))
    });
    rows.unwrap_or_else(|e| panic!("{sql}: {e}"))
        .collect::<rusqlite::Result<_>>()
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The message of a statement that fails.
pub(crate) fn refusal(con: &rusqlite::Connection, sql: &str) -> String {
    con.execute_batch(sql).expect_err(sql).to_string()
}

/// Waits until all rows are applied.
pub(crate) fn wait(con: &rusqlite::Connection) -> i64 {
    one(con, "SELECT densite_wait()")
}

/// Holds the write lock, so that no rows are applied while it exists.
pub(crate) struct Held(rusqlite::Connection);

impl Held {
    pub(crate) fn new(db: &Db) -> Held {
        let con = rusqlite::Connection::open(db.path()).expect("opens");
        con.busy_timeout(std::time::Duration::from_secs(10))
            .expect("a timeout");
        con.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        Held(con)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").expect("given back");
    }
}
