//! The store against a model: a vector of bytes for what this handle sees, and one for what is
//! published.

use crate::common::leaf;

use densite_disk::{OpenMode, RealFile, SyncKind};
use densite_store::{DecodedCache, Handle, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::path::Path;

/// Where page 1 has the number of reserved bytes of each page. With random bytes there, no page
/// would be one of SQLite's.
const RESERVED_AT: usize = 20;
fn open(path: &Path, options: Options) -> Handle {
    let file = RealFile::open(path, OpenMode::Create).expect("open");
    Handle::open(Box::new(file), &path.display().to_string(), options).expect("open handle")
}

/// A page that compresses a little, as database pages do.
fn page(rng: &mut SmallRng, len: usize, leaf_at: Option<usize>) -> Vec<u8> {
    let kind = rng.random_range(0..10);
    // Sparse adjacent pages share frames.
    if kind > 5
        && let Some(number) = leaf_at
    {
        let kept = rng.random_range(1..8);
        return leaf::leaf(rng, len, kept, number as u32);
    }
    let mut p: Vec<u8> = (0..len)
        .map(|i| (i / 16) as u8 ^ (rng.random::<u8>() & 7))
        .collect();
    match kind {
        0 => rng.fill_bytes(&mut p),
        1 => p.fill(0),
        2 => p.fill(7),
        _ => {}
    }
    p
}

fn same(handle: &mut Handle, model: &[u8], page_size: usize, what: &str) {
    assert_eq!(
        handle.len().expect("len"),
        model.len() as u64,
        "{what}: length"
    );
    let mut buf = vec![0; page_size];
    for (i, want) in model.chunks(page_size).enumerate() {
        let got = buf.get_mut(..want.len()).expect("in range");
        handle
            .read_at(got, (i * page_size) as u64)
            .unwrap_or_else(|e| panic!("{what}: page {}: {e}", i + 1));
        assert!(got == want, "{what}: page {} differs", i + 1);
    }
}

fn run(seed: u64, page_size: usize, threads: usize, run_pages: u32, steps: usize) {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("a.db");
    let mut rng = SmallRng::seed_from_u64(seed);
    // In turn as users have it, and with rare events made common.
    let tuning = if seed.is_multiple_of(2) {
        Tuning::eager()
    } else {
        Tuning::default()
    };
    let options = Options {
        threads,
        run_pages,
        decoded_cache: DecodedCache::Bytes(1 << 20),
        tuning,
        ..Options::default()
    };
    let leaves = run_pages == 0;
    let mut writer = open(&path, options.clone());
    let mut reader = open(&path, options.clone());
    let (mut mine, mut published): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let what = format!("seed {seed} page size {page_size} threads {threads} run {run_pages}");
    for step in 0..steps {
        let what = format!("{what} step {step}");
        match rng.random_range(0..100) {
            0..60 => {
                let burst = if rng.random_range(0..10) == 0 { 100 } else { 3 };
                let mut at = rng.random_range(0..=mine.len() / page_size + 2);
                for _ in 0..rng.random_range(1..=burst) {
                    let mut p = page(&mut rng, page_size, leaves.then_some(at));
                    if leaves && at == 0 {
                        p[RESERVED_AT] = 0;
                    }
                    writer.write_at(&p, (at * page_size) as u64).expect("write");
                    if mine.len() < (at + 1) * page_size {
                        mine.resize((at + 1) * page_size, 0);
                    }
                    mine[at * page_size..(at + 1) * page_size].copy_from_slice(&p);
                    at += rng.random_range(1..3);
                }
            }
            // Odd pieces. Not of leaves, whose unallocated bytes need not come back.
            60..65 if !mine.is_empty() && !leaves => {
                let at = rng.random_range(0..mine.len());
                let n = rng.random_range(1..=(mine.len() - at).min(3 * page_size));
                let piece = page(&mut rng, n, None);
                writer.write_at(&piece, at as u64).expect("write piece");
                mine[at..at + n].copy_from_slice(&piece);
            }
            65..70 => {
                let len = if rng.random() {
                    rng.random_range(0..=mine.len())
                } else {
                    rng.random_range(0..=mine.len() / page_size) * page_size
                };
                writer.set_len(len as u64).expect("set_len");
                mine.resize(len, 0);
            }
            70..85 => {
                writer.publish().expect("publish");
                published.clone_from(&mine);
            }
            85..92 => {
                writer.sync(SyncKind::Data).expect("sync");
                published.clone_from(&mine);
            }
            92..94 => {
                writer.discard();
                mine.clone_from(&published);
            }
            94..95 => {
                writer.discard();
                mine.clone_from(&published);
                if rng.random() {
                    writer.close_clean().expect("close");
                }
                drop((writer, reader));
                let options = Options {
                    run_pages: if rng.random() { 1 } else { run_pages },
                    ..options.clone()
                };
                writer = open(&path, options.clone());
                reader = open(&path, options);
            }
            95..97 => {
                let report = reader.check(&mut |_, _| true).expect("check");
                assert_eq!(report.problems, vec![], "{what}");
                assert_eq!(report.cut, None, "{what}");
            }
            _ => {
                same(&mut writer, &mine, page_size, &what);
                same(&mut reader, &published, page_size, &what);
            }
        }
    }
    same(&mut writer, &mine, page_size, &what);
    same(&mut reader, &published, page_size, &what);
    writer.sync(SyncKind::Data).expect("sync");
    writer.close_clean().expect("close");
    let report = writer.check(&mut |_, _| true).expect("check");
    assert_eq!(
        (report.problems, report.cut, report.clean),
        (vec![], None, true),
        "{what}"
    );
}

#[test]
fn small_pages_without_a_pool() {
    (0..6).for_each(|seed| run(seed, 512, 0, 1, 400));
}

#[test]
fn usual_pages_on_the_pool() {
    (10..16).for_each(|seed| run(seed, 4096, 2, 1, 400));
}

#[test]
fn usual_pages_that_may_share_frames() {
    (40..46).for_each(|seed| run(seed, 4096, 2, 0, 400));
}

#[test]
fn runs_of_pages() {
    (20..24).for_each(|seed| run(seed, 1024, 1, 8, 400));
    (24..28).for_each(|seed| run(seed, 512, 1, 0, 400));
}

#[test]
fn large_pages() {
    (30..32).for_each(|seed| run(seed, 65536, 1, 1, 150));
}
