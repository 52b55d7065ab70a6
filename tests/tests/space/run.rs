//! A database in use, and the steps of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use densite_tests::procs::subject;
use densite_tests::simvfs::SimVfs;
use rand::RngExt as _;
use rand::rngs::Xoshiro256PlusPlus;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

use super::changes::{Change, Model, content, noise};
use super::{Durable, Kind};

pub(crate) const PATH: &str = "/db/space.db";

pub(crate) struct Run<'a> {
    pub(crate) host: &'a SimVfs,
    pub(crate) vfs: &'a str,
    pub(crate) kind: &'a Kind,
    pub(crate) uri: &'a str,
    pub(crate) page_size: u32,
    pub(crate) auto_vacuum: u32,
    pub(crate) rng: Xoshiro256PlusPlus,
    pub(crate) db: Option<Connection>,
    /// A second connection with a snapshot, and the content of the snapshot.
    pub(crate) reader: Option<(Connection, Model)>,
    /// The states since the database was opened or recovered. The newest is last.
    pub(crate) states: Vec<Model>,
    pub(crate) tally: &'a mut BTreeMap<&'static str, u32>,
}

impl Run<'_> {
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let uri = format!("file:{PATH}?{}", self.uri);
        let db = Connection::open_with_flags_and_vfs(uri, OpenFlags::default(), self.vfs)?;
        db.busy_timeout(Duration::ZERO)?;
        db.create_scalar_function("noise", 3, FunctionFlags::SQLITE_DETERMINISTIC, |c| {
            Ok(noise(c.get(0)?, c.get(1)?, c.get(2)?))
        })?;
        db.execute_batch(&format!(
            "PRAGMA page_size={}; PRAGMA auto_vacuum={}; PRAGMA cache_size=20; PRAGMA secure_delete=OFF",
            self.page_size, self.auto_vacuum
        ))?;
        Ok(db)
    }

    /// The writer's connection, opened if necessary.
    pub(crate) fn open(&mut self) -> rusqlite::Result<&Connection> {
        if self.db.is_none() {
            let db = self.connect()?;
            let limit = 40;
            db.execute_batch(&format!(
                "PRAGMA journal_mode={}; PRAGMA synchronous={}; PRAGMA wal_autocheckpoint={limit}",
                self.kind.journal, self.kind.synchronous
            ))?;
            self.db = Some(db);
        }
        Ok(self.db.as_ref().expect("just opened"))
    }

    pub(crate) fn now(&self) -> &Model {
        self.states.last().expect("never empty")
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// Ends the snapshot. Except in WAL mode, it would block every commit.
    pub(crate) fn end_snapshot(&mut self) {
        if let Some((reader, seen)) = self.reader.take() {
            assert_eq!(content(&reader).expect("reads"), seen, "a snapshot changed");
            reader.execute_batch("COMMIT").expect("ends");
        }
    }

    /// Runs one transaction with savepoints, which commits or rolls back. `Ok` if all of it
    /// succeeded.
    pub(crate) fn transaction(&mut self) -> rusqlite::Result<()> {
        if self.kind.journal != "WAL" {
            self.end_snapshot();
        }
        let mut model = self.now().clone();
        let large = self.rng.random_range(0..6) == 0;
        let changes = self.rng.random_range(1..6);
        let commits = self.rng.random_range(0..5) > 0;
        let mut script = vec!["BEGIN".to_owned()];
        for _ in 0..changes {
            let back = self.rng.random_range(0..5) == 0;
            if back {
                script.push("SAVEPOINT s".into());
                let mut lost = model.clone();
                for _ in 0..2 {
                    let change = Change::random(&mut self.rng, &lost, large);
                    change.apply(&mut lost);
                    script.push(change.sql());
                }
                script.push("ROLLBACK TO s; RELEASE s".into());
            } else {
                let change = Change::random(&mut self.rng, &model, large);
                change.apply(&mut model);
                script.push(change.sql());
            }
        }
        script.push(if commits { "COMMIT" } else { "ROLLBACK" }.into());
        self.count(if commits { "commits" } else { "rollbacks" });
        // Before the acknowledgement the transaction can be present or not.
        if commits {
            self.states.push(model);
        }
        let db = self.open()?;
        for sql in script {
            db.execute_batch(&sql)?;
        }
        Ok(())
    }

    pub(crate) fn checkpoint(&mut self) -> rusqlite::Result<()> {
        let mode = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][self.rng.random_range(0..4usize)];
        self.count("checkpoints");
        self.open()?
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
    }

    /// Runs `densite_maintain` on either connection. Only snapshots are open, and these must not
    /// block it.
    pub(crate) fn maintain(&mut self) -> rusqlite::Result<()> {
        self.open()?;
        let by_reader = self.reader.is_none() && self.rng.random_range(0..3) == 0;
        if by_reader {
            let other = self.connect()?;
            other.query_row("PRAGMA densite_maintain", [], |_| Ok(()))?;
            self.count("maintained by another");
            return other.close().map_err(|(_, e)| e);
        }
        let complete =
            self.reader.is_none() && self.kind.journal == "WAL" && self.rng.random_range(0..2) == 0;
        let db = self.open()?;
        if complete {
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        db.query_row("PRAGMA densite_maintain", [], |_| Ok(()))?;
        let at_rest = complete || self.kind.journal != "WAL";
        self.count(if at_rest { "at rest" } else { "maintained" });
        if at_rest && !self.now().is_empty() {
            self.rests()?;
        }
        Ok(())
    }

    /// Asserts that no free page has a frame, and that few bytes are dead or free.
    pub(crate) fn rests(&self) -> rusqlite::Result<()> {
        let db = self.db.as_ref().expect("open");
        let figure = |name: &str| -> rusqlite::Result<i64> {
            let sql = "SELECT value FROM densite_info('main') WHERE name = ?";
            db.query_row(sql, [name], |r| r.get(0))
        };
        let pragma =
            |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |r| r.get::<_, i64>(0));
        let (pages, free) = (pragma("page_count")?, pragma("freelist_count")?);
        let framed = figure("framed_pages")?;
        // Trunk pages keep frames: one for at least page_size / 4 - 8 leaves, and old ones that are
        // not full.
        let trunks = free * 4 / i64::from(self.page_size - 64) + 8 + free / 50;
        assert!(
            framed <= pages - free + trunks,
            "{framed} frames for {pages} pages, {free} free"
        );
        let space = self.in_store(|h| h.space().expect("space"));
        let idle = space.dead_bytes + space.free_bytes;
        assert!(
            idle <= space.file_bytes / 20 + (192 << 10),
            "at rest {idle} bytes are dead or free: {space:?}"
        );
        Ok(())
    }

    pub(crate) fn in_store<T>(&self, body: impl FnOnce(&mut densite_store::Handle) -> T) -> T {
        let db = self.db.as_ref().expect("open");
        // SAFETY: the handle is that of an open connection of the linked library.
        let wrapped =
            unsafe { densite_sqlite::Connection::borrow(subject::api(), db.handle().cast()) };
        densite_vfs::with_handle(&wrapped.expect("not null"), c"main", body)
            .expect("reads")
            .expect("is a store")
    }

    /// Asserts that all content equals that of the model.
    pub(crate) fn compare(&mut self) {
        let db = self.open().expect("opens");
        let found = content(db).expect("reads");
        assert!(found == *self.now(), "the content differs");
        if let Some((reader, seen)) = &self.reader {
            assert!(
                content(reader).expect("reads") == *seen,
                "a snapshot changed"
            );
        }
        if self.now().is_empty() {
            return;
        }
        let report = self.in_store(|h| h.check(&mut |_, _| true).expect("check"));
        assert_eq!(report.problems, vec![], "check");
    }

    /// Runs one step. An error is an error of the dead disk.
    pub(crate) fn step(&mut self) -> rusqlite::Result<()> {
        match self.rng.random_range(0..20) {
            0..=9 => self.transaction()?,
            10..=12 if self.kind.journal == "WAL" => self.checkpoint()?,
            10..=15 => self.maintain()?,
            16..=17 => {
                self.end_snapshot();
                let reader = self.connect()?;
                reader.execute_batch("BEGIN")?;
                let seen = content(&reader)?;
                assert!(
                    seen == *self.now(),
                    "a new snapshot is not the newest state"
                );
                self.count("snapshots");
                self.reader = Some((reader, seen));
            }
            18 if self.auto_vacuum == 2 => {
                if self.kind.journal != "WAL" {
                    self.end_snapshot();
                }
                self.open()?
                    .execute_batch("PRAGMA incremental_vacuum(20)")?;
            }
            _ => {
                self.end_snapshot();
                self.count("closes");
                if let Some(db) = self.db.take() {
                    db.close().map_err(|(_, e)| e)?;
                }
                // A close syncs the content of a WAL.
                if self.kind.durable == Durable::Any {
                    let last = self.now().clone();
                    self.states.push(last);
                }
            }
        }
        Ok(())
    }
}
