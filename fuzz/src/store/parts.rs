//! The small structures: header, slot, tip, record, trailer, node, chunk, index.
//!
//! Invariant of all: a decoded structure is encoded to bytes that are decoded to the same
//! structure. If it has a checksum, they are the original bytes, except reserved fields.

use super::layout::{
    CHUNK_RAW, INDEX_RAW, LEAF_FANOUT, PART_LEN, PLACE_LEN, RECORD_LEN, SLOT_COPY, SLOT_LEN,
    SLOT_OFF, node_raw, word,
};
use super::{OFFSET, SALT, repair};
use crate::target::{outcome, put};
use densite_store::codec::{self, CodecId};
use densite_store::decoders::{self, Decoded};

/// The structure as the store encodes it. These bytes are decoded as the same.
fn encoded(structure: &Decoded, decode: impl Fn(&[u8]) -> Option<Decoded>) -> Vec<u8> {
    let bytes = structure.encode();
    assert_eq!(decode(&bytes).as_ref(), Some(structure));
    bytes
}

pub(super) fn header(bytes: &[u8]) -> u64 {
    match decoders::header(bytes) {
        Ok(header) => {
            encoded(&header, |bytes| decoders::header(bytes).ok());
            1
        }
        Err(fault) => outcome(&fault),
    }
}

/// Also: of the copies in a preamble, the one with the largest number is chosen.
pub(super) fn slot(bytes: &[u8]) -> u64 {
    let Some(slot) = decoders::slot(bytes) else {
        return 0;
    };
    let bytes = encoded(&slot, decoders::slot);
    let seq = word(&bytes, 8);
    assert!(seq != 0);
    let mut pre = vec![0; 16384];
    let copies = [SLOT_OFF[0], SLOT_OFF[0] + SLOT_COPY, SLOT_OFF[1]];
    for (at, seq) in copies.into_iter().zip([seq, seq - 1, seq / 2]) {
        let mut copy = bytes.clone();
        put(&mut copy, 8, &seq.to_le_bytes());
        repair::slot(&mut copy);
        put(&mut pre, at, &copy);
    }
    assert_eq!(decoders::newest_slot(&pre), Some((0, slot)));
    pre.truncate(SLOT_OFF[0] + SLOT_LEN - 1);
    assert_eq!(decoders::newest_slot(&pre), None);
    1
}

pub(super) fn tip(bytes: &[u8]) -> u64 {
    let Some(tip) = decoders::tip(bytes, SALT) else {
        return 0;
    };
    encoded(&tip, |bytes| decoders::tip(bytes, SALT));
    assert_eq!(decoders::tip(bytes, SALT ^ 1), None);
    1
}

/// Also: a valid record is not valid at another place or in another file.
pub(super) fn record(bytes: &[u8]) -> u64 {
    let header = decoders::record_header(bytes);
    let kind = header.map_or(0, |header| u64::from(header.kind));
    let Some(record) = decoders::record(bytes, SALT, OFFSET) else {
        return header.map_or(0, |_| 1 + kind);
    };
    let again = encoded(&record, |bytes| decoders::record(bytes, SALT, OFFSET));
    let len = header.map_or(0, |header| RECORD_LEN + header.stored_len as usize);
    assert_eq!(again, bytes[..len]);
    assert!(decoders::record(bytes, SALT, OFFSET + 1).is_none());
    assert!(decoders::record(bytes, SALT + 1, OFFSET).is_none());
    assert!(decoders::record(&bytes[..len - 1], SALT, OFFSET).is_none());
    100 + kind
}

/// Also: its length equals the length that is computed from its counts. Without its last byte, it
/// is not a trailer. The store can compute with any trailer.
pub(super) fn trailer(bytes: &[u8]) -> u64 {
    let Some(trailer) = decoders::trailer(bytes) else {
        return 0;
    };
    let again = encoded(&trailer, decoders::trailer);
    let figures = decoders::trailer_figures(bytes, SALT, OFFSET).expect("it is a trailer");
    assert_eq!(again.len(), figures.len);
    assert_eq!(bytes.len(), again.len());
    assert_eq!(decoders::trailer(&bytes[..bytes.len() - 1]), None);
    1 + u64::from(figures.is_root) + 2 * u64::from(figures.pages > 0)
}

/// The input: level, codec, payload.
pub(super) fn node(bytes: &[u8]) -> u64 {
    let [level, codec, payload @ ..] = bytes else {
        return 0;
    };
    let level = u32::from(level % 4);
    let mut raw = vec![0; node_raw(level)];
    if let Err(e) = codec::decode(CodecId(*codec), payload, None, &mut raw) {
        return outcome(&e);
    }
    let Some(node) = decoders::node(level, &raw) else {
        return 1;
    };
    assert_eq!(encoded(&node, |raw| decoders::node(level, raw)), raw);
    assert!(node.is_plausible());
    // Offsets come first: of a leaf as a column, of an inner node in each reference.
    let is_empty = match level {
        0 => raw[..8 * LEAF_FANOUT].iter().all(|b| *b == 0),
        _ => raw.chunks(PLACE_LEN).all(|place| word(place, 0) == 0),
    };
    2 + u64::from(is_empty) + 2 * u64::from(level.min(1))
}

/// The input: codec, payload.
pub(super) fn chunk(bytes: &[u8]) -> u64 {
    let [codec, payload @ ..] = bytes else {
        return 0;
    };
    let mut raw = vec![0; CHUNK_RAW];
    if let Err(e) = codec::decode(CodecId(*codec), payload, None, &mut raw) {
        return outcome(&e);
    }
    let chunk = decoders::chunk(&raw).expect("a chunk of the right length");
    // The first unit has bytes outside every record, which are not stored.
    assert_eq!(chunk.encoded.get(4..), raw.get(4..));
    assert_eq!(u64::from(chunk.free_in_index), chunk.free);
    1 + u64::from(chunk.free > 0) + 2 * u64::from(chunk.live > 0)
}

/// The input: codec, payload.
pub(super) fn index(bytes: &[u8]) -> u64 {
    let [codec, payload @ ..] = bytes else {
        return 0;
    };
    let mut raw = vec![0; INDEX_RAW];
    if let Err(e) = codec::decode(CodecId(*codec), payload, None, &mut raw) {
        return outcome(&e);
    }
    let Some(index) = decoders::index(&raw) else {
        return 1;
    };
    assert_eq!(encoded(&index, decoders::index), raw);
    let parts = raw.chunks(PART_LEN);
    let holes = parts.clone().filter(|part| word(part, 0) == 0).count();
    2 + u64::from(holes > 0) + 2 * u64::from(holes < parts.len())
}
