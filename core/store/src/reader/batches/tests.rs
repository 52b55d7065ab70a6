use super::*;
use crate::{DecodedCache, Handle, LockLevel, Options};
use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use std::collections::BTreeSet;
use std::sync::mpsc;

const PAGE: usize = 512;
const PAGES: u64 = 600;

fn bytes(number: u64) -> Vec<u8> {
    let mut page = vec![number as u8; PAGE];
    page[..8].copy_from_slice(&number.to_le_bytes());
    page
}

/// The contents of a cache that was never cleared.
fn contents() -> Contents {
    Cache::new(0).contents()
}

fn handle() -> Handle {
    handle_with(128 << 10)
}

/// A handle whose cache has room for so many bytes.
fn handle_with(cache: usize) -> Handle {
    let disk = SimDisk::new(1);
    let options = Options {
        threads: 1,
        decoded_cache: DecodedCache::Bytes(cache),
        ..Options::default()
    };
    let file = disk.open("/a.db", OpenMode::Create).expect("open");
    let mut handle = Handle::open(Box::new(file), "a", options).expect("open");
    let all: Vec<u8> = (0..PAGES).flat_map(bytes).collect();
    for (number, page) in (0..).zip(all.chunks_exact(PAGE)) {
        (handle.write_at(page, number * PAGE as u64)).expect("write");
    }
    handle.sync(SyncKind::Data).expect("sync");
    handle.set_lock_level(LockLevel::Shared);
    handle
}

fn scan(handle: &mut Handle) -> usize {
    let mut most = 0;
    for number in 0..PAGES {
        let mut got = vec![0xee; PAGE];
        (handle.read_at(&mut got, number * PAGE as u64)).expect("read");
        assert!(got == bytes(number), "page {}", number + 1);
        let held = &handle.parts().0.reader.batches;
        most = most.max(held.batches.iter().map(|b| b.pages).sum());
        assert!(held.spare.len() <= SPARE, "buffers are used again");
    }
    most
}

#[test]
fn a_busy_pool_is_not_waited_for() {
    let mut handle = handle();
    let pool = Pool::new(1);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, begin) = mpsc::channel();
    let job: crate::pool::Job = Box::new(move || {
        let _ = begun.send(());
        let _ = wait.recv();
    });
    assert!(pool.submit(job).is_ok());
    begin.recv().expect("it begins");
    handle.parts().0.open.set_pool(pool);
    assert!(scan(&mut handle) > 8, "pages are read ahead anyway");
    drop(go);
}

#[test]
fn pages_held_are_bounded_and_dropped_with_the_lock() {
    let mut handle = handle();
    let window = (128 << 10) / (2 * WINDOWS) / PAGE;
    let most = scan(&mut handle);
    assert!(most > 8 && most <= WINDOWS * window, "{most} pages");
    assert!(!handle.parts().0.reader.batches.spare.is_empty());
    handle.set_lock_level(LockLevel::Nothing);
    let held = &handle.parts().0.reader.batches;
    assert!(held.spare.is_empty() && held.batches.is_empty());
}

/// Reads each `step`-th page. Returns how many pages were requested ahead.
fn skim(handle: &mut Handle, step: usize) -> usize {
    let mut requested = BTreeSet::new();
    for number in (0..PAGES).step_by(step) {
        let mut got = vec![0xee; PAGE];
        (handle.read_at(&mut got, number * PAGE as u64)).expect("read");
        assert!(got == bytes(number), "page {}", number + 1);
        for batch in &handle.parts().0.reader.batches.batches {
            if let Body::Here(load) = &batch.body {
                requested.extend(load.wanted.iter().map(|(page, _)| *page));
            } else {
                requested.extend(batch.first..=batch.last);
            }
        }
    }
    requested.len()
}

#[test]
fn pages_between_cached_ones_are_not_decoded_again() {
    let mut handle = handle_with(4 << 20);
    assert!(skim(&mut handle, 2) > 0);
    handle.set_lock_level(LockLevel::Nothing);
    handle.set_lock_level(LockLevel::Shared);
    let mut got = vec![0; PAGE];
    for number in (0..PAGES).step_by(2) {
        (handle.read_at(&mut got, number * PAGE as u64)).expect("read");
        let held = &handle.parts().0.reader.batches;
        assert!(held.batches.is_empty(), "page {}", number + 1);
    }
}

#[test]
fn a_scan_that_fits_the_cache_is_in_it_afterwards() {
    let mut handle = handle_with(4 << 20);
    scan(&mut handle);
    let cached = |handle: &mut Handle| {
        let shared = handle.parts().0.open.shared().expect("open");
        shared.cache.pages()
    };
    assert_eq!(cached(&mut handle), PAGES as usize);
    // The beginning of a larger one stays.
    let mut handle = handle_with(128 << 10);
    scan(&mut handle);
    let some = cached(&mut handle);
    assert!(some > 50 && some < PAGES as usize / 2, "{some}");
}

/// The file can be of other contents, with the same page numbers and versions.
#[test]
fn pages_decoded_after_the_cache_was_cleared_are_not_cached() {
    let mut handle = handle_with(4 << 20);
    let pool = Pool::new(1);
    let (go, wait) = mpsc::channel::<()>();
    let blocked: crate::pool::Job = Box::new(move || {
        let _ = wait.recv();
    });
    assert!(pool.submit(blocked).is_ok());
    handle.parts().0.open.set_pool(Arc::clone(&pool));
    let mut got = vec![0; PAGE];
    for number in 0..20 {
        (handle.read_at(&mut got, number * PAGE as u64)).expect("read");
    }
    let connection = handle.parts().0;
    assert!(
        !connection.reader.batches.batches.is_empty(),
        "some are on their way"
    );
    let cache = Arc::clone(&connection.open.shared().expect("open").cache);
    let before = cache.contents();
    cache.clear();
    drop(go);
    while connection.reader.batches.help() {}
    assert_eq!(cache.pages(), 0);
    // Nor are they read.
    let batches = &mut connection.reader.batches;
    let mut has = |of| (1..5).any(|version| batches.get(22, version, of, &mut got));
    assert!(!has(cache.contents()) && has(before));
}

#[test]
fn a_scan_that_skips_most_pages_is_not_read_ahead_for_long() {
    let all = skim(&mut handle(), 1);
    assert!(all > PAGES as usize * 9 / 10, "{all}");
    let few = skim(&mut handle(), 3);
    assert!(few < PAGES as usize / 2, "{few}, {all}");
    // Others are read ahead again after a while.
    let mut handle = handle();
    skim(&mut handle, 3);
    for _ in 0..3 {
        skim(&mut handle, 1);
    }
    let again = skim(&mut handle, 1);
    assert!(again > PAGES as usize * 9 / 10, "{again}");
}

#[test]
fn a_lost_batch_returns_no_page() {
    let mut batches = Batches::default();
    batches.batches.push(Batch {
        first: 3,
        last: 5,
        pages: 3,
        read: 0,
        asked: 0,
        of: contents(),
        body: Body::Coming(Task::lazy(|| std::panic::panic_any("on purpose"))),
    });
    for page in 2..=6 {
        assert!(!batches.get(page, 1, contents(), &mut [0; PAGE]));
    }
    assert!(batches.batches.is_empty(), "its last page was requested");
}

/// A batch of one page whose job does this.
fn batch(page: u32, job: impl FnOnce() + Send + 'static) -> Batch {
    Batch {
        first: page,
        last: page,
        pages: 1,
        read: 0,
        asked: 0,
        of: contents(),
        body: Body::Coming(Task::lazy(|| {
            job();
            Load::default()
        })),
    }
}

/// The pool's only thread decodes the first batch and waits for the second, which the reader of the
/// first decodes meanwhile.
#[test]
fn a_reader_decodes_other_batches_while_a_thread_decodes_its_own() {
    let pool = Pool::new(1);
    let (second_ran, second_runs) = mpsc::channel();
    let (began, begins) = mpsc::channel();
    let mut batches = Batches::default();
    batches.batches.push(batch(1, move || {
        began.send(()).expect("it is waited for");
        let wait = std::time::Duration::from_secs(60);
        second_runs
            .recv_timeout(wait)
            .expect("the second runs meanwhile");
    }));
    batches.batches.push(batch(2, move || {
        second_ran.send(()).expect("it is waited for");
    }));
    batches.offer(&pool);
    begins.recv().expect("the pool runs it");
    batches.get(1, 1, contents(), &mut [0; PAGE]);
    batches.get(2, 1, contents(), &mut [0; PAGE]);
    assert!(batches.batches.is_empty());
    assert_eq!(batches.spare.len(), 2, "none is lost");
}

#[test]
fn scans_that_ended_make_room() {
    let mut batches = Batches::default();
    let batch = |first| Batch {
        first,
        last: first + 9,
        pages: 10,
        read: 0,
        asked: 0,
        of: contents(),
        body: Body::Lost,
    };
    batches.batches.extend([10, 100, 200, 300].map(batch));
    assert!(!batches.room(5, 10, 10, 1), "the limit is reached");
    assert!(
        batches.room(115, 10, 10, 1),
        "the scan has passed the second"
    );
    assert!(batches.room(5, 40, 10, STALE + 1), "all are stale");
    assert!(batches.batches.is_empty());
}
