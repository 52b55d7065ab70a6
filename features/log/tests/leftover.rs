//! Files of pruned segments that could not be removed at once.

use crate::common::{DIR, dir, options, random_txn, read_all, tables};
use densite_disk::Op as Call;
use densite_log::{Log, Options, Seq};
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// Without free segments: every file of a pruned segment is removed.
fn open(disk: &SimDisk) -> Log {
    let options = Options {
        free_segments_max: 0,
        ..options()
    };
    Log::open(dir(disk), options).expect("opens")
}

/// Fills some segments. Returns the number of the last row.
fn fill(log: &Log) -> Seq {
    let (mut rng, tables) = (SmallRng::seed_from_u64(2), tables());
    let mut last = 0;
    while log.status().expect("status").segments < 6 {
        let txn = random_txn(log, &tables, &mut rng).0;
        last = log.append(txn).expect("append").last;
    }
    last
}

fn segments(disk: &SimDisk) -> Vec<String> {
    let of = |path: String| {
        path.strip_prefix(DIR)?
            .strip_suffix(".seg")
            .map(str::to_owned)
    };
    disk.paths().into_iter().filter_map(of).collect()
}

fn fails(disk: &SimDisk, call: Call, path: &str) {
    disk.fail(Fault::new(FaultKind::Io, call).on_path(path).forever());
}

#[test]
fn a_file_that_cannot_be_removed_is_removed_later_and_keeps_no_others() {
    let disk = SimDisk::new(1);
    let log = open(&disk);
    let last = fill(&log);
    fails(&disk, Call::Remove, "000000000002.seg");
    log.prune(last).expect_err("one stays");
    let left = ["/000000000002", "/000000000006"];
    assert_eq!(segments(&disk), left);
    log.prune(last).expect_err("it still does");
    assert_eq!(segments(&disk), left);
    // A failure does not prevent opening the log for writing.
    drop(log);
    let log = open(&disk);
    assert_eq!(segments(&disk), left);
    disk.clear_faults();
    // There is nothing else to prune.
    assert_eq!(log.prune(last).expect("prunes").segments, 0);
    assert_eq!(segments(&disk), ["/000000000006"]);
}

/// The state must be durable before a file is removed, whichever process stored it: that process
/// may have failed or ended before its sync.
#[test]
fn segments_are_removed_after_the_state_is_durable() {
    for (seed, reopens) in (0..40).flat_map(|seed| [(seed, false), (seed, true)]) {
        let disk = SimDisk::new(seed);
        let mut log = open(&disk);
        let last = fill(&log);
        fails(&disk, Call::Sync, DIR);
        log.prune(last).expect_err("the state is not durable");
        disk.clear_faults();
        assert_eq!(segments(&disk).len(), 6);
        if reopens {
            drop(log);
            log = open(&disk);
        } else {
            log.prune(last).expect("prunes");
        }
        assert_eq!(segments(&disk), ["/000000000006"]);
        let survivor = open(&disk.power_cut(seed));
        let rows = read_all(&survivor, last);
        assert!(
            rows.is_ok_and(|rows| rows.is_empty()),
            "DENSITE_SEED={seed}"
        );
        drop(log);
    }
}
