//! Whole files, which the store writes. Their salts are random, so they differ from run to run.

use super::frames::sqlite_page;
use crate::MemFile;
use crate::sample::{self, Tidy};
use crate::target::Seeds;
use densite_disk::SyncKind;
use densite_sqlite_format::page::Kind;
use densite_store::{CodecChoice, DecodedCache, Handle, Options, Readahead, Tuning};
use std::sync::atomic::{AtomicU64, Ordering};

fn open(file: &MemFile, options: Options) -> Handle {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let identity = format!("seed {}", NEXT.fetch_add(1, Ordering::Relaxed));
    Handle::open(Box::new(file.clone()), &identity, options).expect("a seed opens")
}

/// The file that `make` writes. `close`: the last connection closes it.
fn made(close: bool, options: &Options, make: impl FnOnce(&mut Handle)) -> Vec<u8> {
    let file = MemFile::default();
    let mut handle = open(&file, options.clone());
    make(&mut handle);
    if close {
        handle.close_clean().expect("close");
    }
    drop(handle);
    let mut bytes = file.bytes();
    // The reserve at the end is long and has no meaning.
    while bytes.len() > 20_000 && bytes.ends_with(&[0; 64]) {
        bytes.truncate(bytes.len() - 64);
    }
    bytes
}

fn put(h: &mut Handle, size: usize, numbers: impl IntoIterator<Item = u64>, salt: u32) {
    for n in numbers {
        h.write_at(
            &sqlite_page(size, salt.wrapping_add(n as u32)),
            n * size as u64,
        )
        .expect("write");
    }
}

pub(in crate::store) fn file() -> Seeds {
    let small = Options {
        threads: 0,
        run_pages: 1,
        decoded_cache: DecodedCache::Bytes(1 << 20),
        readahead: Readahead::Off,
        ..Options::default()
    };
    let runs = Options {
        run_pages: 8,
        ..small.clone()
    };
    let unborn = made(false, &small, |h| {
        h.write_at(&[1; 512], 0).expect("write");
        h.discard();
    });
    let one = made(true, &small, |h| put(h, 512, 0..5, 1));
    let open_end = made(false, &small, |h| {
        for i in 0..4 {
            put(h, 512, i..i + 4, i as u32);
            h.publish().expect("publish");
        }
    });
    let folded = made(true, &runs, |h| {
        let zeros = vec![0; 512 * 2100];
        h.write_at(&zeros, 0).expect("write");
        put(h, 512, [3, 700, 2099], 5);
        h.publish().expect("publish");
        put(h, 512, 8..24, 9);
        h.set_len(512 * 2000 + 100).expect("set_len");
        h.publish().expect("publish");
    });
    let zstd = Options {
        codec: CodecChoice::Zstd,
        ..small.clone()
    };
    let dict = made(true, &zstd, |h| {
        let samples: Vec<Vec<u8>> = (0..200).map(|i| sqlite_page(2048, i * 31)).collect();
        h.learn(&samples, 1 << 20).expect("learn");
        put(h, 2048, 0..30, 77);
        h.sync(SyncKind::Data).expect("sync");
    });
    let typed = |choice, run_pages| {
        let options = Options {
            codec: choice,
            run_pages,
            ..small.clone()
        };
        made(true, &options, |h| {
            let first = sample::rows(1024, true, Tidy::Yes, 1);
            h.write_at(&first, 0).expect("write");
            let samples: Vec<Vec<u8>> = (0..60)
                .map(|i| sample::rows(1024, false, Tidy::Yes, i))
                .collect();
            h.learn(&samples, 1 << 20).expect("learn");
            for n in 1..24 {
                let page = match n % 8 {
                    6 => sample::mixed(1024, Tidy::No, n),
                    7 => sample::keys(1024, Kind::IndexLeaf, Tidy::No, n),
                    _ => sample::rows(1024, false, Tidy::No, n),
                };
                h.write_at(&page, n * 1024).expect("write");
            }
            h.sync(SyncKind::Data).expect("sync");
        })
    };
    // Overflow pages with a dictionary.
    let chains = made(
        true,
        &Options {
            run_pages: 0,
            ..small.clone()
        },
        |h| {
            let page = |n: u32| sample::overflow(1024, n + 1, n % 7 == 6);
            let samples: Vec<Vec<u8>> = (0..200).map(page).collect();
            h.learn(&samples, 1 << 20).expect("learn");
            for n in 0..40 {
                h.write_at(&page(n), u64::from(n) * 1024).expect("write");
            }
            h.sync(SyncKind::Data).expect("sync");
        },
    );
    vec![
        ("typed", typed(CodecChoice::Auto, 1)),
        ("chains", chains),
        ("typed-run", typed(CodecChoice::Typed, 4)),
        ("typed-archive", typed(CodecChoice::Archive, 8)),
        ("unborn", unborn),
        ("one", one),
        ("open-end", open_end),
        ("folded", folded),
        ("dict", dict),
        ("reuse", reuse(&small)),
    ]
}

/// A file with jumps, because its units are written again. It is too large for the saved corpus.
fn reuse(options: &Options) -> Vec<u8> {
    let options = Options {
        codec: CodecChoice::Raw,
        // A repair follows the records from the beginning of the file. It does not find those of a
        // fold behind units that were written again.
        tuning: Tuning {
            fold_small_bytes: u64::MAX,
            ..options.tuning
        },
        ..options.clone()
    };
    made(false, &options, |h| {
        for round in 0..40u32 {
            let from = u64::from(round % 3) * 20;
            put(h, 1024, from..from + 60, round);
            h.sync(SyncKind::Data).expect("sync");
        }
    })
}
