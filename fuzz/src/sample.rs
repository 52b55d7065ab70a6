//! Pages like those of SQLite, made without SQLite. They are the same in each run, and small enough
//! for the saved corpus.

use densite_typed::page::{Kind, local_len, put_varint};
use densite_typed::{Model, Outlook};

/// A value of a record.
enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn push_varint(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; 9];
    let len = put_varint(value, &mut bytes);
    out.extend_from_slice(&bytes[..len]);
}

fn record(values: &[Value]) -> Vec<u8> {
    let (mut types, mut body) = (Vec::new(), Vec::new());
    for value in values {
        let serial_type = match value {
            Value::Null => 0,
            Value::Int(v @ (0 | 1)) => 8 + *v as u64,
            Value::Int(v) => {
                let (serial_type, len) = match v ^ (v >> 63) {
                    0..=0x7f => (1, 1),
                    0x80..=0x7fff => (2, 2),
                    0x8000..=0x7f_ffff => (3, 3),
                    0x80_0000..=0x7fff_ffff => (4, 4),
                    0x8000_0000..=0x7fff_ffff_ffff => (5, 6),
                    _ => (6, 8),
                };
                body.extend_from_slice(&v.to_be_bytes()[8 - len..]);
                serial_type
            }
            Value::Real(v) => {
                body.extend_from_slice(&v.to_be_bytes());
                7
            }
            Value::Text(text) => {
                body.extend_from_slice(text.as_bytes());
                13 + 2 * text.len() as u64
            }
            Value::Blob(bytes) => {
                body.extend_from_slice(bytes);
                12 + 2 * bytes.len() as u64
            }
        };
        push_varint(serial_type, &mut types);
    }
    let mut out = Vec::new();
    // The headers here are short: one byte holds the length.
    push_varint(1 + types.len() as u64, &mut out);
    [out, types, body].concat()
}

/// A cell. A kind of page uses only the arguments that its cells have.
fn cell(kind: Kind, usable: usize, child: u32, rowid: i64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if kind.has_child() {
        out.extend_from_slice(&child.to_be_bytes());
    }
    if kind != Kind::TableInterior {
        push_varint(payload.len() as u64, &mut out);
    }
    if kind.is_table() {
        push_varint(rowid as u64, &mut out);
    }
    let local = local_len(kind, usable, payload.len() as u64);
    if kind != Kind::TableInterior {
        out.extend_from_slice(&payload[..local]);
        if local < payload.len() {
            out.extend_from_slice(&(child + 1000).to_be_bytes());
        }
    }
    out.resize(out.len().max(4), 0);
    out
}

/// How cells are put into a page.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tidy {
    /// Back to back in the order of their keys.
    Yes,
    /// Partly out of order, with freeblocks and fragments between them, and with garbage in
    /// unallocated bytes.
    No,
}

/// A page of `len` bytes with as many cells of `next` as fit.
fn page(
    kind: Kind,
    len: usize,
    first: bool,
    tidy: Tidy,
    mut next: impl FnMut(usize) -> Vec<u8>,
) -> Vec<u8> {
    let header_at = if first { 100 } else { 0 };
    let pointers_at = header_at + kind.header_len();
    let mut page = vec![if tidy == Tidy::No { 0xEE } else { 0 }; len];
    page[..pointers_at].fill(0);
    if first {
        page[..16].copy_from_slice(b"SQLite format 3\0");
    }
    let mut at = len;
    let mut places = Vec::new();
    let (mut blocks, mut fragments) = (Vec::new(), 0);
    loop {
        let cell = next(places.len());
        let spare = if tidy == Tidy::No { 30 } else { 0 };
        if at < pointers_at + 2 * (places.len() + 1) + cell.len() + spare {
            break;
        }
        at -= cell.len();
        page[at..at + cell.len()].copy_from_slice(&cell);
        places.push(at as u16);
        if tidy == Tidy::No && places.len() % 7 == 3 {
            at -= 20;
            blocks.push((at, 20u16));
        }
        if tidy == Tidy::No && places.len() % 11 == 5 {
            at -= 2;
            fragments += 2;
        }
    }
    if tidy == Tidy::No && places.len() > 9 {
        places.swap(2, 8);
        places.swap(0, 5);
        places.rotate_left(3);
    }
    let mut next_block = 0u16;
    for (at, size) in blocks {
        page[at..at + 2].copy_from_slice(&next_block.to_be_bytes());
        page[at + 2..at + 4].copy_from_slice(&size.to_be_bytes());
        next_block = at as u16;
    }
    for (i, place) in places.iter().enumerate() {
        page[pointers_at + 2 * i..][..2].copy_from_slice(&place.to_be_bytes());
    }
    page[header_at] = kind as u8;
    page[header_at + 1..][..2].copy_from_slice(&next_block.to_be_bytes());
    page[header_at + 3..][..2].copy_from_slice(&(places.len() as u16).to_be_bytes());
    page[header_at + 5..][..2].copy_from_slice(&(at as u16).to_be_bytes());
    page[header_at + 7] = fragments;
    if kind.has_child() {
        page[header_at + 8..][..4].copy_from_slice(&77u32.to_be_bytes());
    }
    page
}

const WORDS: [&str; 12] = [
    "carefully",
    "ironic",
    "deposits",
    "sleep",
    "furiously",
    "above",
    "the",
    "final",
    "packages",
    "requests",
    "haggle",
    "blithely",
];

fn words(dice: &mut Dice, n: u64) -> String {
    let picked: Vec<&str> = (0..n)
        .map(|_| WORDS[dice.roll(WORDS.len() as u64) as usize])
        .collect();
    picked.join(" ")
}

fn day(n: u64) -> String {
    format!(
        "{}-{:02}-{:02}",
        1992 + n / 336,
        1 + n / 28 % 12,
        1 + n % 28
    )
}

/// Rows with a column of each kind: a date, a decimal, one of few values, a number within text,
/// free text, and a small integer that is sometimes NULL.
pub(crate) fn rows(len: usize, first: bool, tidy: Tidy, salt: u64) -> Vec<u8> {
    let mut dice = Dice(salt);
    let from = salt * 100;
    page(Kind::TableLeaf, len, first, tidy, |i| {
        let id = from + i as u64;
        let note = 2 + dice.roll(5);
        let values = [
            Value::Null,
            Value::Text(day(dice.roll(2000))),
            Value::Real(dice.roll(1_000_000) as f64 / 100.0),
            Value::Text(
                ["open", "filled", "pending", "returned"][dice.roll(4) as usize].to_owned(),
            ),
            Value::Text(format!("Customer#{:09}", dice.roll(5000))),
            Value::Text(words(&mut dice, note)),
            match dice.roll(4) {
                0 => Value::Null,
                n => Value::Int(n as i64 - 2),
            },
        ];
        cell(Kind::TableLeaf, len, 0, id as i64, &record(&values))
    })
}

/// Rows of values of all types. Some continue on overflow pages.
pub(crate) fn mixed(len: usize, tidy: Tidy, salt: u64) -> Vec<u8> {
    let mut dice = Dice(salt);
    let mut value = move || match dice.roll(8) {
        0 => Value::Null,
        1 => Value::Int((dice.roll(1 << 31) as i64) << dice.roll(33)),
        2 => Value::Int(-(dice.roll(300) as i64)),
        3 => Value::Real(f64::from_bits(dice.roll(1 << 31) << 31)),
        4 => Value::Real(dice.roll(10_000) as f64 / 10.0),
        5 => Value::Text(words(&mut dice, 3)),
        6 => Value::Text("2020-02-30".to_owned()),
        _ => Value::Blob((0..dice.roll(40)).map(|i| (i * i) as u8).collect()),
    };
    page(Kind::TableLeaf, len, false, tidy, |i| {
        let mut values: Vec<Value> = (0..4 - (i % 3)).map(|_| value()).collect();
        if i == 4 {
            values.push(Value::Blob(vec![i as u8; 2 * len]));
        }
        cell(
            Kind::TableLeaf,
            len,
            i as u32,
            (i * i) as i64,
            &record(&values),
        )
    })
}

/// Rows or keys, many of which continue on overflow pages. Their long value is a text or a blob,
/// and not always the last one.
pub(crate) fn long(len: usize, kind: Kind, tidy: Tidy, salt: u64) -> Vec<u8> {
    let mut dice = Dice(salt);
    page(kind, len, false, tidy, |i| {
        // Words of eight bytes.
        let size = match i % 3 {
            1 => len as u64 / 8 + dice.roll(len as u64 / 4),
            _ => 1 + dice.roll(9),
        };
        let body = match i % 5 {
            2 | 3 => Value::Blob((0..8 * size).map(|i| (i * i) as u8).collect()),
            4 => Value::Text("größer".to_owned()),
            _ => Value::Text(words(&mut dice, size)),
        };
        let mut values = vec![
            Value::Int(i as i64),
            Value::Text(day(dice.roll(2000))),
            body,
        ];
        if i % 3 > 0 {
            values.push(Value::Real(i as f64 / 4.0));
            values.push(Value::Text("open".to_owned()));
        }
        cell(kind, len, 50 + 3 * i as u32, i as i64, &record(&values))
    })
}

/// Rows of two REALs with few bits.
pub(crate) fn reals(len: usize) -> Vec<u8> {
    page(Kind::TableLeaf, len, false, Tidy::Yes, |i| {
        let v = f64::from((i as f32).sin());
        let values = [Value::Real(v), Value::Real(v * 2.0)];
        cell(Kind::TableLeaf, len, 0, i as i64, &record(&values))
    })
}

/// Keys of an index, with or without children.
pub(crate) fn keys(len: usize, kind: Kind, tidy: Tidy, salt: u64) -> Vec<u8> {
    let mut dice = Dice(salt);
    page(kind, len, false, tidy, |i| {
        let n = salt + i as u64 / 3;
        let key = [Value::Text(day(n)), Value::Int(dice.roll(60_000) as i64)];
        cell(kind, len, 900 + i as u32, 0, &record(&key))
    })
}

/// Children of a table's interior page.
pub(crate) fn children(len: usize, salt: u64) -> Vec<u8> {
    page(Kind::TableInterior, len, false, Tidy::Yes, |i| {
        let at = salt as u32 + i as u32;
        cell(Kind::TableInterior, len, at, i64::from(at) * 37, &[])
    })
}

/// The model of these pages, as it is stored. That of [`rows`] has each form of a column.
pub(crate) fn model_of(pages: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let pages: Vec<Vec<u8>> = pages.collect();
    let pages: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let model = Model::learn(&pages, 0, 16 << 20, Outlook::Whole);
    model.expect("a model is learned").to_bytes()
}

/// The model of [`rows`].
pub(crate) fn rows_model() -> Vec<u8> {
    model_of((0..40).map(|i| rows(2048, false, Tidy::Yes, i)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_typed::page::Page;

    #[test]
    fn samples_are_pages_of_their_kind() {
        let mut parsed = Page::new();
        for tidy in [Tidy::Yes, Tidy::No] {
            for (page, first) in [
                (rows(1024, true, tidy, 3), true),
                (rows(1024, false, tidy, 3), false),
                (mixed(1024, tidy, 3), false),
                (keys(1024, Kind::IndexLeaf, tidy, 3), false),
                (keys(1024, Kind::IndexInterior, tidy, 3), false),
            ] {
                assert!(parsed.parse(&page, page.len(), first));
                assert!(parsed.cells.len() > 5);
                assert_eq!(parsed.layout.is_canonical(), tidy == Tidy::Yes);
            }
        }
        assert!(parsed.parse(&children(1024, 3), 1024, false));
        for page in [
            mixed(1024, Tidy::Yes, 3),
            long(4096, Kind::TableLeaf, Tidy::Yes, 7),
            long(4096, Kind::IndexInterior, Tidy::No, 7),
        ] {
            assert!(parsed.parse(&page, page.len(), false));
            assert!(parsed.cells.iter().any(|c| c.overflow != 0));
        }
        let words = Model::from_bytes(&rows_model())
            .map(|model| format!("{:?}", model.describe()))
            .expect("a model");
        for form in ["date", "Customer#{9}", "dictionary", "scale 2", "symbol"] {
            assert!(words.contains(form), "{form} is missing: {words}");
        }
    }
}
