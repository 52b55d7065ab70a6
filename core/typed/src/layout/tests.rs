//! Pages that SQLite wrote, unchanged and damaged.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use rusqlite::Connection;

use super::*;
use crate::bits::PADDING;
use crate::context::PageContext;
use densite_sqlite_format::fixed::{is_pointer_map, lock_page};
use densite_sqlite_format::page::{Page, local_len};

const PAGE_SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
const SEED: u64 = 0x5eed_0f9a;

/// The properties of a test database.
#[derive(Clone, Copy)]
struct Make {
    page_size: usize,
    reserved: usize,
    auto_vacuum: bool,
    rows: usize,
}

/// A database's pages, and which of them SQLite says are b-tree pages.
struct Made {
    bytes: Vec<u8>,
    make: Make,
    /// Kind by page number: "leaf", "internal" or "overflow".
    kinds: BTreeMap<u32, String>,
}

impl Made {
    fn pages(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (1..).zip(self.bytes.chunks_exact(self.make.page_size))
    }

    fn usable(&self) -> usize {
        self.make.page_size - self.make.reserved
    }

    fn head(&self) -> &[u8; 100] {
        self.bytes.first_chunk().expect("a page")
    }

    fn is_pointer_map(&self, number: u32) -> bool {
        let (size, usable) = (self.make.page_size as u32, self.usable() as u32);
        self.make.auto_vacuum && is_pointer_map(number, size, usable)
    }

    fn is_btree(&self, number: u32) -> bool {
        matches!(
            self.kinds.get(&number).map(String::as_str),
            Some("leaf" | "internal")
        )
    }
}

fn blob(rng: &mut StdRng, len_max: usize) -> Vec<u8> {
    let len = rng.random_range(0..=len_max);
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// A database whose rows were inserted, changed and deleted in no order.
fn database(make: Make) -> Made {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    {
        let db = Connection::open(&path).expect("opens");
        db.execute_batch(&format!(
            "PRAGMA page_size = {}; PRAGMA auto_vacuum = {}; VACUUM;",
            make.page_size,
            u8::from(make.auto_vacuum)
        ))
        .expect("an empty database");
    }
    if make.reserved != 0 {
        // As SQLite makes a file with reserved bytes: byte 20 has their number, and page 1, which
        // is empty, ends before them.
        let mut bytes = fs::read(&path).expect("reads");
        let usable = (make.page_size - make.reserved) as u16;
        bytes[20] = make.reserved as u8;
        bytes[105..107].copy_from_slice(&usable.to_be_bytes());
        fs::write(&path, bytes).expect("writes");
    }
    let mut db = Connection::open(&path).expect("opens");
    db.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA secure_delete = OFF;
         CREATE TABLE appended(id INTEGER PRIMARY KEY, a, b);
         CREATE TABLE falling(id INTEGER PRIMARY KEY, a);
         CREATE TABLE random(id INTEGER PRIMARY KEY, a, b);
         CREATE INDEX random_a ON random(a);
         CREATE INDEX random_b ON random(b);
         CREATE TABLE keyed(k BLOB PRIMARY KEY, v) WITHOUT ROWID;
         CREATE TABLE tiny(k PRIMARY KEY) WITHOUT ROWID;
         CREATE TABLE empty(a);",
    )
    .expect("tables");
    let mut rng = StdRng::seed_from_u64(SEED ^ make.page_size as u64);
    let small = 60;
    let tx = db.transaction().expect("begins");
    for i in 0..make.rows as i64 {
        let long = if rng.random_ratio(1, 40) {
            3 * make.page_size
        } else {
            small
        };
        let id: i64 = rng.random::<i64>() >> rng.random_range(0..63);
        let put = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            tx.prepare_cached(sql)
                .expect("sql")
                .execute(values)
                .expect("runs")
        };
        put(
            "INSERT INTO appended VALUES (?, ?, ?)",
            &[&i, &(i % 7), &blob(&mut rng, small)],
        );
        put(
            "INSERT INTO falling VALUES (?, ?)",
            &[&-i, &blob(&mut rng, small)],
        );
        put(
            "INSERT OR IGNORE INTO random VALUES (?, ?, ?)",
            &[&id, &rng.random::<i32>(), &blob(&mut rng, long)],
        );
        put(
            "INSERT OR IGNORE INTO keyed VALUES (?, ?)",
            &[&blob(&mut rng, long), &rng.random::<f64>()],
        );
        put(
            "INSERT OR IGNORE INTO tiny VALUES (?)",
            &[&rng.random_range(-1..200)],
        );
        if i % 3 == 0 {
            let any: i64 = rng.random::<i64>() >> rng.random_range(0..63);
            put(
                "DELETE FROM random WHERE id = (SELECT id FROM random WHERE id >= ? LIMIT 1)",
                &[&any],
            );
            put(
                "UPDATE random SET b = ? WHERE id = (SELECT id FROM random WHERE id <= ? ORDER BY id DESC LIMIT 1)",
                &[&blob(&mut rng, small), &any],
            );
            put(
                "DELETE FROM keyed WHERE k = (SELECT k FROM keyed WHERE k >= ? LIMIT 1)",
                &[&blob(&mut rng, 4)],
            );
            put(
                "DELETE FROM tiny WHERE k = ?",
                &[&rng.random_range(-1..200)],
            );
        }
    }
    put_null(&tx);
    tx.commit().expect("commits");
    // This puts pages on the freelist.
    db.execute_batch(
        "DELETE FROM appended WHERE id BETWEEN 100 AND 400; DELETE FROM falling WHERE id % 3 = 0;",
    )
    .expect("deletes");
    let sound: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("checks");
    assert_eq!(sound, "ok");
    let kinds = db
        .prepare("SELECT pageno, pagetype FROM dbstat")
        .expect("dbstat")
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("dbstat")
        .collect::<Result<_, _>>()
        .expect("dbstat");
    drop(db);
    let bytes = fs::read(&path).expect("reads");
    Made { bytes, make, kinds }
}

fn put_null(db: &Connection) {
    db.execute_batch("INSERT OR IGNORE INTO tiny VALUES (0), (1)")
        .expect("inserts");
}

fn makes() -> impl Iterator<Item = Make> {
    PAGE_SIZES.into_iter().flat_map(|page_size| {
        [(0, false), (32, false), (0, true)].map(|(reserved, auto_vacuum)| Make {
            page_size,
            reserved,
            auto_vacuum,
            rows: if page_size > 8192 { 3000 } else { 1500 },
        })
    })
}

/// The cells of `page` in the canonical layout, with zeros as their filling.
fn pack(page: &[u8], parsed: &Page, usable: usize) -> Vec<u8> {
    let mut packed = vec![0xaa; page.len()];
    let mut at = usable;
    for cell in &parsed.cells {
        at -= cell.size as usize;
        let meant = (cell.meaning_end() - cell.start) as usize;
        packed[at..at + cell.size as usize].fill(0);
        packed[at..at + meant].copy_from_slice(&page[cell.start as usize..][..meant]);
    }
    packed
}

fn scrubbed(page: &[u8], parsed: &Page) -> Vec<u8> {
    let mut zeroed = page.to_vec();
    let mut last = 0;
    parsed.unallocated(|start, end| {
        assert!(last <= start && start < end, "{last} {start} {end}");
        zeroed[start..end].fill(0);
        last = end;
    });
    zeroed
}

/// Parses the page, writes and reads its layout, and makes the page again. Returns the bits of the
/// layout; `None` if it is not a b-tree page.
fn round_trip(
    page: &[u8],
    usable: usize,
    first: bool,
    parsed: &mut Page,
    layout: &mut Layout,
) -> Option<usize> {
    if !parsed.parse(page, usable, first) {
        assert!(parsed.cells.is_empty());
        return None;
    }
    let mut w = BitWriter::default();
    put(&parsed.layout, &mut w);
    let bits = w.len();
    let mut coded = Vec::new();
    w.finish(&mut coded);
    coded.extend([0xff; PADDING]);
    let mut r = BitReader::new(&coded);
    LayoutReader::default()
        .take(&mut r, parsed.cells.len(), usable, layout)
        .expect("reads what was written");
    assert!(r.left() < 8);
    assert_eq!(layout.order, parsed.layout.order);
    assert_eq!(layout.items, parsed.layout.items);
    assert_eq!(layout.is_canonical(), bits == 1);

    let sizes: Vec<u32> = parsed.cells.iter().map(|cell| cell.size).collect();
    let header_len = parsed.kind.header_len();
    let start = |out: &mut Vec<u8>| {
        let own = parsed.header_at;
        out[..own].copy_from_slice(&page[..own]);
        out[own] = parsed.kind as u8;
        if parsed.kind.has_child() {
            out[own + 8..own + 12].copy_from_slice(&parsed.right.to_be_bytes());
        }
        out[usable..].copy_from_slice(&page[usable..]);
    };
    let packed = pack(page, parsed, usable);
    let expected = scrubbed(page, parsed);
    let mut out = vec![0x55; page.len()];
    start(&mut out);
    layout
        .scatter(
            &packed,
            &sizes,
            parsed.header_at,
            header_len,
            usable,
            &mut out,
        )
        .expect("fits");
    assert!(out == expected, "scattered page differs");
    if layout.is_canonical() {
        let mut out = packed;
        let pointers_end = parsed.header_at + header_len + 2 * sizes.len();
        let content: u32 = sizes.iter().sum();
        out[pointers_end..usable - content as usize].fill(0);
        start(&mut out);
        Layout::finish_canonical(&sizes, parsed.header_at, header_len, usable, &mut out)
            .expect("fits");
        assert!(out == expected, "finished page differs");
    }
    Some(bits)
}

#[test]
fn every_page_that_sqlite_writes_round_trips() {
    let (mut parsed, mut layout) = (Page::new(), Layout::default());
    let (mut kinds, mut blocks, mut fragments, mut filled, mut overflows, mut shuffled) =
        (BTreeMap::new(), 0, 0, 0, 0, 0);
    for make in makes() {
        let made = database(make);
        for (number, page) in made.pages() {
            let back = round_trip(page, made.usable(), number == 1, &mut parsed, &mut layout);
            let size = make.page_size;
            if !made.is_btree(number) {
                // A leaf of the freelist can still look like the page it was. SQLite does not read
                // it.
                let overflows = made.kinds.contains_key(&number);
                assert!(
                    !overflows || back.is_none(),
                    "overflow page {number} of {size} bytes"
                );
                assert!(
                    !made.is_pointer_map(number) || !may_scrub(made.head(), number, page, &parsed)
                );
                continue;
            }
            assert!(
                back.is_some(),
                "page {number} of {size} bytes, {}",
                make.reserved
            );
            *kinds.entry(parsed.kind as u8).or_insert(0) += 1;
            blocks += layout.items.iter().filter(|item| item.block).count();
            fragments += layout.items.iter().filter(|item| !item.block).count();
            shuffled += usize::from(!layout.order.is_empty());
            filled += usize::from(
                parsed
                    .cells
                    .iter()
                    .any(|cell| cell.meaning_end() < cell.end()),
            );
            overflows += parsed
                .cells
                .iter()
                .filter(|cell| cell.overflow != 0)
                .count();
            for cell in &parsed.cells {
                assert_eq!(
                    local_len(parsed.kind, made.usable(), cell.payload),
                    cell.local_len as usize
                );
            }
            let map_place = number >= 2 && (number - 2).is_multiple_of(size as u32 / 5 + 1);
            assert!(
                may_scrub(made.head(), number, page, &parsed) == (make.reserved == 0 && !map_place),
                "page {number} of {size}"
            );
        }
    }
    // The databases contain what they are made for.
    assert_eq!(kinds.len(), 4);
    assert!(kinds.values().all(|&pages| pages > 20), "{kinds:?}");
    assert!(
        blocks > 1000 && fragments > 1000 && filled > 10 && overflows > 1000 && shuffled > 1000,
        "{blocks} {fragments} {filled} {overflows} {shuffled}"
    );
}

fn small() -> Made {
    database(Make {
        page_size: 1024,
        reserved: 0,
        auto_vacuum: false,
        rows: 400,
    })
}

/// Whether this page of the database that begins with `head` can be scrubbed.
fn may_scrub(head: &[u8; 100], number: u32, page: &[u8], parsed: &Page) -> bool {
    let context = PageContext {
        number,
        pages: u32::from_be_bytes([head[28], head[29], head[30], head[31]]),
        reserved: usize::from(head[20]),
    };
    crate::scrub::may_scrub(&context, page, parsed)
}

fn put_be32(head: &mut [u8; 100], at: usize, value: u32) {
    head[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// If the page of the lock bytes is at the place of a pointer map, the map is the page behind it.
#[test]
fn a_pointer_map_moves_behind_the_lock_page() {
    let mut parsed = Page::new();
    let mut pushes = 0;
    for page_size in PAGE_SIZES {
        let lock = lock_page(page_size as u32);
        let mut page = vec![0; page_size];
        page[0] = 13;
        page[5..7].copy_from_slice(&(page_size as u16).to_be_bytes());
        assert!(parsed.parse(&page, page_size, false));
        let mut head = [0; 100];
        put_be32(&mut head, 28, lock + 10);
        assert!(!may_scrub(&head, lock, &page, &parsed));
        let pushed = (lock - 2).is_multiple_of(page_size as u32 / 5 + 1);
        pushes += u32::from(pushed);
        assert_eq!(may_scrub(&head, lock + 1, &page, &parsed), !pushed);
    }
    assert!(pushes > 0);
}

#[test]
fn an_overflow_page_that_is_a_leaf_byte_for_byte_keeps_its_bytes() {
    // A blob whose overflow pages have a copy of a real leaf behind the number of the next page.
    // The copy never begins at byte 0.
    let made = small();
    let mut parsed = Page::new();
    let leaf = made
        .pages()
        .find(|&(n, page)| made.is_btree(n) && page.first() == Some(&13))
        .expect("a leaf")
        .1;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("b.db");
    let db = Connection::open(&path).expect("opens");
    let mut payload = vec![0; 100];
    for _ in 0..40 {
        payload.extend_from_slice(leaf.get(4..).expect("a page"));
    }
    db.execute_batch("PRAGMA page_size = 1024; CREATE TABLE t(a);")
        .expect("a table");
    for cut in 0..3 {
        db.execute(
            "INSERT INTO t VALUES (?)",
            [payload.get(cut..).expect("longer")],
        )
        .expect("inserts");
    }
    let btree: Vec<u32> = db
        .prepare("SELECT pageno FROM dbstat WHERE pagetype <> 'overflow'")
        .expect("dbstat")
        .query_map([], |row| row.get(0))
        .expect("dbstat")
        .collect::<Result<_, _>>()
        .expect("dbstat");
    drop(db);
    let bytes = fs::read(&path).expect("reads");
    let head = bytes.first_chunk().expect("a page");
    for (number, page) in (1..).zip(bytes.chunks_exact(1024)) {
        let parses = parsed.parse(page, 1024, number == 1);
        assert_eq!(
            parses && may_scrub(head, number, page, &parsed),
            btree.contains(&number) && number != 2 && number != 207
        );
    }
}

#[test]
fn an_interior_page_without_cells_is_parsed_but_not_scrubbed() {
    // A pointer map of 512 bytes whose pages are all free looks like this, too.
    let mut page = vec![0; 512];
    page[0] = 2;
    page[5] = 2;
    let mut parsed = Page::new();
    assert!(parsed.parse(&page, 512, false));
    assert!(parsed.layout.is_canonical());
    let mut head = [0; 100];
    put_be32(&mut head, 28, 10);
    assert!(!may_scrub(&head, 3, &page, &parsed));
    page[0] = 10;
    assert!(parsed.parse(&page, 512, false));
    assert!(may_scrub(&head, 3, &page, &parsed));
}

#[test]
fn inconsistent_pages_are_refused() {
    let made = small();
    let mut parsed = Page::new();
    let (_, good) = made
        .pages()
        .find(|&(n, page)| {
            n > 1
                && made.is_btree(n)
                && page[0] >= 10
                && parsed.parse(page, 1024, false)
                && !parsed.layout.items.is_empty()
        })
        .expect("an irregular page");
    let mut parses = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut page = good.to_vec();
        change(&mut page);
        parsed.parse(&page, 1024, false)
    };
    assert!(parses(&|_| ()));
    assert!(!parses(&|page| page[7] ^= 1), "fragments");
    assert!(!parses(&|page| page[4] ^= 1), "number of cells");
    assert!(!parses(&|page| page[6] ^= 1), "content start");
    assert!(!parses(&|page| page[0] = 4), "kind");
    assert!(!parses(&|page| page.truncate(1000)), "length");
    assert!(!parses(&|page| page.copy_within(8..10, 10)), "a cell twice");
    let mut parsed = Page::new();
    assert!(!parsed.parse(good, 1000, false), "usable size");
    assert!(!parsed.parse(&[], 0, false));
    assert!(!parsed.parse(&[13; 600], 100, true));
}

/// Pages of every kind, regular and not, to be changed.
fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    SAMPLES.get_or_init(|| {
        let made = small();
        let pages = made
            .pages()
            .filter(|&(number, _)| number > 1 && made.is_btree(number));
        pages.map(|(_, page)| page.to_vec()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_page_that_parses_round_trips(which: prop::sample::Index, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..4), 0..4)) {
        let mut page = which.get(samples()).clone();
        let count = usize::from(u16::from_be_bytes([page[3], page[4]]));
        for (at, byte, where_to) in changes {
            // Headers and pointers matter most.
            let range = match where_to { 0 => page.len(), 1 => 12, _ => 12 + 2 * count };
            let at = at.index(range);
            page[at] = byte;
        }
        round_trip(&page, 1024, false, &mut Page::new(), &mut Layout::default());
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(mut page in prop::collection::vec(any::<u8>(), 500..1100), kind in prop::sample::select(vec![2u8, 5, 10, 13]), cells in 0u8..20, usable in 0usize..1200, first: bool) {
        let at = if first { 100 } else { 0 };
        page[at] = kind;
        page[at + 3] = 0;
        page[at + 4] = cells;
        let usable = usable.max(480);
        round_trip(&page, usable, first, &mut Page::new(), &mut Layout::default());
    }

    #[test]
    fn any_layout_is_scattered_or_refused(
        bytes in prop::collection::vec(any::<u8>(), PADDING..100),
        sizes in prop::collection::vec(prop_oneof![4u32..40, 0u32..2000, any::<u32>()], 0..40),
        usable in prop::sample::select(vec![0usize, 480, 512, 1024, 65_536]),
        header_at in prop::sample::select(vec![0usize, 100, usize::MAX]),
        header_len in 0usize..20,
    ) {
        let mut layout = Layout::default();
        let mut bytes = bytes;
        bytes[0] |= 1;
        let mut r = BitReader::new(&bytes);
        let taken = LayoutReader::default().take(&mut r, sizes.len(), usable, &mut layout);
        if taken.is_none() {
            prop_assert!(layout.is_canonical());
        }
        prop_assert!(layout.items.len() <= usable / 4 + 255 && layout.order.len() <= sizes.len());
        let packed = vec![7; usable];
        let mut out = vec![0; usable];
        let _ = layout.scatter(&packed, &sizes, header_at, header_len, usable, &mut out);
        let _ = layout.scatter(&packed, &sizes, header_at, header_len, usable + 1, &mut out);
        let _ = Layout::finish_canonical(&sizes, header_at, header_len, usable, &mut out);
    }
}
