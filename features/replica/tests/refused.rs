//! Two writers, other databases, older copies, and damage.

use crate::common::{DB, Database, begin, bucket, lose, open, quick, reader, restored, ship};
use densite_replica::{At, Bucket, Error, Folder, Step};
use densite_sim_disk::{Fault, FaultKind, OpSet, SimDisk};

fn take_over() -> densite_replica::ShipperOptions {
    densite_replica::ShipperOptions {
        takeover: true,
        ..quick()
    }
}

#[test]
fn a_directory_has_one_writer() {
    let disk = SimDisk::new(1);
    let first = bucket(&disk);
    let second = Folder::writer(Box::new(disk.dir("/bucket")));
    assert!(matches!(second, Err(Error::AnotherWriter { .. })));
    drop(first);
    drop(bucket(&disk));
}

#[test]
fn a_failure_of_a_directory_is_said_without_codes() {
    let disk = SimDisk::new(1);
    let folder = bucket(&disk);
    for (kind, said) in [
        (FaultKind::Io, "input/output error"),
        (FaultKind::Full, "the disk is full; free some disk space"),
    ] {
        disk.fail(Fault::new(kind, OpSet::ALL));
        let failed = folder.create("x", b"x");
        disk.clear_faults();
        assert_eq!(failed, Err(Error::Bucket(said.to_owned())));
    }
}

/// Both ship to the same bucket: the lock of the directory is no matter of the shipper's.
#[test]
fn of_two_writers_one_stops() {
    let mut database = Database::new(2);
    let disk = SimDisk::new(2);
    let folder = bucket(&disk);
    let mut first = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let mut second = begin(&folder, &mut database, &quick(), 0).expect("begin");
    database.commit(5);
    let step = first.step(&mut database.source(), 1, &mut |_| true);
    assert!(matches!(step, Ok(Step::Shipped { n: 1, .. })), "{step:?}");
    let shipped = database.pages.clone();
    database.commit(5);
    let step = second.step(&mut database.source(), 2, &mut |_| true);
    assert!(matches!(step, Err(Error::AnotherWriter { .. })), "{step:?}");
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == shipped);
}

#[test]
fn a_takeover_stops_the_writer_before_it() {
    let mut database = Database::new(3);
    let disk = SimDisk::new(3);
    let folder = bucket(&disk);
    let mut old = begin(&folder, &mut database, &quick(), 0).expect("begin");
    database.commit(5);
    old.step(&mut database.source(), 1, &mut |_| true)
        .expect("step");
    let at_one = database.pages.clone();
    let mut new = begin(&folder, &mut database, &take_over(), 5).expect("take over");
    assert_ne!(old.generation(), new.generation());
    database.commit(5);
    let step = old.step(&mut database.source(), 6, &mut |_| true);
    assert!(matches!(step, Err(Error::TakenOver)), "{step:?}");
    new.step(&mut database.source(), 7, &mut |_| true)
        .expect("step");
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
    let (_, pages) = restored(&folder, At::Time(2)).expect("restore");
    assert!(pages == at_one, "the generation before stays");
}

/// The old writer creates its next delta while the new one takes over.
#[test]
fn a_takeover_passes_over_what_the_old_writer_adds_meanwhile() {
    let mut database = Database::new(4);
    let disk = SimDisk::new(4);
    let folder = bucket(&disk);
    let mut old = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let mut slow = begin(&folder, &mut database, &quick(), 0).expect("begin");
    for n in 1..4 {
        database.commit(5);
        old.step(&mut database.source(), n, &mut |_| true)
            .expect("step");
    }
    // Other contents come into the place of the file, so `slow` begins a generation. It does not
    // know the deltas of `old`.
    let mut other = Database::new(5);
    let step = slow.step(&mut other.source(), 9, &mut |_| true);
    assert!(matches!(step, Ok(Step::Shipped { n: 0, .. })), "{step:?}");
    database.commit(5);
    let step = old.step(&mut database.source(), 10, &mut |_| true);
    assert!(matches!(step, Err(Error::TakenOver)), "{step:?}");
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == other.pages);
}

#[test]
fn another_database_is_refused_and_changes_nothing() {
    let mut database = Database::new(6);
    let disk = SimDisk::new(6);
    let folder = bucket(&disk);
    drop(begin(&folder, &mut database, &quick(), 0).expect("begin"));
    let before = disk.snapshot();
    let mut other = Database::new(7);
    let refused = begin(&folder, &mut other, &quick(), 1);
    assert!(matches!(refused.err(), Some(Error::AnotherDatabase)));
    let same = |path: &String| disk.contents(path) == before.contents(path);
    assert!(disk.paths() == before.paths() && disk.paths().iter().all(same));
    let taken = begin(&folder, &mut other, &take_over(), 2);
    assert!(taken.is_ok());
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == other.pages);
}

#[test]
fn an_older_copy_that_was_put_back_is_noticed() {
    let mut database = Database::new(8);
    let disk = SimDisk::new(8);
    let early = database.disk.contents(DB).expect("contents");
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    database.commit(5);
    shipper
        .step(&mut database.source(), 1, &mut |_| true)
        .expect("step");
    drop(shipper);
    let later = database.pages.clone();
    let mut older = Database::new(8);
    older.disk.put_file("/older.db", &early);
    older.handle = open(&older.disk, "/older.db");
    for _ in 0..3 {
        older.commit(5);
    }
    let refused = begin(&folder, &mut older, &quick(), 2);
    assert!(matches!(refused.err(), Some(Error::AnotherHistory)));
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == later);
}

/// A shipper that runs notices it, too. It begins no generation: this can be a mistake.
#[test]
fn an_older_copy_that_was_put_back_stops_a_running_shipper() {
    let mut database = Database::new(8);
    let disk = SimDisk::new(8);
    let early = database.disk.contents(DB).expect("contents");
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    ship(&mut database, &mut shipper, 3, &mut 0);
    let before = disk.snapshot();
    let mut older = Database::new(8);
    older.disk.put_file("/older.db", &early);
    older.handle = open(&older.disk, "/older.db");
    for commits in [0, 1, 4] {
        for _ in 0..commits {
            older.commit(5);
        }
        let step = shipper.step(&mut older.source(), 9000, &mut |_| true);
        assert!(matches!(step, Err(Error::AnotherHistory)), "{step:?}");
    }
    let same = |path: &String| disk.contents(path) == before.contents(path);
    assert!(disk.paths() == before.paths() && disk.paths().iter().all(same));
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
}

/// Flips a bit in the frame of a page, which is written no more, and returns the damaged database.
fn damaged(mut database: Database) -> Database {
    let bytes = database.disk.contents(DB).expect("contents");
    for at in (16_384..bytes.len()).step_by(97) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        database.disk.put_file(DB, &changed);
        database.handle = open(&database.disk, DB);
        let found = database.handle.check(&mut |_, _| true);
        let of_frame = found.is_ok_and(|found| found.problems.iter().any(|p| p.page.is_some()));
        if of_frame {
            return database;
        }
    }
    panic!("no frame was met");
}

/// A base with it would take the place of the last copy that has the page.
#[test]
fn a_damaged_page_is_not_sent_as_a_base() {
    let mut database = Database::new(12);
    database.handle.close_clean().expect("close");
    let owner = database.owner.clone();
    let disk = SimDisk::new(12);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    ship(&mut database, &mut shipper, 3, &mut 0);
    database.handle.close_clean().expect("close");
    let good = database.pages.clone();
    let mut database = damaged(database);
    database.owner = owner;

    let names_page = |e: Option<Error>| match e {
        Some(Error::SourceDamaged(what)) => assert!(what.contains("(page "), "{what}"),
        e => panic!("{e:?}"),
    };
    // Neither a running shipper, nor a takeover, nor a new replica sends it.
    let day = 25 * 3_600_000;
    database.handle.write_at(&[1], 0).expect("write");
    database.handle.publish().expect("publish");
    let step = shipper.step(&mut database.source(), day, &mut |_| true);
    names_page(step.err());
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == good);
    names_page(begin(&folder, &mut database, &take_over(), day).err());
    let empty = SimDisk::new(13);
    names_page(begin(&bucket(&empty), &mut database, &quick(), day).err());
    assert_eq!(reader(&empty).list("", "").expect("list"), []);
    // Deltas continue, and the base is tried again later.
    let step = shipper.step(&mut database.source(), day + 1000, &mut |_| true);
    assert!(matches!(step, Ok(Step::Shipped { n: 4, .. })), "{step:?}");
    let (done, _) = restored(&folder, At::Newest).expect("restore");
    assert_eq!(done.n, 4);
    database.handle.write_at(&[2], 0).expect("write");
    database.handle.publish().expect("publish");
    let step = shipper.step(&mut database.source(), day + 601_000, &mut |_| true);
    names_page(step.err());
}

/// Every flipped byte of every object is found, or does not matter to the result.
#[test]
fn no_flipped_byte_is_restored() {
    let mut database = Database::new(9);
    let disk = SimDisk::new(9);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    for n in 1..8 {
        database.commit(2);
        shipper
            .step(&mut database.source(), n, &mut |_| true)
            .expect("step");
    }
    let step = shipper.step(&mut database.source(), 20_000, &mut |_| true);
    assert!(matches!(step, Ok(Step::Compacted { .. })), "{step:?}");
    database.commit(2);
    shipper
        .step(&mut database.source(), 20_001, &mut |_| true)
        .expect("step");
    for path in disk.paths() {
        let whole = disk.contents(&path).expect("contents");
        let step = (whole.len() / 60).max(1);
        for at in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            disk.put_file(&path, &bytes);
            if let Ok((_, pages)) = restored(&reader(&disk), At::Newest) {
                assert!(pages == database.pages, "{path}, byte {at}");
            }
        }
        disk.put_file(&path, &whole);
    }
}

#[test]
fn moments_and_numbers_without_a_restore_point_are_refused() {
    let mut database = Database::new(10);
    let disk = SimDisk::new(10);
    let folder = bucket(&disk);
    let nothing = restored(&folder, At::Newest);
    assert!(matches!(nothing, Err(Error::NoReplica)), "{nothing:?}");
    let mut shipper = begin(&folder, &mut database, &quick(), 100).expect("begin");
    ship(&mut database, &mut shipper, 1, &mut 100);
    let early = restored(&folder, At::Time(99));
    assert!(matches!(early, Err(Error::TooEarly { first_ms: 100 })));
    let beyond = restored(&folder, At::Number(2));
    assert!(matches!(beyond, Err(Error::NoSuchPoint(2))), "{beyond:?}");
    lose(&disk, "-base-000000000000-");
    let missing = restored(&folder, At::Newest);
    assert!(
        matches!(missing, Err(Error::BaseLost { .. })),
        "{missing:?}"
    );
}

/// All restore points up to the next base need it, and the error says which do not.
#[test]
fn a_lost_base_says_which_moments_can_be_restored() {
    let mut database = Database::new(14);
    let disk = SimDisk::new(14);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 1000).expect("begin");
    ship(&mut database, &mut shipper, 3, &mut 1000);
    drop(shipper);
    let said = |at| {
        let lost = restored(&folder, at).expect_err("lost");
        assert!(matches!(lost, Error::BaseLost { .. }), "{lost:?}");
        lost.to_string()
    };
    for is_cut in [false, true] {
        let (path, bytes) = lose(&disk, "-base-000000000000-");
        if is_cut {
            disk.put_file(&path, &bytes[..bytes.len() - 1]);
        }
        for at in [At::Newest, At::Number(1), At::Time(3000)] {
            let said = said(at);
            assert!(said.contains("none of them can be restored"), "{said}");
            assert!(said.contains("--takeover sends a new base"), "{said}");
        }
        let refused = begin(&folder, &mut database, &quick(), 9000).err();
        let is_base = matches!(refused, Some(Error::BaseLost { is_first: true, .. }));
        assert!(is_base, "{refused:?}");
        disk.put_file(&path, &bytes);
    }
    // A new base, and moments before and behind it.
    drop(begin(&folder, &mut database, &take_over(), 9000).expect("take over"));
    let (path, bytes) = lose(&disk, "g0002");
    assert!(path.contains("-base-"), "{path}");
    let newest = said(At::Newest);
    let words = "from 1970-01-01T00:00:09.000Z on need it: restore a moment before";
    assert!(newest.contains(words), "{newest}");
    restored(&folder, At::Time(8999)).expect("a moment before");
    disk.put_file(&path, &bytes);
    lose(&disk, "-base-000000000000-");
    let said = said(At::Time(3000));
    assert!(
        said.contains("before 1970-01-01T00:00:09.000Z need it"),
        "{said}"
    );
    restored(&folder, At::Newest).expect("a later moment");
}

/// Later deltas exist: an older state is not restored in the place of the newest one.
#[test]
fn a_missing_delta_is_an_error_that_names_it() {
    let mut database = Database::new(11);
    let disk = SimDisk::new(11);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    ship(&mut database, &mut shipper, 1, &mut 0);
    let at_one = database.pages.clone();
    ship(&mut database, &mut shipper, 3, &mut 1000);
    let (path, bytes) = lose(&disk, "-delta-000000000002");
    let is_gap = |e: &Error| match e {
        Error::Gap { missing, later } => path.ends_with(missing) && *later == 3,
        _ => false,
    };
    for at in [At::Newest, At::Number(3), At::Number(4), At::Time(2500)] {
        let lost = restored(&folder, at).err();
        assert!(lost.as_ref().is_some_and(is_gap), "{at:?}: {lost:?}");
    }
    for at in [At::Number(1), At::Number(0)] {
        restored(&folder, at).expect("an earlier restore point");
    }
    let (_, pages) = restored(&folder, At::Number(1)).expect("restore");
    assert!(pages == at_one);
    let info = densite_replica::replicas(&*folder).expect("replicas");
    let missing = info.generations[0].missing.as_deref();
    assert!(missing.is_some_and(|name| path.ends_with(name)), "{info:?}");
    // A writer does not continue behind it. A new generation heals it.
    let refused = begin(&folder, &mut database, &quick(), 9000).err();
    assert!(refused.as_ref().is_some_and(is_gap), "{refused:?}");
    let saved = disk.snapshot();
    drop(begin(&folder, &mut database, &take_over(), 9000).expect("take over"));
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
    // So does the object, if it comes back.
    saved.put_file(&path, &bytes);
    let (_, pages) = restored(&reader(&saved), At::Newest).expect("restore");
    assert!(pages == database.pages);
    let info = densite_replica::replicas(&reader(&saved)).expect("replicas");
    assert_eq!(info.generations[0].missing, None);
}

/// Nothing names the newest delta, so its loss shows in no restore. The next shipper sends its changes
/// again, and the running one leaves a gap, which is an error.
#[test]
fn the_newest_delta_that_is_lost_is_sent_again() {
    let mut database = Database::new(31);
    let disk = SimDisk::new(31);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let mut now_ms = 0;
    ship(&mut database, &mut shipper, 2, &mut now_ms);
    let before = database.pages.clone();
    ship(&mut database, &mut shipper, 1, &mut now_ms);
    lose(&disk, "-delta-000000000003");
    let (_, pages) = restored(&folder, At::Newest).expect("an older state");
    assert!(pages == before);
    let lost = disk.snapshot();
    ship(&mut database, &mut shipper, 1, &mut now_ms);
    let gap = restored(&folder, At::Newest).err();
    assert!(matches!(gap, Some(Error::Gap { .. })), "{gap:?}");
    drop(shipper);
    let folder = bucket(&lost);
    let mut shipper = begin(&folder, &mut database, &quick(), now_ms).expect("continue");
    let step = shipper.step(&mut database.source(), now_ms + 1000, &mut |_| true);
    assert!(matches!(step, Ok(Step::Shipped { n: 3, .. })), "{step:?}");
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
}

/// A delta that is merged is only needed for the moments in between.
#[test]
fn a_missing_delta_that_is_merged_does_not_matter_to_the_newest_state() {
    let mut database = Database::new(12);
    let disk = SimDisk::new(12);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let mut now_ms = 0;
    ship(&mut database, &mut shipper, 6, &mut now_ms);
    let step = shipper.step(&mut database.source(), now_ms + 20_000, &mut |_| true);
    assert!(matches!(step, Ok(Step::Compacted { .. })), "{step:?}");
    lose(&disk, "-delta-000000000002");
    let (_, pages) = restored(&folder, At::Newest).expect("restore");
    assert!(pages == database.pages);
    let between = restored(&folder, At::Number(3));
    assert!(matches!(between, Err(Error::Gap { .. })), "{between:?}");
    drop(shipper);
    begin(&folder, &mut database, &quick(), now_ms + 30_000).expect("continue");
    lose(&disk, "-compacted-000000000001-000000000006");
    let missing = restored(&folder, At::Newest);
    assert!(matches!(missing, Err(Error::Missing(_))), "{missing:?}");
}

/// A step that ships and merges says both.
#[test]
fn merging_while_shipping_is_told() {
    let mut database = Database::new(13);
    let disk = SimDisk::new(13);
    let folder = bucket(&disk);
    let mut shipper = begin(&folder, &mut database, &quick(), 0).expect("begin");
    let mut now_ms = 0;
    ship(&mut database, &mut shipper, 64, &mut now_ms);
    assert_eq!(shipper.take_compacted(), None);
    ship(&mut database, &mut shipper, 1, &mut now_ms);
    assert!(shipper.take_compacted() > Some(0));
    ship(&mut database, &mut shipper, 1, &mut now_ms);
    assert_eq!(shipper.take_compacted(), None);
}
