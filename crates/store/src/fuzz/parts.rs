//! The small decoders: header, slot, tip, record, trailer, node, chunk, index.
//!
//! Invariant of all: what decodes is decoded to the same again after it was encoded. Invariant of those with a checksum:
//! an encoded value is exactly the bytes it was decoded from, but for reserved fields.

use super::{OFFSET, SALT, outcome};
use crate::codec::{self, CodecId};
use crate::format::header::Header;
use crate::format::record::{RECORD_LEN, Record};
use crate::format::slot::{SLOT_LEN, Slot, choose};
use crate::format::tip::Tip;
use crate::format::trailer::{RootSection, Trailer, payload_len};
use crate::map::node::Node;
use crate::space::table::{FANOUT, PART_LEN, decode_chunk, decode_index, encode_index};
use crate::space::{CHUNK_RAW, Space};

pub(super) fn header(bytes: &[u8]) -> u64 {
    match Header::decode(bytes) {
        Ok(h) => {
            assert_eq!(Header::decode(&h.encode()), Ok(h));
            1
        }
        Err(e) => outcome(&format!("{e:?}")),
    }
}

/// Also: among the copies in a preamble the one with the largest seq wins.
pub(super) fn slot(bytes: &[u8]) -> u64 {
    let Some(slot) = Slot::decode(bytes) else {
        return 0;
    };
    assert!(slot.seq != 0);
    assert_eq!(Slot::decode(&slot.encode()), Some(slot));
    let mut pre = vec![0; 16384];
    for (at, seq) in [
        (4096, slot.seq),
        (6144, slot.seq.saturating_sub(1)),
        (8192, slot.seq / 2),
    ] {
        pre[at..at + SLOT_LEN].copy_from_slice(&Slot { seq, ..slot }.encode());
    }
    assert_eq!(choose(&pre), Some((0, slot)));
    pre.truncate(4096 + SLOT_LEN - 1);
    assert_eq!(choose(&pre), None);
    1
}

pub(super) fn tip(bytes: &[u8]) -> u64 {
    let Some(tip) = Tip::decode(bytes, SALT) else {
        return 0;
    };
    assert_eq!(Tip::decode(&tip.encode(SALT), SALT), Some(tip));
    assert_eq!(Tip::decode(bytes, SALT ^ 1), None);
    1
}

/// Also: a valid record is valid nowhere else and in no other file, and is encoded to the same bytes.
pub(super) fn record(bytes: &[u8]) -> u64 {
    let Some((record, sum, payload)) = Record::open(bytes, SALT, OFFSET) else {
        return Record::parse(bytes).map_or(0, |(r, _)| 1 + r.kind as u64);
    };
    let mut again = Vec::new();
    assert_eq!(record.put(payload, SALT, OFFSET, &mut again), sum);
    assert_eq!(again, bytes[..record.total_len() as usize]);
    assert!(Record::open(bytes, SALT, OFFSET + 1).is_none());
    assert!(Record::open(bytes, SALT + 1, OFFSET).is_none());
    assert!(Record::open(&bytes[..RECORD_LEN + payload.len() - 1], SALT, OFFSET).is_none());
    100 + record.kind as u64
}

/// Also: its length is the one that is computed beforehand; a byte less or more is no trailer.
pub(super) fn trailer(bytes: &[u8]) -> u64 {
    let Some((trailer, hash)) = Trailer::decode(bytes) else {
        return 0;
    };
    let mut again = trailer.encode();
    again.extend_from_slice(&hash);
    let root = trailer.root.as_ref().map(RootSection::counts);
    assert_eq!(
        again.len(),
        payload_len(
            root,
            trailer.pieces.len(),
            trailer.dicts.len(),
            trailer.deltas.len()
        )
    );
    assert_eq!(bytes.len(), again.len());
    assert_eq!(Trailer::decode(&bytes[..bytes.len() - 1]), None);
    let state = {
        let mut state = crate::state::State::empty(SALT);
        let tip = Tip {
            commit: trailer.commit,
            off: OFFSET,
            len: RECORD_LEN as u32 + bytes.len() as u32,
            hash,
        };
        state.apply(tip, &trailer);
        state
    };
    // What follows from any trailer can be computed.
    let figures = (
        state.pages(),
        state.trailer_bytes(),
        state.next_dict(),
        state.current_extent(),
    );
    assert_eq!(Trailer::decode(&again), Some((trailer, hash)));
    1 + u64::from(root.is_some()) + 2 * u64::from(figures.0 > 0)
}

/// The input: level, codec, payload.
pub(super) fn node(bytes: &[u8]) -> u64 {
    let [level, codec, payload @ ..] = bytes else {
        return 0;
    };
    let level = u32::from(level % 4);
    let mut raw = vec![0; Node::raw_len(level)];
    if let Err(e) = codec::decode(CodecId(*codec), payload, None, &mut raw) {
        return outcome(&e);
    }
    let Some(node) = Node::decode(level, &raw) else {
        return 1;
    };
    assert_eq!(node.encode(), raw.as_slice());
    assert_eq!(Node::decode(level, &raw), Some(node.clone()));
    if let Node::Leaf(entries) = &node {
        assert!(entries.iter().all(crate::map::Entry::plausible));
    }
    2 + u64::from(node.is_empty()) + 2 * u64::from(level.min(1))
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
    let live = decode_chunk(&raw).expect("of the right length");
    // What lies outside every record is not stored.
    let space = Space::from_table(&live);
    let (again, part) = space.chunk(0);
    assert_eq!(again.get(4..), raw.get(4..));
    assert_eq!(u64::from(part.free), space.free_below(live.len() as u64));
    1 + u64::from(part.free > 0) + 2 * u64::from(space.live_bytes() > 0)
}

/// The input: codec, payload.
pub(super) fn index(bytes: &[u8]) -> u64 {
    let [codec, payload @ ..] = bytes else {
        return 0;
    };
    let mut raw = vec![0; FANOUT * PART_LEN];
    if let Err(e) = codec::decode(CodecId(*codec), payload, None, &mut raw) {
        return outcome(&e);
    }
    let Some(parts) = decode_index(&raw) else {
        return 1;
    };
    assert_eq!(encode_index(&parts), raw);
    let holes = parts.iter().filter(|part| part.place.is_none()).count();
    2 + u64::from(holes > 0) + 2 * u64::from(holes < parts.len())
}
