//! Rows that continue on overflow pages: their local parts are in the columns and round-trip,
//! wherever they end.

use crate::common::round_trip;
use densite_sqlite_format::page::{Cell, Kind, Page, local_len};
use densite_sqlite_format::{put_varint, varint};
use densite_typed::{Model, PageContext, Purpose, decode, encode};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

const PAGE_SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// What the end of a cell's local part cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Text,
    /// Text within a character.
    Character,
    Blob,
    Number,
    /// A value ends there.
    Between,
    /// The record's header.
    Header,
}

/// What is cut, and how many values are behind it.
fn what_is_cut(page: &[u8], cell: &Cell) -> (What, usize) {
    let at = cell.local_at as usize;
    let local = &page[at..at + cell.local_len as usize];
    let (header, first) = varint(local).expect("a header's length");
    if header as usize > local.len() {
        return (What::Header, 0);
    }
    let (mut k, mut body) = (first, header as usize);
    let mut found = None;
    while k < header as usize {
        let (serial_type, len) = varint(&local[k..]).expect("a serial type");
        k += len;
        let size = match serial_type {
            0 | 8 | 9 => 0,
            1..=4 => serial_type as usize,
            5 => 6,
            6 | 7 => 8,
            t => (t as usize - 12) / 2,
        };
        let what = match serial_type {
            _ if body == local.len() => What::Between,
            0..12 => What::Number,
            t if t % 2 == 0 => What::Blob,
            _ if std::str::from_utf8(&local[body.min(local.len())..]).is_ok() => What::Text,
            _ => What::Character,
        };
        match &mut found {
            Some((_, behind)) => *behind += 1,
            None if body + size > local.len() => found = Some((what, 0)),
            None => {}
        }
        body += size;
    }
    found.expect("a value or the header is cut")
}

/// A page and its context.
type Placed = (PageContext, Vec<u8>);

/// Text of about `len` bytes: words, JSON, or characters of several bytes.
fn text(rng: &mut StdRng, len: usize) -> String {
    const WORDS: [&str; 8] = [
        "alpha",
        "beta",
        "{\"id\":",
        "\"name\": \"",
        "carefully",
        "größer",
        "数据库",
        "😀😃",
    ];
    let kind = rng.random_range(0..3);
    let mut out = String::new();
    while out.len() < len {
        match kind {
            0 => out.push_str(["ü", "数", "😀"][rng.random_range(0..3)]),
            _ => out.push_str(WORDS[rng.random_range(0..WORDS.len())]),
        }
        if kind == 2 {
            out.push(' ');
        }
    }
    out
}

/// A value of up to `len` bytes.
fn value(rng: &mut StdRng, len: usize) -> Value {
    match rng.random_range(0..8) {
        0 => Value::Null,
        1 => Value::Integer(rng.random::<i64>() >> rng.random_range(0..64)),
        2 => Value::Real(rng.random()),
        3 => Value::Real(f64::from(rng.random_range(0..10_000)) / 100.0),
        4 => Value::Text("2024-02-29".into()),
        5 => {
            let mut blob = vec![0; rng.random_range(0..=len)];
            rng.fill_bytes(&mut blob);
            Value::Blob(blob)
        }
        _ => {
            let len = rng.random_range(0..=len);
            Value::Text(text(rng, len))
        }
    }
}

/// Leaves and interior pages of tables and indexes whose rows continue on overflow pages.
fn pages(page_size: usize, reserved: usize, seed: u64) -> Vec<Placed> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(&format!("PRAGMA page_size={page_size}; VACUUM"))
        .expect("an empty database");
    drop(db);
    if reserved > 0 {
        // As SQLite makes a file with reserved bytes: byte 20 has their number, and page 1, which
        // is empty, ends before them.
        let mut bytes = std::fs::read(&path).expect("reads");
        bytes[20] = reserved as u8;
        let usable = (page_size - reserved) as u16;
        bytes[105..107].copy_from_slice(&usable.to_be_bytes());
        std::fs::write(&path, bytes).expect("writes");
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let wide: Vec<String> = (0..60).map(|i| format!("c{i}")).collect();
    let mut db = Connection::open(&path).expect("opens");
    db.execute_batch(&format!(
        "PRAGMA synchronous=OFF;
         CREATE TABLE document(id INTEGER PRIMARY KEY, at INTEGER, body TEXT, state TEXT, size INTEGER);
         CREATE INDEX document_body ON document(state, body, at);
         CREATE TABLE keyed(k BLOB PRIMARY KEY, v TEXT) WITHOUT ROWID;
         CREATE TABLE mixed(a, b, c, d);
         CREATE INDEX mixed_ab ON mixed(a, b);
         CREATE TABLE wide({})",
        wide.join(",")
    ))
    .expect("tables");
    let rows = (1_000_000 / page_size).clamp(60, 250);
    let long = page_size * 5 / 2;
    let tx = db.transaction().expect("begins");
    for i in 0..rows as i64 {
        let body = rng.random_range(0..long);
        let state = ["open", "closed", "on hold"][rng.random_range(0..3)];
        let row = [
            Value::Integer(1_700_000_000 + i * 60),
            Value::Text(text(&mut rng, body)),
            Value::Text(state.into()),
            Value::Integer(i % 300),
        ];
        tx.execute(
            "INSERT INTO document VALUES(NULL,?,?,?,?)",
            params_from_iter(row),
        )
        .expect("inserts");
        let key = loop {
            if let key @ Value::Blob(_) = value(&mut rng, page_size) {
                break key;
            }
        };
        let row = [key, value(&mut rng, page_size)];
        tx.execute(
            "INSERT OR IGNORE INTO keyed VALUES(?,?)",
            params_from_iter(row),
        )
        .expect("inserts");
        let row: Vec<Value> = (0..4).map(|_| value(&mut rng, page_size)).collect();
        tx.execute("INSERT INTO mixed VALUES(?,?,?,?)", params_from_iter(row))
            .expect("inserts");
        // A long header, and numbers before and behind a long value.
        let begin = rng.random_range(0..wide.len());
        let row = (0..wide.len()).map(|c| match c {
            _ if c == begin => {
                let len = rng.random_range(0..page_size);
                Value::Text(text(&mut rng, len))
            }
            c if page_size < 2048 && c % 5 == 0 => Value::Text("x".repeat(60)),
            c if c % 3 == 0 => Value::Integer(i * 1_000_003),
            _ => Value::Real((i as f64).sqrt()),
        });
        tx.execute(
            &format!(
                "INSERT INTO wide VALUES({})",
                vec!["?"; wide.len()].join(",")
            ),
            params_from_iter(row.collect::<Vec<_>>()),
        )
        .expect("inserts");
    }
    tx.commit().expect("commits");
    db.execute_batch(
        "DELETE FROM document WHERE id % 7 = 3; UPDATE mixed SET b = 'short' WHERE rowid % 5 = 0",
    )
    .expect("changes");
    db.close().expect("closes");
    let bytes = std::fs::read(&path).expect("reads");
    let count = (bytes.len() / page_size) as u32;
    let context = |number| PageContext {
        number,
        pages: count,
        reserved,
    };
    let pages = bytes.chunks(page_size).map(<[u8]>::to_vec);
    (1..).map(context).zip(pages).collect()
}

/// A model that is learned from pages, stored and read again.
fn model_of(pages: &[&[u8]], reserved: usize) -> Model {
    let bytes = pages.iter().map(|p| p.len() as u64).sum();
    let model = Model::learn(
        pages,
        &Purpose {
            reserved,
            ..Purpose::whole(bytes)
        },
    )
    .expect("a model");
    Model::from_bytes(&model.to_bytes()).expect("a stored model")
}

/// A model for each kind of page and number of columns.
fn models(pages: &[Placed]) -> Vec<Model> {
    let mut families: BTreeMap<_, Vec<&[u8]>> = BTreeMap::new();
    let mut parsed = Page::new();
    for (context, page) in pages.iter().skip(1) {
        if parsed.parse(page, page.len() - context.reserved, false)
            && let Some(cell) = parsed.cells.first()
        {
            // Interior pages of tables have no header here.
            let header = page.get(cell.local_at as usize);
            families.entry((page[0], header)).or_default().push(page);
        }
    }
    let reserved = pages[0].0.reserved;
    let large = families.values().filter(|pages| pages.len() > 2);
    large.map(|pages| model_of(pages, reserved)).collect()
}

#[test]
fn rows_round_trip_wherever_they_are_cut() {
    let mut seen: BTreeMap<(u8, What), usize> = BTreeMap::new();
    for (i, page_size) in PAGE_SIZES.into_iter().enumerate() {
        for reserved in [0, 32] {
            let pages = pages(page_size, reserved, 1 + i as u64);
            let models = models(&pages);
            let mut parsed = Page::new();
            let empty = Model::empty();
            let (mut kinds, mut last) = (BTreeSet::new(), false);
            for (i, (context, page)) in pages.iter().enumerate() {
                let usable = page_size - reserved;
                if !parsed.parse(page, usable, context.number == 1) {
                    continue;
                }
                for cell in parsed.cells.iter().filter(|c| c.overflow != 0) {
                    let (what, behind) = what_is_cut(page, cell);
                    *seen.entry((parsed.kind as u8, what)).or_default() += 1;
                    kinds.insert(parsed.kind as u8);
                    last |= behind == 0;
                }
                let coded = round_trip(page, context, &empty).is_some();
                for model in models.iter().skip(i % 3).step_by(3) {
                    assert_eq!(
                        round_trip(page, context, model).is_some(),
                        coded,
                        "page {}",
                        context.number
                    );
                }
            }
            for kind in [Kind::TableLeaf, Kind::IndexLeaf, Kind::IndexInterior] {
                assert!(
                    kinds.contains(&(kind as u8)),
                    "{page_size}, {reserved}: {kind:?}"
                );
            }
            assert!(
                last,
                "{page_size}, {reserved}: a cut value that is the last one"
            );
        }
    }
    for kind in [Kind::TableLeaf, Kind::IndexLeaf, Kind::IndexInterior] {
        for what in [What::Text, What::Character, What::Blob] {
            assert!(
                seen.contains_key(&(kind as u8, what)),
                "{kind:?}, {what:?}: {seen:?}"
            );
        }
    }
    for what in [What::Number, What::Between, What::Header] {
        assert!(seen.keys().any(|(_, w)| *w == what), "{what:?}: {seen:?}");
    }
}

/// A model codes text that continues on overflow pages, and the values before it.
#[test]
fn long_rows_are_coded_by_a_model() {
    let pages = pages(4096, 0, 77);
    let mut parsed = Page::new();
    let mut leaves = |kind: Kind, column: usize| -> Vec<&Placed> {
        let is_leaf = |placed: &&Placed| {
            parsed.parse(&placed.1, 4096, placed.0.number == 1)
                && parsed.kind == kind
                && parsed.cells.iter().any(|c| c.overflow != 0)
                && parsed.cells.iter().all(|c| {
                    let columns = placed.1[c.local_at as usize] - 1;
                    (column..column + 5).contains(&usize::from(columns))
                })
        };
        pages.iter().filter(is_leaf).collect()
    };
    // Of five columns, one of them with a type of one to three bytes. The index has four, including
    // the row id.
    for (kind, columns) in [(Kind::TableLeaf, 5), (Kind::IndexLeaf, 4)] {
        let pages = leaves(kind, columns);
        assert!(pages.len() > 40, "{kind:?}: {} pages", pages.len());
        let (trained, judged) = pages.split_at(pages.len() * 3 / 4);
        let trained: Vec<&[u8]> = trained.iter().map(|p| p.1.as_slice()).collect();
        let model = model_of(&trained, 0);
        let (mut raw, mut stored, mut before) = (0, 0, 0);
        for (context, page) in judged {
            raw += page.len();
            stored += round_trip(page, context, &model).expect("a page");
            before += round_trip(page, context, &Model::empty()).expect("a page");
        }
        assert!(stored * 3 < raw, "{kind:?}: {stored} of {raw} bytes");
        assert!(stored * 2 < before, "{kind:?}: {stored} of {before} bytes");
    }
}

/// Pages of 1 KiB, and models for them.
fn usual() -> &'static (Vec<Placed>, Vec<Model>) {
    static USUAL: OnceLock<(Vec<Placed>, Vec<Model>)> = OnceLock::new();
    USUAL.get_or_init(|| {
        let pages = pages(1024, 0, 5);
        let models = models(&pages);
        (pages, models)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Pages with changed bytes round-trip if they are still valid, and are refused otherwise.
    /// Damaged payloads are decoded or refused.
    #[test]
    fn changed_pages_round_trip_or_are_refused(
        pick in any::<prop::sample::Index>(),
        model in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..5),
        payload_changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (pages, models) = usual();
        let (context, page) = pick.get(pages);
        let model = model.get(models);
        let mut page = page.clone();
        let mut parsed = Page::new();
        // The places where headers of records begin.
        let places: Vec<usize> = match parsed.parse(&page, 1024, context.number == 1) {
            true => parsed.cells.iter().map(|c| c.local_at as usize).collect(),
            false => vec![8],
        };
        for (at, byte, header) in changes {
            let at = match header {
                true if !places.is_empty() => at.get(&places) + usize::from(byte % 16),
                _ => at.index(1024),
            };
            if let Some(to) = page.get_mut(at) {
                *to = byte;
            }
        }
        let coded = round_trip(&page, context, model);
        prop_assert_eq!(round_trip(&page, context, &Model::empty()).is_some(), coded.is_some());
        let (mut kept, mut payload) = (Vec::new(), Vec::new());
        if encode(&page, context, model, &mut kept, &mut payload) {
            for (at, byte) in payload_changes {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
            for len in [512, 1024, 4096] {
                let _ = decode(&payload, model, &mut vec![0; len]);
            }
        }
    }
}

/// Payloads of every length near those at which the local length changes. The page is made by hand.
/// Its only value is a text, or a text and a number.
#[test]
fn every_length_round_trips() {
    let context = PageContext {
        number: 3,
        pages: 9,
        reserved: 0,
    };
    for kind in [Kind::TableLeaf, Kind::IndexLeaf] {
        for len in (0..2600).filter(|len| len % 7 == 0 || (90..520).contains(len)) {
            for number in [false, true] {
                let mut types = vec![0; 3];
                let n = put_varint(13 + 2 * len, &mut types);
                types.truncate(n);
                if number {
                    types.push(6);
                }
                let mut payload = vec![types.len() as u8 + 1];
                payload.extend(&types);
                payload.extend((0..len).map(|i| b'a' + (i % 26) as u8));
                if number {
                    payload.extend(i64::MIN.to_be_bytes());
                }
                let local = local_len(kind, 512, payload.len() as u64);
                let mut cell = vec![0; 3];
                let n = put_varint(payload.len() as u64, &mut cell);
                cell.truncate(n);
                if kind.is_table() {
                    cell.push(5);
                }
                cell.extend(&payload[..local]);
                if local < payload.len() {
                    cell.extend(99u32.to_be_bytes());
                }
                let at = 512 - cell.len().max(4);
                let mut page = vec![0; 512];
                page[at..at + cell.len()].copy_from_slice(&cell);
                let at = (at as u16).to_be_bytes();
                page[..8].copy_from_slice(&[kind as u8, 0, 0, 0, 1, at[0], at[1], 0]);
                page[8..10].copy_from_slice(&at);
                round_trip(&page, &context, &Model::empty()).expect("a page");
            }
        }
    }
}
