//! The guarantee of the coalescing VFS: others see the WAL as if each frame was written at once.

use crate::common;
use crate::common::watching;

use densite_sqlite::{Above, Code, Connection, HostFile, coalesced_vfs, ffi};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use watching::watch;

/// What was done to the WALs of a VFS.
#[derive(Default)]
struct Seen {
    writes: AtomicU64,
    bytes: AtomicU64,
    /// The disk is full.
    full: AtomicBool,
}

struct Wal {
    host: HostFile,
    seen: Arc<Seen>,
}

impl Above for Wal {
    fn host(&self) -> &HostFile {
        &self.host
    }
    fn write(&mut self, buf: &[u8], offset: u64) -> Result<(), Code> {
        if self.seen.full.load(Ordering::Relaxed) {
            return Err(Code::FULL);
        }
        self.seen.writes.fetch_add(1, Ordering::Relaxed);
        self.seen
            .bytes
            .fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.host.write(buf, offset)
    }
}

/// A database that is written through the coalescing VFS over a watching VFS.
struct Site {
    seen: Arc<Seen>,
    con: Connection,
    /// Dropped last, because it removes files that the connection has open.
    dir: tempfile::TempDir,
}

const SCHEMA: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); CREATE INDEX v ON t(v)";

impl Site {
    fn new(name: &CStr) -> Site {
        let api = common::api();
        let seen = Arc::new(Seen::default());
        let shared = seen.clone();
        watch(name, ffi::OPEN_WAL, move |host| Wal {
            host,
            seen: shared.clone(),
        });
        let vfs = coalesced_vfs(api, Some(name)).expect("registers");
        let vfs = vfs.expect("the name is free");
        let again = coalesced_vfs(api, Some(name)).expect("is registered");
        assert_eq!(again.as_ref(), Some(&vfs));
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.db");
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;
        let path = path.to_str().expect("UTF-8");
        let con = Connection::open(api, path, flags, Some(&vfs)).expect("opens");
        con.exec("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL")
            .expect("a WAL");
        con.exec(SCHEMA).expect("the schema");
        Site { seen, con, dir }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("x.db")
    }

    /// Another connection, directly to the file.
    fn other(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).expect("opens")
    }

    /// The rows after a kill of every process at this moment.
    fn killed(&self) -> Vec<(i64, String)> {
        let dir = tempfile::tempdir().expect("a directory");
        let copy = dir.path().join("x.db");
        std::fs::copy(self.path(), &copy).expect("copies");
        std::fs::copy(
            self.dir.path().join("x.db-wal"),
            dir.path().join("x.db-wal"),
        )
        .expect("copies");
        rows(&copy)
    }
}

fn rows(path: &Path) -> Vec<(i64, String)> {
    let con = rusqlite::Connection::open(path).expect("opens");
    let check: String = con
        .query_row("PRAGMA integrity_check", [], |r| r.get(0))
        .expect("checks");
    assert_eq!(check, "ok");
    all(&con)
}

fn all(con: &rusqlite::Connection) -> Vec<(i64, String)> {
    let mut all = con
        .prepare("SELECT id, substr(CAST(v AS TEXT), -6) FROM t ORDER BY id")
        .expect("compiles");
    let rows = all.query_map([], |r| Ok((r.get(0)?, r.get(1)?)));
    rows.expect("reads").map(|r| r.expect("a row")).collect()
}

fn insert(from: i64, count: i64, seed: u64) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count} - 1) \
         INSERT OR REPLACE INTO t SELECT {from} + i, CAST(printf('%0*d', 300, (i + {seed}) * 7919 % 100003) AS BLOB) FROM n"
    )
}

#[test]
fn several_frames_are_written_at_once() {
    let site = Site::new(c"watch-together");
    site.con.exec("PRAGMA cache_size = 20000").expect("a cache");
    let before = (
        site.seen.writes.load(Ordering::Relaxed),
        site.seen.bytes.load(Ordering::Relaxed),
    );
    site.con.exec(&insert(0, 20_000, 1)).expect("commits");
    let writes = site.seen.writes.load(Ordering::Relaxed) - before.0;
    let frames = (site.seen.bytes.load(Ordering::Relaxed) - before.1) / 4120;
    assert!(frames > 1000, "{frames}");
    assert!(writes * 10 < frames, "{writes} writes of {frames} frames");
    assert_eq!(site.killed().len(), 20_000);
}

/// A small linear congruential generator: deterministic for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Transactions that spill, rewrite spilled pages, roll back to savepoints, or roll back. Other
/// connections commit in between. After each transaction the files must have exactly the committed
/// rows.
#[test]
fn others_see_exactly_the_committed_rows() {
    let seed = std::env::var("DENSITE_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |t| u64::from(t.subsec_nanos()))
    });
    println!("DENSITE_SEED={seed}");
    let mut numbers = Numbers(seed);
    let site = Site::new(c"watch-others");
    let other = site.other();
    let mirror = rusqlite::Connection::open_in_memory().expect("opens");
    mirror.execute_batch(SCHEMA).expect("the schema");
    let ours = |sql: &str| {
        site.con.exec(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        mirror.execute_batch(sql).expect("the mirror");
    };
    for round in 0..60 {
        let cache = [5, 20, 2000][numbers.below(3) as usize];
        site.con
            .exec(&format!("PRAGMA cache_size = {cache}"))
            .expect("a cache");
        ours("BEGIN IMMEDIATE");
        let mut savepoint = false;
        for _ in 0..1 + numbers.below(6) {
            let (from, count) = (numbers.below(2000) as i64, 1 + numbers.below(400) as i64);
            match numbers.below(6) {
                0 => ours(&format!(
                    "DELETE FROM t WHERE id BETWEEN {from} AND {from} + {count}"
                )),
                1 if !savepoint => {
                    ours("SAVEPOINT s");
                    savepoint = true;
                }
                2 if savepoint => ours("ROLLBACK TO s"),
                3 => {
                    let seen = site.con.query_i64("SELECT count(*) FROM t").expect("reads");
                    assert_eq!(seen, Some(all(&mirror).len() as i64), "round {round}");
                }
                _ => ours(&insert(from, count, numbers.below(100_000))),
            }
        }
        ours(["COMMIT", "COMMIT", "ROLLBACK"][numbers.below(3) as usize]);
        let expected = all(&mirror);
        assert_eq!(all(&other), expected, "round {round}: another connection");
        assert_eq!(site.killed(), expected, "round {round}: after a kill");
        if numbers.below(3) == 0 {
            let sql = insert(
                numbers.below(2000) as i64,
                1 + numbers.below(300) as i64,
                round,
            );
            other.execute_batch(&sql).expect("commits");
            mirror.execute_batch(&sql).expect("the mirror");
            assert_eq!(
                site.killed(),
                all(&mirror),
                "round {round}: what the other wrote"
            );
        }
        if numbers.below(10) == 0 {
            let mode = ["PASSIVE", "TRUNCATE"][numbers.below(2) as usize];
            other
                .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
                .expect("a checkpoint");
        }
    }
}

/// A write error fails the transaction whenever it happens. Earlier rows stay, and the next
/// transaction succeeds.
#[test]
fn a_full_disk_fails_the_commit() {
    for cache in [5, 20_000] {
        let site = Site::new([c"watch-full-a", c"watch-full-b"][usize::from(cache == 5)]);
        site.con
            .exec(&format!("PRAGMA cache_size = {cache}"))
            .expect("a cache");
        site.con.exec(&insert(0, 10, 1)).expect("commits");
        let before = site.killed();
        site.seen.full.store(true, Ordering::Relaxed);
        site.con.exec("BEGIN IMMEDIATE").expect("begins");
        let done = site
            .con
            .exec(&insert(100, 3000, 2))
            .and_then(|()| site.con.exec("COMMIT"));
        let error = done.expect_err("the disk is full");
        assert_eq!(error.code.primary(), Code::FULL, "{error}");
        site.seen.full.store(false, Ordering::Relaxed);
        if !site.con.is_autocommit() {
            site.con.exec("ROLLBACK").expect("rolls back");
        }
        assert_eq!(site.killed(), before);
        assert_eq!(all(&site.other()), before);
        site.con.exec(&insert(100, 3000, 2)).expect("commits");
        assert_eq!(site.killed().len(), 3010);
    }
}

/// The disk is full for a moment while pages are spilled. The frames collected then are written, or
/// nothing is committed.
#[test]
fn a_disk_that_was_full_for_a_moment_loses_no_frame() {
    let site = Site::new(c"watch-moment");
    site.con.exec("PRAGMA cache_size = 5").expect("a cache");
    let mut expected = site.killed();
    for round in 0..20 {
        site.con.exec("BEGIN IMMEDIATE").expect("begins");
        let first = site.con.exec(&insert(round * 1000, 50 + round * 10, 1));
        site.seen.full.store(true, Ordering::Relaxed);
        let second = site.con.exec(&insert(round * 1000 + 500, 5 * round, 2));
        site.seen.full.store(false, Ordering::Relaxed);
        let done = first
            .and(second)
            .and_then(|()| match site.con.is_autocommit() {
                true => Err(Code::FULL.into()),
                false => site.con.exec(&insert(round * 1000 + 700, 5, 2)),
            });
        let committed = done.is_ok() && site.con.exec("COMMIT").is_ok();
        if !site.con.is_autocommit() {
            site.con.exec("ROLLBACK").expect("rolls back");
        }
        let now = all(&site.other());
        match committed {
            true => assert!(now.len() > expected.len(), "round {round}"),
            false => assert_eq!(now, expected, "round {round}"),
        }
        assert_eq!(site.killed(), now, "round {round}");
        expected = now;
    }
}
