//! A closed log does nothing any more.

use crate::common::options;
use densite_disk::RealDir;
use densite_log::{Batch, Log, Op, Options, Table, Txn, Value};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).expect("listed");
    let name = |e: std::io::Result<std::fs::DirEntry>| e.expect("an entry").file_name();
    entries
        .map(|e| name(e).to_string_lossy().into_owned())
        .collect()
}

/// The thread that prepares the next segment ends with the log, so no file appears after the close.
#[test]
fn no_file_is_made_after_the_close() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("app.db-log");
    let opened = RealDir::create(&dir).expect("made");
    let mut options = Options {
        segment_bytes: 64 << 20,
        background: true,
        ..options()
    };
    options.grow_bytes = 1 << 20;
    options.group_bytes_max = 4 << 20;
    let log = Log::open(Arc::new(opened), options).expect("opens");
    let table = Table::new("t", ["id", "payload"], 1, "").expect("a table");
    let payload: Vec<u8> = (0..1u32 << 18)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    // Past the middle of the segment: the thread has begun and is far from its end.
    let is_preparing = || names(&dir).iter().any(|name| name.starts_with("prep-"));
    for _ in 0..60 {
        if is_preparing() {
            break;
        }
        let mut batch = Batch::new(&table, Op::Insert);
        let row = [Value::Int(0), Value::Blob(&payload)];
        batch.push(&row).expect("a row");
        let txn = Txn::of(log.new_txn(), &batch).expect("a transaction");
        log.append(txn).expect("appends");
    }
    assert!(is_preparing());
    drop(log);
    let after = names(&dir);
    assert!(!is_preparing(), "{after:?}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(names(&dir), after);
}
