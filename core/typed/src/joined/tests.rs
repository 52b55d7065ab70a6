//! Sparse pages of SQLite, joined and decoded.

use super::*;
use crate::scrub;
use proptest::prelude::*;
use rusqlite::Connection;

/// Pages of a database with a table and its index. Every second group of rows was deleted.
fn sparse(page_size: usize) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size}; PRAGMA secure_delete=OFF; CREATE TABLE t(a, b, c); CREATE INDEX tb ON t(a, b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
           INSERT INTO t SELECT i / 5, i % 5, 'row number ' || (i * 7919 % 20000) FROM n;
         DELETE FROM t WHERE a % 2 = 0; DELETE FROM t WHERE a % 16 = 5;"
    ))
    .expect("sql");
    db.close().expect("closes");
    let bytes = std::fs::read(&path).expect("reads");
    bytes.chunks(page_size).map(<[u8]>::to_vec).collect()
}

fn context(number: u32) -> PageContext {
    PageContext {
        number,
        pages: 10_000,
        reserved: 0,
    }
}

/// Joins the pages, which must succeed. Returns the payload and the decoded pages.
fn joined(pages: &[Vec<u8>], first: u32, model: &Model) -> (Vec<u8>, Vec<u8>) {
    let (raw, page_size) = (pages.concat(), pages[0].len());
    let (mut kept, mut out) = (Vec::new(), vec![9, 9]);
    assert!(
        encode_joined(&raw, page_size, &context(first), model, &mut kept, &mut out),
        "pages from {first} of {page_size} bytes"
    );
    let payload = out.split_off(2);
    assert_eq!(out, [9, 9], "earlier bytes stay");
    let mut decoded = vec![0xA5; raw.len()];
    decode_joined(&payload, model, &mut decoded).expect("decodes its own payload");
    assert!(decoded == kept, "pages from {first} of {page_size} bytes");
    (payload, decoded)
}

fn alone(page: &[u8], number: u32, model: &Model) -> usize {
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    assert!(encode(page, &context(number), model, &mut kept, &mut out));
    out.len()
}

/// The first of `n` adjacent leaf pages of one kind.
fn group(pages: &[Vec<u8>], kind: u8, n: usize) -> Option<usize> {
    let mut runs = pages.windows(n).skip(3);
    let found = runs.position(|run| run.iter().all(|page| page[0] == kind));
    found.map(|at| at + 3)
}

#[test]
fn joined_pages_of_every_size_round_trip_and_are_smaller() {
    for page_size in (9..=16).map(|log2| 1 << log2) {
        let pages = sparse(page_size);
        for kind in [10, 13] {
            let leaves: Vec<&[u8]> = pages
                .iter()
                .filter(|p| p[0] == kind)
                .map(Vec::as_slice)
                .collect();
            let learned = Model::learn(&leaves, &crate::Purpose::whole(1 << 20));
            for model in [Some(Model::empty()), learned].iter().flatten() {
                for n in [2, 3, 4] {
                    let Some(at) = group(&pages, kind, n) else {
                        continue;
                    };
                    let run = &pages[at..at + n];
                    let sum: usize = run.iter().filter_map(|p| used_bytes(p)).sum();
                    if sum > USABLE_MAX {
                        continue;
                    }
                    let first = at as u32 + 1;
                    let (payload, decoded) = joined(run, first, model);
                    let numbers = first..;
                    let mut apart = 0;
                    for ((page, number), got) in
                        run.iter().zip(numbers).zip(decoded.chunks(page_size))
                    {
                        let mut scrubbed = Vec::new();
                        scrub(page, &context(number), &mut scrubbed);
                        assert!(got == scrubbed, "page {number} of {page_size} bytes");
                        apart += alone(page, number, model);
                    }
                    // Adjacent pages in the file can be far apart in the tree, and headers are not
                    // counted here.
                    assert!(
                        payload.len() < apart + apart / 8 + 40 * n,
                        "{n} of {page_size} bytes: {} and {apart}",
                        payload.len()
                    );
                }
            }
        }
    }
}

#[test]
fn used_bytes_count_header_cells_and_pointers() {
    let mut parsed = Page::new();
    for page_size in [512, 4096, 65_536] {
        for page in sparse(page_size).iter().skip(1) {
            let leaf = parsed.parse(page, page_size, false) && !parsed.kind.has_child();
            let cells = parsed.cells.iter().map(|cell| cell.size as usize + 2);
            let expected = leaf.then(|| HEADER + cells.sum::<usize>());
            assert_eq!(used_bytes(page), expected);
        }
    }
    for rubbish in [&[][..], &[13], &[13; 512], &[10; 9]] {
        assert_eq!(used_bytes(rubbish), None, "{} bytes", rubbish.len());
    }
}

#[test]
fn pages_that_cannot_be_joined_are_refused() {
    let pages = sparse(4096);
    let at = group(&pages, 13, 2).expect("two leaves");
    let pair = pages[at..at + 2].to_vec();
    let refused = |pair: &[Vec<u8>], context: PageContext, what: &str| {
        let (mut kept, mut out) = (Vec::new(), vec![1]);
        let raw = pair.concat();
        assert!(
            !encode_joined(&raw, 4096, &context, &Model::empty(), &mut kept, &mut out),
            "{what}"
        );
        assert_eq!(out, [1], "{what}");
    };
    let number = at as u32 + 1;
    joined(&pair, number, &Model::empty());
    refused(&pair[..1], context(number), "one page");
    let index = group(&pages, 10, 1).expect("a leaf");
    refused(
        &[pair[0].clone(), pages[index].clone()],
        context(number),
        "two kinds",
    );
    refused(&[pages[0].clone(), pair[1].clone()], context(1), "page 1");
    let reserved = PageContext {
        reserved: 8,
        ..context(number)
    };
    refused(&pair, reserved, "reserved bytes");
    // A page that can be of another kind keeps its bytes. Zeros between its cells can be kept,
    // other bytes cannot.
    let many = PageContext {
        pages: u32::MAX,
        ..context(number)
    };
    refused(&pair, many, "unallocated bytes that must be kept");
    let mut clean = Vec::new();
    for page in &pair {
        let mut scrubbed = Vec::new();
        scrub(page, &context(number), &mut scrubbed);
        clean.push(scrubbed);
    }
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    assert!(encode_joined(
        &clean.concat(),
        4096,
        &many,
        &Model::empty(),
        &mut kept,
        &mut out
    ));
    assert!(kept == clean.concat());
}

#[test]
fn pages_with_overflow_rows_are_not_joined() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(
        "PRAGMA page_size=1024; CREATE TABLE t(a);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) INSERT INTO t SELECT hex(zeroblob(400 + 20 * i)) FROM n",
    )
    .expect("sql");
    db.close().expect("closes");
    let bytes = std::fs::read(&path).expect("reads");
    let mut parsed = Page::new();
    let long: Vec<&[u8]> = bytes
        .chunks(1024)
        .skip(1)
        .filter(|page| {
            parsed.parse(page, 1024, false)
                && parsed.cells.iter().any(|c| c.overflow != 0)
                && page[0] == 13
        })
        .take(2)
        .collect();
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    assert!(!encode_joined(
        &long.concat(),
        1024,
        &context(5),
        &Model::empty(),
        &mut kept,
        &mut out
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), log2 in 9u32..17, n in 1usize..5) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = *first & !7 | (log2 - PAGE_LOG2_MIN) as u8;
        }
        let len = n << log2;
        let (mut a, mut b) = (vec![0xAA; len], vec![0x55; len]);
        let first = decode_joined(&bytes, &Model::empty(), &mut a);
        prop_assert_eq!(first, decode_joined(&bytes, &Model::empty(), &mut b));
        prop_assert!(first.is_err() || a == b);
    }

    #[test]
    fn damaged_payloads_are_decoded_or_refused(flips in prop::collection::vec((any::<u16>(), 0u32..8), 1..4), cut in any::<u16>()) {
        thread_local!(static MADE: (Vec<u8>, usize) = {
            let pages = sparse(1024);
            let at = group(&pages, 13, 2).expect("two leaves");
            (joined(&pages[at..at + 2], at as u32 + 1, &Model::empty()).0, 2048)
        });
        let (mut payload, len) = MADE.with(Clone::clone);
        for (at, bit) in flips {
            let at = usize::from(at) % payload.len();
            payload[at] ^= 1 << bit;
        }
        if cut % 3 == 0 {
            payload.truncate(usize::from(cut) % payload.len());
        }
        let (mut a, mut b) = (vec![0xAA; len], vec![0x55; len]);
        let first = decode_joined(&payload, &Model::empty(), &mut a);
        prop_assert_eq!(first, decode_joined(&payload, &Model::empty(), &mut b));
        prop_assert!(first.is_err() || a == b);
    }
}
