//! Power cuts during all of ingest, with real SQLite. The database and its log are on one simulated
//! disk, so one cut affects both: writers in several processes, worker, takeover, subscriber,
//! checkpoints, pruning and full disks.
//!
//! `DENSITE_SEED=n` runs one seed.

use densite_sim_disk::SimDisk;
use densite_tests::ingest::{Site, Tally, Under, Workload};
use std::ops::Range;

/// The usual number of seeds. What must happen in them all together is asserted for so many.
const SEEDS: u64 = 8;

fn seeds() -> Range<u64> {
    densite_testing::seeds(SEEDS)
}

fn are_all(seeds: &Range<u64>) -> bool {
    seeds.end - seeds.start >= SEEDS
}

fn crash(name: &str, under: Under, journal: &'static str, fills: bool, seeds: Range<u64>) -> Tally {
    let site = Site::new(&format!("ingest-{name}"), under);
    let mut sum = Tally::default();
    for seed in seeds {
        let workload = Workload {
            seed,
            journal,
            fills,
        };
        let tally = workload.crash(&site, 30, 2);
        sum.cuts += tally.cuts;
        sum.acknowledged += tally.acknowledged;
        sum.pruned += tally.pruned;
        sum.clustered += tally.clustered;
        sum.beside += tally.beside;
        sum.between += tally.between;
    }
    sum
}

fn kept(name: &str, under: Under, journal: &'static str, fills: bool) {
    let seeds = seeds();
    let tally = crash(name, under, journal, fills, seeds.clone());
    println!("{name}: {tally:?}");
    if are_all(&seeds) {
        assert!(tally.cuts >= 60 && tally.acknowledged >= 100, "{tally:?}");
        assert!(tally.pruned > 0, "nothing was ever pruned: {tally:?}");
        assert!(
            tally.clustered > 0,
            "no clustered apply was ever cut: {tally:?}"
        );
        assert!(
            tally.beside > 0 || journal != "WAL",
            "no checkpoint was ever done beside the worker: {tally:?}"
        );
    }
}

#[test]
fn wal() {
    kept("wal", Under::Plain, "WAL", false);
}

#[test]
fn rollback_journal() {
    kept("delete", Under::Plain, "DELETE", false);
}

#[test]
fn a_disk_that_is_full_now_and_then() {
    kept("full", Under::Plain, "WAL", true);
}

#[test]
fn stored_by_densite() {
    kept("densite", Under::Densite, "WAL", true);
}

/// The first transaction: the connection that creates the ingest table need not sync its commits
/// (WAL with NORMAL, DELETE, synchronous=OFF), but the acknowledged row must survive.
#[test]
fn the_first_rows_of_a_database_survive() {
    let site = Site::new("ingest-host-first", Under::Plain);
    for journal in ["WAL", "DELETE", "TRUNCATE", "PERSIST"] {
        for synchronous in ["OFF", "NORMAL", "FULL"] {
            first_rows(&site, journal, synchronous);
        }
    }
}

fn first_rows(site: &Site, journal: &'static str, synchronous: &str) {
    let disk = site.begin(journal);
    let con = site.process().connect().expect("opens");
    con.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0;
         CREATE VIRTUAL TABLE temp.bare_in USING densite_ingest(bare)"
    ))
    .expect("the ingest table");
    con.execute_batch("INSERT INTO bare_in VALUES (1, 2, 'x')")
        .expect("acknowledged");
    let survivors: Vec<SimDisk> = (0..20).map(|seed| disk.survivor(seed)).collect();
    drop(con);
    for (seed, disk) in survivors.iter().enumerate() {
        site.boot(disk);
        let what = format!("{journal}, synchronous={synchronous}, cut seed {seed}");
        let con = site
            .process()
            .ingest()
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let read = |sql: &str| con.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(
            read("SELECT densite_wait()").unwrap_or_else(|e| panic!("{what}: {e}")),
            1,
            "{what}"
        );
        assert_eq!(read("SELECT count(*) FROM bare"), Ok(1), "{what}");
    }
}

/// Only the database is restored to an older state. It catches up if the log has all missing rows,
/// and is refused otherwise.
#[test]
fn an_older_database_catches_up_or_is_refused() {
    let site = Site::new("ingest-host-older", Under::Plain);
    let (mut refused, mut caught_up, mut clustered) = (0, 0, 0);
    for seed in seeds() {
        let journal = ["WAL", "DELETE"][(seed % 2) as usize];
        let workload = Workload {
            seed,
            journal,
            fills: false,
        };
        let (no, yes, limits) = workload.restored(&site, 15);
        (refused, caught_up, clustered) = (refused + no, caught_up + yes, clustered + limits);
    }
    println!(
        "refused {refused}, caught up {caught_up}, {clustered} in the middle of a clustered apply"
    );
    if are_all(&seeds()) {
        assert!(
            refused > 0 && caught_up > 0 && clustered > 0,
            "{clustered} in the middle of a clustered apply, refused {refused}, caught up {caught_up}"
        );
    }
}

/// Part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_ingest() {
    densite_testing::long_run("power cuts", |seed| {
        let under = [Under::Plain, Under::Densite][(seed % 2) as usize];
        let journal = ["WAL", "DELETE", "WAL"][(seed % 3) as usize];
        let name = format!("long-{seed}");
        let tally = crash(&name, under, journal, seed % 5 < 2, seed..seed + 1);
        tally.cuts as u64
    });
}
