//! Failing calls and then power cuts, under real SQLite on the simulated disk. Acknowledged
//! transactions are present, whatever failed before.
//!
//! `DENSITE_EFFORT` changes the number of workloads for each pair of settings, and `make crash` runs
//! others. With `DENSITE_STORY` a failure prints the last calls to the disk.

use densite_disk::Op;
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use densite_tests::crash::{Journal, Stand, Synchronous, Tally, Trouble, Workload, trouble};
use densite_tests::procs::subject;
use densite_tests::simvfs::SimVfs;
use std::ffi::CString;
use std::ops::Range;

fn seeds() -> Range<u64> {
    densite_testing::seeds(4)
}

const DATABASE: Option<&str> = Some("crash.db");
const CALLS: &[Op] = &[Op::Read, Op::Write, Op::Truncate, Op::Len];
const ALL: &[Op] = &[Op::Read, Op::Write, Op::Sync, Op::Truncate, Op::Len];

/// The journal modes of the tests in which syncs of any file fail. After a failed sync of a WAL,
/// plain SQLite can also build on frames that the disk has dropped.
const ROLLBACK: &[Journal] = &[Journal::Delete, Journal::Truncate, Journal::Persist];

fn failing(on_path: Option<&'static str>, ops: &'static [Op], one_in: u32) -> Trouble {
    Trouble {
        on_path,
        ops,
        one_in,
        cuts: 60,
    }
}

fn tally(stand: &Stand<'_>, what: Trouble, journals: &[Journal], seeds: Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for journal in journals {
        for seed in seeds.clone() {
            // Restless settings include WAL mode.
            for restless in [false, true] {
                if restless && journals == ROLLBACK {
                    continue;
                }
                let workload = Workload {
                    restless,
                    ..Workload::new(*journal, Synchronous::Extra, seed)
                };
                tally.add(trouble(stand, &workload, what));
            }
        }
    }
    tally
}

/// Returns the number of power cuts.
fn through_densite(name: &str, what: Trouble, journals: &[Journal], seeds: Range<u64>) -> u64 {
    let mut cases = 0;
    let below = format!("trouble-{name}");
    let vfs = SimVfs::register(&below, SimDisk::new(1));
    let over = CString::new(format!("{below}-over")).expect("no zero");
    let below = CString::new(below).expect("no zero");
    densite_vfs::register(subject::api(), &over, Some(&below), false).expect("register");
    for uri in ["threads=0", "threads=0&x_tuning=eager"] {
        let stand = Stand::over(&vfs, over.to_str().expect("ascii")).with_uri(uri);
        let tally = tally(&stand, what, journals, seeds.clone());
        println!("{name} {uri}, seeds {seeds:?}: {tally}");
        tally.assert_kept();
        assert_eq!(tally.lost_acknowledged, 0);
        cases += tally.cases;
    }
    cases
}

/// Enough power cuts to mean something.
fn is_kept(name: &str, what: Trouble, journals: &[Journal]) {
    let seeds = seeds();
    let enough = 300 * (seeds.end - seeds.start);
    let cases = through_densite(name, what, journals, seeds);
    assert!(cases > enough, "{cases}");
}

#[test]
fn syncs_of_the_database_fail() {
    is_kept("syncs", failing(DATABASE, &[Op::Sync], 3), &Journal::ALL);
}

#[test]
fn syncs_of_any_file_fail() {
    is_kept("any-sync", failing(None, &[Op::Sync], 3), ROLLBACK);
}

#[test]
fn calls_on_the_database_fail() {
    is_kept("database", failing(DATABASE, ALL, 2), &Journal::ALL);
}

#[test]
fn calls_on_any_file_fail() {
    is_kept("calls", failing(None, CALLS, 2), &Journal::ALL);
}

/// Part of `make crash`: each seed is one workload for every kind of failing calls.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_trouble() {
    densite_testing::long_run("power cuts", |seed| {
        println!("SEED={seed}");
        let kinds = [
            (
                "syncs",
                failing(DATABASE, &[Op::Sync], 3),
                &Journal::ALL[..],
            ),
            ("any-sync", failing(None, &[Op::Sync], 3), ROLLBACK),
            ("database", failing(DATABASE, ALL, 2), &Journal::ALL[..]),
            ("calls", failing(None, CALLS, 2), &Journal::ALL[..]),
        ];
        let cuts = kinds.map(|(name, what, journals)| {
            let name = format!("{name}-{seed}");
            through_densite(&name, what, journals, seed..seed + 1)
        });
        cuts.iter().sum()
    });
}

/// A transaction fails at each of its writes and is rolled back. The next one changes something
/// else, and the power is cut during it. Nothing of the first one may be present.
#[test]
fn a_failed_transaction_does_not_reappear_with_the_next_one() {
    let vfs = SimVfs::register("trouble-next", SimDisk::new(1));
    let over = CString::new("trouble-next-over").expect("no zero");
    let below = CString::new("trouble-next").expect("no zero");
    densite_vfs::register(subject::api(), &over, Some(&below), false).expect("register");
    let stand = Stand::over(&vfs, "trouble-next-over").with_uri("threads=0&maintain=off");
    let sql = |db: &rusqlite::Connection, sql: &str| db.execute_batch(sql);
    let mut failed = 0;
    for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
        let settings = format!("PRAGMA journal_mode={journal}; PRAGMA synchronous=EXTRA");
        stand.boot(&SimDisk::new(1));
        let db = stand.connect().expect("open");
        sql(&db, &settings).expect("settings");
        sql(
            &db,
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT, pad); CREATE INDEX i ON t(v);
             WITH RECURSIVE c(k) AS (VALUES(1) UNION ALL SELECT k + 1 FROM c WHERE k < 600)
             INSERT INTO t SELECT k, k, hex(randomblob(100)) FROM c",
        )
        .expect("rows");
        drop(db);
        let prepared = vfs.disk().snapshot();
        for nth in 0..4 {
            let disk = prepared.snapshot();
            stand.boot(&disk);
            let db = stand.connect().expect("open");
            sql(&db, &settings).expect("settings");
            let fault = Fault::new(FaultKind::Io, Op::Write).after(nth);
            disk.fail(fault.on_path("crash.db"));
            let done = sql(
                &db,
                "BEGIN; UPDATE t SET v = v + 1000000 WHERE id < 50; COMMIT",
            );
            disk.clear_faults();
            if done.is_ok() {
                continue;
            }
            failed += 1;
            if !db.is_autocommit() {
                sql(&db, "ROLLBACK").expect("rollback");
            }
            let from = disk.changes();
            (0..12).for_each(|seed| disk.cut_at_each(from + 1..from + 30, seed));
            sql(&db, "UPDATE t SET v = -5 WHERE id = 500").expect("the next one");
            drop(db);
            for cut in disk.take_captures() {
                let what = format!(
                    "{journal}, write {nth}, {} {:?}",
                    cut.change - from,
                    cut.how
                );
                stand.boot(&cut.disk);
                let db = stand.connect().expect("open");
                let query = |sql: &str| {
                    let got = db.query_row(sql, [], |row| row.get::<_, String>(0));
                    got.unwrap_or_else(|e| panic!("{what}: {e}"))
                };
                assert_eq!(query("PRAGMA integrity_check"), "ok", "{what}");
                let back = "SELECT count(*) || '' FROM t NOT INDEXED WHERE v > 900000";
                assert_eq!(query(back), "0", "{what}");
            }
        }
    }
    assert!(failed >= 6, "{failed}");
}

/// The same with plain SQLite: Densite need not keep what plain SQLite does not keep.
#[test]
fn control() {
    for (name, what, journals) in [
        ("calls", failing(None, CALLS, 2), &Journal::ALL[..]),
        ("any-sync", failing(None, &[Op::Sync], 3), ROLLBACK),
    ] {
        let vfs = SimVfs::register(&format!("trouble-plain-{name}"), SimDisk::new(1));
        let tally = tally(&Stand::plain(&vfs), what, journals, seeds());
        println!("plain {name}: {tally}");
        tally.assert_kept();
    }
}
