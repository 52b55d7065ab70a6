//! The end word: the file `end`, which tells every process how far the log is synced.
//!
//! ```text
//! offset  size  field
//!      0    16  log_id    as in the segments
//!     16     8  segment   number of the last segment
//!     24     8  off       its records are synced up to here
//!     32     8  check     check of the last record before `off`, or of the segment's header
//!     40     8  next_seq  the next row gets this number or a higher one
//!     48     4  writers   files `writer-0` to the one before this number may be in use
//!     52     4  flags     1: nothing may follow in this segment, the next record goes to a new one
//!     56     8  checksum  xxh3 of the 56 bytes above
//! ```
//!
//! Invariant: it is written under the sync lock, after a sync of the records before `off`. So it is
//! true whenever it is read. Appending never syncs the word itself, so a power cut can leave an older
//! or a torn one.
//!
//! The file `appended` has two more words of this form: how far records are written, and how far the
//! last sync was to reach ([`crate::seal_segment`]).

use super::MAX_SEQ;
use crate::{LogId, Seq};
use densite_disk::Fields;
use densite_disk::hash::xxh3_64;

/// Length in bytes.
pub(crate) const WORD_LEN: usize = 64;
/// Where the syncing word begins in the file `appended`. The appended word begins at 0.
pub(crate) const SYNCING_OFF: u64 = WORD_LEN as u64;
/// The most logs that are open for writing at once.
pub(crate) const WRITERS_MAX: u32 = 4096;
/// The flag of a segment that takes no more records.
pub(crate) const SEALED: u32 = 1;

/// How far the log is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndWord {
    pub(crate) id: LogId,
    pub(crate) segment: u64,
    pub(crate) off: u64,
    pub(crate) check: u64,
    pub(crate) next_seq: Seq,
    pub(crate) writers: u32,
    pub(crate) flags: u32,
}

impl EndWord {
    /// Number of the last row: one less than the next row's number.
    pub(crate) fn last_seq(&self) -> Seq {
        self.next_seq - 1
    }

    pub(crate) fn sealed(&self) -> bool {
        self.flags & SEALED != 0
    }

    pub(crate) fn encode(&self) -> [u8; WORD_LEN] {
        let mut out = Vec::with_capacity(WORD_LEN);
        out.extend_from_slice(&self.id.0);
        for field in [self.segment, self.off, self.check, self.next_seq] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.writers.to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        let mut array = [0; WORD_LEN];
        array.copy_from_slice(&out);
        array
    }

    /// Decodes the word of the log with this id; `None` if it is not valid.
    pub(crate) fn decode(bytes: &[u8], id: LogId) -> Option<EndWord> {
        let mut take = Fields::new(bytes);
        let word = EndWord {
            id: LogId(take.array()?),
            segment: take.u64()?,
            off: take.u64()?,
            check: take.u64()?,
            next_seq: take.u64()?,
            writers: take.u32()?,
            flags: take.u32()?,
        };
        let sum = take.u64()?;
        let right = xxh3_64(bytes.get(..WORD_LEN - 8)?) == sum
            && word.id == id
            && (super::DATA_OFF..=super::SEGMENT_MAX).contains(&word.off)
            && word.writers <= WRITERS_MAX
            && (1..MAX_SEQ).contains(&word.segment)
            && (1..MAX_SEQ).contains(&word.next_seq);
        right.then_some(word)
    }
}
