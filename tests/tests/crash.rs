//! Power cuts under real SQLite on the simulated disk, through Densite: WAL and DELETE, TRUNCATE,
//! PERSIST journals with synchronous NORMAL, FULL and EXTRA. After recovery `integrity_check` is
//! ok, no transaction is present in part, and acknowledged ones are present where plain SQLite
//! promises it (`control.rs` is the same experiment on plain SQLite).
//!
//! Each pair of settings runs over eight hundred pairs of workload and cut, ten thousand in all.
//! Half of the workloads make rare events common (folds, slots, syncs of the store itself).
//! `DENSITE_EFFORT` changes the number of workloads.

use densite_sim_disk::SimDisk;
use densite_testing::Effort;
use densite_tests::crash::{Journal, Plan, Promise, Stand, Synchronous, Tally, Workload, campaign};
use densite_tests::procs::subject;
use densite_tests::simvfs::SimVfs;
use std::ffi::CString;

fn seeds() -> u64 {
    Effort::wanted().of(5)
}

fn through_densite(
    (journal, synchronous): (Journal, Synchronous),
    first: u64,
    seeds: u64,
    plan: Plan,
) -> Tally {
    let mut tally = Tally::default();
    for (half, uri) in ["threads=0", "threads=0&x_tuning=eager"]
        .into_iter()
        .enumerate()
    {
        let host = format!(
            "crash-host-{}-{}-{half}-{first}-{}",
            journal.name(),
            synchronous.name(),
            plan.restless
        );
        let name = CString::new(format!(
            "crash-{}-{}-{half}-{first}-{}",
            journal.name(),
            synchronous.name(),
            plan.restless
        ))
        .expect("no zero");
        let vfs = SimVfs::register(&host, SimDisk::new(1));
        let below = CString::new(host).expect("no zero");
        densite_vfs::register(subject::api(), &name, Some(&below), false).expect("register");
        let stand = Stand::over(&vfs, name.to_str().expect("ascii")).with_uri(uri);
        let range = first + half as u64 * seeds..first + (half as u64 + 1) * seeds;
        tally.add(campaign(&stand, journal, synchronous, range, plan));
    }
    tally
}

fn kept(journal: Journal, synchronous: Synchronous) {
    let tally = through_densite((journal, synchronous), 0, seeds(), Plan::default());
    println!("{} {}: {tally}", journal.name(), synchronous.name());
    tally.assert_kept();
    assert!(tally.cases >= 160 * seeds(), "{tally}");
    assert!(tally.snapshots >= 8 * seeds(), "{tally}");
    assert!(
        tally.second_cuts >= 40 || !Effort::wanted().is_full(),
        "{tally}"
    );
    if Workload::new(journal, synchronous, 0).promise() == Promise::Durable {
        assert_eq!(tally.lost_acknowledged, 0);
    }
}

macro_rules! cuts {
    ($($name:ident: $journal:ident, $synchronous:ident;)*) => {$(
        #[test]
        fn $name() {
            kept(Journal::$journal, Synchronous::$synchronous);
        }
    )*};
}

cuts! {
    delete_normal: Delete, Normal;
    delete_full: Delete, Full;
    delete_extra: Delete, Extra;
    truncate_normal: Truncate, Normal;
    truncate_full: Truncate, Full;
    truncate_extra: Truncate, Extra;
    persist_normal: Persist, Normal;
    persist_full: Persist, Full;
    persist_extra: Persist, Extra;
    wal_normal: Wal, Normal;
    wal_full: Wal, Full;
    wal_extra: Wal, Extra;
}

/// Journal mode, locking mode, page size and auto_vacuum change during the run.
const RESTLESS: Plan = Plan {
    cuts: 100,
    snapshots: 5,
    real_cuts: 3,
    second_cuts: true,
    restless: true,
};

#[test]
fn power_cuts_while_settings_change() {
    for pair in [
        (Journal::Delete, Synchronous::Extra),
        (Journal::Wal, Synchronous::Extra),
        (Journal::Persist, Synchronous::Normal),
    ] {
        let tally = through_densite(pair, 0, seeds(), RESTLESS);
        println!("{pair:?}: {tally}");
        tally.assert_kept();
        assert!(tally.cases >= 160 * seeds(), "{tally}");
        if pair.1 == Synchronous::Extra {
            assert_eq!(tally.lost_acknowledged, 0);
        }
    }
}

/// A power cut during the first write to a file, which creates the store, left one slot and garbage
/// in place of the header. The file counts as empty, and its journal is rolled back.
#[test]
fn a_torn_creation_is_recovered() {
    let pair = (Journal::Delete, Synchronous::Extra);
    through_densite(pair, 1014, 1, RESTLESS).assert_kept();
}

/// Part of `make crash`: each seed runs all journal modes with all settings of `synchronous`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash() {
    densite_testing::long_run("power cuts", |seed| {
        let mut total = Tally::default();
        for journal in Journal::ALL {
            for synchronous in [Synchronous::Normal, Synchronous::Full, Synchronous::Extra] {
                for plan in [Plan::default(), RESTLESS] {
                    let pair = (journal, synchronous);
                    // The second half of the plan takes the next workload.
                    let tally = through_densite(pair, seed * 2, 1, plan);
                    tally.assert_kept();
                    total.add(tally);
                }
            }
        }
        println!("SEED={seed}: {total}");
        total.cases
    });
}
