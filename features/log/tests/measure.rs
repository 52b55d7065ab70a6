//! How many bytes follow a row, and records that are larger than a reader wants.

use crate::common::{open, random_txn, tables};
use densite_log::{Next, Seq};
use densite_sim_disk::SimDisk;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[test]
fn the_bytes_behind_a_row_are_those_that_a_reader_has_left() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let log = open(&SimDisk::new(seed));
    assert_eq!(log.bytes_after(0).expect("counted"), 0);
    for _ in 0..300 {
        let (txn, _) = random_txn(&log, &tables(), &mut random);
        log.append(txn).expect("appends");
    }
    assert!(log.status().expect("a status").segments > 5);
    let mut reader = log.read_after(0).expect("a reader");
    let all = reader.bytes_left().expect("a number");
    assert_eq!(log.bytes_after(0).expect("counted"), all);
    let mut left: Vec<(Seq, u64)> = Vec::new();
    while reader.next().expect("reads").is_some() {
        left.push((reader.position(), reader.bytes_left().expect("a number")));
    }
    for (seq, bytes) in &left {
        assert_eq!(
            log.bytes_after(*seq).expect("counted"),
            *bytes,
            "behind {seq}"
        );
    }
    for _ in 0..1000 {
        let (seq, bytes) = left[random.random_range(0..left.len())];
        assert_eq!(
            log.bytes_after(seq).expect("counted"),
            bytes,
            "behind {seq}"
        );
        // A position within a record counts the whole record.
        let before = left.iter().rev().find(|(s, _)| *s < seq);
        let whole = before.map_or(all, |(_, bytes)| *bytes);
        let first = before.map_or(0, |(s, _)| *s);
        if seq - first > 1 {
            assert_eq!(
                log.bytes_after(seq - 1).expect("counted"),
                whole,
                "behind {seq} - 1"
            );
        }
    }
    let last = log.last().expect("a last row");
    assert_eq!(log.bytes_after(last).expect("counted"), 0);
}

#[test]
fn a_record_above_the_limit_is_not_taken() {
    let mut random = SmallRng::seed_from_u64(3);
    let log = open(&SimDisk::new(3));
    for _ in 0..100 {
        let (txn, _) = random_txn(&log, &tables(), &mut random);
        log.append(txn).expect("appends");
    }
    let mut all = log.read_after(0).expect("a reader");
    let mut some = log.read_after(0).expect("a reader");
    while let Some(record) = all.next().expect("reads") {
        let bytes = record.rows.bytes();
        let at = some.position();
        let larger = some.next_within(bytes - 1).expect("looks");
        assert!(matches!(larger, Next::Larger), "{larger:?}");
        assert_eq!(some.position(), at);
        match some.next_within(bytes).expect("reads") {
            Next::Record(same) => {
                assert_eq!((same.first, same.rows.bytes()), (record.first, bytes))
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(some.next_within(0), Ok(Next::End)));
}
