//! What was written by small commits is learned from again at rest, and encoded again.

use crate::common::frames::frames;
use crate::same_size::{PAGE, close, create, leaf, pages, sampled_length, write};
use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::codec::CodecId;
use densite_store::{Handle, Options, ReclaimBudget, RelearnStep, RelearnWhen, Tuning};
use std::time::Duration;

/// Learns again until nothing is left. Returns the number of steps.
fn relearn(handle: &mut Handle) -> usize {
    for steps in 1.. {
        match handle.relearn(RelearnWhen::Idle, &|| true).expect("learns") {
            RelearnStep::Done => return steps,
            RelearnStep::More => {}
            RelearnStep::Waits => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    unreachable!()
}

#[test]
fn small_commits_become_as_small_as_a_copy_that_trains_on_a_sample_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let pages = pages(2500);
    let sampled = sampled_length(dir.path(), &pages);
    for threads in [0, 2] {
        let path = dir.path().join(format!("small-{threads}"));
        let options = Options {
            threads,
            ..Options::default()
        };
        let mut small = create(&path, options.clone());
        write(&mut small, &pages, 50);
        let live = small.space().expect("space").live_bytes;
        assert!(live * 100 > sampled * 107, "{live} and {sampled}");
        assert!(small.wants_relearning(RelearnWhen::Asked));
        relearn(&mut small);
        let budget = ReclaimBudget {
            bytes: 1 << 20,
            dead_limit: 1,
            stop: &|| false,
        };
        small.reclaim(&budget).expect("reclaims");
        let small = close(small, &pages, &path);
        assert!(small * 100 <= sampled * 103, "{small} and {sampled}");
        // The file says that this is done.
        let mut again = create(&path, options);
        assert!(again.len().expect("length") > 0 && !again.wants_relearning(RelearnWhen::Asked));
        assert_eq!(relearn(&mut again), 1);
    }
}

#[test]
fn a_thread_that_waits_for_training_can_take_part() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let mut handle = create(&dir.path().join("a"), options);
    write(&mut handle, &pages(2500), 50);
    assert!(!handle.train_here(), "nothing is being trained");
    loop {
        match handle.relearn(RelearnWhen::Idle, &|| true).expect("learns") {
            RelearnStep::Done => break,
            RelearnStep::More => {}
            // Other tests use the same pool, which can have begun all jobs.
            RelearnStep::Waits if handle.train_here() => {}
            RelearnStep::Waits => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert!(!handle.train_here() && !handle.wants_relearning(RelearnWhen::Idle));
}

/// Leaves in small commits, at least as many as are learned from again.
fn by_small_commits(handle: &mut Handle, count: u64) -> Vec<Vec<u8>> {
    let pages: Vec<Vec<u8>> = (0..count).map(leaf).collect();
    write(handle, &pages, 20);
    pages
}

fn alone() -> Options {
    Options {
        threads: 0,
        tuning: Tuning {
            relearn_pages: 256,
            ..Tuning::default()
        },
        ..Options::default()
    }
}

fn open_on(disk: &SimDisk, identity: &str) -> Handle {
    let file = disk.open("/a.db", OpenMode::Create).expect("opens");
    Handle::open(Box::new(file), identity, alone()).expect("a store")
}

fn assert_pages(handle: &mut Handle, pages: &[Vec<u8>], what: &str) {
    let mut back = vec![0; PAGE];
    for (n, page) in (1u64..).zip(pages) {
        let read = handle.read_at(&mut back, n * PAGE as u64);
        read.unwrap_or_else(|error| panic!("{what}: page {n}: {error}"));
        assert!(back == *page, "{what}: page {n}");
    }
    let report = handle.check(&mut |_, _| true).expect("checks");
    assert!(report.problems.is_empty(), "{what}: {report:?}");
}

#[test]
fn after_a_power_cut_another_process_goes_on() {
    let disk = SimDisk::new(7);
    let mut handle = open_on(&disk, "first");
    disk.sync_dir("/").expect("syncs");
    let pages = by_small_commits(&mut handle, 600);
    handle.sync(SyncKind::Data).expect("syncs");
    let before = handle.space().expect("space").live_bytes;
    let begin = disk.changes();
    disk.cut_at_each((begin..begin + 4000).step_by(7), 7);
    let steps = relearn(&mut handle);
    assert!(steps > 20, "{steps} steps");
    let after = handle.space().expect("space").live_bytes;
    assert!(after * 100 < before * 90, "{before} and {after}");
    assert_pages(&mut handle, &pages, "at the end");
    let cuts = disk.take_captures();
    assert!(cuts.len() > 10, "{} cuts", cuts.len());
    for (n, cut) in cuts.iter().enumerate() {
        let what = format!("cut at change {}", cut.change);
        let mut next = open_on(&cut.disk, &what);
        assert_pages(&mut next, &pages, &what);
        if n % 4 == 0 {
            relearn(&mut next);
            assert_pages(&mut next, &pages, &what);
        }
    }
}

#[test]
fn a_sample_that_was_lost_with_its_process_is_begun_again_only_if_asked() {
    let disk = SimDisk::new(9);
    let mut handle = open_on(&disk, "first");
    let pages = by_small_commits(&mut handle, 300);
    assert!(handle.wants_relearning(RelearnWhen::Closing));
    assert_eq!(
        handle.relearn(RelearnWhen::Idle, &|| true).expect("learns"),
        RelearnStep::More
    );
    // This process goes on.
    assert!(handle.wants_relearning(RelearnWhen::Closing));
    let mut next = open_on(&disk, "second");
    assert_eq!(
        next.len().expect("length") as usize,
        (1 + pages.len()) * PAGE
    );
    assert!(
        !next.wants_relearning(RelearnWhen::Closing) && next.wants_relearning(RelearnWhen::Asked)
    );
    relearn(&mut next);
    assert!(!next.wants_relearning(RelearnWhen::Asked));
}

#[test]
fn of_two_processes_that_begin_only_one_encodes_again() {
    let disk = SimDisk::new(10);
    let mut handles = ["one", "two"].map(|identity| open_on(&disk, identity));
    let pages = by_small_commits(&mut handles[0], 600);
    for handle in &mut handles {
        let step = handle.relearn(RelearnWhen::Idle, &|| true);
        assert_eq!(step.expect("learns"), RelearnStep::More);
    }
    relearn(&mut handles[0]);
    let commit = handles[0].newest_commit().expect("a commit");
    assert_eq!(relearn(&mut handles[1]), 2);
    assert_eq!(handles[1].newest_commit().expect("a commit"), commit);
    assert_pages(&mut handles[1], &pages, "at the end");
}

#[test]
fn pages_that_others_write_between_two_steps_stay_as_they_write_them() {
    let disk = SimDisk::new(8);
    let mut handles = ["one", "two"].map(|identity| open_on(&disk, identity));
    let mut pages = by_small_commits(&mut handles[0], 600);
    for step in 0.. {
        let done = handles[step % 2]
            .relearn(RelearnWhen::Idle, &|| true)
            .expect("learns");
        if done == RelearnStep::Done && step > 200 {
            break;
        }
        let at = step * 31 % pages.len();
        pages[at] = leaf(step as u64 * 5 + 1);
        let other = &mut handles[step / 2 % 2];
        let place = (at as u64 + 1) * PAGE as u64;
        other.write_at(&pages[at], place).expect("writes");
        other.publish().expect("publishes");
    }
    for handle in &mut handles {
        assert_pages(handle, &pages, "at the end");
    }
}

#[test]
fn a_damaged_page_stays_where_it_is_and_the_others_are_encoded() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("damaged");
    let mut handle = create(&path, alone());
    let pages = by_small_commits(&mut handle, 600);
    handle.close_clean().expect("closes");
    let before = handle.space().expect("space").live_bytes;
    drop(handle);
    // In the frame of an early page.
    let mut bytes = std::fs::read(&path).expect("reads");
    let at = bytes.len() / 4;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).expect("writes");
    let mut handle = create(&path, alone());
    relearn(&mut handle);
    let after = handle.space().expect("space").live_bytes;
    assert!(after * 100 < before * 90, "{before} and {after}");
    let mut damaged = 0;
    let mut back = vec![0; PAGE];
    for (n, page) in (1u64..).zip(&pages) {
        match handle.read_at(&mut back, n * PAGE as u64) {
            Ok(_) => assert!(back == *page, "page {n}"),
            Err(_) => damaged += 1,
        }
    }
    assert!(damaged <= 1, "{damaged} pages");
    let report = handle.check(&mut |_, _| true).expect("checks");
    assert_eq!(report.problems.len(), 1, "{report:?}");
}

/// Pages that are written by every commit are stored raw. If their process is killed, the next one
/// encodes them, however small the database is.
#[test]
fn raw_frames_that_a_killed_process_left_are_encoded_by_the_next() {
    let disk = SimDisk::new(11);
    let options = Options {
        threads: 0,
        ..Options::default()
    };
    let open = |identity: &str| {
        let file = disk.open("/a.db", OpenMode::Create).expect("opens");
        Handle::open(Box::new(file), identity, options.clone()).expect("a store")
    };
    let mut killed = open("killed");
    let mut pages = by_small_commits(&mut killed, 200);
    let before = killed.space().expect("space").live_bytes;
    let change = |handle: &mut Handle, pages: &mut [Vec<u8>], round: u64| {
        for (n, page) in (0u64..).zip(pages.iter_mut()).take(150) {
            *page = leaf(n + round * 1000);
            let written = handle.write_at(page, (n + 1) * PAGE as u64);
            written.expect("writes");
        }
        handle.publish().expect("publishes");
    };
    for round in 0..8 {
        change(&mut killed, &mut pages, round);
    }
    let raw = killed.space().expect("space").live_bytes;
    assert!(raw > before * 3 / 2, "{raw} and {before}");
    // The process that has them encodes them itself, and does not go through all pages.
    assert!(killed.is_unsettled() && !killed.wants_relearning(RelearnWhen::Closing));
    let settled = |disk: &SimDisk, when| {
        let mut handle = open_on(disk, "settled");
        assert_eq!(handle.len().expect("length") as usize, 201 * PAGE);
        handle.wants_relearning(when)
    };
    let mut next = open("next");
    next.len().expect("length");
    for when in [RelearnWhen::Closing, RelearnWhen::Idle, RelearnWhen::Asked] {
        assert!(next.wants_relearning(when), "{when:?}");
    }
    relearn(&mut next);
    let after = next.space().expect("space").live_bytes;
    assert!(after * 10 < before * 11, "{after} and {before}");
    assert_pages(&mut next, &pages, "at the end");
    for when in [RelearnWhen::Closing, RelearnWhen::Idle, RelearnWhen::Asked] {
        assert!(!next.wants_relearning(when), "{when:?}");
        assert!(!settled(&disk, when), "{when:?}");
    }
    // One that ends in order leaves none.
    for round in 10..18 {
        change(&mut next, &mut pages, round);
    }
    while next.settle(64).expect("settles") {}
    assert!(!settled(&disk, RelearnWhen::Closing));
    assert_pages(&mut next, &pages, "at the end");
}

/// The same, if the file is already being gone through, and the raw frames lie before that place.
#[test]
fn raw_frames_before_the_place_that_a_pass_has_reached_are_encoded_too() {
    let steps = {
        let mut handle = open_on(&SimDisk::new(12), "counts");
        by_small_commits(&mut handle, 600);
        relearn(&mut handle)
    };
    let disk = SimDisk::new(12);
    let mut killed = open_on(&disk, "killed");
    let mut pages = by_small_commits(&mut killed, 600);
    let before = killed.space().expect("space").live_bytes;
    for _ in 0..steps - 8 {
        killed.relearn(RelearnWhen::Idle, &|| true).expect("learns");
    }
    assert!(killed.wants_relearning(RelearnWhen::Closing));
    for round in 1..9 {
        for (n, page) in (0u64..).zip(pages.iter_mut()).take(150) {
            *page = leaf(n + round);
            let written = killed.write_at(page, (n + 1) * PAGE as u64);
            written.expect("writes");
        }
        killed.publish().expect("publishes");
    }
    let mut next = open_on(&disk, "next");
    next.len().expect("length");
    relearn(&mut next);
    let after = next.space().expect("space").live_bytes;
    assert!(after < before, "{after} and {before}");
    let raw = frames(&mut next);
    let raw = raw.values().filter(|f| f.codec == CodecId::RAW).count();
    assert_eq!(raw, 0);
    assert_pages(&mut next, &pages, "at the end");
    assert!(!next.wants_relearning(RelearnWhen::Closing));
}
