//! Dictionaries are kept until they are needed.
//!
//! A copy of a large database trains on all its tables first, and then writes them one after the
//! other. A fold in between must not drop dictionaries that no frame uses yet.

use crate::common::cells;

use densite_disk::{OpenMode, RealFile};
use densite_store::{Handle, Options, Tuning};

const PAGE: usize = 4096;

/// The `n`-th leaf of a table of `columns` numbers and a text.
fn leaf(columns: u64, n: u64) -> Vec<u8> {
    let cells = (0..40).map(|row| {
        let x = (n * 40 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let words = [
            "carefully",
            "final",
            "deposits",
            "sleep",
            "quickly",
            "among",
            "the",
            "accounts",
        ];
        let text: Vec<&str> = (0..4).map(|i| words[(x >> (3 * i)) as usize % 8]).collect();
        let text = text.join(" ");
        let mut record = vec![columns as u8 + 2 + u8::from(13 + 2 * text.len() > 127)];
        record.extend((0..columns).map(|_| 2));
        let kind = 13 + 2 * text.len();
        if kind > 127 {
            record.extend([0x80 | (kind >> 7) as u8, (kind & 127) as u8]);
        } else {
            record.push(kind as u8);
        }
        for c in 0..columns {
            record.extend((300 + (x >> c) % 5000).to_be_bytes().iter().skip(6));
        }
        record.extend(text.bytes());
        let mut cell = vec![record.len() as u8, (row + 1) as u8];
        cell.extend(record);
        cell
    });
    cells::leaf(PAGE, cells)
}

#[test]
fn dictionaries_trained_ahead_are_kept_until_their_first_page() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("a.db");
    let options = Options {
        tuning: Tuning::eager(),
        ..Options::default()
    };
    let file = RealFile::open(&path, OpenMode::Create).expect("open");
    let mut handle = Handle::open(Box::new(file), "learned", options.clone()).expect("open");
    let tables = 4u64;
    let each = 150;
    let samples: Vec<Vec<u8>> = (0..each)
        .step_by(2)
        .flat_map(|n| (1..=tables).map(move |t| leaf(t, n)))
        .collect();
    handle.learn(&samples, 64 << 20).expect("learn");
    let mut at = PAGE as u64 * 2;
    for table in 1..=tables {
        for n in 0..each {
            handle.write_at(&leaf(table, n), at).expect("write");
            at += PAGE as u64;
            if n % 20 == 0 {
                handle.publish().expect("publish");
            }
        }
    }
    handle.close_clean().expect("close");
    let stats = handle.stats().expect("stats");
    assert_eq!(stats.dictionaries, tables, "{stats:?}");
    let each_frame = stats.frame_bytes / stats.framed_pages;
    assert!(each_frame < 900, "{stats:?}");
    drop(handle);

    // A process that did not train it does not keep it: only pages of one table are left.
    let file = RealFile::open(&path, OpenMode::Write).expect("open");
    let mut handle = Handle::open(Box::new(file), "another", options).expect("open");
    handle.set_len((2 + each) * PAGE as u64).expect("set_len");
    handle.publish().expect("publish");
    for n in 0..60 {
        handle
            .write_at(&leaf(1, n), (2 + n) * PAGE as u64)
            .expect("write");
        handle.publish().expect("publish");
    }
    handle.close_clean().expect("close");
    let stats = handle.stats().expect("stats");
    assert_eq!(stats.dictionaries, 1, "{stats:?}");
}
