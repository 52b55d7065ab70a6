//! Pages of SQLite, frames of them, models and dictionaries.

use super::Seeds;
use crate::CodecChoice;
use crate::codec::{self, CodecId, Dictionary, PageSettings};
use crate::fuzz::sample::{self, Tidy};
use crate::fuzz::typed::PAGE_STREAMS;
use densite_typed::page::{Kind as Btree, Page};
use densite_typed::symbols::Symbols;
use densite_typed::{Model, PageContext};

/// A page that looks a little like one of SQLite's: a table leaf with three columns.
pub(super) fn sqlite_page(len: usize, salt: u32) -> Vec<u8> {
    let mut page = vec![0; len];
    let mut end = len;
    let mut cells = Vec::new();
    for i in 0..(len / 40) as u32 {
        let text = format!("name {} of {}", i.wrapping_mul(salt) % 97, salt % 7);
        let mut cell = vec![
            0,
            i as u8 & 0x7F,
            4,
            1,
            13 + 2 * text.len() as u8,
            1,
            i as u8,
        ];
        cell.extend_from_slice(text.as_bytes());
        cell.push(salt as u8);
        cell[0] = cell.len() as u8 - 2;
        end -= cell.len();
        page[end..end + cell.len()].copy_from_slice(&cell);
        cells.push(end as u16);
    }
    page[0] = 0x0D;
    page[3..5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
    page[5..7].copy_from_slice(&(end as u16).to_be_bytes());
    for (i, cell) in cells.iter().enumerate() {
        page[8 + 2 * i..10 + 2 * i].copy_from_slice(&cell.to_be_bytes());
    }
    page
}

fn trained() -> Vec<u8> {
    let samples: Vec<Vec<u8>> = (1..200).map(|i| sqlite_page(1024, i)).collect();
    zstd::dict::from_samples(&samples, 3000).unwrap_or_default()
}

pub(in crate::fuzz) fn frame() -> Seeds {
    let page = sqlite_page(4096, 3);
    let dict = codec::Dictionary::new(7, CodecId::ZSTD_DICT, trained());
    let frame = |codec: CodecId, dict: &[u8], payload: &[u8]| {
        [
            &[codec.0, 3, 0],
            (dict.len() as u16).to_le_bytes().as_slice(),
            dict,
            payload,
        ]
        .concat()
    };
    let encode = |dict: Option<&codec::Dictionary>| {
        let mut payload = Vec::new();
        let c = codec::encode(&page, 3, dict, CodecChoice::Auto, &mut payload).codec;
        frame(c, dict.map_or(&[], |d| d.bytes()), &payload)
    };
    vec![
        ("zstd", encode(None)),
        ("zstd-dict", encode(Some(&dict))),
        (
            "raw-512",
            [&[0, 0, 0, 0, 0], sqlite_page(512, 5).as_slice()].concat(),
        ),
        ("zero", frame(CodecId::ZERO, b"", b"")),
        ("typed", typed_frame(3, 0, CodecChoice::Typed, None)),
        (
            "typed-model",
            typed_frame(3, 0, CodecChoice::Typed, Some(&rows_model())),
        ),
        (
            "typed-run",
            typed_frame(1, 2, CodecChoice::Typed, Some(&rows_model())),
        ),
        (
            "archive",
            typed_frame(1, 2, CodecChoice::Archive, Some(&rows_model())),
        ),
    ]
}

/// A frame of a run of `1 << run` pages of `512 << size` bytes, as the frame target takes it.
fn typed_frame(size: u8, run: u8, choice: CodecChoice, model: Option<&[u8]>) -> Vec<u8> {
    let page_size = 512 << size;
    let dict = model.map(|model| Dictionary::new(7, CodecId::TYPED, model.to_vec()));
    let settings = PageSettings {
        level: 3,
        choice,
        family: dict.as_ref(),
        other: None,
        checked: true,
    };
    let raw: Vec<u8> = (0..1 << run)
        .flat_map(|i| sample::rows(page_size, false, Tidy::No, 50 + i))
        .collect();
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    let coded = codec::encode_pages(&raw, page_size, &AT_3, &settings, &mut kept, &mut payload);
    let model = model.unwrap_or_default();
    let head = [coded.codec.0, size, run];
    [
        &head,
        (model.len() as u16).to_le_bytes().as_slice(),
        model,
        &payload,
    ]
    .concat()
}

const AT_3: PageContext = PageContext {
    number: 3,
    pages: 90,
    reserved: 0,
};

fn rows_model() -> Vec<u8> {
    sample::model_of((0..40).map(|i| sample::rows(2048, false, Tidy::Yes, i)))
}

fn mixed_model() -> Vec<u8> {
    sample::model_of((0..20).map(|i| sample::mixed(2048, Tidy::Yes, i)))
}

fn long_model() -> Vec<u8> {
    sample::model_of((0..20).map(|i| sample::long(4096, Btree::TableLeaf, Tidy::Yes, i)))
}

/// Pages of every kind.
fn btree_pages() -> Seeds {
    let len = 1024;
    vec![
        ("rows", sample::rows(len, false, Tidy::Yes, 3)),
        ("rows-untidy", sample::rows(2048, false, Tidy::No, 3)),
        ("first", sample::rows(len, true, Tidy::Yes, 3)),
        ("mixed", sample::mixed(len, Tidy::Yes, 4)),
        ("mixed-untidy", sample::mixed(len, Tidy::No, 4)),
        (
            "index-leaf",
            sample::keys(len, Btree::IndexLeaf, Tidy::No, 5),
        ),
        (
            "index-interior",
            sample::keys(len, Btree::IndexInterior, Tidy::Yes, 5),
        ),
        ("table-interior", sample::children(512, 6)),
        ("reals", sample::reals(1024)),
        ("long", sample::long(4096, Btree::TableLeaf, Tidy::Yes, 7)),
        (
            "long-untidy",
            sample::long(4096, Btree::TableLeaf, Tidy::No, 7),
        ),
        (
            "long-keys",
            sample::long(4096, Btree::IndexInterior, Tidy::Yes, 7),
        ),
    ]
}

pub(in crate::fuzz) fn btree() -> Seeds {
    let mut seeds: Seeds = btree_pages()
        .into_iter()
        .map(|(name, page)| {
            (
                name,
                [&[u8::from(name == "first"), 0, 0, 0], page.as_slice()].concat(),
            )
        })
        .collect();
    let mut parsed = Page::new();
    let untidy = sample::rows(4096, false, Tidy::No, 3);
    assert!(parsed.parse(&untidy, untidy.len(), false), "a page");
    let mut w = densite_typed::bits::BitWriter::default();
    parsed.layout.put(&mut w);
    let cells = parsed.cells.len() as u16;
    let mut bits = vec![2, 0];
    bits.extend_from_slice(&cells.to_le_bytes());
    w.finish(&mut bits);
    seeds.push(("layout", bits));
    seeds
}

/// Its length in three bytes, and it.
fn told(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..3], bytes].concat()
}

pub(in crate::fuzz) fn model() -> Seeds {
    let (rows, mixed, empty) = (rows_model(), mixed_model(), Model::empty().to_bytes());
    let with = |model: &[u8], page: Vec<u8>| [told(model), page].concat();
    vec![
        (
            "rows",
            with(&rows, sample::rows(1024, false, Tidy::Yes, 70)),
        ),
        ("first", with(&rows, sample::rows(1024, true, Tidy::No, 70))),
        ("mixed", with(&mixed, sample::mixed(1024, Tidy::No, 70))),
        ("other", with(&rows, sample::mixed(1024, Tidy::Yes, 70))),
        (
            "index",
            with(&mixed, sample::keys(1024, Btree::IndexLeaf, Tidy::No, 70)),
        ),
        ("empty", with(&empty, sample::children(512, 70))),
        (
            "long",
            with(
                &long_model(),
                sample::long(4096, Btree::TableLeaf, Tidy::No, 70),
            ),
        ),
    ]
}

/// A model whose streams all have the same default parameters, and a page.
pub(in crate::fuzz) fn defaults() -> Seeds {
    let of = |columns: &[u8], defaults: [u8; 8], page: Vec<u8>| {
        let more = columns.iter().filter(|c| **c >> 5 & 3 > 0).count();
        let streams = PAGE_STREAMS + 5 * columns.len() + more;
        [
            &[columns.len() as u8],
            columns,
            &defaults.repeat(streams),
            &page,
        ]
        .concat()
    };
    let rows = sample::rows(1024, false, Tidy::Yes, 3);
    let long = sample::long(4096, Btree::TableLeaf, Tidy::Yes, 3);
    // Two columns of REALs; `related`: the second as differences to the first, which no model may say: they are divided.
    let reals = |related: u8| {
        let mut reals = vec![2, 0, 0];
        let frame = [4 | 8, 0, 0, 0, 0, 0, 64, 0];
        reals.extend(frame.repeat(PAGE_STREAMS));
        for stream in 0..10 {
            reals.extend(match stream {
                0 | 5 => [0, 0, 6, 0, 0, 0, 0, 0],
                8 => [4 | 8 | related, 0, 0, 0, 0, 0, 64, PAGE_STREAMS as u8 + 3],
                _ => frame,
            });
        }
        reals.extend(sample::reals(1024));
        reals
    };
    vec![
        ("reals", reals(0)),
        ("reals-related", reals(16)),
        // Frames with an anchor and a width of the page's own; scale 2, dates, a dictionary.
        (
            "rows",
            of(
                &[0, 1 << 5, 2, 2 << 5, 0, 0, 0],
                [4 | 8, 0, 0, 0, 0, 0, 40, 0],
                rows,
            ),
        ),
        // Deltas to the first stream.
        (
            "keys",
            of(
                &[1 << 5, 0],
                [1 | 4 | 8 | 16, 0, 0, 0, 0, 0, 64, 0],
                sample::keys(1024, Btree::IndexInterior, Tidy::No, 3),
            ),
        ),
        // Runs.
        (
            "mixed",
            of(
                &[0, 0],
                [3 | 4 | 8, 0, 0, 0, 1, 3, 64, 0],
                sample::mixed(1024, Tidy::No, 3),
            ),
        ),
        (
            "long",
            of(&[0, 0, 0, 0], [4 | 8, 0, 0, 0, 0, 0, 40, 0], long),
        ),
        (
            "none",
            of(&[], [4, 20, 0, 0, 0, 0, 20, 0], sample::children(512, 3)),
        ),
    ]
}

pub(in crate::fuzz) fn typed() -> Seeds {
    let mut seeds = Seeds::new();
    let (rows, mixed, empty) = (rows_model(), mixed_model(), Model::empty().to_bytes());
    for (name, page) in btree_pages() {
        let mut of = |name, model: &[u8]| {
            let context = PageContext {
                number: if name == "first" { 1 } else { 3 },
                ..AT_3
            };
            let learned = Model::from_bytes(model).expect("it was learned");
            let (mut kept, mut payload) = (Vec::new(), Vec::new());
            let coded = densite_typed::encode(&page, &context, &learned, &mut kept, &mut payload);
            assert!(coded, "{name} is a page");
            let size = [(page.len() / 512).trailing_zeros() as u8];
            seeds.push((name, [&size, told(model).as_slice(), &payload].concat()));
        };
        match name {
            "rows" => {
                of("rows-model", &rows);
                of("rows-other", &mixed);
            }
            "rows-untidy" => of("untidy-model", &rows),
            "mixed" => of("mixed-model", &mixed),
            "long" => of("long-model", &long_model()),
            "long-keys" => of("keys-model", &long_model()),
            _ => {}
        }
        of(name, &empty);
    }
    seeds
}

pub(in crate::fuzz) fn symbols() -> Seeds {
    let text = b"carefully ironic deposits sleep furiously above the packages";
    let texts: Vec<Vec<u8>> = (0..400u32)
        .map(|i| {
            let from = (i as usize * 7) % 30;
            [
                &text[from..from + 12 + i as usize % 18],
                i.to_string().as_bytes(),
            ]
            .concat()
        })
        .collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let of = |texts: &[&[u8]], usable| {
        let mut out = Vec::new();
        let table = Symbols::train(texts, usable).expect("a table");
        table.put(&mut out);
        out.extend_from_slice(b"deposits sleep ironically. \xff\x00 above ");
        out
    };
    vec![
        ("words", of(&texts, 16 << 20)),
        ("few", of(&texts[..60], 1 << 14)),
        // The narrowest codes, no symbols: every byte takes three codes.
        ("none", vec![4, 0, 0, 0, b'a', 200, 0, b'c']),
    ]
}

pub(in crate::fuzz) fn dictionary() -> Seeds {
    vec![
        ("trained", trained()),
        ("content", sqlite_page(600, 3)),
        ("model", rows_model()),
        ("none", Vec::new()),
    ]
}

pub(in crate::fuzz) fn page() -> Seeds {
    let first = |page: &[u8]| [&[10], page].concat();
    let mut one = b"SQLite format 3\0".to_vec();
    one.resize(100, 0);
    one.extend_from_slice(&sqlite_page(412, 3));
    vec![
        ("leaf", first(&sqlite_page(1024, 3))),
        ("page-1", first(&one)),
        ("zeros", first(&[0; 512])),
        ("rows", first(&sample::rows(1024, false, Tidy::No, 9))),
        (
            "keys",
            first(&sample::keys(1024, Btree::IndexInterior, Tidy::Yes, 9)),
        ),
    ]
}
