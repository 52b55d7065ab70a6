//! The short paths against the general path: on every page both must give the same bytes.
//!
//! Each page is encoded and decoded once with the general path alone, then with all short paths,
//! then with each of them off. `DENSITE_SEED` replays the seed that a failure prints.

mod random;

use super::EvenLeaf;
use super::path::{ALL, Path, counts, with_paths};
use crate::context::PageContext;
use crate::learn::Purpose;
use crate::model::Model;
use crate::{decode, encode_unchecked, is_scrubbed};
use densite_sqlite_format::page::Page;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use random::Table;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Tables of which leaves are made.
const TABLES: usize = 500;
/// Leaves from which the model of a table is learned. As many are coded by it.
const PAGES: usize = 3;
const NONE: [bool; ALL.len()] = [false; ALL.len()];

/// What coding a page gives.
#[derive(Debug, PartialEq, Eq)]
struct Coded {
    payload: Vec<u8>,
    /// The decoded page.
    decoded: Vec<u8>,
    /// Whether that counts as the page.
    is_right: bool,
}

fn code(page: &[u8], context: &PageContext, model: &Model) -> Option<Coded> {
    let mut payload = Vec::new();
    if !encode_unchecked(page, context, model, &mut payload) {
        assert!(payload.is_empty());
        return None;
    }
    let decoded = decoded(&payload, model, page.len()).expect("decodes what was encoded");
    let is_right = is_scrubbed(page, context, &decoded);
    Some(Coded {
        payload,
        decoded,
        is_right,
    })
}

fn decoded(payload: &[u8], model: &Model, page_len: usize) -> Option<Vec<u8>> {
    let mut out = vec![0xAA; page_len];
    decode(payload, model, &mut out).ok().map(|()| out)
}

/// Runs `job` with the general path alone, with all short paths, and with each of them off. Asserts
/// that the result is always the same. Returns it, and which paths were taken when all were on.
fn compare<T: PartialEq>(what: &str, job: impl Fn() -> T) -> (T, [bool; ALL.len()]) {
    let before = counts();
    let general = with_paths(&[], &job);
    assert_eq!(counts(), before, "{what}: a short path was taken");
    let all = with_paths(&ALL, &job);
    let after = counts();
    assert!(general == all, "{what}: the short paths differ");
    for off in ALL {
        let others: Vec<Path> = ALL.into_iter().filter(|path| *path != off).collect();
        let result = with_paths(&others, &job);
        assert!(general == result, "{what}: differs without {off:?}");
    }
    let taken = ALL.map(|path| after[path as usize] > before[path as usize]);
    (all, taken)
}

/// Codes a page in every way. Returns its payload, and which short paths were taken.
fn compare_page(
    what: &str,
    page: &[u8],
    context: &PageContext,
    model: &Model,
) -> (Option<Vec<u8>>, [bool; ALL.len()]) {
    let (coded, taken) = compare(what, || code(page, context, model));
    assert!(
        coded.as_ref().is_none_or(|coded| coded.is_right),
        "{what}: the page does not come back"
    );
    (coded.map(|coded| coded.payload), taken)
}

/// Changes a byte of a page where it matters: in its header, its pointers, or where a cell begins.
fn damage(page: &mut [u8], rng: &mut StdRng) {
    let cells = usize::from(u16::from_be_bytes([page[3], page[4]])).clamp(1, page.len() / 4);
    let pointer = 8 + 2 * rng.random_range(0..cells);
    let start = usize::from(u16::from_be_bytes([page[pointer], page[pointer + 1]]));
    let at = match rng.random_range(0..8) {
        0 => rng.random_range(0..8),
        1 => pointer + rng.random_range(0..2),
        _ => start + rng.random_range(0..12),
    };
    if let Some(byte) = page.get_mut(at) {
        *byte = [0, 1, 2, 8, 9, 0xFF, *byte ^ 0x80, byte.wrapping_add(1)][rng.random_range(0..8)];
    }
}

/// What was compared.
#[derive(Debug, Default)]
struct Tally {
    pages: usize,
    /// Pages on which each short path was taken.
    taken: [usize; ALL.len()],
    /// Pages on which no short path was taken.
    general: usize,
    damaged: usize,
    /// Damaged pages that were coded still.
    damaged_coded: usize,
    /// Damaged payloads that were decoded still.
    payloads_decoded: usize,
}

impl Tally {
    /// Compares a page, and the page and its payload after some damage.
    fn add(
        &mut self,
        what: &str,
        page: &[u8],
        context: &PageContext,
        model: &Model,
        rng: &mut StdRng,
    ) {
        let (payload, taken) = compare_page(what, page, context, model);
        let payload = payload.unwrap_or_else(|| panic!("{what}: is not coded"));
        self.pages += 1;
        for (count, taken) in self.taken.iter_mut().zip(taken) {
            *count += usize::from(taken);
        }
        self.general += usize::from(taken == NONE);

        let mut damaged = page.to_vec();
        damage(&mut damaged, rng);
        let what_damaged = format!("{what}, damaged");
        let (coded, _) = compare_page(&what_damaged, &damaged, context, model);
        self.damaged += 1;
        self.damaged_coded += usize::from(coded.is_some());

        let mut payload = payload;
        let at = rng.random_range(0..payload.len().min(40));
        payload[at] ^= 1 << rng.random_range(0..8);
        let what_damaged = format!("{what}, damaged payload");
        let (page, _) = compare(&what_damaged, || decoded(&payload, model, page.len()));
        self.payloads_decoded += usize::from(page.is_some());
    }
}

fn seed() -> u64 {
    let given = std::env::var("DENSITE_SEED").ok();
    given.and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |t| u64::from(t.subsec_nanos()))
    })
}

fn learn(pages: &[Vec<u8>], reserved: usize) -> Model {
    let pages: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let bytes = pages.iter().map(|p| p.len() as u64).sum();
    Model::learn(
        &pages,
        &Purpose {
            reserved,
            ..Purpose::whole(bytes)
        },
    )
    .expect("a model")
}

#[test]
fn short_paths_give_the_bytes_of_the_general_path() {
    let seed = seed();
    println!("DENSITE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut tally = Tally::default();
    let mut other = Model::empty();
    for i in 0..TABLES {
        let table = Table::random(&mut rng);
        let sample: Vec<_> = (0..PAGES).map(|_| table.page(false, &mut rng)).collect();
        let model = learn(&sample, table.reserved);
        for j in 0..PAGES {
            let first = rng.random_bool(0.1);
            let context = PageContext {
                number: if first { 1 } else { 7 },
                pages: 100,
                reserved: table.reserved,
            };
            let page = table.page(first, &mut rng);
            let what = format!("DENSITE_SEED={seed}, page {j} of table {i}, {table:?}");
            tally.add(&what, &page, &context, &model, &mut rng);
            if j == 0 {
                for model in [&Model::empty(), &other] {
                    compare_page(&what, &page, &context, model);
                }
            }
        }
        other = model;
    }
    // A test that takes no short path shows nothing.
    let [even, columns, rows, alike, each] = tally.taken.map(|n| n * 100 / tally.pages);
    assert!(
        even >= 15 && columns >= 8 && rows >= 20 && alike >= 2 && each >= 10,
        "DENSITE_SEED={seed}: {even} %, {columns} %, {rows} %, {alike} %, {each} % of {tally:?}"
    );
    assert!(
        tally.general * 10 >= tally.pages
            && tally.damaged_coded * 10 >= tally.damaged
            && tally.damaged_coded * 10 <= tally.damaged * 9
            && tally.payloads_decoded * 20 >= tally.pages,
        "DENSITE_SEED={seed}: {tally:?}"
    );
    println!("{tally:?}");
}

/// The leaves of tables and indexes that SQLite has filled, in runs of one kind and width.
fn pages_of_sqlite(page_size: usize) -> Vec<Vec<Vec<u8>>> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(&format!(
        "PRAGMA page_size = {page_size};
         CREATE TABLE n(i INTEGER);
         WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
         INSERT INTO n SELECT i FROM n;
         CREATE TABLE pairs(a INTEGER, b INTEGER, c REAL, PRIMARY KEY (a, b));
         INSERT INTO pairs(a, b) SELECT i / 100, i % 100 * (i % 7) * (i % 3 - 1) * 300 FROM n
           WHERE 1 ON CONFLICT DO NOTHING;
         DELETE FROM pairs WHERE a BETWEEN 10 AND 20 AND b % 3 = 0;
         CREATE TABLE wide(a INTEGER PRIMARY KEY, b, c, d, e, f, g) WITHOUT ROWID;
         INSERT INTO wide
           SELECT i, i * i * i * i, -i, 1 << (i % 63), NULL, i % 2, i % 1000 FROM n;
         CREATE TABLE even(a INTEGER, b INTEGER, c REAL, d INTEGER, PRIMARY KEY (a, b));
         INSERT INTO even SELECT 200 + i / 1000, -1000 - i % 1000, NULL, i / 4500 FROM n;
         CREATE TABLE short(a);
         INSERT INTO short SELECT NULL FROM n;
         CREATE TABLE gone(a, b);
         INSERT INTO gone SELECT a, b FROM even;
         DELETE FROM gone WHERE a > 204 AND b % 7 = 0;
         CREATE TABLE mixed(a, b);
         INSERT INTO mixed SELECT
           CASE WHEN i % 400 = 399 THEN NULL ELSE i END,
           CASE WHEN i % 900 = 899 THEN 'x' ELSE 0.5 * i END FROM n;
         CREATE INDEX random ON even(b * 7919 % 20011);",
    ))
    .expect("runs");
    drop(db);
    let bytes = std::fs::read(&path).expect("reads");
    let pages = bytes.chunks(page_size).skip(1);
    let mut families: BTreeMap<_, Vec<Vec<u8>>> = BTreeMap::new();
    let mut parsed = Page::new();
    for page in pages {
        let is_leaf = parsed.parse(page, page_size, false) && !parsed.kind.has_child();
        if let Some(cell) = parsed.cells.first().filter(|_| is_leaf) {
            let header = page[cell.local_at as usize];
            families
                .entry((page[0], header))
                .or_default()
                .push(page.to_vec());
        }
    }
    families.into_values().collect()
}

#[test]
fn short_paths_are_taken_for_pages_that_sqlite_writes() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut tally = Tally::default();
    for page_size in [512, 4096, 65_536] {
        for pages in pages_of_sqlite(page_size) {
            let sample: Vec<_> = pages.iter().step_by(pages.len() / 4 + 1).cloned().collect();
            let model = learn(&sample, 0);
            for (i, page) in pages.iter().enumerate().step_by(pages.len() / 30 + 1) {
                let context = PageContext {
                    number: 3 + i as u32,
                    pages: 0,
                    reserved: 0,
                };
                let what = format!("page {i} of {page_size} bytes");
                tally.add(&what, page, &context, &model, &mut rng);
            }
        }
    }
    let [even, columns, rows, alike, each] = tally.taken;
    assert!(
        even >= 50 && columns >= 40 && rows >= 40 && alike >= 20 && each >= 20,
        "{tally:?}"
    );
    println!("{tally:?}");
}

/// Codes a leaf of 512 bytes in every way. Returns which short paths split it.
fn splits(page: &[u8]) -> (bool, bool) {
    let context = PageContext {
        number: 3,
        pages: 0,
        reserved: 0,
    };
    let (coded, taken) = compare_page("a page", page, &context, &Model::empty());
    assert!(coded.is_some());
    (taken[Path::Columns as usize], taken[Path::Rows as usize])
}

/// Before schema format 4, 0 and 1 have no serial types of their own.
#[test]
fn a_zero_or_one_of_a_byte_is_split_only_among_its_like() {
    // A table leaf with two rows.
    let page = |record: [u8; 4]| {
        let mut page = vec![0; 512];
        page[..12].copy_from_slice(&[13, 0, 0, 0, 2, 1, 0xF4, 0, 1, 0xFA, 1, 0xF4]);
        for (start, rowid) in [(506, 1), (500, 2)] {
            page[start..start + 2].copy_from_slice(&[4, rowid]);
            page[start + 2..start + 6].copy_from_slice(&record);
        }
        page
    };
    let one_of_two_bytes = page([2, 2, 1, 1]);
    assert_eq!(splits(&one_of_two_bytes), (true, false), "257");
    let one_and_null = page([3, 1, 0, 1]);
    assert_eq!(splits(&one_and_null), (true, false));
    // No file has both kinds. The general path stores both records as they are.
    let one_and_short_zero = page([3, 1, 8, 1]);
    let context = PageContext {
        number: 3,
        pages: 0,
        reserved: 0,
    };
    let (_, taken) = compare_page("both", &one_and_short_zero, &context, &Model::empty());
    assert!(!taken[Path::Columns as usize] && !taken[Path::Rows as usize]);
}

#[test]
fn an_integer_of_too_many_bytes_is_left_to_the_general_path() {
    // A table leaf with one row of three columns: 1, 5 in two bytes, NULL.
    let mut page = vec![0; 512];
    page[..10].copy_from_slice(&[13, 0, 0, 0, 1, 1, 0xF8, 0, 1, 0xF8]);
    page[504..].copy_from_slice(&[6, 1, 4, 9, 2, 0, 0, 5]);
    assert_eq!(splits(&page), (false, false));
    page[510] = 1;
    assert_eq!(splits(&page), (true, false));
}

#[test]
fn cells_that_lie_between_places_are_not_even() {
    // Twelve cells of six bytes, all of them 5.
    let mut page = vec![5; 512];
    page[..8].copy_from_slice(&[10, 0, 0, 0, 12, 1, 0xB8, 0]);
    let mut is_even = |starts: [u16; 12]| {
        for (start, to) in starts.iter().zip(page[8..32].chunks_mut(2)) {
            to.copy_from_slice(&start.to_be_bytes());
        }
        EvenLeaf::default().parse(&mut Page::new(), &page, 512, false)
    };
    let mut starts = std::array::from_fn(|i| 506 - 6 * i as u16);
    assert!(is_even(starts));
    starts.swap(3, 7);
    assert!(is_even(starts));
    starts[3] -= 1;
    assert!(!is_even(starts), "between two places");
    starts[3] = starts[4];
    assert!(!is_even(starts), "two in one place");
}

#[test]
fn a_row_id_of_too_many_bytes_is_not_even() {
    // Two cells of eight bytes, with row ids of two bytes.
    let mut page = vec![1; 512];
    page[..12].copy_from_slice(&[13, 0, 0, 0, 2, 1, 0xF0, 0, 1, 0xF8, 1, 0xF0]);
    page[504..507].copy_from_slice(&[5, 0x81, 1]);
    page[496..499].copy_from_slice(&[5, 0x81, 2]);
    let is_even = |page: &[u8]| EvenLeaf::default().parse(&mut Page::new(), page, 512, false);
    assert!(is_even(&page));
    page[497] = 0x80;
    assert!(!is_even(&page));
    page[497..499].copy_from_slice(&[0x81, 0x81]);
    assert!(!is_even(&page));
}
