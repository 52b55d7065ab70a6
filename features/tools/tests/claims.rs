//! Files that claim to have far more pages than they hold. The work must depend on what they hold.

mod common;

use common::api;
use densite_disk::{OpenMode, RealFile, SyncKind};
use densite_store::Handle;
use densite_tools::{ConvertOptions, Silent, StoreOptions, VacuumOptions, VacuumPlan};
use rusqlite::Connection;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Processor time of this process in seconds. Unlike wall time it does not include the time of
/// other processes.
fn seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc/self/stat is readable");
    let fields: Vec<&str> = stat
        .rsplit(") ")
        .next()
        .expect("fields")
        .split(' ')
        .collect();
    let ticks = |i: usize| fields[i].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// The peak memory of this process in KiB.
fn peak_kib() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("/proc/self/status is readable");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .expect("a line");
    line.split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number")
}

/// A compressed file of a few KiB that claims to have this many pages, with valid checksums.
fn claiming(path: &Path, settings: &str, pages: u64) {
    let plain = path.with_extension("plain");
    let db = Connection::open(&plain).expect("open");
    db.execute_batch(&format!(
        "{settings}; PRAGMA page_size=4096; CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX i ON t(b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500) INSERT INTO t SELECT i, 'text ' || i FROM n;"
    ))
    .expect("fill");
    drop(db);
    let options = ConvertOptions::default();
    densite_tools::compress(api(), &plain, Some(path), &options, &mut Silent).expect("compressed");
    let file = RealFile::open(path, OpenMode::Write).expect("open");
    let mut store =
        Handle::open(Box::new(file), "claims", StoreOptions::default()).expect("a store");
    store.set_len(pages * 4096).expect("length");
    store.sync(SyncKind::Full).expect("synced");
    store.close_clean().expect("closed");
    let len = std::fs::metadata(path).expect("metadata").len();
    assert!(len < 100_000, "{len}");
}

#[test]
fn work_depends_on_the_content_not_on_the_claimed_size() {
    let begun = seconds();
    for settings in ["PRAGMA auto_vacuum=NONE", "PRAGMA auto_vacuum=FULL"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.db");
        claiming(&path, settings, 4_294_967_290);
        let info = densite_tools::info(api(), &path).expect("figures");
        assert_eq!(info.pages, 4_294_967_290);
        let counted: u64 = info.objects.all.iter().map(|o| o.pages).sum();
        assert_eq!(counted, info.pages, "{settings}");
        let parts = &info.objects.layout.parts;
        let in_parts: u64 = parts.iter().flatten().map(|(_, n)| n).sum();
        assert_eq!(in_parts, info.stored_bytes, "{settings}");
        VacuumPlan::new(api(), &path, &VacuumOptions::default()).expect("a plan");
        let to = dir.path().join("b.db");
        let options = ConvertOptions::default();
        densite_tools::publish(api(), &path, &to, &options, &mut Silent).expect("published");
    }
    // Work that depends on the claim takes 25 s for each call, or all memory.
    assert!(seconds() - begun < 20.0, "{} s", seconds() - begun);
    assert!(peak_kib() < 800 << 10, "{} KiB", peak_kib());
}

#[test]
fn claimed_pages_without_content_are_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, plain) = (dir.path().join("a.db"), dir.path().join("b.db"));
    // More than the disk has room for, but not more than file systems allow.
    let pages = (1u64 << 40) / 4096;
    claiming(&path, "PRAGMA auto_vacuum=NONE", pages);
    let options = ConvertOptions::default();
    let report = densite_tools::decompress(api(), &path, Some(&plain), &options, &mut Silent)
        .expect("plain");
    assert_eq!(report.destination_bytes, pages * 4096);
    let meta = std::fs::metadata(&plain).expect("metadata");
    assert!(meta.blocks() * 512 < 10 << 20, "{} blocks", meta.blocks());
    let db = Connection::open(&plain).expect("open");
    let rows: i64 = db
        .query_row("SELECT count(*) FROM t WHERE b = 'text ' || a", [], |r| {
            r.get(0)
        })
        .expect("rows");
    assert_eq!(rows, 500);
}
