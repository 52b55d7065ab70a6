//! Databases that are members of one stream.

mod closes;
mod different;
mod elsewhere;
mod failures;
mod foreign;
mod idle;
mod joining;
mod kills;
mod loss;
mod older;
mod place;
mod rows;
mod three;
mod trimming;
mod votes;

use crate::common::{self, all, one};
use place::Place;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A stream, and the databases of its members.
pub(crate) struct Cluster {
    /// Ends before its directory.
    place: Place,
    dir: tempfile::TempDir,
}

impl Cluster {
    /// In a directory.
    pub(crate) fn new() -> Cluster {
        let dir = tempfile::tempdir().expect("a folder");
        let place = Place::directory(dir.path());
        Cluster { place, dir }
    }

    /// On a server of NATS with these lines in its configuration; `None`: it is not installed.
    pub(crate) fn on_nats(settings: &str) -> Option<Cluster> {
        let dir = tempfile::tempdir().expect("a folder");
        let place = Place::nats(dir.path(), settings)?;
        Some(Cluster { place, dir })
    }

    /// One of each kind.
    pub(crate) fn all() -> Vec<Cluster> {
        let nats = Cluster::on_nats("");
        std::iter::once(Cluster::new()).chain(nats).collect()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn address(&self) -> String {
        self.place.address()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.db"))
    }

    /// A database in WAL mode with these tables, which joins.
    pub(crate) fn founder(&self, name: &str, schema: &str) -> rusqlite::Connection {
        self.founder_named(name, name, schema)
    }

    /// As [`Cluster::founder`], with another name in the stream.
    pub(crate) fn founder_named(
        &self,
        name: &str,
        origin: &str,
        schema: &str,
    ) -> rusqlite::Connection {
        let con = common::open(&self.path(name));
        con.execute_batch(&format!("PRAGMA journal_mode = WAL; {schema}"))
            .expect("the schema");
        self.join(&con, origin);
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
        let joined = self.join_with(con, &format!(r#""origin": "{name}""#));
        assert_eq!(joined.unwrap_or_else(|e| panic!("{name}: {e}")), name);
    }

    /// Joins with these settings, which are pairs of a JSON object.
    pub(crate) fn join_with(
        &self,
        con: &rusqlite::Connection,
        settings: &str,
    ) -> rusqlite::Result<String> {
        let settings = format!(r#"{{"trust_server": true, {settings}}}"#);
        let values = [self.address(), settings];
        con.query_row("SELECT densite_join(?1, ?2)", values, |row| row.get(0))
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
