//! Each way of splitting gives what the others give.

use super::*;
use crate::context::PageContext;
use crate::model::Outlook;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rusqlite::Connection;

/// What splitting gives, as it goes on from there.
fn outcome(split: &Split) -> String {
    let Split {
        columns,
        long,
        ints,
        streams,
        codes,
        raw,
        ..
    } = split;
    format!("{columns} {long} {ints:?} {streams:?} {codes:?} {raw:?}")
}

/// Pages of tables of integers, of an index and of one without row ids, some of them with cells gone.
fn pages() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(
        "CREATE TABLE pairs(a INTEGER, b INTEGER, c REAL, PRIMARY KEY (a, b));
         WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO pairs(a, b) SELECT i / 100, i % 100 * (i % 7) * (i % 3 - 1) * 300 FROM n WHERE 1 ON CONFLICT DO NOTHING;
         DELETE FROM pairs WHERE a BETWEEN 10 AND 20 AND b % 3 = 0;
         CREATE TABLE wide(a INTEGER PRIMARY KEY, b, c, d, e, f, g) WITHOUT ROWID;
         WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO wide SELECT i, i * i * i * i, -i, 1 << (i % 63), NULL, i % 2, i % 1000 FROM n;
         CREATE TABLE one(a INTEGER PRIMARY KEY, b INTEGER);
         WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO one SELECT i, i % 3 FROM n;
         CREATE TABLE even(a INTEGER, b INTEGER, c REAL, d INTEGER, PRIMARY KEY (a, b));
         WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
         INSERT INTO even SELECT 200 + i / 1000, -1000 - i % 1000, NULL, i / 4500 FROM n;
         CREATE TABLE mixed(a, b);
         WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO mixed SELECT CASE WHEN i % 400 = 399 THEN NULL ELSE i END, CASE WHEN i % 900 = 899 THEN 'x' ELSE 0.5 * i END FROM n;",
    )
    .expect("runs");
    drop(db);
    let bytes = std::fs::read(&path).expect("reads");
    bytes.chunks(4096).map(<[u8]>::to_vec).collect()
}

/// Splits a page in each way that there is, which must all agree; says which could.
fn split(page: &[u8], number: u32) -> Option<(bool, bool)> {
    let model = Model::empty();
    let context = PageContext {
        number,
        pages: 0,
        reserved: 0,
    };
    let [mut even, mut narrow, mut plain, mut whole] = std::array::from_fn(|_| Split::default());
    let done = whole.split(page, &context, &model);
    if !narrow.page.parse(page, page.len(), false) {
        assert!(!done && !even.page.parse_even(page, page.len(), false));
        return None;
    }
    assert!(plain.page.parse(page, page.len(), false));
    let by_value = plain.part_values(page, &model).is_some();
    assert_eq!(done, by_value, "page {number}");
    let is_narrow = narrow.part_narrow(page, &model).is_some();
    let is_even =
        even.page.parse_even(page, page.len(), false) && even.part_even(page, &model).is_some();
    for (is, split) in [(is_even, even), (is_narrow, narrow)] {
        if is {
            assert!(by_value);
            assert_eq!(outcome(&split), outcome(&plain), "page {number}");
        } else {
            assert!(split.ints.is_empty() && split.streams.is_empty());
        }
    }
    if done {
        assert_eq!(whole.ints, plain.ints, "page {number}");
    }
    Some((is_even, is_narrow))
}

#[test]
fn pages_of_integers_are_split_as_any_other_page_is() {
    let (mut even, mut narrow, mut others) = (0, 0, 0);
    for (page, number) in pages().iter().zip(1..).skip(1) {
        match split(page, number) {
            Some((true, _)) => even += 1,
            Some((false, true)) => narrow += 1,
            Some(_) => others += 1,
            None => {}
        }
    }
    assert!(
        even >= 20 && narrow >= 20 && others >= 5,
        "{even}, {narrow} and {others}"
    );
}

#[test]
fn so_are_pages_that_sqlite_would_not_write() {
    let mut rng = StdRng::seed_from_u64(7);
    let (mut split_still, mut refused) = (0, 0);
    for (page, number) in pages().iter().zip(1..).skip(1) {
        for _ in 0..20 {
            let mut page = page.clone();
            let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
            if cells == 0 || cells > 1000 {
                continue;
            }
            let pointer = 8 + 2 * rng.random_range(0..cells);
            let start = usize::from(u16::from_be_bytes([page[pointer], page[pointer + 1]]));
            let at = start + rng.random_range(0..12);
            if let Some(byte) = page.get_mut(at) {
                *byte = [0, 1, 2, 8, 9, 0xff, *byte ^ 0x80][rng.random_range(0..7)];
            }
            match split(&page, number) {
                Some(_) => split_still += 1,
                None => refused += 1,
            }
        }
    }
    assert!(
        split_still > 300 && refused > 100,
        "{split_still} and {refused}"
    );
}

/// In files of before 0 and 1 had types of their own they take a byte.
#[test]
fn a_one_that_takes_a_byte_is_told() {
    // A table leaf with two rows.
    let page = |record: [u8; 4]| {
        let mut page = vec![0; 512];
        page[..12].copy_from_slice(&[13, 0, 0, 0, 2, 1, 0xf4, 0, 1, 0xfa, 1, 0xf4]);
        for (start, rowid) in [(506, 1), (500, 2)] {
            page[start..start + 2].copy_from_slice(&[4, rowid]);
            page[start + 2..start + 6].copy_from_slice(&record);
        }
        page
    };
    assert_eq!(split(&page([2, 2, 1, 1]), 3), Some((true, true)), "257");
    let one_and_null = page([3, 1, 0, 1]);
    assert_eq!(split(&one_and_null, 3), Some((true, true)));
    // No file is of both kinds.
    let one_and_short_zero = page([3, 1, 8, 1]);
    assert_eq!(split(&one_and_short_zero, 3), Some((false, false)));
}

/// By a model of its own each page is put together again as such.
#[test]
fn pages_of_integers_come_back() {
    let (mut decoded, mut out) = (Vec::new(), Vec::new());
    for (page, number) in pages().iter().zip(1..).skip(1) {
        let bytes = page.len() as u64;
        let Some(model) = Model::learn(&[page], 0, bytes, Outlook::Whole) else {
            continue;
        };
        let context = PageContext {
            number,
            pages: 0,
            reserved: 0,
        };
        out.clear();
        assert!(
            crate::encode(page, &context, &model, &mut decoded, &mut out),
            "page {number}"
        );
    }
}

#[test]
fn what_sqlite_does_not_write_is_left_to_splitting_value_by_value() {
    // A table leaf with one row of three columns: 1, 5 in two bytes, NULL.
    let mut page = vec![0; 512];
    page[..10].copy_from_slice(&[13, 0, 0, 0, 1, 1, 0xf8, 0, 1, 0xf8]);
    page[504..].copy_from_slice(&[6, 1, 4, 9, 2, 0, 0, 5]);
    let mut split = Split::default();
    assert!(split.page.parse(&page, 512, false));
    assert!(split.part_narrow(&page, &Model::empty()).is_none());
    page[510] = 1;
    assert!(split.part_narrow(&page, &Model::empty()).is_some());
    assert_eq!(split.ints, [0, 1, 1, 1, 1, 261, 0]);
}
