//! The decoders of a file's structures as functions of bytes, for the fuzzer (`fuzz/`).
//!
//! Only the feature `fuzz` compiles this module, so no production build has it. The types of the
//! structures stay private: the fuzzer can compare a decoded structure and encode it again, which
//! its invariants need. Payloads of frames are decoded by [`crate::codec`], whole files by
//! [`crate::Handle`].

use crate::format::header::Header;
use crate::format::record::{RECORD_LEN, Record};
use crate::format::slot::{Slot, choose};
use crate::format::space_table::Part;
use crate::format::tip::Tip;
use crate::format::trailer::{RootSection, Trailer, payload_len};
use crate::map::node::Node;
use crate::space::Space;
use crate::space::chunk_tree::{decode_chunk, decode_index, encode_index};
use crate::state::State;

/// A decoded structure.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded(Structure);

#[derive(Debug, Clone, PartialEq)]
enum Structure {
    Header(Header),
    Slot(Slot),
    Tip(Tip, u64),
    /// Its payload, the salt and the offset.
    Record(Record, Vec<u8>, u64, u64),
    /// Its hash.
    Trailer(Box<Trailer>, [u8; 16]),
    Node(Node),
    Index(Vec<Part>),
}

impl Decoded {
    /// Its bytes as the store writes them.
    pub fn encode(&self) -> Vec<u8> {
        match &self.0 {
            Structure::Header(header) => header.encode(),
            Structure::Slot(slot) => slot.encode(),
            Structure::Tip(tip, salt) => tip.encode(*salt).to_vec(),
            Structure::Record(record, payload, salt, offset) => {
                let mut out = Vec::new();
                record.put(payload, *salt, *offset, &mut out);
                out
            }
            Structure::Trailer(trailer, hash) => [trailer.encode().as_slice(), hash].concat(),
            Structure::Node(node) => node.encode(),
            Structure::Index(parts) => encode_index(parts),
        }
    }

    /// Whether each entry is in range, if it is a leaf of the map.
    pub fn is_plausible(&self) -> bool {
        match &self.0 {
            Structure::Node(Node::Leaf(entries)) => {
                entries.iter().all(crate::format::entry::Entry::plausible)
            }
            _ => true,
        }
    }
}

/// A file's header. An error names the fault.
pub fn header(bytes: &[u8]) -> Result<Decoded, String> {
    let header = Header::decode(bytes).map_err(|fault| format!("{fault:?}"))?;
    Ok(Decoded(Structure::Header(header)))
}

/// One copy of a slot.
pub fn slot(bytes: &[u8]) -> Option<Decoded> {
    Some(Decoded(Structure::Slot(Slot::decode(bytes)?)))
}

/// The newest valid slot of a preamble, and which of the two blocks has it.
pub fn newest_slot(preamble: &[u8]) -> Option<(usize, Decoded)> {
    let (block, slot) = choose(preamble)?;
    Some((block, Decoded(Structure::Slot(slot))))
}

/// The tip of a file with this salt.
pub fn tip(bytes: &[u8], salt: u64) -> Option<Decoded> {
    Some(Decoded(Structure::Tip(Tip::decode(bytes, salt)?, salt)))
}

/// The fields of a record's header, except version and checks.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "docs/FORMAT.md has the fields")]
pub struct RecordHeader {
    pub kind: u8,
    pub codec: u8,
    pub page_log2: u8,
    pub run_log2: u8,
    pub number: u32,
    pub stored_len: u32,
    pub model: u32,
}

/// The header of a record, if its fields are in range. The checksum is not verified.
pub fn record_header(bytes: &[u8]) -> Option<RecordHeader> {
    let (record, _) = Record::parse(bytes)?;
    Some(RecordHeader {
        kind: record.kind as u8,
        codec: record.codec,
        page_log2: record.page_log2,
        run_log2: record.run_log2,
        number: record.number,
        stored_len: record.stored_len,
        model: record.model,
    })
}

/// The valid record that these bytes begin with, if it is at `offset` of a file with this salt.
pub fn record(bytes: &[u8], salt: u64, offset: u64) -> Option<Decoded> {
    let (record, _, payload) = Record::open(bytes, salt, offset)?;
    let payload = payload.to_vec();
    Some(Decoded(Structure::Record(record, payload, salt, offset)))
}

/// A trailer from the payload of its record.
pub fn trailer(payload: &[u8]) -> Option<Decoded> {
    let (trailer, hash) = Trailer::decode(payload)?;
    Some(Decoded(Structure::Trailer(Box::new(trailer), hash)))
}

/// Numbers that the store computes from a trailer.
#[derive(Debug, Clone, Copy)]
pub struct TrailerFigures {
    /// Bytes of the payload, computed from counts as before a trailer is encoded.
    pub len: usize,
    /// Whether it has a root section.
    pub is_root: bool,
    /// Pages of the database.
    pub pages: u64,
    /// Bytes of the trailers that are read to open this commit.
    pub trailer_bytes: u64,
    /// The number that the next dictionary gets.
    pub next_dict: u32,
    /// The extent that is appended to: from, to.
    pub extent: (u64, u64),
}

/// The numbers of a trailer whose record is at `offset` and is the first trailer of a file with
/// this salt.
pub fn trailer_figures(payload: &[u8], salt: u64, offset: u64) -> Option<TrailerFigures> {
    let (trailer, hash) = Trailer::decode(payload)?;
    let root = trailer.root.as_ref().map(RootSection::counts);
    let tip = Tip {
        commit: trailer.commit,
        off: offset,
        len: RECORD_LEN as u32 + payload.len() as u32,
        hash,
    };
    let mut state = State::empty(salt);
    state.apply(tip, &trailer);
    Some(TrailerFigures {
        len: payload_len(
            root,
            trailer.pieces.len(),
            trailer.dicts.len(),
            trailer.deltas.len(),
        ),
        is_root: root.is_some(),
        pages: state.pages(),
        trailer_bytes: state.trailer_bytes(),
        next_dict: state.next_dict(),
        extent: state.current_extent(),
    })
}

/// A node of the page map from its decoded payload. Level 0 is a leaf.
pub fn node(level: u32, raw: &[u8]) -> Option<Decoded> {
    Some(Decoded(Structure::Node(Node::decode(level, raw)?)))
}

/// An index of the space table from its decoded payload.
pub fn index(raw: &[u8]) -> Option<Decoded> {
    Some(Decoded(Structure::Index(decode_index(raw)?)))
}

/// A chunk of the space table as the accounting has it.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The chunk, encoded again.
    pub encoded: Vec<u8>,
    /// Free units, as its entry in an index says.
    pub free_in_index: u32,
    /// Free units, as the accounting counts them.
    pub free: u64,
    /// Live bytes.
    pub live: u64,
}

/// A chunk of the space table from its decoded payload, as the first one of a file.
pub fn chunk(raw: &[u8]) -> Option<Chunk> {
    let live = decode_chunk(raw)?;
    let space = Space::from_table(&live);
    let (encoded, part) = space.chunk(0);
    Some(Chunk {
        encoded,
        free_in_index: part.free,
        free: space.free_below(live.len() as u64),
        live: space.live_bytes(),
    })
}
