//! Space that comes back, under real SQLite: inserts, deletes, drops, rollbacks, savepoints, snapshots that a second connection holds, checkpoints, closes,
//! `densite_maintain`, kills and power cuts, in any order, with secure_delete=OFF.
//!
//! After each step the content is that of a model (after a crash that of a state that the settings allow), open snapshots see what they saw, the
//! store's own check finds nothing, and after `densite_maintain` no free page has a frame and little is dead.
//!
//! `DENSITE_SPACE_SEED=n` runs one seed alone, `DENSITE_SPACE_SEEDS=n` so many for each journal mode.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::Duration;

use densite_disk::sim::SimDisk;
use densite_tests::procs::subject;
use densite_tests::simvfs::SimVfs;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

const PATH: &str = "/db/space.db";
const TABLES: [&str; 3] = ["t0", "t1", "t2"];
const STEPS: usize = 60;

/// A row without its bytes, which follow from it: tag and length.
type Row = (i64, i64);
/// Tables and their rows.
type Model = BTreeMap<&'static str, BTreeMap<i64, Row>>;

/// The bytes of a row.
fn noise(key: i64, tag: i64, len: i64) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(key as u64 ^ (tag as u64) << 32);
    (0..len).map(|_| rng.random()).collect()
}

/// One change.
#[derive(Debug, Clone)]
enum Change {
    Create(&'static str),
    Drop(&'static str),
    /// Keys from, to, each so far from the next; tag and length.
    Put(&'static str, i64, i64, i64, Row),
    /// Keys whose rest by this is that, in a range.
    Delete(&'static str, i64, i64, i64, i64),
}

impl Change {
    fn random(rng: &mut Xoshiro256PlusPlus, model: &Model, large: bool) -> Change {
        let table = TABLES[rng.random_range(0..3usize)];
        let Some(rows) = model.get(table) else {
            return Change::Create(table);
        };
        let first = rows.keys().next().copied().unwrap_or(0);
        let last = rows.keys().next_back().copied().unwrap_or(0);
        match rng.random_range(0..10) {
            0 => Change::Drop(table),
            1..=3 if !rows.is_empty() => {
                let (from, to) = match rng.random_range(0..3) {
                    0 => (first, first + (last - first) / 2),
                    1 => (first + (last - first) / 3, last),
                    _ => (first, last),
                };
                let modulus = rng.random_range(1..=7);
                Change::Delete(table, from, to, modulus, rng.random_range(0..modulus))
            }
            4..=5 if !rows.is_empty() => {
                let from = rng.random_range(first..=last);
                let len = rng.random_range(0..1500);
                let to = from + rng.random_range(0..200);
                Change::Put(
                    table,
                    from,
                    to,
                    rng.random_range(1..9),
                    (rng.random_range(0..1 << 30), len),
                )
            }
            _ => {
                let count = if large {
                    rng.random_range(200..2500)
                } else {
                    rng.random_range(1..80)
                };
                let len = rng.random_range(0..1200);
                Change::Put(
                    table,
                    last + 1,
                    last + count,
                    1,
                    (rng.random_range(0..1 << 30), len),
                )
            }
        }
    }

    fn sql(&self) -> String {
        match self {
            Change::Create(t) => format!("CREATE TABLE {t}(a INTEGER PRIMARY KEY, tag, b)"),
            Change::Drop(t) => format!("DROP TABLE {t}"),
            Change::Put(t, from, to, step, (tag, len)) => format!(
                "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + {step} FROM n WHERE i + {step} <= {to})
                 INSERT OR REPLACE INTO {t} SELECT i, {tag}, noise(i, {tag}, {len}) FROM n"
            ),
            Change::Delete(t, from, to, modulus, rest) => {
                format!("DELETE FROM {t} WHERE a BETWEEN {from} AND {to} AND a % {modulus} = {rest}")
            }
        }
    }

    fn apply(&self, model: &mut Model) {
        match self {
            Change::Create(t) => drop(model.insert(t, BTreeMap::new())),
            Change::Drop(t) => drop(model.remove(t)),
            Change::Put(t, from, to, step, row) => {
                let keys = (*from..=*to).step_by(usize::try_from(*step).expect("small"));
                model
                    .get_mut(t)
                    .expect("is there")
                    .extend(keys.map(|k| (k, *row)));
            }
            Change::Delete(t, from, to, modulus, rest) => {
                let rows = model.get_mut(t).expect("is there");
                rows.retain(|k, _| k < from || k > to || k % modulus != *rest);
            }
        }
    }
}

/// What the database holds; every row's bytes are compared.
fn content(db: &Connection) -> rusqlite::Result<Model> {
    let mut model = Model::new();
    for table in TABLES {
        let there: i64 = db.query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name = ?",
            [table],
            |r| r.get(0),
        )?;
        if there == 0 {
            continue;
        }
        let mut statement = db.prepare(&format!(
            "SELECT a, tag, length(b), b = noise(a, tag, length(b)) FROM {table}"
        ))?;
        let rows = statement.query_map([], |r| {
            let (key, row, same): (i64, Row, bool) = (r.get(0)?, (r.get(1)?, r.get(2)?), r.get(3)?);
            assert!(same, "{table}: the bytes of row {key} differ");
            Ok((key, row))
        })?;
        model.insert(table, rows.collect::<rusqlite::Result<_>>()?);
    }
    Ok(model)
}

/// Which states may be found after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// The newest.
    Last,
    /// The newest, or the one before: the end of its journal was not synced.
    LastTwo,
    /// Any since the database was opened.
    Any,
}

struct Kind {
    journal: &'static str,
    synchronous: &'static str,
    durable: Durable,
}

const KINDS: [Kind; 6] = [
    Kind {
        journal: "DELETE",
        synchronous: "FULL",
        durable: Durable::LastTwo,
    },
    Kind {
        journal: "DELETE",
        synchronous: "EXTRA",
        durable: Durable::Last,
    },
    Kind {
        journal: "TRUNCATE",
        synchronous: "FULL",
        durable: Durable::LastTwo,
    },
    Kind {
        journal: "PERSIST",
        synchronous: "FULL",
        durable: Durable::LastTwo,
    },
    Kind {
        journal: "WAL",
        synchronous: "FULL",
        durable: Durable::Last,
    },
    Kind {
        journal: "WAL",
        synchronous: "NORMAL",
        durable: Durable::Any,
    },
];

struct Run<'a> {
    host: &'a SimVfs,
    vfs: &'a str,
    kind: &'a Kind,
    uri: &'a str,
    page_size: u32,
    auto_vacuum: u32,
    rng: Xoshiro256PlusPlus,
    db: Option<Connection>,
    /// A second connection with a snapshot, and what it sees.
    reader: Option<(Connection, Model)>,
    /// The states since the database was opened or crashed; the newest is last.
    states: Vec<Model>,
    tally: &'a mut BTreeMap<&'static str, u32>,
}

impl Run<'_> {
    fn connect(&self) -> rusqlite::Result<Connection> {
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

    /// The writer, opened if need be.
    fn open(&mut self) -> rusqlite::Result<&Connection> {
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

    fn now(&self) -> &Model {
        self.states.last().expect("never empty")
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// A snapshot is in the way of every commit but in WAL mode.
    fn end_snapshot(&mut self) {
        if let Some((reader, seen)) = self.reader.take() {
            assert_eq!(content(&reader).expect("reads"), seen, "a snapshot changed");
            reader.execute_batch("COMMIT").expect("ends");
        }
    }

    /// One transaction, with savepoints, that commits or rolls back. `Ok` if all of it was done.
    fn transaction(&mut self) -> rusqlite::Result<()> {
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
        // Before it is acknowledged it may be there or not.
        if commits {
            self.states.push(model);
        }
        let db = self.open()?;
        for sql in script {
            db.execute_batch(&sql)?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> rusqlite::Result<()> {
        let mode = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][self.rng.random_range(0..4usize)];
        self.count("checkpoints");
        self.open()?
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
    }

    /// `densite_maintain`, by either connection; nobody is in its way but snapshots, which it need not mind.
    fn maintain(&mut self) -> rusqlite::Result<()> {
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

    /// No free page has a frame, and little is dead or free.
    fn rests(&self) -> rusqlite::Result<()> {
        let db = self.db.as_ref().expect("open");
        let figure = |name: &str| -> rusqlite::Result<i64> {
            let sql = "SELECT value FROM densite_info('main') WHERE name = ?";
            db.query_row(sql, [name], |r| r.get(0))
        };
        let pragma =
            |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |r| r.get::<_, i64>(0));
        let (pages, free) = (pragma("page_count")?, pragma("freelist_count")?);
        let framed = figure("framed_pages")?;
        // Trunks stay: one for each page_size / 4 - 8 leaves at least, and old ones that are not full.
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

    fn in_store<T>(&self, body: impl FnOnce(&mut densite_store::Handle) -> T) -> T {
        let db = self.db.as_ref().expect("open");
        // SAFETY: an open connection of the linked library.
        let wrapped =
            unsafe { densite_sqlite::Connection::borrow(subject::api(), db.handle().cast()) };
        densite_vfs::with_handle(&wrapped.expect("not null"), c"main", body)
            .expect("reads")
            .expect("is a store")
    }

    /// Everything is as the model has it.
    fn compare(&mut self) {
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

    /// One step. An error is one of the disk's, which is dead.
    fn step(&mut self) -> rusqlite::Result<()> {
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
                // A close syncs what a WAL held.
                if self.kind.durable == Durable::Any {
                    let last = self.now().clone();
                    self.states.push(last);
                }
            }
        }
        Ok(())
    }

    /// A step with a crash in it or behind it: a kill, which loses nothing that was written, or a power cut.
    fn crash(&mut self) {
        let disk = self.host.disk();
        let acknowledged = self.states.len();
        let inside = self.rng.random_range(0..3) > 0;
        if inside {
            disk.cut_at_change(disk.changes() + self.rng.random_range(1..60));
        }
        let before = disk.changes();
        let done = if inside { self.step() } else { Ok(()) };
        let whole = done.is_ok() && !disk.is_dead();
        assert!(
            whole || disk.is_dead(),
            "{done:?} after {} changes",
            disk.changes() - before
        );
        let power = self.rng.random_range(0..3) > 0;
        let after = if power || !whole {
            self.count("power cuts");
            disk.power_cut(self.rng.random())
        } else {
            self.count("kills");
            disk.snapshot()
        };
        drop(self.reader.take());
        drop(self.db.take());
        assert_eq!(
            self.host.open_files(),
            0,
            "files are open although every connection is closed"
        );
        self.host.reboot(after);
        let found =
            content(self.open().expect("opens after a crash")).expect("reads after a crash");
        // A power cut that only followed: all was acknowledged. One inside: all before it.
        let safe = match self.kind.durable {
            _ if !power && whole => self.states.len() - 1,
            Durable::Last => {
                (if whole {
                    self.states.len()
                } else {
                    acknowledged
                }) - 1
            }
            Durable::LastTwo => (if whole {
                self.states.len()
            } else {
                acknowledged
            })
            .saturating_sub(2),
            Durable::Any => 0,
        };
        let at = self.states[safe..].iter().rposition(|s| *s == found);
        assert!(
            at.is_some(),
            "after a crash: none of the {} states that are possible",
            self.states.len() - safe
        );
        let db = self.db.as_ref().expect("open");
        let sound: String = db
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .expect("checks");
        assert_eq!(sound, "ok");
        // From here on there is no way back: recovery may not be durable before the next commit, so with the next crash it is again.
        let from = safe;
        self.states.drain(..from);
        self.states.push(found);
    }
}

fn run(kind: &Kind, seed: u64, tally: &mut BTreeMap<&'static str, u32>) {
    let name = format!("space-{}-{}-{seed}", kind.journal, kind.synchronous);
    let host = SimVfs::register(&format!("host-{name}"), SimDisk::new(seed));
    let vfs = CString::new(name.clone()).expect("no zero");
    let below = CString::new(host.name()).expect("no zero");
    densite_vfs::register(subject::api(), &vfs, Some(&below), false).expect("registers");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut run = Run {
        host: &host,
        vfs: &name,
        kind,
        uri: ["threads=0", "threads=0&x_tuning=eager"][rng.random_range(0..2usize)],
        page_size: [4096, 4096, 8192][rng.random_range(0..3usize)],
        auto_vacuum: [0, 0, 1, 2][rng.random_range(0..4usize)],
        rng,
        db: None,
        reader: None,
        states: vec![Model::new()],
        tally,
    };
    for step in 0..STEPS {
        let crash = run.rng.random_range(0..8) == 0;
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if crash {
                run.crash();
            } else {
                run.step().expect("a step on a disk that works");
            }
            run.compare();
        }));
        if let Err(payload) = done {
            eprintln!(
                "DENSITE_SPACE_SEED={seed}: {} {} page size {} auto_vacuum {} {}, step {step}",
                kind.journal, kind.synchronous, run.page_size, run.auto_vacuum, run.uri
            );
            std::panic::resume_unwind(payload);
        }
    }
}

fn runs(kind: &Kind) {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let mut tally = BTreeMap::new();
    let seeds = match number("DENSITE_SPACE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DENSITE_SPACE_SEEDS").unwrap_or(6),
    };
    for seed in seeds.clone() {
        run(kind, seed, &mut tally);
    }
    println!("{} {}: {tally:?}", kind.journal, kind.synchronous);
    if seeds.end - seeds.start >= 12 {
        for what in [
            "commits",
            "rollbacks",
            "snapshots",
            "at rest",
            "closes",
            "kills",
            "power cuts",
        ] {
            assert!(
                tally.get(what).is_some_and(|n| *n >= 5),
                "{what}: {tally:?}"
            );
        }
    }
}

#[test]
fn delete_full() {
    runs(&KINDS[0]);
}

#[test]
fn delete_extra() {
    runs(&KINDS[1]);
}

#[test]
fn truncate_full() {
    runs(&KINDS[2]);
}

#[test]
fn persist_full() {
    runs(&KINDS[3]);
}

#[test]
fn wal_full() {
    runs(&KINDS[4]);
}

#[test]
fn wal_normal() {
    runs(&KINDS[5]);
}
