//! A whole file. Invariants:
//! - Opening, reading and checking write nothing.
//! - A file that opens has a constant length, and every handle reads the same bytes of each page,
//!   or the same error: [`Error::Corrupt`] or [`Error::Setting`].
//! - If the check finds no problem, every page can be read.
//! - A handle reads what it wrote, until it publishes. After that, repaired checksums can claim
//!   that live bytes are free, so reading can fail.

use crate::MemFile;
use crate::target::outcome;
use densite_disk::SyncKind;
use densite_disk::hash::xxh3_64;
use densite_store::{DecodedCache, Error, Handle, Kind, Options, Readahead, probe};
use std::sync::atomic::{AtomicU64, Ordering};

/// Longer inputs, in bytes, are skipped.
const MOST: usize = 4 << 20;
/// The approximate number of pages of a file that are read.
const PAGES: u64 = 400;

fn open(file: &MemFile) -> Result<Handle, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let identity = format!("fuzz {}", NEXT.fetch_add(1, Ordering::Relaxed));
    let options = Options {
        threads: 0,
        decoded_cache: DecodedCache::Bytes(1 << 20),
        readahead: Readahead::Off,
        ..Options::default()
    };
    Handle::open(Box::new(file.clone()), &identity, options)
}

/// The hash of each page's bytes, or its error.
fn pages(handle: &mut Handle, len: u64, page_size: u64) -> Vec<(u64, Result<u64, String>)> {
    let count = len.div_ceil(page_size);
    let step = (count / PAGES).max(1);
    let numbers = (0..count.min(16))
        .chain((16..count).step_by(usize::try_from(step).unwrap_or(usize::MAX)))
        .chain(count.checked_sub(1));
    let mut buf = vec![0; page_size as usize];
    let read = |n: u64| {
        let got = handle
            .read_at(&mut buf, n * page_size)
            .map(|_| xxh3_64(&buf));
        let got = got.map_err(|e| match e {
            // zstd's text about a damaged payload can depend on what its buffers held before.
            Error::Corrupt(_) | Error::Setting(_) => e
                .to_string()
                .split("zstd")
                .next()
                .unwrap_or_default()
                .to_owned(),
            e => panic!("page {} is damaged, but the error is {e:?}", n + 1),
        });
        (n, got)
    };
    numbers.map(read).collect()
}

pub(super) fn file(bytes: &[u8]) -> u64 {
    if bytes.len() > MOST {
        return 0;
    }
    let file = MemFile::new(bytes.to_vec());
    let kind = probe(&file).expect("no I/O fails in memory");
    let mut handle = match open(&file) {
        Ok(handle) => handle,
        Err(e) => {
            assert_eq!(matches!(e, Error::NotDensite), kind == Kind::Other, "{e}");
            return outcome(&e.to_string());
        }
    };
    let len = handle.len().expect("an open file has a length");
    let page_size = handle.page_size().expect("an open file has a page size");
    if len == 0 || page_size == 0 {
        return 1;
    }
    let first = pages(&mut handle, len, u64::from(page_size));
    assert_eq!(handle.len().expect("the length again"), len);
    let mut other = open(&file).expect("the file opens again");
    assert_eq!(other.len().expect("the other handle's length"), len);
    assert_eq!(pages(&mut other, len, u64::from(page_size)), first);

    let report = handle.check(&mut |_, _| true);
    if let Ok(report) = &report
        && report.problems.is_empty()
    {
        for (n, page) in &first {
            assert!(
                page.is_ok(),
                "the check found no problem, but page {}: {page:?}",
                n + 1
            );
        }
    }
    let stats = handle.stats();
    assert!(file.bytes() == bytes, "reading changed the file");
    let text = match &report {
        Ok(r) => format!(
            "{:?} {} {}",
            r.problems.first().map(|p| (&p.what, &p.problem)),
            r.cut.is_some(),
            r.clean
        ),
        Err(e) => e.to_string(),
    };
    let bad = first.iter().find_map(|p| p.1.as_ref().err());
    let written = write(&mut handle, len, u64::from(page_size));
    outcome(&format!("{text} {bad:?} {} {written}", stats.is_ok()))
}

/// Writes, publishes, and writes again.
fn write(handle: &mut Handle, len: u64, page_size: u64) -> &'static str {
    let page: Vec<u8> = (0..page_size).map(|i| (i / 5) as u8).collect();
    let count = len.div_ceil(page_size);
    let mut buf = vec![0; page_size as usize];
    for n in [count / 2, count, 0] {
        if handle.write_at(&page, n * page_size).is_err() {
            return "write";
        }
        // Also if the page is not encoded yet.
        handle
            .read_at(&mut buf, n * page_size)
            .expect("a handle reads what it wrote");
        assert!(buf == page, "a handle read another page than it wrote");
        if handle.publish().is_err() {
            handle.discard();
            return "publish";
        }
        let _ = handle.read_at(&mut buf, n * page_size);
    }
    // Cutting off billions of pages takes long.
    let cut = if count > 100_000 { len } else { len / 2 };
    if handle.set_len(cut).is_err() || handle.sync(SyncKind::Data).is_err() {
        return "cut";
    }
    if handle.close_clean().is_err() {
        "close"
    } else {
        "all"
    }
}
