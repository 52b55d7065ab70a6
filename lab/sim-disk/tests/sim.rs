//! The simulated disk: what survives, what cannot, and which calls fail on request.

use std::collections::BTreeSet;

use densite_disk::{Dir, Error, ErrorKind, File, Op, OpenMode, SyncKind};
use densite_sim_disk::{
    Capture, EntryPolicy, Extension, FailedSync, Fault, FaultKind, MetadataOrder, OpSet, SimDisk,
    SimFile, WriteOrder,
};

const SEEDS: std::ops::Range<u64> = 0..400;

/// A disk with the durable file `/f`, open.
fn disk_with(bytes: &[u8]) -> (SimDisk, SimFile) {
    let disk = SimDisk::new(1);
    disk.put_file("/f", bytes);
    let file = disk.open("/f", OpenMode::Write).expect("open");
    (disk, file)
}

/// All possible contents of `/f` after a cut now.
fn outcomes(disk: &SimDisk) -> BTreeSet<Vec<u8>> {
    SEEDS
        .map(|seed| disk.survivor(seed).contents("/f").expect("durable entry"))
        .collect()
}

fn write(file: &SimFile, byte: u8, len: usize, offset: u64) {
    file.write_at(&vec![byte; len], offset).expect("write");
}

fn sync(file: &SimFile) {
    file.sync(SyncKind::Data).expect("sync");
}

fn kind_of<T>(result: Result<T, Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("the call should have failed"),
        Err(e) => e.kind,
    }
}

#[test]
fn synced_bytes_always_survive() {
    let (disk, file) = disk_with(b"");
    write(&file, 7, 3000, 0);
    sync(&file);
    assert_eq!(outcomes(&disk), BTreeSet::from([vec![7; 3000]]));
}

#[test]
fn unsynced_writes_are_kept_lost_or_torn() {
    let (disk, file) = disk_with(&[1; 2048]);
    write(&file, 2, 2048, 0);
    let seen = outcomes(&disk);
    assert!(seen.contains(&vec![1; 2048]), "lost for some seed");
    assert!(seen.contains(&vec![2; 2048]), "kept for some seed");
    let by_sector = |bytes: &Vec<u8>| bytes.chunks(512).all(|s| s.iter().all(|b| *b == s[0]));
    let torn: Vec<_> = seen
        .iter()
        .filter(|b| b.contains(&1) && b.contains(&2))
        .collect();
    assert!(torn.iter().any(|b| by_sector(b)), "torn between sectors");
    assert!(torn.iter().any(|b| !by_sector(b)), "torn within a sector");
    let holed = [vec![2; 512], vec![1; 512], vec![2; 1024]].concat();
    assert!(torn.contains(&&holed), "any subset of the sectors");
}

#[test]
fn bytes_outside_a_write_never_change() {
    let (disk, file) = disk_with(&[1; 2000]);
    write(&file, 2, 300, 700);
    for bytes in outcomes(&disk) {
        assert_eq!(bytes.len(), 2000);
        assert!(bytes[..700].iter().all(|b| *b == 1));
        assert!(bytes[1000..].iter().all(|b| *b == 1));
    }
}

#[test]
fn writes_are_reordered_and_delayed() {
    let (disk, file) = disk_with(&[0; 3]);
    for at in 0..3u8 {
        write(&file, at + 1, 1, u64::from(at));
    }
    let seen = outcomes(&disk);
    for mask in 0..8u8 {
        let want: Vec<u8> = (0..3).map(|i| (mask >> i & 1) * (i + 1)).collect();
        assert!(seen.contains(&want), "{want:?} never happened");
    }
    assert_eq!(seen.len(), 8);
}

#[test]
fn overlapping_writes_keep_their_order() {
    let (disk, file) = disk_with(&[0]);
    write(&file, 1, 1, 0);
    write(&file, 2, 1, 0);
    assert_eq!(outcomes(&disk), BTreeSet::from([vec![0], vec![1], vec![2]]));
    sync(&file);
    write(&file, 3, 1, 0);
    assert_eq!(outcomes(&disk), BTreeSet::from([vec![2], vec![3]]));
}

#[test]
fn a_sync_of_one_file_leaves_the_others() {
    let (disk, file) = disk_with(&[0]);
    disk.put_file("/g", &[0]);
    let other = disk.open("/g", OpenMode::Write).expect("open");
    write(&other, 1, 1, 0);
    write(&file, 1, 1, 0);
    sync(&file);
    let g: BTreeSet<_> = SEEDS.map(|s| disk.survivor(s).contents("/g")).collect();
    assert_eq!(g, BTreeSet::from([Some(vec![0]), Some(vec![1])]));
    assert_eq!(outcomes(&disk), BTreeSet::from([vec![1]]));
}

#[test]
fn lengths_are_kept_or_lost() {
    let (disk, file) = disk_with(&[1, 2, 3]);
    file.set_len(1).expect("shorten");
    let seen = outcomes(&disk);
    assert_eq!(seen, BTreeSet::from([vec![1], vec![1, 2, 3]]));
    file.set_len(2).expect("lengthen");
    let seen = outcomes(&disk);
    // Lengthened only if it was shortened.
    let want = [vec![1], vec![1, 2, 3], vec![1, 0]];
    assert_eq!(seen, BTreeSet::from(want));
    sync(&file);
    assert_eq!(outcomes(&disk), BTreeSet::from([vec![1, 0]]));
}

#[test]
fn a_write_past_the_end_grows_the_file_with_zeros() {
    let (disk, file) = disk_with(&[1]);
    write(&file, 2, 2, 3);
    let mut buf = [9; 8];
    assert_eq!(file.read_at(&mut buf, 0).expect("read"), 5);
    assert_eq!(&buf[..5], &[1, 0, 0, 2, 2]);
    let seen = outcomes(&disk);
    assert!(seen.contains(&vec![1, 0, 0, 2, 2]));
    assert!(seen.contains(&vec![1]));
    assert!(
        seen.contains(&vec![1, 0, 0, 0, 0]),
        "the length without the write"
    );
    assert!(
        seen.iter()
            .all(|b| b.iter().skip(1).all(|b| matches!(b, 0 | 2)))
    );
}

#[test]
fn grown_bytes_can_be_garbage_if_the_policy_says_so() {
    let (disk, file) = disk_with(&[1]);
    disk.set_extension(Extension::Garbage);
    write(&file, 0, 600, 1);
    let garbage = |bytes: &Vec<u8>| bytes[1..].iter().any(|b| *b != 0);
    assert!(outcomes(&disk).iter().any(garbage));
    sync(&file);
    assert!(!outcomes(&disk).iter().any(garbage));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let (disk, file) = disk_with(&[1; 5000]);
        for i in 0..40u8 {
            write(&file, i, 300, u64::from(i) * 97);
        }
        disk.open("/new", OpenMode::Create).expect("create");
        let after = disk.power_cut(77);
        after
            .paths()
            .into_iter()
            .map(move |p| after.contents(&p))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn handles_are_dead_after_the_cut() {
    let (disk, file) = disk_with(b"abc");
    let after = disk.power_cut(3);
    assert!(disk.is_dead() && !after.is_dead());
    let mut buf = [0; 3];
    assert_eq!(kind_of(file.read_at(&mut buf, 0)), ErrorKind::Io);
    assert_eq!(kind_of(file.write_at(b"x", 0)), ErrorKind::Io);
    assert_eq!(kind_of(file.sync(SyncKind::Full)), ErrorKind::Io);
    assert_eq!(kind_of(file.len()), ErrorKind::Io);
    assert_eq!(kind_of(disk.open("/f", OpenMode::Read)), ErrorKind::Io);
    assert_eq!(kind_of(disk.root().list()), ErrorKind::Io);
    let e = disk.root().sync().expect_err("dead");
    assert_eq!((e.op, e.code), (Op::Sync, Some(5)));
    let alive = after
        .open("/f", OpenMode::Read)
        .expect("the new disk works");
    assert_eq!(alive.read_at(&mut buf, 0).expect("read"), 3);
}

/// A shortened file that grows again gets new blocks, which do not appear among the old ones.
#[test]
fn writes_beyond_a_lost_shortening_are_lost() {
    let (disk, file) = disk_with(&[1; 4]);
    file.set_len(1).expect("shorten");
    write(&file, 2, 3, 0);
    let seen = outcomes(&disk);
    assert!(
        seen.contains(&vec![2, 1, 1, 1]),
        "a write below the new length is kept"
    );
    assert!(seen.contains(&vec![2, 2, 2]));
    for bytes in seen {
        let old = bytes.len() == 4;
        assert!(!old || bytes[1..] == [1; 3], "{bytes:?}");
    }
}

#[test]
fn writes_keep_their_order_if_the_policy_says_so() {
    let (disk, file) = disk_with(&[0; 4]);
    disk.set_write_order(WriteOrder::InFile);
    for at in 0..4 {
        write(&file, 1, 1, at);
    }
    let want = (0..=4).map(|n| [vec![1; n], vec![0; 4 - n]].concat());
    assert_eq!(outcomes(&disk), want.collect());
}

#[test]
fn metadata_keeps_its_order_if_the_policy_says_so() {
    let set_up = || {
        let (disk, file) = disk_with(&[1; 2]);
        disk.set_metadata_order(MetadataOrder::Journalled);
        disk.put_file("/j", b"");
        disk.remove("/j").expect("remove");
        file.set_len(1).expect("shorten");
        disk.open("/k", OpenMode::Create).expect("create");
        (disk, file)
    };
    let states = |disk: &SimDisk| -> BTreeSet<_> {
        let state = |d: SimDisk| {
            let has = |path| d.contents(path).is_some();
            (has("/j"), d.contents("/f").map(|f| f.len()), has("/k"))
        };
        SEEDS.map(|s| state(disk.survivor(s))).collect()
    };
    let [a, b, c, d] = [
        (true, Some(2), false),
        (false, Some(2), false),
        (false, Some(1), false),
        (false, Some(1), true),
    ];
    let (disk, file) = set_up();
    assert_eq!(states(&disk), BTreeSet::from([a, b, c, d]));
    sync(&file);
    assert_eq!(
        states(&disk),
        BTreeSet::from([c, d]),
        "a sync makes the earlier ones durable too"
    );
    let (disk, _file) = set_up();
    disk.sync_dir("/").expect("directory sync");
    assert_eq!(states(&disk), BTreeSet::from([d]));
}

// ---- directories ----

fn may_exist(disk: &SimDisk, path: &str) -> BTreeSet<bool> {
    SEEDS
        .map(|seed| disk.survivor(seed).contents(path).is_some())
        .collect()
}

#[test]
fn a_new_entry_needs_a_directory_sync() {
    let disk = SimDisk::new(1);
    let dir = disk.dir("/db");
    let file = dir.open("new", OpenMode::CreateNew).expect("create");
    file.write_at(b"x", 0).expect("write");
    file.sync(SyncKind::Full).expect("sync");
    assert_eq!(may_exist(&disk, "/db/new"), BTreeSet::from([false, true]));
    disk.dir("/other").sync().expect("another directory");
    assert_eq!(may_exist(&disk, "/db/new"), BTreeSet::from([false, true]));
    dir.sync().expect("directory sync");
    assert_eq!(may_exist(&disk, "/db/new"), BTreeSet::from([true]));
    // Synced contents are kept whether or not the entry survives.
    assert!(
        SEEDS
            .into_iter()
            .all(|s| disk.survivor(s).contents("/db/new") == Some(b"x".to_vec()))
    );
}

#[test]
fn a_file_sync_makes_the_entry_durable_if_the_policy_says_so() {
    let disk = SimDisk::new(1);
    disk.set_entry_policy(EntryPolicy::FileSync);
    let file = disk.open("/new", OpenMode::CreateNew).expect("create");
    assert_eq!(may_exist(&disk, "/new"), BTreeSet::from([false, true]));
    sync(&file);
    assert_eq!(may_exist(&disk, "/new"), BTreeSet::from([true]));
}

#[test]
fn a_removed_file_may_come_back_until_the_directory_is_synced() {
    let (disk, file) = disk_with(b"old");
    write(&file, 9, 1, 0);
    drop(file);
    disk.remove("/f").expect("remove");
    assert!(!disk.exists("/f").expect("probe"));
    let seen: BTreeSet<_> = SEEDS.map(|s| disk.survivor(s).contents("/f")).collect();
    let want = [None, Some(b"old".to_vec()), Some(b"\x09ld".to_vec())];
    assert_eq!(seen, BTreeSet::from(want));
    disk.sync_dir("/").expect("directory sync");
    assert_eq!(may_exist(&disk, "/f"), BTreeSet::from([false]));
}

#[test]
fn a_rename_happens_as_a_whole() {
    let (disk, _file) = disk_with(b"old");
    disk.put_file("/g", b"new");
    disk.root().rename("g", "f").expect("rename");
    let seen: BTreeSet<_> = SEEDS
        .map(|s| disk.survivor(s))
        .map(|d| (d.contents("/f"), d.contents("/g")))
        .collect();
    let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    assert_eq!(seen, BTreeSet::from([(old, new.clone()), (new, None)]));
}

#[test]
fn changes_of_one_name_keep_their_order() {
    let disk = SimDisk::new(1);
    for i in 0..4u8 {
        let file = disk.open("/j", OpenMode::CreateNew).expect("create");
        write(&file, i, 1, 0);
        sync(&file);
        drop(file);
        if i < 3 {
            disk.remove("/j").expect("remove");
        }
    }
    let seen: BTreeSet<_> = SEEDS.map(|s| disk.survivor(s).contents("/j")).collect();
    let want = [
        None,
        Some(vec![0]),
        Some(vec![1]),
        Some(vec![2]),
        Some(vec![3]),
    ];
    assert_eq!(seen, BTreeSet::from(want));
}

#[test]
fn the_dir_contract() {
    let disk = SimDisk::new(1);
    let dir = disk.dir("db/");
    assert_eq!(kind_of(dir.open("a", OpenMode::Read)), ErrorKind::NotFound);
    let file = dir.open("a", OpenMode::Create).expect("create");
    file.write_at(b"x", 0).expect("write");
    assert_eq!(
        kind_of(dir.open("a", OpenMode::CreateNew)),
        ErrorKind::Exists
    );
    let again = dir.open("a", OpenMode::Create).expect("open");
    assert_eq!(again.len().expect("length"), 1, "the same file");
    let reader = dir.open("a", OpenMode::Read).expect("open");
    assert_eq!(kind_of(reader.write_at(b"y", 0)), ErrorKind::Permission);
    assert_eq!(kind_of(reader.set_len(0)), ErrorKind::Permission);
    dir.open("b", OpenMode::Create).expect("create");
    disk.open("/elsewhere", OpenMode::Create).expect("create");
    assert_eq!(dir.list().expect("list"), ["a", "b"]);
    assert_eq!(disk.paths(), ["/elsewhere", "/db/a", "/db/b"]);
    dir.remove("b").expect("remove");
    assert_eq!(kind_of(dir.remove("b")), ErrorKind::NotFound);
    assert_eq!(kind_of(dir.rename("b", "c")), ErrorKind::NotFound);
    assert_eq!(kind_of(dir.open("x/y", OpenMode::Create)), ErrorKind::Io);
    dir.remove("a").expect("remove");
    let mut buf = [0];
    assert_eq!(
        reader.read_at(&mut buf, 0).expect("read"),
        1,
        "handles keep it"
    );
}

// ---- numbered calls ----

#[test]
fn the_cut_comes_at_its_call() {
    let run = |cut: Option<u64>| {
        let (disk, file) = disk_with(&[0; 4]);
        let base = disk.calls();
        if let Some(n) = cut {
            disk.cut_at(base + n);
        }
        let results = [
            file.write_at(&[1], 0),
            file.sync(SyncKind::Data),
            file.write_at(&[2], 1),
            file.sync(SyncKind::Data),
        ];
        let done = results.iter().take_while(|r| r.is_ok()).count();
        assert!(
            results.iter().skip(done).all(Result::is_err),
            "every call fails after the cut"
        );
        (disk.calls() - base, done, outcomes(&disk))
    };
    assert_eq!(run(None).0, 4);
    let (calls, done, seen) = run(Some(1));
    assert_eq!((calls, done), (1, 0));
    assert_eq!(
        seen,
        BTreeSet::from([vec![0; 4], vec![1, 0, 0, 0]]),
        "the write at the cut may survive"
    );
    let (_, done, seen) = run(Some(2));
    assert_eq!(done, 1);
    assert_eq!(seen.len(), 2, "an interrupted sync promises nothing");
    let (_, done, seen) = run(Some(3));
    assert_eq!(done, 2);
    assert_eq!(seen, BTreeSet::from([vec![1, 0, 0, 0], vec![1, 2, 0, 0]]));
}

#[test]
fn changes_leave_out_calls_that_only_read() {
    let (disk, file) = disk_with(&[0; 4]);
    let (calls, changes) = (disk.calls(), disk.changes());
    file.read_at(&mut [0; 2], 0).expect("read");
    file.len().expect("length");
    disk.exists("/f").expect("probe");
    assert_eq!((disk.calls() - calls, disk.changes() - changes), (3, 0));
    disk.open("/g", OpenMode::Create).expect("create");
    write(&file, 1, 1, 0);
    file.set_len(2).expect("shorten");
    sync(&file);
    disk.root().rename("g", "h").expect("rename");
    disk.remove("/h").expect("remove");
    disk.sync_dir("/").expect("directory sync");
    assert_eq!((disk.calls() - calls, disk.changes() - changes), (10, 7));
    disk.cut_at_change(disk.changes() + 2);
    write(&file, 1, 1, 0);
    file.len().expect("reading is not a change");
    assert_eq!(kind_of(file.write_at(&[1], 0)), ErrorKind::Io);
    assert!(disk.is_dead());
}

/// One run serves all cuts: a capture at a change equals what a cut there would leave.
#[test]
fn captures_equal_cuts() {
    let steps = |disk: &SimDisk| {
        let dir = disk.root();
        let run = || -> densite_disk::Result<()> {
            for i in 0..6u8 {
                let file = disk.open("/j", OpenMode::Create)?;
                file.write_at(&[i; 900], 0)?;
                file.sync(SyncKind::Data)?;
                dir.sync()?;
                file.write_at(&[i + 100; 900], 300)?;
                file.len()?;
                disk.remove("/j")?;
            }
            Ok(())
        };
        run().is_ok()
    };
    let disk = SimDisk::new(1);
    for change in 1..=36 {
        disk.capture_at(change, Capture::Cut(change));
        disk.capture_at(change, Capture::Snapshot);
    }
    assert!(steps(&disk));
    let captured = disk.take_captures();
    assert_eq!(captured.len(), 72);
    for c in captured {
        let Capture::Cut(seed) = c.how else { continue };
        let disk = SimDisk::new(1);
        disk.cut_at_change(c.change);
        assert!(!steps(&disk));
        let after = disk.power_cut(seed);
        assert_eq!(c.disk.contents("/j"), after.contents("/j"), "change {seed}");
    }
}

// ---- faults ----

#[test]
fn faults_count_down() {
    let (disk, file) = disk_with(&[0; 4]);
    disk.fail(Fault::new(FaultKind::Io, Op::Write).after(2));
    let results: Vec<_> = (0..5).map(|i| file.write_at(&[1], i).is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
    assert_eq!(disk.fault_hits(), 1);
    assert_eq!(disk.contents("/f").expect("file"), [1, 1, 0, 1, 1]);

    disk.fail(Fault::new(FaultKind::Full, Op::Write).after(1).forever());
    let results: Vec<_> = (0..4).map(|i| file.write_at(&[2], i).is_ok()).collect();
    assert_eq!(results, [true, false, false, false]);
    assert_eq!(disk.fault_hits(), 4);
    let e = file.write_at(&[2], 0).expect_err("full");
    assert_eq!((e.kind, e.code), (ErrorKind::Full, Some(28)));
    file.read_at(&mut [0], 0).expect("other calls work");
    disk.clear_faults();
    write(&file, 2, 1, 3);
}

#[test]
fn faults_choose_calls_and_files() {
    let (disk, file) = disk_with(&[0; 4]);
    let journal = disk.open("/f-journal", OpenMode::Create).expect("create");
    let on = OpSet::of(&[Op::Write, Op::Sync]);
    disk.fail(Fault::new(FaultKind::Io, on).on_path("-journal").forever());
    write(&file, 1, 1, 0);
    sync(&file);
    assert_eq!(kind_of(journal.write_at(&[1], 0)), ErrorKind::Io);
    assert_eq!(kind_of(journal.sync(SyncKind::Data)), ErrorKind::Io);
    journal.len().expect("not among the calls");
    assert_eq!(disk.fault_hits(), 2);
    disk.clear_faults();
    disk.fail(Fault::new(FaultKind::Io, OpSet::ALL));
    assert_eq!(kind_of(disk.root().list()), ErrorKind::Io);
    disk.root().list().expect("the fault strikes once");
}

#[test]
fn a_failing_write_may_leave_a_prefix() {
    let (disk, file) = disk_with(&[0; 4]);
    disk.fail(Fault::new(FaultKind::Full, Op::Write).with_prefix(2));
    assert_eq!(kind_of(file.write_at(&[1; 4], 0)), ErrorKind::Full);
    assert_eq!(disk.contents("/f").expect("file"), [1, 1, 0, 0]);
}

#[test]
fn faults_belong_to_one_disk() {
    let (disk, file) = disk_with(&[0; 4]);
    let (other, other_file) = disk_with(&[0; 4]);
    disk.fail(Fault::new(FaultKind::Io, OpSet::ALL).forever());
    write(&other_file, 1, 1, 0);
    assert_eq!(kind_of(file.write_at(&[1], 0)), ErrorKind::Io);
    assert_eq!((disk.fault_hits(), other.fault_hits()), (1, 0));
}

/// After a failed sync Linux marks the pages clean: a second sync succeeds and saves nothing.
#[test]
fn a_failed_sync_loses_for_good() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        disk.put_file("/f", &[0, 0]);
        let file = disk.open("/f", OpenMode::Write).expect("open");
        write(&file, 1, 1, 0);
        disk.fail(Fault::new(FaultKind::Io, Op::Sync));
        assert_eq!(kind_of(file.sync(SyncKind::Data)), ErrorKind::Io);
        write(&file, 2, 1, 1);
        sync(&file);
        let seen = disk.contents("/f").expect("file");
        assert_eq!(seen, [1, 2], "processes go on seeing it");
        let after = outcomes(&disk);
        assert_eq!(after.len(), 1, "nothing is left to chance");
        lost += u32::from(after.contains(&vec![0, 2]));
        // Writing again and syncing saves it.
        write(&file, 1, 1, 0);
        sync(&file);
        assert_eq!(outcomes(&disk), BTreeSet::from([vec![1, 2]]));
    }
    assert!((1..50).contains(&lost), "lost {lost} of 50");
}

#[test]
fn a_failed_sync_can_be_retried_if_the_policy_says_so() {
    let (disk, file) = disk_with(&[0]);
    disk.set_failed_sync(FailedSync::Kept);
    write(&file, 1, 1, 0);
    disk.fail(Fault::new(FaultKind::Io, Op::Sync));
    assert_eq!(kind_of(file.sync(SyncKind::Data)), ErrorKind::Io);
    assert_eq!(outcomes(&disk).len(), 2);
    sync(&file);
    assert_eq!(outcomes(&disk), BTreeSet::from([vec![1]]));
}

// ---- capacity, snapshot, counters ----

#[test]
fn capacity_limits_growth_only() {
    let (disk, file) = disk_with(&[0; 100]);
    disk.set_capacity(Some(150));
    assert_eq!(disk.root().free_space().expect("free"), 50);
    write(&file, 1, 100, 0);
    write(&file, 1, 100, 50);
    assert_eq!(kind_of(file.write_at(&[1], 150)), ErrorKind::Full);
    assert_eq!(kind_of(file.set_len(151)), ErrorKind::Full);
    assert_eq!(disk.contents("/f").expect("file").len(), 150);
    write(&file, 2, 150, 0);
    let other = disk.open("/g", OpenMode::Create).expect("a name is free");
    assert_eq!(kind_of(other.write_at(&[1], 0)), ErrorKind::Full);
    file.set_len(120).expect("shorten");
    write(&other, 1, 30, 0);
    assert_eq!(disk.used(), 150);
    disk.remove("/g").expect("remove");
    assert_eq!(
        kind_of(file.set_len(150)),
        ErrorKind::Full,
        "g is still open"
    );
    drop(other);
    file.set_len(150).expect("g is gone");
}

#[test]
fn renaming_over_a_file_frees_its_room() {
    let disk = SimDisk::new(1);
    disk.put_file("/a", &[0; 100]);
    disk.put_file("/b", &[0; 10]);
    disk.root().rename("b", "a").expect("rename");
    assert_eq!(disk.used(), 10);
    disk.sync_dir("/").expect("sync");
    assert_eq!(disk.used(), 10);
}

#[test]
fn a_wild_length_is_refused_before_it_allocates() {
    let (_disk, file) = disk_with(b"");
    assert_eq!(kind_of(file.set_len(u64::MAX)), ErrorKind::Full);
    assert_eq!(kind_of(file.write_at(&[1], u64::MAX)), ErrorKind::Full);
    assert_eq!(file.read_at(&mut [0], u64::MAX).expect("read"), 0);
}

#[test]
fn a_snapshot_is_what_processes_see() {
    let (disk, file) = disk_with(&[0; 4]);
    write(&file, 1, 2, 3);
    let other = disk.open("/new", OpenMode::Create).expect("create");
    write(&other, 2, 2, 0);
    disk.put_file("/gone", b"x");
    disk.remove("/gone").expect("remove");
    let snapshot = disk.snapshot();
    write(&file, 9, 5, 0);
    for seed in SEEDS {
        let after = snapshot.survivor(seed);
        assert_eq!(after.paths(), ["/f", "/new"]);
        assert_eq!(after.contents("/f").expect("file"), [0, 0, 0, 1, 1]);
        assert_eq!(after.contents("/new").expect("file"), [2, 2]);
    }
}

#[test]
fn counters_count_the_calls_of_each_file() {
    let (disk, file) = disk_with(&[0; 4]);
    write(&file, 1, 10, 0);
    write(&file, 1, 5, 0);
    sync(&file);
    file.read_at(&mut [0; 4], 0).expect("read");
    disk.sync_dir("/").expect("directory sync");
    let c = disk.counters("/f");
    assert_eq!((c.reads, c.writes, c.bytes_written, c.syncs), (1, 2, 15, 1));
    assert_eq!(disk.counters("/").syncs, 1);
    assert_eq!(disk.counters_total().syncs, 2);
}

#[test]
fn damage_reaches_open_handles() {
    let (disk, file) = disk_with(b"abc");
    disk.put_file("/f", b"aXc");
    let mut buf = [0; 3];
    file.read_at(&mut buf, 0).expect("read");
    assert_eq!(&buf, b"aXc");
    assert_eq!(disk.used(), 3);
}
