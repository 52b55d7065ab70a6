//! The control experiment: plain SQLite under power cuts on the simulated disk.
//!
//! A shim over SQLite cannot keep promises that SQLite itself does not keep. Where SQLite keeps all
//! promises, a failure is the fault of the shim. The runs without syncs are the canary: the disk
//! must destroy databases there, or the other runs prove nothing.

use densite_sim_disk::{Capture, MetadataOrder, SimDisk, WriteOrder};
use densite_testing::Effort;
use densite_tests::crash::{
    Journal, Plan, Promise, Stand, Synchronous, Tally, Workload, campaign, crash, replay,
};
use densite_tests::simvfs::SimVfs;

/// Workloads for each pair of settings; 100 cuts each.
fn seeds() -> std::ops::Range<u64> {
    densite_testing::seeds(9)
}

fn control(journal: Journal, synchronous: Synchronous) -> Tally {
    let name = format!("control-{}-{}", journal.name(), synchronous.name());
    let vfs = SimVfs::register(&name, SimDisk::new(1));
    let tally = campaign(
        &Stand::plain(&vfs),
        journal,
        synchronous,
        seeds(),
        Plan::default(),
    );
    println!("{name}: {tally}");
    tally
}

/// Asserts that SQLite keeps its promises with these settings, and that the power cuts lost
/// something.
fn kept(journal: Journal, synchronous: Synchronous) {
    let tally = control(journal, synchronous);
    tally.assert_kept();
    let least = |usual| Effort::wanted().least(usual);
    assert!(tally.cases >= least(800), "{tally}");
    assert!(tally.snapshots >= least(40), "{tally}");
    // A few workloads differ too much in these.
    assert!(
        tally.second_cuts >= 40 || !Effort::wanted().is_full(),
        "{tally}"
    );
    assert!(
        tally.lost > least(100),
        "transactions under way are lost: {tally}"
    );
    if Workload::new(journal, synchronous, 0).promise() == Promise::Durable {
        assert_eq!(tally.lost_acknowledged, 0);
    }
}

#[test]
fn delete_normal() {
    kept(Journal::Delete, Synchronous::Normal);
}

#[test]
fn delete_full() {
    kept(Journal::Delete, Synchronous::Full);
}

#[test]
fn delete_extra() {
    kept(Journal::Delete, Synchronous::Extra);
}

#[test]
fn truncate_normal() {
    kept(Journal::Truncate, Synchronous::Normal);
}

#[test]
fn truncate_full() {
    kept(Journal::Truncate, Synchronous::Full);
}

#[test]
fn truncate_extra() {
    kept(Journal::Truncate, Synchronous::Extra);
}

#[test]
fn persist_normal() {
    kept(Journal::Persist, Synchronous::Normal);
}

#[test]
fn persist_full() {
    kept(Journal::Persist, Synchronous::Full);
}

#[test]
fn persist_extra() {
    kept(Journal::Persist, Synchronous::Extra);
}

#[test]
fn wal_normal() {
    kept(Journal::Wal, Synchronous::Normal);
}

#[test]
fn wal_full() {
    kept(Journal::Wal, Synchronous::Full);
}

#[test]
fn wal_extra() {
    kept(Journal::Wal, Synchronous::Extra);
}

/// Acknowledged but not promised transactions do get lost: the power cuts are real.
#[test]
fn transactions_that_are_not_promised_can_be_lost() {
    for (journal, synchronous) in [
        (Journal::Delete, Synchronous::Full),
        (Journal::Wal, Synchronous::Normal),
    ] {
        let vfs = SimVfs::register("control-lossy", SimDisk::new(1));
        let stand = Stand::plain(&vfs);
        let tally = campaign(&stand, journal, synchronous, 100..104, Plan::default());
        assert!(tally.lost_acknowledged > 10, "{tally}");
    }
}

/// Without syncs databases are destroyed, and the harness detects it.
#[test]
fn without_syncs_databases_break() {
    for journal in Journal::ALL {
        let tally = control(journal, Synchronous::Off);
        assert!(
            tally.failures.len() as u64 > Effort::wanted().least(50),
            "{} of {tally}",
            tally.failures.len()
        );
        let snapshots = (tally.failures.iter()).filter(|f| f.contains("snapshot"));
        assert_eq!(snapshots.count(), 0, "a snapshot needs no syncs");
    }
}

/// Whether some power cut breaks plain SQLite on a disk with this shape.
fn breaks(journal: Journal, synchronous: Synchronous, reshape: fn(&SimDisk)) -> bool {
    let vfs = SimVfs::register("control-limits", SimDisk::new(1));
    let stand = Stand::plain(&vfs);
    (0..200).any(|seed| {
        let mut workload = Workload::new(journal, synchronous, seed);
        workload.auto_vacuum = 2;
        workload.reshape = Some(reshape);
        !crash(&stand, &workload, Plan::default())
            .failures
            .is_empty()
    })
}

/// The reason for `Workload::shape`: on a disk that reorders all writes, SQLite itself breaks.
#[test]
fn plain_sqlite_has_limits() {
    assert!(
        breaks(Journal::Persist, Synchronous::Normal, |disk| {
            disk.set_write_order(WriteOrder::Any);
        }),
        "a journal whose count is durable before its records"
    );
    assert!(
        breaks(Journal::Delete, Synchronous::Full, |disk| {
            disk.set_metadata_order(MetadataOrder::Any);
        }),
        "a database shortened although its journal came back"
    );
}

/// A failure names the change and the seed of the cut. The same pair gives the same result.
#[test]
fn a_case_can_be_replayed() {
    let vfs = SimVfs::register("control-replay", SimDisk::new(1));
    let stand = Stand::plain(&vfs);
    let workload = Workload::new(Journal::Delete, Synchronous::Full, 3);
    let story = replay(&stand, &workload, 60, 12345);
    assert!(story.contains("sync /db/crash.db-journal"), "{story}");
    assert!(story.contains("found State("), "{story}");
    assert_eq!(story, replay(&stand, &workload, 60, 12345));
}

/// The page size of a database changes in PERSIST mode. The power is cut while the header of the
/// journal is zeroed, and only its last four bytes, the page size, have arrived. SQLite then uses
/// the new page size of the database for the journal, and writes the old pages back to wrong
/// places.
#[test]
fn a_page_size_changed_in_persist_mode_breaks_plain_sqlite() {
    let before_the_end = |capture: Option<u64>| {
        let disk = SimDisk::new(1);
        let vfs = SimVfs::register("control-page-size", disk.clone());
        let db = Stand::plain(&vfs).connect().expect("connect");
        let rows = "PRAGMA page_size=4096; PRAGMA journal_mode=PERSIST; PRAGMA synchronous=EXTRA;
                    CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(100000));";
        db.execute_batch(rows).expect("rows");
        disk.set_trace(true);
        if let Some(change) = capture {
            disk.capture_at(change, Capture::Snapshot);
        }
        db.execute_batch("PRAGMA page_size=512; VACUUM")
            .expect("VACUUM");
        let zeroed = |line: &&String| line.ends_with("crash.db-journal 0+28");
        let trace = disk.take_trace();
        let line = trace.iter().rfind(zeroed).expect("a header").clone();
        let number = line.split(':').next().expect("a number");
        (number.parse::<u64>().expect("a number"), disk)
    };
    let (last, _) = before_the_end(None);
    let (_, disk) = before_the_end(Some(last - 1));
    let cut = disk.take_captures().remove(0).disk;
    let journal = "/db/crash.db-journal";
    for (torn, sound) in [(0, true), (4, false)] {
        let disk = cut.snapshot();
        let mut header = disk.contents(journal).expect("a journal");
        header[28 - torn..28].fill(0);
        disk.put_file(journal, &header);
        let vfs = SimVfs::register("control-page-size-cut", disk);
        let db = Stand::plain(&vfs).connect().expect("connect");
        let answer = db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        assert_eq!(answer.as_deref() == Ok("ok"), sound, "{answer:?}");
    }
}
