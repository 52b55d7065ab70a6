//! Every page that SQLite writes round-trips with any model. Damaged bytes never cause a panic.

use crate::common::round_trip;
use densite_sqlite_format::page::Page;
use densite_typed::{Model, PageContext, Purpose, decode, encode, scrub};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const PAGE_SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// A database file and its page size.
struct Db {
    bytes: Vec<u8>,
    page_size: usize,
    reserved: usize,
}

impl Db {
    fn pages(&self) -> impl Iterator<Item = (PageContext, &[u8])> {
        let count = self.bytes.len() / self.page_size;
        let context = move |i: usize| PageContext {
            number: i as u32 + 1,
            pages: count as u32,
            reserved: self.reserved,
        };
        self.bytes
            .chunks(self.page_size)
            .enumerate()
            .map(move |(i, page)| (context(i), page))
    }

    /// Pages by kind and, approximately, number of columns.
    fn families(&self) -> BTreeMap<(u8, u8), Vec<&[u8]>> {
        let mut families: BTreeMap<_, Vec<&[u8]>> = BTreeMap::new();
        let mut parsed = Page::new();
        for (context, page) in self.pages().skip(1) {
            if parsed.parse(page, self.page_size - context.reserved, false)
                && let Some(cell) = parsed.cells.first()
            {
                let header = page.get(cell.local_at as usize).copied().unwrap_or(0);
                families.entry((page[0], header)).or_default().push(page);
            }
        }
        families
    }
}

/// Tables with all kinds of columns and changes.
fn database(page_size: usize, seed: u64) -> Db {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let mut db = Connection::open(&path).expect("opens");
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size}; PRAGMA synchronous=OFF; PRAGMA secure_delete=OFF;
         CREATE TABLE plain(id INTEGER PRIMARY KEY, day TEXT, price NUMERIC, name TEXT, kind TEXT, at INTEGER);
         CREATE INDEX plain_day ON plain(day, kind); CREATE INDEX plain_price ON plain(price);
         CREATE TABLE mixed(a, b, c, d);
         CREATE INDEX mixed_a ON mixed(a);
         CREATE TABLE keyed(k TEXT PRIMARY KEY, v REAL, w BLOB) WITHOUT ROWID;
         CREATE TABLE long(t TEXT);
         CREATE TABLE grown(a INTEGER PRIMARY KEY, b);
         CREATE TABLE vectors(id INTEGER PRIMARY KEY, single BLOB);
         CREATE TABLE doubles(a, vector, b);"
    ))
    .expect("tables");
    let mut rng = StdRng::seed_from_u64(seed);
    let words = [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "omega",
        "carefully",
        "ironic",
        "deposits",
    ];
    let rows = 1500;
    let tx = db.transaction().expect("begins");
    for i in 0..rows {
        let text = |rng: &mut StdRng, n: usize| {
            let picked = (0..n).map(|_| words[rng.random_range(0..words.len())]);
            picked.collect::<Vec<_>>().join(" ")
        };
        let day = format!("{}-{:02}-{:02}", 1990 + i % 30, 1 + i % 12, 1 + i % 28);
        let price = f64::from(rng.random_range(0..100_000)) / 100.0;
        let n = rng.random_range(1..6);
        let name = text(&mut rng, n);
        tx.execute(
            "INSERT INTO plain VALUES(?,?,?,?,?,?)",
            params![
                i * 3,
                day,
                price,
                name,
                words[i as usize % 3],
                1_700_000_000 + i * 60
            ],
        )
        .expect("inserts");
        let value = |rng: &mut StdRng| -> rusqlite::types::Value {
            use rusqlite::types::Value;
            match rng.random_range(0..9) {
                0 => Value::Null,
                1 => Value::Integer(rng.random()),
                2 => Value::Integer(rng.random_range(-2..3)),
                3 => Value::Real(rng.random::<f64>()),
                4 => Value::Real(f64::from(rng.random_range(-5000..5000)) / 10.0),
                5 => Value::Text("2020-02-30".into()),
                6 => Value::Text(
                    words[rng.random_range(0..words.len())].repeat(rng.random_range(0..9)),
                ),
                7 => Value::Real(
                    [f64::NEG_INFINITY, -0.0, 1e300, 5e-324, 3.0][rng.random_range(0..5)],
                ),
                _ => {
                    let mut blob = vec![0; rng.random_range(0..100)];
                    rng.fill_bytes(&mut blob);
                    Value::Blob(blob)
                }
            }
        };
        let v: Vec<_> = (0..4).map(|_| value(&mut rng)).collect();
        tx.execute(
            "INSERT INTO mixed VALUES(?,?,?,?)",
            params![v[0], v[1], v[2], v[3]],
        )
        .expect("inserts");
        let key = format!("{:08x}-{:04x}-4{:03x}", rng.random::<u32>(), i, i % 4096);
        tx.execute(
            "INSERT OR IGNORE INTO keyed VALUES(?,?,?)",
            params![key, (i as f64).sin(), v[3]],
        )
        .expect("inserts");
        if i % 40 == 0 {
            let n = rng.random_range(1..400);
            let long = text(&mut rng, n);
            tx.execute("INSERT INTO long VALUES(?)", [long])
                .expect("inserts");
        }
        tx.execute("INSERT INTO grown VALUES(?,?)", params![i * i, i % 7])
            .expect("inserts");
        if i % 8 == 0 {
            let number = |rng: &mut StdRng| match rng.random_range(0..3) {
                0 => 0.0,
                _ => rng.random::<f64>() - 0.5,
            };
            // Some continue on overflow pages, in small pages all of them.
            let len = if i % 160 == 0 { 1500 } else { 96 };
            let vector: Vec<u8> = (0..len)
                .flat_map(|_| (number(&mut rng) as f32).to_le_bytes())
                .collect();
            tx.execute("INSERT INTO vectors VALUES(?,?)", params![i, vector])
                .expect("inserts");
            // Also NULLs, text among the blobs, and blobs that do not end with a number.
            let mut vector: Vec<u8> = (0..24)
                .flat_map(|_| number(&mut rng).to_le_bytes())
                .collect();
            vector.truncate(if i % 56 == 0 { 99 } else { 192 });
            let insert = match i % 128 {
                0 => "INSERT INTO doubles VALUES(?1, NULL, 1)",
                64 => "INSERT INTO doubles VALUES(?1, 'no vector', 'x')",
                _ => "INSERT INTO doubles VALUES(?1, ?2, NULL)",
            };
            let wanted = tx.prepare_cached(insert).and_then(|mut s| {
                s.raw_bind_parameter(1, i)?;
                if s.parameter_count() > 1 {
                    s.raw_bind_parameter(2, &vector)?;
                }
                s.raw_execute()
            });
            wanted.expect("inserts");
        }
    }
    tx.commit().expect("commits");
    db.execute_batch(
        "ALTER TABLE grown ADD COLUMN c TEXT DEFAULT 'x';
         INSERT INTO grown SELECT a + 10000000, b, 'y' || a FROM grown WHERE a % 3 = 0;
         DELETE FROM plain WHERE id % 5 = 1; UPDATE mixed SET b = 'longer than before' WHERE rowid % 7 = 0;
         DELETE FROM keyed WHERE v < -0.5; UPDATE plain SET name = name || name WHERE id % 11 = 0;",
    )
    .expect("changes");
    db.close().expect("closes");
    Db {
        bytes: std::fs::read(&path).expect("reads"),
        page_size,
        reserved: 0,
    }
}

/// The database with pages of 4 KiB, which several tests use.
fn usual() -> &'static Db {
    static DB: OnceLock<Db> = OnceLock::new();
    DB.get_or_init(|| database(4096, 1))
}

fn model_of(pages: &[&[u8]]) -> Model {
    let bytes = pages.iter().map(|p| p.len() as u64).sum();
    let model = Model::learn(pages, &Purpose::whole(bytes)).expect("a model");
    let stored = model.to_bytes();
    let again = Model::from_bytes(&stored).expect("a stored model");
    assert_eq!(again.to_bytes(), stored);
    again
}

#[test]
fn pages_of_every_size_round_trip_with_any_model() {
    for (page_size, seed) in PAGE_SIZES.into_iter().zip(1..) {
        let db = database(page_size, seed);
        let models: Vec<Model> = db
            .families()
            .values()
            .map(|pages| model_of(pages))
            .collect();
        let empty = Model::empty();
        let (mut coded, mut all, mut stored) = (0, 0, 0);
        for (i, (context, page)) in db.pages().enumerate() {
            all += 1;
            let first = round_trip(page, &context, &empty);
            coded += usize::from(first.is_some());
            // Many pages are also coded with a model that is not their own.
            let mut best = first.unwrap_or(page.len());
            for model in models.iter().skip(i % 3).step_by(3) {
                assert_eq!(round_trip(page, &context, model).is_some(), first.is_some());
            }
            for model in &models {
                best = best.min(round_trip(page, &context, model).unwrap_or(best));
            }
            stored += best;
        }
        assert!(
            coded * 10 > all * 7,
            "{coded} of {all} pages of {page_size} bytes"
        );
        assert!(
            stored * 2 < all * page_size,
            "{stored} of {}",
            all * page_size
        );
    }
}

/// Vectors of numbers from -0.5 to 0.5 of which a third are zeros.
#[test]
fn vectors_take_the_bits_of_their_numbers() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch("BEGIN; CREATE TABLE t(id INTEGER PRIMARY KEY, vector BLOB)")
        .expect("creates");
    let mut rng = StdRng::seed_from_u64(5);
    for id in 0..400 {
        let numbers = (0..200).map(|_| match rng.random_range(0..3) {
            0 => 0.0,
            _ => rng.random::<f32>() - 0.5,
        });
        let vector: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        db.execute("INSERT INTO t VALUES(?,?)", params![id, vector])
            .expect("inserts");
    }
    db.execute_batch("COMMIT").expect("commits");
    drop(db);
    let bytes = std::fs::read(&path).expect("reads");
    let leaves = bytes.chunks(4096).skip(1).filter(|page| page[0] == 13);
    let leaves: Vec<&[u8]> = leaves.collect();
    let model = model_of(&leaves);
    let context = PageContext {
        number: 3,
        pages: 0,
        reserved: 0,
    };
    let stored = |page: &&[u8]| round_trip(page, &context, &model).expect("a page");
    let stored: usize = leaves.iter().map(stored).sum();
    // Of two thirds of the numbers 24 bits and those of exponents of a wide range, and a bit of each.
    let vectors = 400 * 200 * 32 / 8;
    assert!(stored * 100 < vectors * 64, "{stored} of {vectors}");
}

#[test]
fn reserved_bytes_are_kept() {
    let db = usual();
    for (context, page) in db.pages().filter(|(c, _)| c.number > 1) {
        // A page of 4096 + 32 bytes has no valid size. So the same cells are in a shorter usable
        // area.
        let mut parsed = Page::new();
        if !parsed.parse(page, 4096, false) || !parsed.layout.is_canonical() {
            continue;
        }
        let context = PageContext {
            reserved: 32,
            ..context
        };
        let shorter = page.len() - 32;
        if parsed.parse(page, shorter, false) {
            round_trip(page, &context, &Model::empty());
        }
    }
    // A page made by hand: a leaf with one row, and other bytes everywhere else.
    let mut page = vec![0xEE; 512];
    page[..10].copy_from_slice(&[13, 0, 0, 0, 1, 0x01, 0xe8, 0, 0x01, 0xe8]);
    page[488..492].copy_from_slice(&[2, 1, 2, 9]);
    let context = PageContext {
        number: 7,
        pages: 9,
        reserved: 20,
    };
    let length = round_trip(&page, &context, &Model::empty()).expect("a page");
    assert!(length > 450, "all other bytes are kept: {length}");
    page[488..492].copy_from_slice(&[2, 1, 2, 1]);
    assert_eq!(page[511], 0xEE);
}

#[test]
fn scrub_removes_deleted_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(
        "PRAGMA secure_delete=OFF; CREATE TABLE t(a); INSERT INTO t VALUES('keep me'), ('my secret'), ('me too');
         DELETE FROM t WHERE a = 'my secret';",
    )
    .expect("changes");
    drop(db);
    let bytes = std::fs::read(&path).expect("reads");
    let holds = |bytes: &[u8]| bytes.windows(6).any(|w| w == b"secret");
    assert!(holds(&bytes), "SQLite keeps the deleted bytes");
    for (number, page) in (1..).zip(bytes.chunks(4096)) {
        let context = PageContext {
            number,
            pages: 2,
            reserved: 0,
        };
        let mut kept = Vec::new();
        scrub(
            page,
            &PageContext {
                number: number + 2,
                ..context
            },
            &mut kept,
        );
        assert!(number == 1 || !holds(&kept));
    }
}

#[test]
fn training_is_deterministic_and_models_pay_for_their_bytes() {
    for pages in usual().families().values().filter(|pages| pages.len() > 8) {
        let model = model_of(pages);
        assert_eq!(model.to_bytes(), model_of(pages).to_bytes());
        let context = PageContext {
            number: 3,
            pages: 0,
            reserved: 0,
        };
        let sum = |model: &Model| -> usize {
            let each = pages.iter().map(|page| round_trip(page, &context, model));
            each.map(|n| n.unwrap_or(4096)).sum()
        };
        assert!(sum(&model) + model.to_bytes().len() <= sum(&Model::empty()) + 64);
    }
}

/// Payloads of this database, with their models.
fn payloads() -> &'static Vec<(Vec<u8>, Model)> {
    static PAYLOADS: OnceLock<Vec<(Vec<u8>, Model)>> = OnceLock::new();
    PAYLOADS.get_or_init(|| {
        let mut all = Vec::new();
        for pages in usual().families().values() {
            for page in pages.iter().take(3) {
                let context = PageContext {
                    number: 3,
                    pages: 1,
                    reserved: 0,
                };
                let model = model_of(pages);
                let mut payload = Vec::new();
                if encode(page, &context, &model, &mut Vec::new(), &mut payload) {
                    all.push((payload, model));
                }
            }
        }
        assert!(all.len() > 20);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Pages with changed bytes round-trip if they are still valid, and are refused otherwise.
    #[test]
    fn changed_pages_round_trip_or_are_refused(pick in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5), near in any::<bool>()) {
        let db = usual();
        let count = db.bytes.len() / 4096;
        let i = pick.index(count);
        let mut page = db.bytes[i * 4096..(i + 1) * 4096].to_vec();
        for (at, byte) in changes {
            let range = if near { 64 } else { 4096 };
            page[at.index(range)] = byte;
        }
        let context = PageContext { number: i as u32 + 1, pages: count as u32, reserved: 0 };
        round_trip(&page, &context, &Model::empty());
        let (_, model) = &payloads()[pick.index(payloads().len())];
        round_trip(&page, &context, model);
    }

    #[test]
    fn damaged_payloads_are_decoded_or_refused(pick in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>(), size in 0usize..8) {
        let (payload, model) = &payloads()[pick.index(payloads().len())];
        let mut bytes = payload.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut out = vec![0; PAGE_SIZES[size]];
        let _ = decode(&bytes, model, &mut out);
        let _ = decode(&bytes, &payloads()[other.index(payloads().len())].1, &mut out);
        bytes.truncate(cut.index(bytes.len()));
        let _ = decode(&bytes, model, &mut out);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), size in 0usize..8, pick in any::<prop::sample::Index>()) {
        let mut out = vec![0; PAGE_SIZES[size]];
        let _ = decode(&bytes, &Model::empty(), &mut out);
        let _ = decode(&bytes, &payloads()[pick.index(payloads().len())].1, &mut out);
        let _ = Model::from_bytes(&bytes);
        let context = PageContext { number: 3, pages: 1, reserved: 0 };
        let mut page = bytes;
        page.resize(512, 0);
        round_trip(&page, &context, &Model::empty());
    }

    #[test]
    fn damaged_models_are_read_or_refused(pick in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let (payload, model) = &payloads()[pick.index(payloads().len())];
        let mut bytes = model.to_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(model) = Model::from_bytes(&bytes) {
            let _ = decode(payload, &model, &mut vec![0; 4096]);
            let page = &usual().bytes[2 * 4096..3 * 4096];
            round_trip(page, &PageContext { number: 3, pages: 1, reserved: 0 }, &model);
        }
    }
}
