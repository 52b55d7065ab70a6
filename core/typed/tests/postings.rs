//! Pages of real FTS5 indexes are coded as postings, and come back. Any other pages and payloads
//! are refused, or come back.

use densite_typed::{PageContext, postings, scrub};
use proptest::prelude::*;
use rusqlite::Connection;
use std::sync::OnceLock;

/// The pages of the table `t_data` of an index of documents. `options` of the index, `more`
/// statements behind its creation.
fn pages(page_size: usize, options: &str, more: &str) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size};
         CREATE VIRTUAL TABLE t USING fts5(title, body, note{options});
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500),
           w(i, text) AS (SELECT n.i, (SELECT group_concat(
             CASE (n.i * j.i * 2654435761 >> 9) % 5
               WHEN 0 THEN 'the' WHEN 1 THEN 'word' || (n.i * j.i * 40503 >> 3) % 700
               ELSE 'of' || (n.i + j.i * j.i * 7919) % 90 END, ' ')
             FROM n AS j WHERE j.i < 12 + n.i % 90) FROM n)
           INSERT INTO t SELECT 'title ' || i % 40, text, CASE i % 7 WHEN 0 THEN text END FROM w;
         {more}"
    ))
    .expect("sql");
    let mut roots = db
        .prepare("SELECT pageno FROM dbstat WHERE name = 't_data' AND pagetype = 'leaf'")
        .expect("dbstat");
    let rows = roots.query_map([], |row| row.get::<_, u32>(0));
    let numbers: Vec<usize> = (rows.expect("rows"))
        .map(|row| row.expect("a row") as usize)
        .collect();
    drop(roots);
    db.close().expect("closes");
    let bytes = std::fs::read(&path).expect("reads");
    let all: Vec<&[u8]> = bytes.chunks(page_size).collect();
    let context = PageContext {
        number: 3,
        pages: all.len() as u32,
        reserved: 0,
    };
    let scrubbed = |number: usize| {
        let mut kept = Vec::new();
        scrub(all[number - 1], &context, &mut kept);
        kept
    };
    numbers.into_iter().map(scrubbed).collect()
}

/// Encodes and decodes. Returns the length of the payload.
fn round_trip(page: &[u8]) -> Option<usize> {
    let mut payload = b"before".to_vec();
    let coded = postings::encode(page, &mut payload);
    assert!(payload.starts_with(b"before"));
    let payload = &payload[6..];
    assert_eq!(coded, !payload.is_empty());
    if !coded {
        return None;
    }
    let mut out = vec![0xAA; page.len()];
    postings::decode(payload, &mut out).expect("decodes");
    assert!(out == page, "another page");
    assert!(postings::is_likely(page));
    Some(payload.len())
}

/// Which part of pages is coded, and coded / raw of these, in per cent.
fn measured(pages: &[Vec<u8>]) -> (usize, usize) {
    assert!(!pages.is_empty());
    let (mut coded, mut raw, mut len) = (0, 0, 0);
    for page in pages {
        if let Some(payload) = round_trip(page) {
            coded += 1;
            raw += page.len();
            len += payload;
        }
    }
    (coded * 100 / pages.len(), len * 100 / raw.max(1))
}

#[test]
fn leaves_of_an_index_are_coded() {
    for (options, more) in [
        ("", ""),
        ("", "INSERT INTO t(t) VALUES ('optimize');"),
        (", prefix='2 3'", "INSERT INTO t(t) VALUES ('optimize');"),
        (", content=''", ""),
        ("", "DELETE FROM t WHERE rowid % 3 = 0;"),
        (
            "",
            "UPDATE t SET note = 'another note' WHERE rowid % 2; INSERT INTO t(rowid, body) VALUES
               (-5, 'negative'), (9000000000000, 'large the word1');",
        ),
    ] {
        for page_size in [4096, 8192, 65536] {
            let (coded, ratio) = measured(&pages(page_size, options, more));
            let what = format!("{options} {more} {page_size}: {coded} % of pages, {ratio} %");
            println!("{what}");
            // The last page of an index has little in it, and the first one its structure.
            assert!(coded >= 50 && ratio <= 50, "{what}");
        }
    }
}

#[test]
fn other_forms_of_an_index_come_back() {
    for options in [
        ", detail=column",
        ", detail=none",
        ", detail=none, columnsize=0",
    ] {
        for page_size in [512, 4096] {
            let pages = pages(page_size, options, "DELETE FROM t WHERE rowid % 5 = 0;");
            println!("{options} {page_size}: {:?}", measured(&pages));
        }
    }
    for pgsz in [64, 500, 2000, 9000] {
        let more = format!(
            "INSERT INTO t(t, rank) VALUES ('pgsz', {pgsz}); INSERT INTO t(t) VALUES ('rebuild');"
        );
        println!("{pgsz}: {:?}", measured(&pages(4096, "", &more)));
    }
}

/// Some pages for damage.
fn some() -> &'static [Vec<u8>] {
    static PAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    PAGES.get_or_init(|| {
        let mut all = pages(4096, "", "DELETE FROM t WHERE rowid % 3 = 0;");
        all.extend(pages(16384, "", ""));
        all
    })
}

proptest! {
    #[test]
    fn damaged_pages_are_refused_or_come_back(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut page = which.get(some()).clone();
        for (at, byte) in changes {
            *at.get_mut(&mut page) = byte;
        }
        round_trip(&page);
    }

    #[test]
    fn damaged_payloads_are_refused_or_other_pages(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        len in 0usize..20_000,
    ) {
        let page = which.get(some());
        let mut payload = Vec::new();
        prop_assume!(postings::encode(page, &mut payload));
        for (at, bits) in changes {
            *at.get_mut(&mut payload) ^= bits;
        }
        let (mut a, mut b) = (vec![0xAA; page.len()], vec![0x55; page.len()]);
        let first = postings::decode(&payload, &mut a);
        prop_assert_eq!(first, postings::decode(&payload, &mut b));
        prop_assert!(first.is_err() || a == b, "the page depends on the buffer");
        let _ = postings::decode(&payload, &mut vec![0; len]);
        let _ = postings::decode(&payload[..cut.index(payload.len())], &mut a);
    }
}

#[test]
fn other_pages_are_refused() {
    for page in [vec![], vec![13], vec![13; 4096], vec![0; 4096]] {
        assert_eq!(round_trip(&page), None);
    }
}
