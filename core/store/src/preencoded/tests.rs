use super::*;
use crate::format::record::raw_check;
use crate::{CodecChoice, Handle, Options};
use densite_disk::{OpenMode, RealFile};
use std::time::{Duration, Instant};

pub(super) fn page(fill: u32) -> Vec<u8> {
    (0..1024u32)
        .flat_map(|i| (i / 7 * fill).to_le_bytes())
        .collect()
}

/// The n-th leaf of a table of two integers, with as many rows as fit.
fn leaf(n: u32) -> Vec<u8> {
    rows(n, |id| {
        let (a, b) = ((id / 50 % 30_000 + 200) as u16, (id % 97 * 3 + 200) as u16);
        let ([a, c], [b, d]) = (a.to_be_bytes(), b.to_be_bytes());
        [3, 2, 2, a, c, b, d]
    })
}

/// A leaf of a table of random blobs, from which nothing can be trained.
fn noise(n: u32) -> Vec<u8> {
    rows(n, |id| {
        let mut body = [2, 22, 0, 0, 0, 0, 0];
        let hash = |id: u32| raw_check(&id.to_le_bytes()).to_le_bytes();
        body[2..6].copy_from_slice(&hash(id));
        body[6] = hash(!id)[0];
        body
    })
}

/// A leaf of rows with these records, by their ids.
fn rows(n: u32, record: impl Fn(u32) -> [u8; 7]) -> Vec<u8> {
    const CELL: usize = 11;
    const ROWS: usize = (4096 - 8) / (CELL + 2);
    let mut page = vec![0; 4096];
    page[0] = 13;
    page[3..5].copy_from_slice(&(ROWS as u16).to_be_bytes());
    page[5..7].copy_from_slice(&((4096 - ROWS * CELL) as u16).to_be_bytes());
    for row in 0..ROWS {
        let at = 4096 - (row + 1) * CELL;
        page[8 + 2 * row..10 + 2 * row].copy_from_slice(&(at as u16).to_be_bytes());
        let id = 20_000 + n * ROWS as u32 + row as u32;
        let rowid = [
            (id >> 14) as u8 | 0x80,
            (id >> 7) as u8 | 0x80,
            id as u8 & 0x7f,
        ];
        let cell = [&[7], &rowid[..], &record(id)].concat();
        page[at..at + CELL].copy_from_slice(&cell);
    }
    page
}

/// A store of 200 pages whose commits use a thread.
pub(super) fn store(run_pages: u32) -> (tempfile::TempDir, Handle, Arc<PreEncoded>) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = RealFile::open(dir.path().join("x.db"), OpenMode::Create).expect("opens");
    let options = Options {
        threads: 1,
        run_pages,
        codec: CodecChoice::Zstd,
        ..Options::default()
    };
    let mut handle = Handle::open(Box::new(file), "x", options).expect("a store");
    for n in 1..=200 {
        handle
            .write_at(&page(n), u64::from(n - 1) * 4096)
            .expect("writes");
    }
    handle.publish().expect("publishes");
    let preencoded = handle.preencoded().expect("a store");
    (dir, handle, preencoded)
}

/// Notes a page, and repeats it until it is noted.
fn note(preencoded: &Arc<PreEncoded>, n: u32, bytes: &[u8]) {
    while preencoded
        .state
        .lock()
        .pages
        .get(&n)
        .is_none_or(|noted| noted.bytes.as_deref().is_some_and(|known| known != bytes))
    {
        preencoded.note(n, bytes);
    }
}

#[test]
fn noted_pages_are_encoded_and_used_unless_they_changed() {
    let (_dir, mut handle, preencoded) = store(1);
    for n in 1..=100 {
        note(&preencoded, n, &page(n + 1000));
    }
    // A worker may have stopped between two notes; the next note wakes it.
    let until = Instant::now() + Duration::from_secs(20);
    for again in 0.. {
        preencoded.note(101, &page(again));
        if preencoded.ready() >= 60 {
            break;
        }
        assert!(Instant::now() < until, "{} are ready", preencoded.ready());
        std::thread::sleep(Duration::from_millis(1));
    }
    // A writer does not wait for the worker: it would encode the pages itself.
    while preencoded.state.lock().running {
        std::thread::sleep(Duration::from_millis(1));
    }
    for n in 1..=60 {
        // Every third page has changed.
        let content = if n % 3 == 0 { n + 5000 } else { n + 1000 };
        handle
            .write_at(&page(content), u64::from(n - 1) * 4096)
            .expect("writes");
    }
    for n in 1..=60 {
        let taken = !preencoded.state.lock().pages.contains_key(&n);
        assert_eq!(
            taken,
            n % 3 != 0,
            "page {n}: those that are the same are taken"
        );
    }
    handle.publish().expect("publishes");
    let mut read = vec![0; 4096];
    for n in 1..=200 {
        let content = match n {
            1..=60 if n % 3 == 0 => n + 5000,
            1..=60 => n + 1000,
            _ => n,
        };
        handle
            .read_at(&mut read, u64::from(n - 1) * 4096)
            .expect("reads");
        assert!(read == page(content), "page {n}");
    }
    let report = handle.check(&mut |_, _| true).expect("checks");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    preencoded.forget();
    assert_eq!(preencoded.ready(), 0);
}

/// Space reclamation encodes pages so that every byte is kept. Later writes of SQLite need not be
/// encoded so.
#[test]
fn space_reclamation_does_not_change_how_pages_are_encoded() {
    let (_dir, mut handle, preencoded) = store(1);
    let pages = || {
        preencoded
            .state
            .lock()
            .by
            .as_ref()
            .map(|(set, _)| set.pages)
    };
    assert_eq!(pages(), Some(200));
    handle.write_at(&page(1000), 0).expect("writes");
    let open = handle.parts().1.as_mut().expect("just written");
    open.moves_frames(u64::MAX, false);
    handle.publish().expect("publishes");
    assert_eq!(pages(), Some(200));
}

#[test]
fn a_page_that_changes_all_the_time_is_left_to_the_checkpoint() {
    let (_dir, _handle, preencoded) = store(1);
    for i in 0..2000 {
        preencoded.note(i % 3 + 1, &page(i));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(preencoded.ready(), 0);
    assert!(preencoded.state.lock().waiting.len() <= YOUNGER + 3);
}

#[test]
fn a_bulk_load_of_an_untrained_family_is_left_to_the_checkpoint() {
    let (_dir, _handle, preencoded) = store(1);
    // More pages than the database has.
    for n in 0..400 {
        note(&preencoded, n + 1000, &page(n));
    }
    let state = || preencoded.state.lock();
    let until = Instant::now() + Duration::from_secs(20);
    for again in 0.. {
        // All except the first of them were seen when more pages were noted than the database has.
        // The worker has skipped the last ones.
        if state().waiting.len() <= YOUNGER {
            break;
        }
        preencoded.note(999, &page(again));
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(
        preencoded.ready() <= 200,
        "{} are ready",
        preencoded.ready()
    );
    for n in 200..360 {
        assert!(state().pages[&(n + 1000)].frame.is_none(), "page {n}");
    }
}

#[test]
fn memory_is_bounded_and_runs_are_not_preencoded() {
    let (_dir, _handle, preencoded) = store(1);
    for n in 0..BUDGET_BYTES as u32 / 4096 {
        note(&preencoded, n, &page(n));
    }
    for n in 0..1000 {
        preencoded.note(n + 4000, &page(n));
    }
    assert!(preencoded.state.lock().bytes <= BUDGET_BYTES);
    assert!(preencoded.state.lock().pages.len() * 4096 > BUDGET_BYTES - 4096);
    let (_dir, _handle, preencoded) = store(4);
    preencoded.note(1, &page(1));
    assert!(preencoded.state.lock().pages.is_empty());
}

/// A store of 20 pages that are not of a table, whose commits use a thread.
fn empty_store() -> (tempfile::TempDir, Handle, Arc<PreEncoded>) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = RealFile::open(dir.path().join("x.db"), OpenMode::Create).expect("opens");
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let mut handle = Handle::open(Box::new(file), "x", options).expect("a store");
    for n in 1..=20 {
        let at = u64::from(n - 1) * 4096;
        handle.write_at(&page(n), at).expect("writes");
    }
    handle.publish().expect("publishes");
    let preencoded = handle.preencoded().expect("a store");
    (dir, handle, preencoded)
}

/// If the first training job has no result, a checkpoint may still get one: it has more pages. So
/// nothing is encoded without a model before.
#[test]
fn a_bulk_load_whose_training_has_no_result_is_left_to_the_checkpoint() {
    const PAGES: u32 = 600;
    let (_dir, mut handle, preencoded) = empty_store();
    let patience = || Instant::now() + Duration::from_secs(60);
    for n in 3..PAGES {
        let until = patience();
        while !preencoded.state.lock().pages.contains_key(&n) {
            preencoded.note(n, &noise(n));
            assert!(Instant::now() < until, "page {n} is not noted");
        }
    }
    let until = patience();
    while preencoded.state.lock().running || preencoded.state.lock().pages.len() > 200 {
        assert!(Instant::now() < until, "they stay");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(preencoded.ready(), 0);
    for n in 3..PAGES {
        let at = u64::from(n - 1) * 4096;
        handle.write_at(&noise(n), at).expect("writes");
    }
    handle.publish().expect("publishes");
    let mut got = vec![0; 4096];
    handle.read_at(&mut got, 99 * 4096).expect("reads");
    assert!(got == noise(100));
    // No job is tried again from the pages of the next checkpoint.
    let state = preencoded.state.lock();
    let (set, _) = state.by.as_ref().expect("settings");
    assert_eq!(set.dicts.get(&Family::of(&got)).map(Vec::len), Some(0));
}

/// A model is trained during a bulk load of a new family. Its frames are ready at the end, although
/// the pages themselves do not fit.
#[test]
fn a_bulk_load_is_trained_on_and_encoded_while_it_runs() {
    const PAGES: u32 = 4000;
    let (dir, mut handle, preencoded) = empty_store();
    let patience = || Instant::now() + Duration::from_secs(60);
    for n in 3..PAGES {
        let until = patience();
        // A writer that is faster than the pool does without it. This one waits.
        while !preencoded.state.lock().pages.contains_key(&n) {
            preencoded.note(n, &leaf(n));
            assert!(Instant::now() < until, "page {n} is not noted");
        }
        let state = preencoded.state.lock();
        assert!(state.bytes <= BUDGET_BYTES && state.kept <= state.bytes);
    }
    let until = patience();
    for again in 0.. {
        preencoded.note(PAGES, &leaf(PAGES + again));
        if preencoded.ready() >= PAGES as usize - 100 {
            break;
        }
        assert!(Instant::now() < until, "{} are ready", preencoded.ready());
        std::thread::sleep(Duration::from_millis(1));
    }
    while preencoded.state.lock().running {
        std::thread::sleep(Duration::from_millis(1));
    }
    {
        let state = preencoded.state.lock();
        let frames = state.pages.values().filter(|noted| noted.frame.is_some());
        let (alone, with): (Vec<_>, Vec<_>) = frames.partition(|noted| noted.bytes.is_none());
        assert!(alone.len() > 1500, "{} without pages", alone.len());
        assert!(with.len() * 4096 > KEPT_BYTES / 2 && with.len() * 4096 <= KEPT_BYTES);
        let unnamed = |noted: &&Noted| noted.frame.as_ref().is_some_and(|f| f.unnamed().is_some());
        let learned = alone.into_iter().chain(with).filter(unnamed).count();
        assert!(learned > PAGES as usize - 200, "{learned} by the model");
    }
    // Some pages change without being noted, whether their bytes are kept or not.
    let content = |n: u32| {
        if n % 100 == 7 {
            leaf(n + 9000)
        } else {
            leaf(n)
        }
    };
    for n in 3..PAGES {
        let at = u64::from(n - 1) * 4096;
        handle.write_at(&content(n), at).expect("writes");
    }
    handle.publish().expect("publishes");
    // Notes with bytes that differ are kept, because their pages may still come.
    assert!(preencoded.state.lock().pages.len() < 100);
    let mut read = vec![0; 4096];
    for n in 3..PAGES {
        let at = u64::from(n - 1) * 4096;
        handle.read_at(&mut read, at).expect("reads");
        assert!(read == content(n), "page {n}");
    }
    let report = handle.check(&mut |_, _| true).expect("checks");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    drop(handle);
    let stored = std::fs::metadata(dir.path().join("x.db"))
        .expect("it exists")
        .len();
    assert!(stored < u64::from(PAGES) * 4096 / 8, "{stored} bytes");
}

/// Frames without their pages are decoded and compared, whatever number they are noted under.
#[test]
fn a_frame_without_its_page_is_used_for_that_page_only() {
    let (_dir, mut handle, preencoded) = store(1);
    handle.write_at(&page(7), 0).expect("writes");
    let set = handle.encode_settings().expect("settings");
    let frame = |checked: bool| {
        let bytes: Arc<[u8]> = leaf(5).into();
        let job = Job {
            page: 5,
            seq: 1,
            family: Family::of(&bytes),
            bytes,
            preencoded: None,
        };
        let set = EncodeSettings {
            checked,
            choice: CodecChoice::Auto,
            ..set.clone()
        };
        let frame = encode_batch(vec![job], &set).pop().expect("a frame");
        Arc::new(PreEncodedFrame::of(frame, &set))
    };
    let right = frame(true).record.raw_check;
    for (n, used) in [(5, true), (6, false)] {
        let noted = Noted {
            bytes: None,
            seq: 1,
            frame: Some(frame(false)),
        };
        assert_eq!(noted.frame.as_ref().expect("it exists").record.raw_check, 0);
        {
            let mut state = preencoded.state.lock();
            state.frames += noted.frame_bytes();
            state.pages.insert(5, noted);
        }
        let bytes = leaf(n);
        let known = preencoded.take(5, &bytes).expect("known");
        assert!(known.bytes.is_none() && preencoded.state.lock().frames == 0);
        let found = known.found.expect("a frame");
        let payload = found.frame.payload.clone();
        let job = Job {
            page: 5,
            seq: 9,
            family: Family::of(&bytes),
            bytes: bytes.into(),
            preencoded: Some(found),
        };
        let got = encode_batch(vec![job], &set).pop().expect("a frame");
        assert_eq!(got.payload == payload, used, "{n}");
        assert_eq!(got.record.raw_check == right, used, "{n}");
    }
}
