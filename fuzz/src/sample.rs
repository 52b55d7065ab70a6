//! Pages like those of SQLite, made without SQLite. They are the same in each run, and small enough
//! for the saved corpus.

use densite_sqlite_format::page::{Kind, header_at, local_len};
use densite_sqlite_format::record::{body_len, bytes_type, int_type};
use densite_sqlite_format::{MAGIC, put_varint};
use densite_typed::{Model, Purpose};

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
            Value::Int(v) => {
                let serial_type = int_type(*v, true);
                body.extend_from_slice(&v.to_be_bytes()[8 - body_len(serial_type)..]);
                serial_type
            }
            Value::Real(v) => {
                body.extend_from_slice(&v.to_be_bytes());
                7
            }
            Value::Text(text) => {
                body.extend_from_slice(text.as_bytes());
                bytes_type(text.len(), true)
            }
            Value::Blob(bytes) => {
                body.extend_from_slice(bytes);
                bytes_type(bytes.len(), false)
            }
        };
        push_varint(u64::from(serial_type), &mut types);
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
    let header_at = header_at(first);
    let pointers_at = header_at + kind.header_len();
    let mut page = vec![if tidy == Tidy::No { 0xEE } else { 0 }; len];
    page[..pointers_at].fill(0);
    if first {
        page[..16].copy_from_slice(MAGIC);
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

/// A page with a few such rows, which leave most of it free.
pub(crate) fn sparse_rows(len: usize, salt: u64) -> Vec<u8> {
    let full = rows(len / 2, false, Tidy::Yes, salt);
    let mut page = vec![0; len];
    let begin = usize::from(u16::from_be_bytes([full[5], full[6]]));
    page[len - full.len() + begin..].copy_from_slice(&full[begin..]);
    page[..8].copy_from_slice(&full[..8]);
    let cells = usize::from(u16::from_be_bytes([full[3], full[4]]));
    // All addresses move up by as much.
    for at in std::iter::once(5).chain((0..cells).map(|i| 8 + 2 * i)) {
        let address = u16::from_be_bytes([full[at], full[at + 1]]) + (len - full.len()) as u16;
        page[at..at + 2].copy_from_slice(&address.to_be_bytes());
    }
    page
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

/// Keys of an index of repeated text: the row ids of each text rise, and begin low at the next one.
pub(crate) fn repeated(len: usize, tidy: Tidy, salt: u64) -> Vec<u8> {
    let mut dice = Dice(salt);
    let (mut text, mut left, mut id) = (String::new(), 0, 0);
    page(Kind::IndexLeaf, len, false, tidy, |i| {
        if left == 0 {
            text = format!("{} {}", day(salt * 40 + i as u64), words(&mut dice, 2));
            (left, id) = (8 + dice.roll(12), 0);
        }
        left -= 1;
        id += 1 + dice.roll(900);
        let key = [Value::Text(text.clone()), Value::Int(id as i64)];
        cell(Kind::IndexLeaf, len, 0, 0, &record(&key))
    })
}

/// Rows of a number and a vector of 40 numbers, of which a third are zeros. Some vectors have bytes
/// behind their last number.
pub(crate) fn vectors(len: usize, tidy: Tidy, salt: u64) -> Vec<u8> {
    let mut dice = Dice(salt);
    page(Kind::TableLeaf, len, false, tidy, |i| {
        let mut blob = Vec::new();
        for _ in 0..40 {
            let number = match dice.roll(3) {
                0 => 0.0,
                _ => 0.1 + dice.roll(1 << 20) as f32 / (1 << 21) as f32,
            };
            blob.extend(number.to_le_bytes());
        }
        blob.resize(160 + i % 5 % 4, 7);
        let values = [Value::Null, Value::Blob(blob)];
        cell(Kind::TableLeaf, len, 0, i as i64, &record(&values))
    })
}

/// Page `number`, an overflow page with text. It names the next page, or none at the end of a
/// chain.
pub(crate) fn overflow(len: usize, number: u32, ends: bool) -> Vec<u8> {
    let next = if ends { 0 } else { number + 1 };
    let mut page = next.to_be_bytes().to_vec();
    page.extend_from_slice(words(&mut Dice(u64::from(number)), len as u64).as_bytes());
    page.truncate(len);
    page
}

/// A page of an FTS5 index: a row with a blob of terms and of the documents that have them. It
/// begins with the rest of a list, some documents are deleted, and the last list is cut.
pub(crate) fn postings(len: usize, salt: u64) -> Vec<u8> {
    let mut dice = Dice(salt);
    let (most, mut blob, mut terms) = (len - len / 6, vec![0; 4], Vec::new());
    for _ in 0..5 {
        push_varint(2 + dice.roll(300), &mut blob);
    }
    let first_row = blob.len();
    let mut cut = 0;
    for term in (salt * 100).. {
        if term > salt * 100 {
            terms.push(blob.len());
            // Terms have four bytes, and share two.
            blob.extend_from_slice(if terms.len() == 1 {
                &[4, b'0', b'a']
            } else {
                &[2, 2]
            });
            blob.extend_from_slice(&[b'a' + (term % 26) as u8, b'0' + (term % 7) as u8]);
        }
        let mut row = 1 + dice.roll(5000);
        for _ in 0..1 + dice.roll(4) * dice.roll(9) {
            push_varint(row, &mut blob);
            row = 1 + dice.roll(200);
            let mut list = if dice.roll(5) == 0 {
                Vec::new()
            } else {
                vec![1, 1]
            };
            for _ in 0..1 + dice.roll(4) {
                push_varint(2 + (dice.roll(30) << dice.roll(7)), &mut list);
            }
            cut = most.saturating_sub(blob.len() + 2).min(list.len());
            push_varint(
                2 * list.len() as u64 + u64::from(dice.roll(9) == 0),
                &mut blob,
            );
            blob.extend_from_slice(&list[..cut]);
            if cut < list.len() {
                break;
            }
        }
        if most <= blob.len() + 12 || cut == 0 {
            break;
        }
    }
    let end = blob.len() as u16;
    let mut before = 0;
    for term in terms {
        push_varint((term - before) as u64, &mut blob);
        before = term;
    }
    blob[..2].copy_from_slice(&(first_row as u16).to_be_bytes());
    blob[2..4].copy_from_slice(&end.to_be_bytes());
    let values = [Value::Null, Value::Blob(blob)];
    let cell = cell(Kind::TableLeaf, len, 0, 1 << 37 | 9, &record(&values));
    page(Kind::TableLeaf, len, false, Tidy::Yes, |_| cell.clone())
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
    let model = Model::learn(&pages, &Purpose::whole(16 << 20));
    model.expect("a model is learned").to_bytes()
}

/// The model of [`rows`].
pub(crate) fn rows_model() -> Vec<u8> {
    model_of((0..40).map(|i| rows(2048, false, Tidy::Yes, i)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_sqlite_format::page::Page;

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
        let vectors = model_of((0..40).map(|i| vectors(4096, Tidy::Yes, i)));
        let words = Model::from_bytes(&vectors).map(|model| format!("{:?}", model.describe()));
        let of_vectors = words.is_some_and(|words| words.contains("vectors of 4-byte numbers"));
        assert!(of_vectors, "vectors are missing");
        let keys = model_of((0..40).map(|i| repeated(4096, Tidy::Yes, i)));
        let words = Model::from_bytes(&keys).map(|model| format!("{:?}", model.describe()));
        for form in ["repeated", "ramps"] {
            let is_there = words.as_ref().is_some_and(|words| words.contains(form));
            assert!(is_there, "{form} is missing: {words:?}");
        }
    }
}
