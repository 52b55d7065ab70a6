//! Databases of up to 64 TiB, decoded and stored: the cost of a commit, and that everything works.

mod disk;

use crate::format::UNIT_LEN;
use crate::{
    CodecChoice, DecodedCache, Error, Handle, Options, ReclaimBudget, ReclaimNext, Tuning,
};
use densite_disk::SyncKind;
use densite_testing::Effort;
use disk::{PAGE, Pattern, Vast, page_bytes};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const ALL: Pattern = Pattern { of: 1, each: 1 };

fn open(file: &Vast, name: &str) -> Handle {
    let options = Options {
        threads: 0,
        codec: CodecChoice::Zstd,
        decoded_cache: DecodedCache::Bytes(0),
        ..Options::default()
    };
    Handle::open(Box::new(file.clone()), name, options).expect("the store opens")
}

fn pages(bytes: u64) -> u64 {
    bytes / PAGE as u64
}

fn write(handle: &mut Handle, page: u64, bytes: &[u8]) {
    let off = (page - 1) * PAGE as u64;
    handle.write_at(bytes, off).expect("the write succeeds");
}

fn read(handle: &mut Handle, page: u64) -> Vec<u8> {
    let mut bytes = vec![0xEE; PAGE];
    let off = (page - 1) * PAGE as u64;
    handle.read_at(&mut bytes, off).expect("the page is read");
    bytes
}

/// A page that compresses well and is different for each round.
fn small(round: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bytes[..8].copy_from_slice(&(round + 1).to_le_bytes());
    bytes
}

fn noise(rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// The average cost of a workload's commits, and the memory they use.
#[derive(Debug)]
struct Cost {
    read: u64,
    written: u64,
    chunks: usize,
    reusable: usize,
}

/// The cost of opening, and of small transactions on pages that `next` chooses.
fn cost(bytes: u64, name: &str, next: &mut dyn FnMut(&mut SmallRng, u64) -> u64) -> (u64, Cost) {
    const COMMITS: u64 = 1500;
    let file = Vast::new(pages(bytes), ALL);
    let mut rng = SmallRng::seed_from_u64(7);
    file.counted().take();
    let mut handle = open(&file, name);
    assert_eq!(read(&mut handle, 2), page_bytes(2));
    let (opened, ..) = file.counted().take();
    write(&mut handle, 2, &small(0));
    handle.sync(SyncKind::Data).expect("the commit succeeds");
    let (first, ..) = file.counted().take();
    for round in 0..COMMITS {
        for _ in 0..3 {
            let page = next(&mut rng, pages(bytes));
            write(&mut handle, page, &small(round));
        }
        handle.sync(SyncKind::Data).expect("the commit succeeds");
    }
    let (read, written, _) = file.counted().take();
    let shared = handle.shared().expect("the store is open");
    let writer = shared.writer.lock();
    let space = writer.accounting.space().expect("the accounting is there");
    let cost = Cost {
        read: read / COMMITS,
        written: written / COMMITS,
        chunks: space.resident(),
        reusable: space.known_free(),
    };
    println!("{name}: {opened} bytes read to open, {first} for the first commit, then {cost:?}");
    (opened + first, cost)
}

const SIZES: [(u64, &str); 4] = [
    (GIB, "1 GiB"),
    (TIB, "1 TiB"),
    (16 * TIB, "16 TiB"),
    (64 * TIB, "64 TiB"),
];

/// Small transactions in one place, as in a table that grows: all sizes cost the same.
#[test]
fn a_commit_costs_the_same_whatever_the_size_of_the_file() {
    let near = |rng: &mut SmallRng, pages: u64| pages / 2 + rng.random_range(0..200);
    let costs = SIZES.map(|(bytes, name)| cost(bytes, &format!("near {name}"), &mut { near }));
    let [(_, small), large @ ..] = &costs;
    for (first, large) in large {
        assert!(
            large.written <= small.written * 13 / 10,
            "{large:?} {small:?}"
        );
        // The path to a page has a few more nodes.
        assert!(large.read <= small.read * 2 + 4096, "{large:?} {small:?}");
        assert!(
            *first < 4 << 20,
            "{first} bytes were read before and for the first commit"
        );
        assert!(
            large.chunks <= 1200 && large.reusable <= 70_000,
            "{large:?}"
        );
    }
}

/// Scattered pages: each has its own nodes of the map and its own chunk of the space table, and
/// there is one more level of each.
#[test]
fn scattered_commits_cost_a_few_nodes_for_each_page() {
    let anywhere = |rng: &mut SmallRng, pages: u64| rng.random_range(3..=pages);
    let costs = SIZES.map(|(bytes, name)| cost(bytes, &format!("far {name}"), &mut { anywhere }));
    let [_, (_, one), more @ ..] = &costs;
    for (_, large) in more {
        assert!(large.written <= one.written * 4, "{large:?} {one:?}");
        assert!(large.read <= one.read * 3, "{large:?} {one:?}");
        assert!(
            large.chunks <= 1200 && large.reusable <= 70_000,
            "{large:?}"
        );
        // For each of three pages: a leaf and a node of each level, a chunk and an index.
        assert!(
            large.written <= 3 * 40_000 && large.read <= 3 * 160_000,
            "{large:?}"
        );
    }
}

#[test]
fn every_page_of_the_largest_database_can_be_read_and_written() {
    let pattern = Pattern {
        of: 4094,
        each: 4096,
    };
    let last = pages(64 * TIB);
    let file = Vast::new(last, pattern);
    let mut rng = SmallRng::seed_from_u64(3);
    let mut places: Vec<u64> = (0..40).map(|_| rng.random_range(1..=last)).collect();
    places.extend([1, 2, last, last - 2, 4095, 4096]);
    let as_it_was = |page: u64| match pattern.has(page - 1) {
        true => page_bytes(page),
        false => vec![0; PAGE],
    };
    {
        let mut handle = open(&file, "any 1");
        for page in &places {
            assert_eq!(read(&mut handle, *page), as_it_was(*page), "page {page}");
        }
        for page in places.iter().filter(|page| **page != 1) {
            write(&mut handle, *page, &small(*page));
        }
        handle.sync(SyncKind::Data).expect("the commit succeeds");
        handle.close_clean().expect("the file is closed");
    }
    let mut handle = open(&file, "any 2");
    for page in places.iter().filter(|page| **page != 1) {
        assert_eq!(read(&mut handle, *page), small(*page), "page {page}");
    }
    let beside = rng.random_range(5..last);
    assert_eq!(read(&mut handle, beside), as_it_was(beside));
    assert_eq!(handle.len().expect("the length"), last * PAGE as u64);
}

/// Free units are at the beginning of the file and scattered in it.
#[test]
fn what_is_free_in_a_large_file_is_written_again() {
    let file = Vast::new(
        pages(16 * TIB),
        Pattern {
            of: 4094,
            each: 4096,
        },
    );
    let mut rng = SmallRng::seed_from_u64(11);
    let mut handle = open(&file, "reuse");
    let before = densite_disk::File::len(&file).expect("the length");
    // About 2 GiB at the beginning are free, and about 2 GiB elsewhere. This test writes less than
    // that.
    let mut written = 0;
    while written < 256 << 20 {
        for _ in 0..16 {
            let page = rng.random_range(3..=pages(16 * TIB));
            write(&mut handle, page, &noise(&mut rng));
            written += PAGE as u64;
        }
        handle.sync(SyncKind::Data).expect("the commit succeeds");
    }
    let grown = densite_disk::File::len(&file).expect("the length") - before;
    assert!(
        grown < 48 << 20,
        "the file has grown by {grown} bytes for {written}"
    );
    println!(
        "{written} bytes written, the file has grown by {grown}, {} kept",
        file.kept()
    );
}

/// The accounting is exact at first, after commits and folds anywhere in the file, after reopening,
/// and after space reclamation.
fn stays_exact(bytes: u64, pattern: Pattern, levels: usize) {
    let name = format!("{levels} levels of indexes");
    let tuned = |file: &Vast, again: &str| {
        let options = Options {
            threads: 0,
            codec: CodecChoice::Zstd,
            tuning: Tuning::eager(),
            ..Options::default()
        };
        Handle::open(Box::new(file.clone()), &format!("{name}{again}"), options)
            .expect("the store opens")
    };
    let file = Vast::new(pages(bytes), pattern);
    assert_eq!(file.levels(), levels);
    let mut handle = tuned(&file, "");
    let check = |handle: &mut Handle| {
        let report = handle.check(&mut |_, _| true).expect("the check ends");
        assert_eq!(report.problems, []);
        report.frames
    };
    let frames = pages(bytes) / pattern.each;
    let mut rng = SmallRng::seed_from_u64(9);
    let mut new = std::collections::BTreeSet::new();
    for round in 0..30 {
        for i in 0..60 {
            // Half of them had a frame, which is then dead.
            let at = rng.random_range(1..frames) * pattern.each;
            let page = at + 1 + u64::from(i % 2 == 0);
            if i % 2 == 0 {
                new.insert(page);
            }
            write(&mut handle, page, &small(round));
        }
        handle.sync(SyncKind::Data).expect("the commit succeeds");
    }
    let frames = frames + new.len() as u64;
    drop(handle);
    // A check reads the whole table of units: most of this test's time.
    let mut handle = tuned(&file, " again");
    assert_eq!(check(&mut handle), frames);
    let budget = ReclaimBudget {
        bytes: 1 << 20,
        dead_limit: 5,
        stop: &|| false,
    };
    let mut freed = 0;
    for _ in 0..30 {
        let step = handle.reclaim_step(&budget).expect("the step succeeds");
        assert_eq!(step.damaged, []);
        freed += step.freed_units;
        match step.next {
            ReclaimNext::Slot => handle.make_reusable().expect("the syncs succeed"),
            ReclaimNext::Cut => assert!(handle.cut_end().expect("the end is cut off") > 0),
            ReclaimNext::Again => {}
            ReclaimNext::Done => panic!("more than the limit is dead"),
        }
    }
    // The nodes and chunks at the end are moved.
    println!("{name}: {freed} units freed");
    assert!(freed >= 16, "{freed}");
    assert_eq!(check(&mut handle), frames);
    // The comparison must find a single wrong byte in one unit.
    let shared = handle.shared().expect("the store is open");
    let state = shared.state.read();
    let mut kept =
        crate::writer::load(&shared.sources(&file), &state).expect("the accounting loads");
    let mut other =
        crate::writer::load(&shared.sources(&file), &state).expect("the accounting loads");
    let src = shared.table_source(&file);
    other.load_all(src, 1).expect("all chunks load");
    other.add(bytes / 2 + 7, 1);
    let differences = kept
        .differences(&other, src, 10)
        .expect("the comparison ends");
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].0, bytes / 2 / UNIT_LEN);
}

#[test]
fn a_file_of_two_levels_stays_exact() {
    stays_exact(256 * GIB, Pattern { of: 1, each: 256 }, 1);
}

#[test]
fn a_file_of_three_levels_stays_exact() {
    if !Effort::wanted().is_full() {
        return;
    }
    // The third level begins at 4 TiB. A longer file takes longer to check.
    let each = 1 << 17;
    stays_exact(4 * TIB + 64 * GIB, Pattern { of: 1, each }, 2);
}

#[test]
fn data_beyond_the_limits_is_refused_with_a_reason() {
    // SQLite's highest page number, and one more.
    let file = Vast::new(pages(GIB), ALL);
    let mut handle = open(&file, "limits");
    let last = u64::from(u32::MAX - 1);
    write(&mut handle, last, &small(1));
    handle.sync(SyncKind::Data).expect("the last possible page");
    assert_eq!(read(&mut handle, last), small(1));
    assert_eq!(read(&mut handle, last - 1), vec![0; PAGE]);
    let refused = handle.write_at(&small(1), last * PAGE as u64);
    let told = refused.expect_err("a page too many").to_string();
    assert!(told.contains("page"), "{told}");
    handle.discard();
    assert_eq!(read(&mut handle, last), small(1));
    // The last number of a commit.
    let shared = handle.shared().expect("the store is open");
    (shared.writer.lock().attempts).tried(crate::format::MAX_COMMIT - 2);
    write(&mut handle, 3, &small(2));
    handle
        .sync(SyncKind::Data)
        .expect("the last possible commit");
    let refused = handle.write_at(&small(3), 3 * PAGE as u64);
    let told = refused.expect_err("a commit too many").to_string();
    assert!(told.contains("leaves no number for the next one"), "{told}");
    // The longest stored file.
    let mut space = crate::space::Space::default();
    let end = crate::format::MAX_OFF - 100_000;
    let jump_at = 2 * UNIT_LEN - crate::format::record::JUMP_LEN;
    let mut appender = crate::append::Appender::new(1, jump_at, 2 * UNIT_LEN, end, &[0; 16]);
    let refused = appender.make_room(&mut space, 100_000, 9);
    let Err(Error::Setting(told)) = refused else {
        panic!("a file longer than 2^48 bytes: {refused:?}");
    };
    assert!(told.contains("256 TiB"), "{told}");
    let mut appender =
        crate::append::Appender::new(1, end, crate::format::trailer::OPEN_END, end, &[0; 16]);
    assert!(appender.make_room(&mut space, 100_000, 9).is_err());
    assert!(appender.make_room(&mut space, 90_000, 9).is_ok());
}
