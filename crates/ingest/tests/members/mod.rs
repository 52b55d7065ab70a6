//! Databases that are members of one stream.

mod joining;
mod rows;

use crate::common::{self, all, one};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A stream in a directory, and the databases of its members.
pub(crate) struct Cluster {
    dir: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        Cluster {
            dir: tempfile::tempdir().expect("a folder"),
        }
    }

    pub(crate) fn stream(&self) -> PathBuf {
        self.dir.path().join("stream")
    }

    pub(crate) fn address(&self) -> String {
        format!("file://{}", self.stream().display())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.db"))
    }

    /// A database in WAL mode with these tables, which joins.
    pub(crate) fn founder(&self, name: &str, schema: &str) -> rusqlite::Connection {
        let con = common::open(&self.path(name));
        con.execute_batch(&format!("PRAGMA journal_mode = WAL; {schema}"))
            .expect("the schema");
        self.join(&con, name);
        con
    }

    /// A copy of a member's database, without its log, which joins.
    pub(crate) fn copy(&self, of: &rusqlite::Connection, name: &str) -> rusqlite::Connection {
        of.execute("VACUUM INTO ?1", [self.path(name).to_string_lossy()])
            .expect("a copy");
        let con = common::open(&self.path(name));
        con.execute_batch("PRAGMA journal_mode = WAL").expect("WAL");
        self.join(&con, name);
        con
    }

    pub(crate) fn join(&self, con: &rusqlite::Connection, name: &str) {
        let settings = format!(r#"{{"origin": "{name}"}}"#);
        let joined: String = con
            .query_row(
                "SELECT densite_join(?1, ?2)",
                [self.address(), settings],
                |row| row.get(0),
            )
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(joined, name);
    }
}

/// Makes the ingest table of a member.
pub(crate) fn ingest(con: &rusqlite::Connection, table: &str, options: &str) {
    common::create(con, table, options).expect("the ingest table");
}

/// Waits until a query of a member gives this.
pub(crate) fn wait_for(con: &rusqlite::Connection, sql: &str, expected: &[&str]) {
    let since = Instant::now();
    loop {
        let found = all(con, sql);
        if found == expected {
            return;
        }
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "{sql}: {found:?}, not {expected:?}; {:?}",
            all(con, "SELECT * FROM densite_stream_status()")
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until all members have applied everything in the stream.
pub(crate) fn settle(members: &[&rusqlite::Connection]) {
    for member in members {
        one::<i64>(member, "SELECT densite_wait()");
    }
    let since = Instant::now();
    for member in members {
        while one::<Option<i64>>(
            member,
            "SELECT messages_behind FROM densite_stream_status()",
        ) != Some(0)
        {
            assert!(
                since.elapsed() < Duration::from_secs(20),
                "{:?}",
                all(member, "SELECT * FROM densite_stream_status()")
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Puts a file or directory of a stopped member elsewhere.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}
