//! Tests that docs/FORMAT.md describes what is encoded, and that numbers in files do not change.

use crate::bits::{BitReader, PADDING};
use crate::class::Class;
use crate::ints::{DefaultParameters, Params, Shape};
use crate::layout::LayoutReader;
use crate::model::{
    COLUMN_STREAMS, Column, ColumnStream, Dictionary, Form, Model, PAGE_STREAMS, PageStream,
};
use crate::symbols::{SYMBOL_MAX, Symbols};
use crate::template::{FIELDS_MAX, TEXT_MAX, Template};
use crate::vector::Vector;
use crate::{PageContext, encode};
use densite_format_doc::{TEXT, cells};
use densite_sqlite_format::header::is_sqlite;
use densite_sqlite_format::page::{Cell, Kind, Layout, Page};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// The rows of a table of fields: (offset, size, name). Checks that there are no gaps.
fn places(mark: &str) -> Vec<(usize, usize, &'static str)> {
    let mut at = 0;
    let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{mark}: {cell}"));
    let place = |row: Vec<&'static str>| {
        let (from, size) = (number(row[0]), number(row[1]));
        assert_eq!(from, at, "{mark}: {}", row[2]);
        at += size;
        (from, size, row[2])
    };
    cells(mark).into_iter().map(place).collect()
}

/// A table of numbers and names.
fn numbers(mark: &str) -> Vec<(usize, &'static str)> {
    let number = |row: Vec<&'static str>| (row[0].parse().expect("a number"), row[1]);
    cells(mark).into_iter().map(number).collect()
}

fn named<T: std::fmt::Debug>(all: impl IntoIterator<Item = (usize, T)>) -> Vec<(usize, String)> {
    let name = |(number, value): (usize, T)| (number, format!("{value:?}").to_lowercase());
    all.into_iter().map(name).collect()
}

fn check_numbers(mark: &str, code: Vec<(usize, String)>) {
    let doc: Vec<(usize, String)> = numbers(mark)
        .into_iter()
        .map(|(number, name)| (number, name.to_owned()))
        .collect();
    assert_eq!(doc, code, "{mark}");
}

fn context(number: u32, reserved: usize) -> PageContext {
    PageContext {
        number,
        pages: 100,
        reserved,
    }
}

/// Pages of a database, with their numbers.
fn pages(page_size: usize, sql: &str) -> Vec<(u32, Vec<u8>)> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size}; PRAGMA secure_delete=OFF; {sql}"
    ))
    .expect("sql");
    db.close().expect("closes");
    let bytes = std::fs::read(&path).expect("reads");
    let pages = bytes.chunks(page_size).map(<[u8]>::to_vec);
    (1..).zip(pages).collect()
}

/// The bits of the head are as documented, and each bit occurs with both values.
#[test]
fn the_head_of_a_page_is_as_documented() {
    let mut all = pages(
        2048,
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c); CREATE INDEX tb ON t(b, c);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
           INSERT INTO t SELECT i, i % 100, 'text ' || i FROM n;
         CREATE TABLE small(a);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) INSERT INTO small SELECT NULL FROM n;
         DELETE FROM t WHERE a % 7 = 3 AND a > 4000;
         UPDATE t SET c = c || c || c WHERE a % 5 = 2 AND a > 4000;",
    );
    // As in files of schema format 1: 0 and 1 take a byte.
    let mut old = pages(
        512,
        "PRAGMA legacy_file_format=ON; CREATE TABLE t(a); INSERT INTO t VALUES (3), (4);",
    );
    for (_, page) in &mut old {
        if page.ends_with(&[4, 1, 2, 1, 3, 4, 2, 2, 1, 3]) || page.first() == Some(&13) {
            let len = page.len();
            page[len - 1] = 1;
        }
    }
    all.append(&mut old);
    // Leaves of the table, from which the model is learned.
    let of_table: Vec<&[u8]> = all
        .iter()
        .filter(|(number, page)| *number > 1 && page.len() == 2048 && page.first() == Some(&13))
        .map(|(_, page)| page.as_slice())
        .collect();
    let model = Model::learn(&of_table, &crate::Purpose::whole(1 << 20)).expect("a model");
    let doc = places("bits: page");
    let mut seen: BTreeMap<&str, [bool; 4]> = BTreeMap::new();
    let mut parsed = Page::new();
    for (number, page) in &all {
        for (model, number, reserved) in [
            (&model, *number, 0),
            (&Model::empty(), *number, 0),
            (&model, 2, 0),
            (&model, *number, 32),
        ] {
            let first = is_sqlite(page);
            let number = if first { 1 } else { number.max(2) };
            let (mut page, mut kept, mut payload) = (page.clone(), Vec::new(), Vec::new());
            // Reserved bytes make the page longer.
            page.resize(page.len() + reserved, 7);
            let context = context(number, reserved);
            if !encode(&page, &context, model, &mut kept, &mut payload) {
                continue;
            }
            assert!(
                parsed.parse(&page, page.len() - reserved, first),
                "encodes only valid pages"
            );
            let cells = parsed.cells.len();
            let mut rubbish = false;
            let kind = parsed.kind;
            parsed.unallocated(|from, to| rubbish |= page[from..to].iter().any(|b| *b != 0));
            payload.extend([0; PADDING]);
            let mut r = BitReader::new(&payload);
            for (_, width, field) in &doc {
                let bits = r.get(*width as u32).expect("a head") as usize;
                let want = match *field {
                    "kind" => Kind::ALL.iter().position(|of| *of == kind),
                    "irregular" => Some(usize::from(!parsed.layout.is_canonical())),
                    // These depend on the model, too.
                    "deviant" | "columns" | "raw" => None,
                    "long" => Some(usize::from(page.len() < 1024 && !first)),
                    "first" => Some(usize::from(number == 1)),
                    "residue" => Some(usize::from(rubbish && (number == 2 || reserved > 0))),
                    "reserved" => Some(usize::from(reserved > 0)),
                    "many" => Some(usize::from(cells > 255)),
                    other => panic!("{other} is not known"),
                };
                assert_eq!(
                    bits,
                    want.unwrap_or(bits),
                    "{field} of page {number}, reserved {reserved}"
                );
                if *field == "raw" && (number == 1 || reserved > 0 || rubbish && number == 2) {
                    assert_eq!(bits, 1, "raw bytes");
                }
                seen.entry(field).or_default()[bits] = true;
            }
            let count = r.get(if cells > 255 { 16 } else { 8 });
            assert_eq!(
                count,
                Some(cells as u64),
                "the number of cells is behind the head"
            );
        }
    }
    for (_, width, field) in doc {
        let ways = seen[field].iter().filter(|seen| **seen).count();
        assert_eq!(ways, 1 << width, "{field} was seen as {:?}", seen[field]);
    }
}

#[test]
fn the_head_and_bits_of_a_model_are_as_documented() {
    let date = Template::take(&[1, 4, b'-']).expect("a template").0;
    let model = Model {
        columns: vec![
            Column {
                scale: 2,
                ..Column::default()
            },
            Column {
                form: Form::Template(date),
                ..Column::default()
            },
            Column {
                form: Form::Dictionary(Dictionary::new([&b"one"[..], b"three"].into_iter())),
                ..Column::default()
            },
            Column {
                form: Form::Repeated,
                ..Column::default()
            },
            Column {
                form: Form::Vector(Vector::Double),
                ..Column::default()
            },
        ],
        defaults: Vec::new(),
    };
    let bytes = model.to_bytes();
    assert_eq!(places("bytes: model"), [(0, 1, "version"), (1, 3, "bits")]);
    assert_eq!(bytes[0], 3);
    let len = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], 0]) as usize;
    let forms = &bytes[4 + len..];
    assert_eq!(forms, b"\x01\x04-\x02\0\0\0\x03\0one\x05\0three\x08");
    let padded = [&bytes[4..4 + len], &[0; PADDING]].concat();
    let mut r = BitReader::new(&padded);
    assert_eq!(r.get(16), Some(5));
    let columns = [(2, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0), (0, 4, 0)];
    for (scale, form, symbols) in columns {
        let read = [r.get(5), r.get(3), r.get(1)];
        assert_eq!(read, [Some(scale), Some(form), Some(symbols)]);
    }
    let names: Vec<&str> = numbers("numbers: forms").into_iter().map(|f| f.1).collect();
    assert_eq!(
        names,
        ["free", "template", "dictionary", "repeated", "vector"]
    );
    // All default parameters are the same: shape 0, width 0, anchor 0, and three bits for "no".
    let defaults_bits = 3 + 7 + 7 + 3;
    let streams = PAGE_STREAMS + 5 * COLUMN_STREAMS + 3 + 4;
    assert_eq!(len, (16 + 5 * 9 + streams * defaults_bits).div_ceil(8));
}

/// The streams of a row that continues on overflow pages.
#[test]
fn the_streams_of_cut_cells_are_as_documented() {
    let all = pages(
        512,
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT, d, e, f);
         INSERT INTO t VALUES(4, 300, replace(hex(zeroblob(300)), '00', 'xyz'), 1, x'0102', NULL);
         INSERT INTO t VALUES(5, 301, 'short', 0, NULL, NULL);
         INSERT INTO t VALUES(6, 302, zeroblob(70000), 'x', 2.5, 1)",
    );
    let leaf = |page: &(u32, Vec<u8>)| page.0 > 1 && page.1[0] == 13;
    let mut seen = 0;
    for (number, page) in all.iter().filter(|p| leaf(p)) {
        let mut split = crate::split::Split::default();
        let mut parsed = Page::new();
        assert!(parsed.parse(page, 512, false));
        assert!(split.split(page, &context(*number, 0), &Model::empty()));
        let stream = |number: usize| -> Vec<i64> {
            let of = split.streams.iter().filter(|s| s.number == number);
            of.flat_map(|s| split.ints[s.from..s.to].to_vec()).collect()
        };
        let column =
            |c: usize, s: ColumnStream| stream(PAGE_STREAMS + c * COLUMN_STREAMS + s as usize);
        let (mut states, mut classes, mut lengths) = (vec![], vec![], vec![]);
        let (mut types, mut behind, mut overflow) = (vec![], vec![], vec![]);
        for cell in &parsed.cells {
            let here = |header: u32, before: u32| i64::from(cell.local_len - header - before);
            states.push(if cell.overflow == 0 { 0 } else { 2 });
            classes.push(if cell.rowid == 6 { 6 } else { 5 });
            match cell.rowid {
                // The record's header: its length and six types; that of c takes two or three
                // bytes. Before c, b takes two bytes.
                4 => {
                    lengths.push(here(8, 2));
                    types.push(13 + 2 * 900);
                    behind.extend([9, 16, 0]);
                }
                5 => lengths.push(5),
                _ => {
                    lengths.push(here(9, 2));
                    types.push(12 + 2 * 70_000);
                    behind.extend([15, 7, 9]);
                }
            }
            if cell.overflow != 0 {
                overflow.push(i64::from(cell.overflow));
            }
            seen += 1;
        }
        assert_eq!(stream(PageStream::Opaque as usize), states);
        assert_eq!(stream(PageStream::Payload as usize), []);
        assert_eq!(stream(PageStream::Overflow as usize), overflow);
        assert_eq!(stream(PageStream::Cut as usize), vec![2; types.len()]);
        assert_eq!(stream(PageStream::Behind as usize), vec![3; types.len()]);
        assert_eq!(stream(PageStream::Type as usize), types);
        assert_eq!(stream(PageStream::Types as usize), behind);
        assert_eq!(column(2, ColumnStream::Class), classes);
        assert_eq!(column(2, ColumnStream::Length), lengths);
        let absent = column(3, ColumnStream::Class);
        let want: Vec<i64> = states.iter().map(|s| if *s == 0 { 1 } else { 7 }).collect();
        assert_eq!(absent, want, "later values are not in the columns");
    }
    assert_eq!(seen, 3);
}

/// Default parameters, bit by bit.
#[test]
fn the_bits_of_default_parameters_are_as_documented() {
    let defaults = DefaultParameters {
        params: Params {
            shape: Shape::Runs,
            anchor: -3,
            step: 2,
            low: 0,
            width: 9,
            len_width: 4,
            first_width: 0,
        },
        anchor_width: Some(11),
        own_widths: true,
        relation: Some(2),
    };
    let mut w = crate::bits::BitWriter::default();
    defaults.put(&mut w);
    let mut bytes = Vec::new();
    w.finish(&mut bytes);
    bytes.extend([0; PADDING]);
    let mut r = BitReader::new(&bytes);
    // Shape and width; anchor and step, each behind its width; the width of lengths; the anchor
    // width, own widths, the relation.
    for (width, value) in [
        (3, 3),
        (7, 9),
        (7, 3),
        (3, 5),
        (7, 3),
        (3, 4),
        (5, 4),
        (1, 1),
        (7, 11),
        (1, 1),
        (1, 1),
        (16, 2),
    ] {
        assert_eq!(r.get(width), Some(value));
    }
    assert!(r.left() < 8);
}

#[test]
fn the_head_of_a_symbol_table_is_as_documented() {
    assert_eq!(places("bytes: symbols"), [(0, 1, "width"), (1, 3, "len")]);
    let texts: Vec<String> = (0..500)
        .map(|i| format!("carefully ironic {i} deposits"))
        .collect();
    let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let table = Symbols::train(&texts, 1 << 20).expect("a table");
    let mut bytes = Vec::new();
    table.put(&mut bytes);
    assert_eq!(u32::from(bytes[0]), table.width());
    let len = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], 0]) as usize;
    assert_eq!(bytes.len(), 4 + len);
    for width in [3, 14] {
        assert!(Symbols::take(&[width, 0, 0, 0]).is_none());
    }
}

#[test]
fn the_head_of_postings_is_as_documented() {
    let all = pages(
        4096,
        "CREATE VIRTUAL TABLE t USING fts5(a, b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
           INSERT INTO t SELECT 'a word', 'word' || i % 30 || ' word' || i % 7 FROM n;",
    );
    let mut coded = 0;
    for (number, page) in &all {
        let (mut kept, mut payload) = (Vec::new(), Vec::new());
        crate::scrub(page, &context(*number, 0), &mut kept);
        if !crate::postings::encode(&kept, &mut payload) {
            continue;
        }
        coded += 1;
        let field = |name| {
            let all = places("bytes: postings");
            let (at, size, _) = *all.iter().find(|field| field.2 == name).expect("a field");
            let bytes = payload[at..at + size].iter().rev();
            bytes.fold(0, |value, byte| value << 8 | usize::from(*byte))
        };
        assert_eq!(field("blobs"), 1);
        let (at, len) = (field("other_len"), field("blob_len"));
        let other = [&kept[..at], &kept[at + len..]].concat();
        let (gap_at, gap) = (field("gap_at"), field("gap_len"));
        assert!(other[gap_at..gap_at + gap].iter().all(|byte| *byte == 0));
        assert_eq!(payload[9..9 + gap_at], other[..gap_at]);
        let behind = &other[gap_at + gap..];
        assert_eq!(payload[9 + gap_at..][..behind.len()], *behind);
    }
    assert!(coded > 1, "{coded} pages");
    use crate::postings::Kind::{Count, First, Next, Row};
    let kinds = [Row, Count, First, Next].map(|kind| (kind as usize, kind));
    check_numbers("numbers: postings kinds", named(kinds));
}

#[test]
fn numbers_are_as_documented() {
    let classes = (0..8).map(|n| (n, Class::of(n as i64).expect("a class")));
    check_numbers("numbers: classes", named(classes));
    assert_eq!(Class::of(8), None);
    let shapes = (0..5).map(|n| (n, Shape::of(n as u64).expect("a shape")));
    check_numbers("numbers: shapes", named(shapes));
    assert_eq!(Shape::of(5), None);
    use PageStream::{Behind, Child, Cut, Opaque, Overflow, Payload, Rowid, Type, Types};
    let streams = [
        Opaque, Child, Rowid, Payload, Overflow, Cut, Type, Behind, Types,
    ];
    check_numbers(
        "numbers: page streams",
        named(streams.map(|s| (s as usize, s))),
    );
    assert_eq!(PAGE_STREAMS, 9);
    use ColumnStream::{Class as Classes, Formed, Integer, Length, Number, Real};
    let streams = [Classes, Number, Integer, Real, Length, Formed];
    check_numbers(
        "numbers: column streams",
        named(streams.map(|s| (s as usize, s))),
    );
    assert_eq!(COLUMN_STREAMS, 5);
}

/// For each kind of piece: its stored form, a text, and its field.
#[test]
fn pieces_are_as_documented() {
    let pieces: [(&str, &[u8], &str, i64); 9] = [
        // A digit behind it, because a template needs a field.
        ("literal", &[2, 0, 2, b'a', b'b', 1, 1], "ab7", 7),
        ("digits", &[1, 1, 4], "0042", 42),
        ("hex", &[1, 2, 3], "0af", 0xAF),
        ("HEX", &[1, 3, 3], "0AF", 0xAF),
        ("date", &[1, 4, b'/'], "1970/02/01", 31),
        ("compact date", &[1, 5], "19700201", 31),
        (
            "date time",
            &[1, 6, b'-', b'T', 1, b','],
            "1970-01-02T00:00:01,5",
            864_015,
        ),
        ("time", &[1, 7, 3, b'.'], "00:01:00.250", 60_250),
        ("choice", &[1, 8, 3, b'A', b'N', b'R'], "R", 2),
    ];
    let doc = numbers("numbers: pieces");
    assert_eq!(doc.len(), pieces.len());
    for ((number, name), (piece, bytes, text, field)) in doc.into_iter().zip(pieces) {
        assert_eq!((name, number), (piece, usize::from(bytes[1])));
        let (template, len) = Template::take(bytes).expect(name);
        assert_eq!(len, bytes.len());
        let mut fields = [0; FIELDS_MAX];
        assert!(template.parse(text.as_bytes(), &mut fields), "{name}");
        assert_eq!(fields[0], field, "{name}");
        let mut stored = Vec::new();
        template.put(&mut stored);
        assert_eq!(stored, bytes);
    }
    assert_eq!((FIELDS_MAX, TEXT_MAX, SYMBOL_MAX), (16, 255, 31));
}

/// Every table of docs/FORMAT.md that is marked for this crate has a test here.
#[test]
fn all_tables_are_tested() {
    let marks = ["bits: ", "bytes: ", "numbers: "];
    let mut found: Vec<&str> = TEXT
        .split("<!-- ")
        .skip(1)
        .filter_map(|part| part.split_once(" -->").map(|m| m.0))
        .filter(|mark| marks.iter().any(|m| mark.starts_with(m)))
        .collect();
    found.sort_unstable();
    let tested = [
        "bits: joined",
        "bits: page",
        "bytes: model",
        "bytes: postings",
        "bytes: symbols",
        "numbers: classes",
        "numbers: column streams",
        "numbers: forms",
        "numbers: page streams",
        "numbers: pieces",
        "numbers: postings kinds",
        "numbers: shapes",
    ];
    assert_eq!(found, tested);
}

/// Joined pages: the bits before the joint page, and the joint page, which the typed codec decodes.
#[test]
fn the_bits_of_joined_pages_are_as_documented() {
    let all = pages(
        1024,
        "CREATE TABLE t(a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) INSERT INTO t SELECT i FROM n;
         DELETE FROM t WHERE a / 7 % 2 = 0;",
    );
    let at = all
        .windows(2)
        .skip(1)
        .position(|pair| pair.iter().all(|(_, page)| page[0] == 13))
        .expect("two leaves")
        + 1;
    let pair = &all[at..at + 2];
    let raw: Vec<u8> = pair.iter().flat_map(|(_, page)| page.clone()).collect();
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    let model = Model::empty();
    assert!(crate::encode_joined(
        &raw,
        1024,
        &context(pair[0].0, 0),
        &model,
        &mut kept,
        &mut payload
    ));
    let padded = [payload.as_slice(), &[0; PADDING]].concat();
    let mut r = BitReader::new(&padded);
    let mut bits = BTreeMap::new();
    for (_, width, field) in places("bits: joined") {
        bits.insert(field, r.get(width as u32).expect("a field"));
    }
    assert_eq!(bits, BTreeMap::from([("page_log2", 1)]));
    // The width of 1024 / 6 is 8 bits.
    let (mut parsed, mut layout) = (Page::new(), Layout::default());
    let mut layouts = LayoutReader::default();
    let mut cells = Vec::new();
    for (_, page) in pair {
        assert!(parsed.parse(page, 1024, false), "a leaf");
        let count = r.get(8).expect("a count") as usize;
        assert_eq!(count, parsed.cells.len());
        let taken = layouts.take(&mut r, count, 1024, &mut layout);
        taken.expect("a layout");
        assert_eq!(layout.is_canonical(), parsed.layout.is_canonical());
        let bytes = |c: &Cell| page[c.start as usize..c.end() as usize].to_vec();
        cells.extend(parsed.cells.iter().map(bytes));
    }
    assert_eq!(r.get(3), Some(0), "growth");
    let section = (payload.len() * 8 - r.left()).div_ceil(8);
    let mut joint = vec![0; 1024];
    crate::decode(&payload[section..], &model, &mut joint).expect("a page");
    assert!(parsed.parse(&joint, 1024, false) && parsed.layout.is_canonical());
    let got: Vec<Vec<u8>> = parsed
        .cells
        .iter()
        .map(|c| joint[c.start as usize..c.end() as usize].to_vec())
        .collect();
    assert_eq!(got, cells);
}
