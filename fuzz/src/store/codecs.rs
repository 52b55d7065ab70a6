//! Frames, dictionaries and pages.

use crate::sample::{self, Tidy};
use crate::target::outcome;
use densite_store::CodecChoice;
use densite_store::codec::family::Family;
use densite_store::codec::{self, CodecId, Dictionary, PageSettings};
use densite_typed::PageContext;

/// The input: codec, log2 of the page size, log2 of the run, length of the dictionary (2 bytes),
/// dictionary, payload.
///
/// Invariants: the result is an error, or complete pages that do not depend on the buffer. Such
/// pages can be encoded and decoded again.
pub(super) fn frame(bytes: &[u8]) -> u64 {
    let [codec, page, run, lo, hi, rest @ ..] = bytes else {
        return 0;
    };
    let dict_len = usize::from(u16::from_le_bytes([*lo, *hi])).min(rest.len());
    let (dict, payload) = rest.split_at(dict_len);
    let len = 1usize << (9 + page % 8) << (run % 4);
    let dict =
        (dict_len > 0).then(|| Dictionary::new(7, dict_codec(CodecId(*codec)), dict.to_vec()));
    let (mut a, mut b) = (vec![0xAA; len], vec![0x55; len]);
    let first = codec::decode(CodecId(*codec), payload, dict.as_ref(), &mut a);
    let second = codec::decode(CodecId(*codec), payload, dict.as_ref(), &mut b);
    // If a payload refers to bytes that are not written yet, zstd's text depends on what they are.
    assert_eq!(first.is_ok(), second.is_ok());
    if let Err(e) = first {
        return outcome(&e);
    }
    assert!(a == b, "the page depends on the buffer");
    let page_size = 1usize << (9 + page % 8);
    let again = pages_round_trip(&a, page_size, CodecChoice::Auto, dict.as_ref());
    joined_round_trip(&a, page_size, dict.as_ref());
    let linked = with_links(&a, page_size, payload);
    pages_round_trip(&linked, page_size, CodecChoice::Auto, dict.as_ref());
    let dict = dict.filter(|d| d.codec() == CodecId::ZSTD_DICT);
    round_trip(&a, 1, dict.as_ref());
    1 + u64::from(*codec) + 16 * again
}

/// The codec of the dictionary or model that a frame of this codec needs.
fn dict_codec(codec: CodecId) -> CodecId {
    if matches!(
        codec,
        CodecId::TYPED | CodecId::TYPED_RUN | CodecId::ARCHIVE | CodecId::JOINED
    ) {
        CodecId::TYPED
    } else {
        CodecId::ZSTD_DICT
    }
}

/// The input: a dictionary, a model, or a packed dictionary. Invariants: what is stored of it is
/// read as the same dictionary. Pages that are encoded with it round-trip, also if it is neither.
pub(super) fn dictionary(bytes: &[u8]) -> u64 {
    let packed = Dictionary::from_stored(6, CodecId::ZSTD, bytes);
    if packed.bytes() != bytes {
        return 1000 + of_zstd(&packed);
    }
    let model = Dictionary::new(5, CodecId::TYPED, bytes.to_vec());
    assert_eq!(model.bytes(), bytes);
    assert!(model.codec() == CodecId::TYPED);
    let rows = sample::rows(1024, false, Tidy::No, 3);
    if model.model().is_some() {
        return 100
            + pages_round_trip(&rows, 1024, CodecChoice::Auto, Some(&model))
            + 16 * pages_round_trip(&rows, 512, CodecChoice::Archive, Some(&model));
    }
    let dict = Dictionary::new(3, CodecId::ZSTD_DICT, bytes.to_vec());
    assert_eq!(dict.bytes().len(), bytes.len());
    of_zstd(&dict)
}

fn of_zstd(dict: &Dictionary) -> u64 {
    let (codec, stored) = dict.to_stored();
    let again = Dictionary::from_stored(4, codec, &stored);
    assert!(again.bytes() == dict.bytes() && again.codec() == dict.codec());
    let rows = sample::rows(1024, false, Tidy::No, 3);
    // A page that has something in common with it.
    let page: Vec<u8> = dict
        .bytes()
        .iter()
        .rev()
        .take(600)
        .rev()
        .copied()
        .chain((0..).map(|i: u32| (i / 9) as u8))
        .take(1024)
        .collect();
    round_trip(&page, 3, Some(dict)) + pages_round_trip(&rows, 1024, CodecChoice::Auto, Some(dict))
}

/// The input: level, page. Invariants: the family is a function of the bytes. The page round-trips,
/// in the page codecs without its unallocated bytes.
pub(super) fn page(bytes: &[u8]) -> u64 {
    let [level, page @ ..] = bytes else { return 0 };
    let family = Family::of(page);
    assert_eq!(family, Family::of(page));
    let level = i32::from(level % 30) - 7;
    let (half, _) = page.split_at(page.len() / 2);
    let dict = Dictionary::new(5, CodecId::ZSTD_DICT, half.to_vec());
    let typed = if page.is_empty() {
        0
    } else {
        pages_round_trip(page, page.len(), CodecChoice::Typed, None)
            + 8 * pages_round_trip(page, page.len(), CodecChoice::Auto, Some(&dict))
    };
    round_trip(page, level, None) * 31
        + 71 * typed
        + round_trip(page, level, Some(&dict))
        + 997 * u64::from(family.0 >> 12)
}

/// Where the pages are in their database.
const CONTEXT: PageContext = PageContext {
    number: 3,
    pages: 9,
    reserved: 0,
};

fn settings(choice: CodecChoice, dict: Option<&Dictionary>) -> PageSettings<'_> {
    PageSettings {
        level: 1,
        choice,
        family: dict,
        other: None,
        checked: true,
    }
}

/// Encodes pages as the store does, and decodes them. Returns the chosen codec.
fn pages_round_trip(
    raw: &[u8],
    page_size: usize,
    choice: CodecChoice,
    dict: Option<&Dictionary>,
) -> u64 {
    let (settings, context) = (settings(choice, dict), CONTEXT);
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    let coded = codec::encode_pages(raw, page_size, &context, &settings, &mut kept, &mut payload);
    assert_eq!(kept.len(), raw.len());
    assert!(payload.len() <= raw.len());
    let mut expected = Vec::new();
    for (page, number) in raw.chunks(page_size).zip(context.number..) {
        let mut scrubbed = Vec::new();
        densite_typed::scrub(page, &PageContext { number, ..context }, &mut scrubbed);
        expected.extend_from_slice(&scrubbed);
    }
    assert!(kept == expected, "other pages were encoded");
    let needed = dict.filter(|_| coded.dict_id != 0);
    let mut out = vec![0xEE; raw.len()];
    codec::decode(coded.codec, &payload, needed, &mut out).expect("an encoded page is decoded");
    assert!(out == expected, "a decoded page differs");
    u64::from(coded.codec.0)
}

/// The pages with links at their beginning: as the bits of `links` say, the number of the page
/// behind it, or 0, or their own bytes.
fn with_links(raw: &[u8], page_size: usize, links: &[u8]) -> Vec<u8> {
    let mut pages = raw.to_vec();
    let each = pages.chunks_mut(page_size).zip(CONTEXT.number..);
    for ((page, number), link) in each.zip(links.iter().cycle()) {
        let link = match link % 4 {
            0 => 0,
            1 | 2 => number + 1,
            _ => continue,
        };
        if let Some(begin) = page.first_chunk_mut() {
            *begin = u32::to_be_bytes(link);
        }
    }
    pages
}

/// Joins pages, if they can be joined, and decodes them.
fn joined_round_trip(raw: &[u8], page_size: usize, dict: Option<&Dictionary>) {
    let (settings, context) = (settings(CodecChoice::Typed, dict), CONTEXT);
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    if let Some(coded) =
        codec::encode_joined(raw, page_size, &context, &settings, &mut kept, &mut payload)
    {
        let needed = dict.filter(|_| coded.dict_id != 0);
        let mut out = vec![0xEE; raw.len()];
        codec::decode(coded.codec, &payload, needed, &mut out).expect("joined pages are decoded");
        assert!(out == kept, "decoded joined pages differ");
    }
}

/// Encodes and decodes by the general codecs. Returns the chosen codec.
fn round_trip(raw: &[u8], level: i32, dict: Option<&Dictionary>) -> u64 {
    let mut payload = Vec::new();
    let coded = codec::encode(raw, level, dict, CodecChoice::Auto, &mut payload);
    assert!(payload.len() <= raw.len());
    assert_eq!(
        coded.dict_id,
        if coded.codec == CodecId::ZSTD_DICT {
            dict.map_or(0, Dictionary::id)
        } else {
            0
        }
    );
    let mut out = vec![0xEE; raw.len()];
    codec::decode(coded.codec, &payload, dict, &mut out).expect("an encoded page is decoded");
    assert!(out == raw, "a decoded page differs");
    u64::from(coded.codec.0)
}
