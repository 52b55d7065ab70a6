//! Databases through the VFS, with the SQLite that the tests link.

pub(crate) mod flaky;

use densite_sqlite::{Api, Backup, BackupStep, EntryPoint};
use rusqlite::auto_extension::{RawAutoExtension, register_auto_extension};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Registers Densite with the linked library once. Returns its API table.
pub(crate) fn densite() -> Api {
    static API: OnceLock<Api> = OnceLock::new();
    *API.get_or_init(|| {
        // SAFETY: an entry point that only the linked library calls.
        unsafe {
            let densite =
                std::mem::transmute::<EntryPoint, RawAutoExtension>(densite_vfs::densite_init);
            register_auto_extension(densite).expect("registers");
        }
        // This comes second: it opens a connection, which registers the VFS.
        let api = densite_linked::api().expect("the linked SQLite is new enough");
        densite_linked::for_every_connection(densite_cluster::create_functions).expect("registers");
        api
    })
}

/// A directory for one test.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        densite();
        Place(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Opens through Densite, with further URI parameters ("&level=9").
    pub(crate) fn try_open(&self, name: &str, parameters: &str) -> rusqlite::Result<Connection> {
        self.try_open_over("densite", name, parameters)
    }

    pub(crate) fn try_open_over(
        &self,
        vfs: &str,
        name: &str,
        parameters: &str,
    ) -> rusqlite::Result<Connection> {
        let path = self.path(name);
        let uri = format!("file:{}?vfs={vfs}{parameters}", path.display());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(uri, flags)
    }

    pub(crate) fn open(&self, name: &str) -> Connection {
        self.try_open(name, "").expect("opens")
    }

    /// Opens without Densite.
    pub(crate) fn plain(&self, name: &str) -> Connection {
        Connection::open(self.path(name)).expect("opens")
    }

    pub(crate) fn is_plain(&self, name: &str) -> bool {
        bytes(&self.path(name)).starts_with(b"SQLite format 3\0")
    }
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("reads")
}

pub(crate) fn run(db: &Connection, sql: &str) {
    db.execute_batch(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub(crate) fn int(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

pub(crate) fn text(db: &Connection, sql: &str) -> String {
    db.query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Adds `n` rows of about 300 bytes that do not compress well to `t`.
pub(crate) fn noise(db: &Connection, n: u32) {
    run(
        db,
        &format!(
            "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})
             INSERT INTO t SELECT NULL, hex(randomblob(150)) FROM n;"
        ),
    );
}

/// Fills table `t` with rows 1 to `n`.
pub(crate) fn fill(db: &Connection, n: u32) {
    run(
        db,
        &format!(
            "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n})
             INSERT INTO t SELECT NULL, 'row ' || i || hex(randomblob(20)) FROM n;"
        ),
    );
}

pub(crate) fn assert_sound(db: &Connection) {
    assert_eq!(text(db, "PRAGMA integrity_check"), "ok");
}

/// One figure of `densite_info`.
pub(crate) fn figure(db: &Connection, name: &str) -> String {
    text(
        db,
        &format!("SELECT CAST(value AS TEXT) FROM densite_info('main') WHERE name = '{name}'"),
    )
}

/// The same connection as Densite's wrapper type.
pub(crate) fn wrapped(db: &Connection) -> densite_sqlite::Connection {
    // SAFETY: an open connection of the linked library.
    let wrapped = unsafe { densite_sqlite::Connection::borrow(densite(), db.handle().cast()) };
    wrapped.expect("not null")
}

/// Copies a database with the online backup, a few pages at a time.
pub(crate) fn copy(from: &Connection, to: &Connection) {
    let (from, to) = (wrapped(from), wrapped(to));
    let mut backup = Backup::new(&to, c"main", &from, c"main").expect("begins");
    while backup.step(7).expect("copies") == BackupStep::More {}
    backup.finish().expect("ends");
}
