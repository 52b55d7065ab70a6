//! Pages of SQLite, frames of them, and dictionaries.

use crate::sample::{self, Tidy};
use crate::target::Seeds;
use densite_sqlite_format::page::Kind;
use densite_store::CodecChoice;
use densite_store::codec::{self, CodecId, Dictionary, PageSettings};
use densite_typed::PageContext;

/// Where the pages are in their database.
const CONTEXT: PageContext = PageContext {
    number: 3,
    pages: 90,
    reserved: 0,
};

/// A page much like SQLite's: a table leaf with three columns.
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

/// A zstd dictionary.
fn trained() -> Vec<u8> {
    let samples: Vec<Vec<u8>> = (1..200).map(|i| sqlite_page(1024, i)).collect();
    zstd::dict::from_samples(&samples, 3000).unwrap_or_default()
}

pub(in crate::store) fn frame() -> Seeds {
    let page = sqlite_page(4096, 3);
    let dict = Dictionary::new(7, CodecId::ZSTD_DICT, trained());
    let frame = |codec, dict: &[u8], payload: &[u8]| framed(codec, 3, 0, dict, payload);
    let encode = |dict: Option<&Dictionary>| {
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
            typed_frame(3, 0, CodecChoice::Typed, Some(&sample::rows_model())),
        ),
        (
            "typed-run",
            typed_frame(1, 2, CodecChoice::Typed, Some(&sample::rows_model())),
        ),
        (
            "archive",
            typed_frame(1, 2, CodecChoice::Archive, Some(&sample::rows_model())),
        ),
        ("joined", joined_frame(&sample::rows_model())),
        ("postings", postings_frame()),
        ("linked", linked_frame(1, 1, None)),
        ("linked-dict", linked_frame(0, 3, Some(&dict))),
    ]
}

/// An input of the target `frame`, with the payload of an encoder.
fn framed(codec: CodecId, size: u8, run: u8, dict: &[u8], payload: &[u8]) -> Vec<u8> {
    let len = (dict.len() as u16).to_le_bytes();
    [&[codec.0, size, run], len.as_slice(), dict, payload].concat()
}

/// A run of `1 << run` overflow pages of `512 << size` bytes: a chain and the beginning of another.
fn linked_frame(size: u8, run: u8, dict: Option<&Dictionary>) -> Vec<u8> {
    let page_size = 512 << size;
    let raw: Vec<u8> = (0..1 << run)
        .flat_map(|i| sample::overflow(page_size, CONTEXT.number + i, i % 3 == 1))
        .collect();
    let settings = settings(CodecChoice::Auto, dict);
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    let coded = codec::encode_pages(
        &raw,
        page_size,
        &CONTEXT,
        &settings,
        &mut kept,
        &mut payload,
    );
    assert!(coded.codec == CodecId::LINKED, "the sample is a chain");
    framed(
        coded.codec,
        size,
        run,
        dict.map_or(&[], Dictionary::bytes),
        &payload,
    )
}

fn postings_frame() -> Vec<u8> {
    let mut payload = Vec::new();
    let coded = densite_typed::postings::encode(&sample::postings(2048, 3), &mut payload);
    assert!(coded, "the sample is a page of postings");
    framed(CodecId::POSTINGS, 2, 0, &[], &payload)
}

/// Two sparse pages.
fn joined_frame(model: &[u8]) -> Vec<u8> {
    let page_size = 2048;
    let raw: Vec<u8> = (0..2)
        .flat_map(|i| sample::sparse_rows(page_size, i))
        .collect();
    let dict = Dictionary::new(7, CodecId::TYPED, model.to_vec());
    let settings = settings(CodecChoice::Typed, Some(&dict));
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    let coded = codec::encode_joined(
        &raw,
        page_size,
        &CONTEXT,
        &settings,
        &mut kept,
        &mut payload,
    );
    let coded = coded.expect("sparse pages are joined");
    framed(coded.codec, 2, 1, model, &payload)
}

fn settings(choice: CodecChoice, family: Option<&Dictionary>) -> PageSettings<'_> {
    PageSettings {
        level: 3,
        choice,
        family,
        other: None,
        checked: true,
    }
}

/// An input of the target `frame`: a run of `1 << run` pages of `512 << size` bytes.
fn typed_frame(size: u8, run: u8, choice: CodecChoice, model: Option<&[u8]>) -> Vec<u8> {
    let page_size = 512 << size;
    let dict = model.map(|model| Dictionary::new(7, CodecId::TYPED, model.to_vec()));
    let settings = settings(choice, dict.as_ref());
    let raw: Vec<u8> = (0..1 << run)
        .flat_map(|i| sample::rows(page_size, false, Tidy::No, 50 + i))
        .collect();
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    let coded = codec::encode_pages(
        &raw,
        page_size,
        &CONTEXT,
        &settings,
        &mut kept,
        &mut payload,
    );
    framed(coded.codec, size, run, model.unwrap_or_default(), &payload)
}

pub(in crate::store) fn dictionary() -> Seeds {
    let (codec, packed) = Dictionary::new(7, CodecId::ZSTD_DICT, trained()).to_stored();
    assert!(codec == CodecId::ZSTD, "a dictionary is packed");
    vec![
        ("trained", trained()),
        ("packed", packed),
        ("content", sqlite_page(600, 3)),
        ("model", sample::rows_model()),
        ("none", Vec::new()),
    ]
}

pub(in crate::store) fn page() -> Seeds {
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
            first(&sample::keys(1024, Kind::IndexInterior, Tidy::Yes, 9)),
        ),
    ]
}
