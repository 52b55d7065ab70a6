//! Frames, dictionaries and pages.

use super::outcome;
use crate::CodecChoice;
use crate::codec::family::Family;
use crate::codec::{self, CodecId, Dictionary};

/// The input: codec, log2 of the page size, log2 of the run, length of the dictionary (2 bytes), dictionary, payload.
///
/// Invariants: an error or a page that is filled to its end, twice the same; what came out can be encoded and decoded again.
pub(super) fn frame(bytes: &[u8]) -> u64 {
    let [codec, page, run, lo, hi, rest @ ..] = bytes else {
        return 0;
    };
    let dict_len = usize::from(u16::from_le_bytes([*lo, *hi])).min(rest.len());
    let (dict, payload) = rest.split_at(dict_len);
    let len = 1usize << (9 + page % 8) << (run % 3);
    let dict = (dict_len > 0).then(|| Dictionary::new(7, dict.to_vec()));
    let (mut a, mut b) = (vec![0xAA; len], vec![0x55; len]);
    let first = codec::decode(CodecId(*codec), payload, dict.as_ref(), &mut a);
    let second = codec::decode(CodecId(*codec), payload, dict.as_ref(), &mut b);
    // zstd may say in other words what is wrong with a payload that reaches into bytes not yet written.
    assert_eq!(first.is_ok(), second.is_ok());
    if let Err(e) = first {
        return outcome(&e);
    }
    assert!(a == b, "a page that depends on what was in the buffer");
    round_trip(&a, 1, dict.as_ref());
    1 + u64::from(*codec)
}

/// The input is a dictionary. Invariant: what is encoded with it, or without it where it is none, comes back.
pub(super) fn dictionary(bytes: &[u8]) -> u64 {
    let dict = Dictionary::new(3, bytes.to_vec());
    assert_eq!(dict.bytes().len(), bytes.len());
    let again = Dictionary::new(4, dict.bytes().to_vec());
    assert_eq!(again.bytes(), dict.bytes());
    // A page that has something in common with it.
    let page: Vec<u8> = bytes
        .iter()
        .rev()
        .take(600)
        .rev()
        .copied()
        .chain((0..).map(|i: u32| (i / 9) as u8))
        .take(1024)
        .collect();
    round_trip(&page, 3, Some(&dict))
}

/// The input: level, page. Invariants: its family is a function of its bytes; it comes back from being encoded.
pub(super) fn page(bytes: &[u8]) -> u64 {
    let [level, page @ ..] = bytes else { return 0 };
    let family = Family::of(page);
    assert_eq!(family, Family::of(page));
    let level = i32::from(level % 30) - 7;
    let (half, _) = page.split_at(page.len() / 2);
    let dict = Dictionary::new(5, half.to_vec());
    round_trip(page, level, None) * 31
        + round_trip(page, level, Some(&dict))
        + 997 * u64::from(family.0 >> 12)
}

/// Encodes and decodes. Returns the codec that was chosen.
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
    codec::decode(coded.codec, &payload, dict, &mut out).expect("what was encoded can be decoded");
    assert!(out == raw, "what was encoded came back different");
    u64::from(coded.codec.0)
}
