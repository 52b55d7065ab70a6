//! Lengths and places in a stored file, as docs/FORMAT.md has them. They are written down here a
//! second time on purpose: seeds and repairs then do not depend on the encoder under test.

use densite_disk::hash::{Xxh3_128, xxh3_128_with_seed};

/// The preamble: the slots, the second copy of each, the tip, and where records begin.
pub(super) const SLOT_OFF: [usize; 2] = [4096, 8192];
pub(super) const SLOT_COPY: usize = 2048;
pub(super) const TIP_OFF: usize = 12288;
pub(super) const DATA_OFF: usize = 16384;

pub(super) const SLOT_LEN: usize = 80;

/// The bytes of a record's header that its checksum covers, and all of them.
pub(super) const CHECKED: usize = 22;
pub(super) const RECORD_LEN: usize = CHECKED + 8;
/// Where in the header the check of the decoded payload is.
pub(super) const RAW_CHECK: usize = CHECKED - 4;

/// Kinds of records.
pub(super) mod kind {
    pub(in crate::store) const FRAME: u8 = 1;
    pub(in crate::store) const NODE: u8 = 2;
    pub(in crate::store) const DICTIONARY: u8 = 3;
    pub(in crate::store) const SPACE: u8 = 4;
    pub(in crate::store) const JUMP: u8 = 5;
    pub(in crate::store) const TRAILER: u8 = 6;
}

/// Entries of a leaf of the map, and children of an inner node.
pub(super) const LEAF_FANOUT: usize = 512;
pub(super) const INNER_FANOUT: usize = 256;
/// Bytes of a place: offset, version, length.
pub(super) const PLACE_LEN: usize = 20;
/// Bytes of a part of an index.
pub(super) const PART_LEN: usize = 32;
/// Bytes of a chunk of the space table, and of an index, decoded.
pub(super) const CHUNK_RAW: usize = 4096;
pub(super) const INDEX_RAW: usize = 256 * PART_LEN;

/// Bytes of the decoded payload of a node at this level.
pub(super) fn node_raw(level: u32) -> usize {
    match level {
        0 => LEAF_FANOUT * 27,
        _ => INNER_FANOUT * PLACE_LEN,
    }
}

/// The number of eight bytes at `at`; 0 if they are not there.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at.saturating_add(8))
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// The hash of the commit before the first one.
pub(super) fn first_hash(salt: u64) -> [u8; 16] {
    xxh3_128_with_seed(b"Densite", salt).to_le_bytes()
}

/// The chain hash of a trailer: over the hash before, the checksums of all records since, and the
/// trailer's own fields.
#[derive(Clone)]
pub(super) struct Chain(Xxh3_128);

impl Chain {
    pub(super) fn after(hash: &[u8; 16]) -> Chain {
        let mut chain = Xxh3_128::default();
        chain.update(hash);
        Chain(chain)
    }

    pub(super) fn record(&mut self, checksum: u64) {
        self.0.update(&checksum.to_le_bytes());
    }

    pub(super) fn finish(&self, fields: &[u8]) -> [u8; 16] {
        let mut chain = self.0.clone();
        chain.update(fields);
        chain.digest().to_le_bytes()
    }
}
