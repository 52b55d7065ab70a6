//! The records of a damaged segment, and which of them belong to the log.
//!
//! A header's check is seeded with the salt of this use of the file and the offset, so the record
//! was written at this place. But it can be left of a torn group, if the disk lost what was written
//! there later. So a record must be linked to the one before it by the chain of checks. Behind
//! damage that breaks the chain, it must have been written after that place was synced, or the chain
//! must lead from it to such a record or to the known end. A torn group is never synced, and nothing
//! is chained to it.

use super::flipped;
use crate::Result;
use crate::encoded::room;
use crate::files::Segment;
use crate::format::SEGMENT_MAX;
use crate::format::record_header::RecordHeader;

/// A place where a record begins, as what lies before it says.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) at: u64,
    /// Check of the record or header before it.
    pub(super) prev: u64,
    /// A transaction begins there.
    pub(super) is_start: bool,
}

impl Next {
    pub(super) fn behind(header: &RecordHeader, at: u64) -> Next {
        Next {
            at: at + header.padded_len(),
            prev: header.check,
            is_start: header.ends_transaction(),
        }
    }
}

/// How far the records of a segment are synced.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) off: u64,
    /// Check of the last record before `off`, or of the segment's header.
    pub(super) check: u64,
    /// No record behind `off` belongs to the log.
    pub(super) is_final: bool,
}

/// The bytes of a segment up to its end.
pub(super) struct Bytes {
    bytes: Vec<u8>,
    salt: u64,
    pub(super) end: Option<End>,
    /// The chain of checks from records before this offset does not lead to the end.
    unproven: u64,
}

impl Bytes {
    pub(super) fn read(segment: &Segment, end: Option<End>) -> Result<Bytes> {
        let last = end
            .filter(|end| end.is_final)
            .map_or(SEGMENT_MAX, |e| e.off);
        let len = segment.file.len()?.min(last).min(SEGMENT_MAX);
        let whole = usize::try_from(len).unwrap_or(0);
        let mut bytes = room(whole)?;
        bytes.resize(whole, 0);
        let got = segment.file.read_at(&mut bytes, 0)?;
        bytes.truncate(got);
        Ok(Bytes {
            bytes,
            salt: segment.header.salt,
            end,
            unproven: 0,
        })
    }

    pub(super) fn from(&self, at: u64) -> &[u8] {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Whether the place is before the known end.
    fn is_synced(&self, at: u64) -> bool {
        self.end.is_some_and(|end| at < end.off)
    }

    /// The header at an offset. If a record begins `here` for certain, one flipped bit is
    /// corrected.
    pub(super) fn header(&self, at: u64, here: Option<Next>) -> Option<RecordHeader> {
        let bytes = self.from(at);
        RecordHeader::decode(bytes, self.salt, at).or_else(|| {
            let here = here.filter(|_| self.is_synced(at))?;
            flipped::record(bytes, self.salt, at).filter(|header| header.prev == here.prev)
        })
    }

    /// Whether a record with an intact header belongs to the log.
    pub(super) fn is_part(
        &mut self,
        at: u64,
        header: &RecordHeader,
        here: Option<Next>,
        stopped: Option<u64>,
    ) -> bool {
        // Where the end is unknown, records behind damage may have been written and never
        // acknowledged.
        let is_linked = here.is_some_and(|here| here.prev == header.prev);
        if is_linked && (stopped.is_none() || self.is_synced(at)) {
            return true;
        }
        let place = stopped.unwrap_or(at);
        u64::from(header.synced) > place || (self.is_synced(at) && self.is_proven(at, place))
    }

    /// Whether the chain of checks leads from a record to one that was written after `place` was
    /// synced, or to the end.
    fn is_proven(&mut self, from: u64, place: u64) -> bool {
        if from < self.unproven {
            return false;
        }
        let mut next: Option<Next> = None;
        let mut at = from;
        loop {
            if let (Some(next), Some(end)) = (next, self.end)
                && at >= end.off
            {
                return (next.at, next.prev) == (end.off, end.check);
            }
            let header = self.header(at, next);
            let header = header.filter(|h| next.is_none_or(|next| next.prev == h.prev));
            let Some(header) = header else {
                self.unproven = at;
                return false;
            };
            if u64::from(header.synced) > place {
                return true;
            }
            next = Some(Next::behind(&header, at));
            at += header.padded_len();
        }
    }
}
