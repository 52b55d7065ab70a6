//! Power cuts in transactions over several files. In rollback modes SQLite commits them with a
//! super-journal, all or none.
//!
//! Two files of the store and a plain one are changed together. Each journal names the
//! super-journal, and removing the super-journal is the commit. After any power cut the three files
//! are in the state after the same transaction.

use densite_sim_disk::{Capture, SimDisk};
use densite_tests::procs::subject;
use densite_tests::simvfs::SimVfs;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rusqlite::{Connection, OpenFlags};
use std::ffi::CString;

const TRANSACTIONS: i64 = 10;
const CUTS: u64 = 60;
const SCHEMAS: [&str; 3] = ["main", "other", "plain"];

struct Stand<'a> {
    host: &'a SimVfs,
    vfs: String,
    journal: &'static str,
    synchronous: &'static str,
}

impl Stand<'_> {
    fn connect(&self) -> Connection {
        let uri = |name: &str, more: &str| format!("file:/db/{name}.db?threads=0{more}");
        let db = Connection::open_with_flags_and_vfs(
            uri("main", ""),
            OpenFlags::default(),
            self.vfs.as_str(),
        )
        .expect("open");
        db.execute_batch(&format!(
            "ATTACH '{}' AS other; ATTACH '{}' AS plain",
            uri("other", "&x_tuning=eager"),
            uri("plain", "&densite=off"),
        ))
        .expect("attach");
        for schema in SCHEMAS {
            db.execute_batch(&format!(
                "PRAGMA {schema}.journal_mode={}; PRAGMA {schema}.synchronous={}; PRAGMA {schema}.cache_size=10",
                self.journal, self.synchronous
            ))
            .expect("settings");
        }
        db
    }

    fn boot(&self, disk: &SimDisk) {
        assert_eq!(self.host.open_files(), 0, "a file was left open");
        self.host.reboot(disk.clone());
    }
}

/// The last transaction in each file.
fn last(db: &Connection) -> Vec<i64> {
    SCHEMAS
        .iter()
        .map(|schema| {
            let check: String = db
                .query_row(&format!("PRAGMA {schema}.integrity_check"), [], |r| {
                    r.get(0)
                })
                .expect("a check");
            assert_eq!(check, "ok", "{schema}");
            let one = |sql: &str| -> i64 {
                db.query_row(&format!("SELECT {sql} FROM {schema}.t"), [], |r| r.get(0))
                    .expect("a number")
            };
            let newest = one("coalesce(max(n), 0)");
            assert_eq!(one("count(*)"), 8 * newest, "{schema}: whole transactions");
            newest
        })
        .collect()
}

/// Runs transactions. Returns for each the number of disk changes before it and after its
/// acknowledgement.
fn run(stand: &Stand<'_>, seed: u64, disk: &SimDisk) -> Vec<(u64, u64)> {
    let mut rng = SmallRng::seed_from_u64(seed);
    stand.boot(disk);
    let mut db = stand.connect();
    let mut marks = Vec::new();
    for n in 1..=TRANSACTIONS {
        if rng.random_ratio(1, 4) {
            drop(db);
            db = stand.connect();
        }
        let before = disk.changes();
        db.execute_batch("BEGIN").expect("begin");
        for schema in SCHEMAS {
            let bytes = [50, 400, 3000][rng.random_range(0..3)];
            db.execute_batch(&format!(
                "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 8)
                 INSERT INTO {schema}.t SELECT {n}, printf('%.*c', {bytes}, char(64 + {n})) FROM c;
                 UPDATE {schema}.t SET pad = pad || '{n}' WHERE rowid % 7 = {}",
                n % 7
            ))
            .expect("write");
            // With auto_vacuum every second transaction ends with a shorter file.
            db.execute_batch(&match n % 2 {
                0 => format!("DELETE FROM {schema}.junk"),
                _ => format!(
                    "INSERT INTO {schema}.junk SELECT printf('%.*c', 9000, 'j') FROM {schema}.t LIMIT 6"
                ),
            })
            .expect("write");
        }
        db.execute_batch("COMMIT").expect("commit");
        marks.push((before, disk.changes()));
    }
    drop(db);
    marks
}

fn cuts(journal: &'static str, synchronous: &'static str, durable: bool) {
    let below = format!("attached-{journal}-{synchronous}");
    let host = SimVfs::register(&below, SimDisk::new(1));
    let vfs = format!("{below}-over");
    let name = |text: &str| CString::new(text).expect("no zero");
    densite_vfs::register(subject::api(), &name(&vfs), Some(&name(&below)), false)
        .expect("register");
    let stand = Stand {
        host: &host,
        vfs,
        journal,
        synchronous,
    };
    let mut lost = 0;
    for seed in densite_testing::seeds(6) {
        let prepared = SimDisk::new(seed);
        stand.boot(&prepared);
        let db = stand.connect();
        for schema in SCHEMAS {
            // For this case plain SQLite itself needs a file system with a journal of metadata.
            let auto_vacuum = seed % 2 == 1 && schema != "plain";
            db.execute_batch(&format!(
                "PRAGMA {schema}.auto_vacuum={}; CREATE TABLE {schema}.t(n, pad); CREATE TABLE {schema}.junk(x)",
                u8::from(auto_vacuum)
            ))
            .expect("schema");
        }
        drop(db);
        let prepared = prepared.snapshot();
        let whole = prepared.snapshot();
        let marks = run(&stand, seed, &whole);
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = prepared.snapshot();
        for _ in 0..CUTS {
            let change = rng.random_range(1..=whole.changes());
            disk.capture_at(change, Capture::Cut(rng.random()));
        }
        assert_eq!(run(&stand, seed, &disk), marks, "the same dice");
        for captured in disk.take_captures() {
            let what = format!(
                "seed {seed}, change {}, {:?}",
                captured.change, captured.how
            );
            stand.boot(&captured.disk);
            // A program without Densite can be the first that recovers its own file.
            if rng.random() {
                let plain = Connection::open_with_flags_and_vfs(
                    "/db/plain.db",
                    OpenFlags::default(),
                    below.as_str(),
                );
                let read = |db: Connection| db.query_row("SELECT max(n) FROM t", [], |_| Ok(()));
                plain.and_then(read).expect("a plain file");
            }
            let found = last(&stand.connect());
            let [first, ..] = found[..] else {
                panic!("{what}: nothing")
            };
            assert!(
                found.iter().all(|n| *n == first),
                "{what}: the files are of different transactions: {found:?}"
            );
            let before = |at: u64| at < captured.change;
            let begun = marks.iter().filter(|m| before(m.0)).count() as i64;
            let acknowledged = marks.iter().filter(|m| before(m.1)).count() as i64;
            assert!(first <= begun, "{what}: {found:?} of {begun} begun");
            assert!(
                !durable || first >= acknowledged,
                "{what}: {found:?}, but {acknowledged} was acknowledged"
            );
            lost += i64::from(first < begun);
        }
    }
    println!("{journal} {synchronous}: {lost} cuts took a transaction");
    let least = densite_testing::Effort::wanted().least(20);
    assert!(lost as u64 > least, "power cuts that cost nothing: {lost}");
}

#[test]
fn delete() {
    cuts("DELETE", "EXTRA", true);
    cuts("DELETE", "FULL", true);
}

#[test]
fn truncate() {
    cuts("TRUNCATE", "EXTRA", true);
    cuts("TRUNCATE", "FULL", true);
}

#[test]
fn persist() {
    cuts("PERSIST", "EXTRA", true);
    cuts("PERSIST", "FULL", true);
}
