//! The space table as a root trailer has it: its parts, and where they are.

use super::entry::NodeRef;
use super::record::SPACE_LEVEL_MAX;
use super::{MAX_OFF, UNIT_LEN};
use crate::bytes::Put;
use densite_disk::Fields;

/// Units of one chunk of the table.
pub(crate) const CHUNK_UNITS: usize = 1024;
/// Parts of one index, and the most that a root trailer lists.
pub(crate) const FANOUT: usize = 256;
/// Bytes of a part.
pub(crate) const PART_LEN: usize = 32;
/// The place and the sums of a chunk or an index. Without a place it is a hole: its units have no
/// live bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Part {
    pub(crate) place: NodeRef,
    /// Units without live bytes.
    pub(crate) free: u32,
    /// Live bytes.
    pub(crate) live: u64,
}

impl Part {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.place.put(out);
        out.put_u32(self.free);
        out.put_u64(self.live);
    }

    pub(crate) fn take(f: &mut Fields<'_>) -> Option<Part> {
        let part = Part {
            place: NodeRef::take(f)?,
            free: f.u32()?,
            live: f.u64()?,
        };
        // More than the largest file can have, even rounded up. So sums of a table's parts cannot
        // overflow.
        (part.live < 1 << 52).then_some(part)
    }
}

/// The table, as a root trailer has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    /// Units that it accounts for.
    pub(crate) units: u64,
    /// Level of the parts: 0 for chunks.
    pub(crate) level: u32,
    pub(crate) parts: Vec<Part>,
    /// Bytes that the chunks and indexes written with the table added to units or removed from
    /// them; ascending.
    pub(crate) moved: Vec<(u32, i32)>,
}

/// The number of chunks of a part of this level.
pub(crate) fn span(level: u32) -> u32 {
    (FANOUT as u32).pow(level)
}

/// The first chunk of a part.
pub(crate) fn first_chunk(level: u32, number: u32) -> u32 {
    number.saturating_mul(span(level.min(u32::from(SPACE_LEVEL_MAX))))
}

impl Table {
    /// The number of chunks.
    pub(crate) fn chunks(&self) -> u32 {
        chunks_of(self.units)
    }

    /// Whether the fields are consistent.
    pub(crate) fn plausible(&self) -> bool {
        if self.level > u32::from(SPACE_LEVEL_MAX) {
            return false;
        }
        let reach = (self.parts.len() as u64) * u64::from(span(self.level));
        self.parts.len() <= FANOUT
            && self.units <= reach * CHUNK_UNITS as u64
            && self.units <= MAX_OFF / UNIT_LEN
            && self.moved.is_sorted_by(|a, b| a.0 < b.0)
    }
}

pub(crate) fn chunks_of(units: u64) -> u32 {
    u32::try_from(units.div_ceil(CHUNK_UNITS as u64)).unwrap_or(u32::MAX)
}
