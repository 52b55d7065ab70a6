//! The times: the file `times`, which tells about when rows were appended. Records have no time.
//!
//! ```text
//! offset  size  field
//!      0    16  log_id    as in the segments
//!     16     8  count     number of times
//!     24  4064  times     each: 8 bytes milliseconds since 1970 (UTC), 8 bytes the last row that could be read then; both ascending; then zeros
//!   4088     8  checksum  xxh3 of the 4088 bytes above
//! ```
//!
//! The file is written in place, without a lock and without a sync. A torn one is not valid, and
//! the next writer writes another. Nothing but a figure depends on it.

use super::MAX_SEQ;
use crate::{LogId, Seq};
use densite_disk::Fields;
use densite_disk::hash::xxh3_64;

/// Length in bytes.
pub(crate) const TIMES_LEN: usize = 4096;
/// The most times.
pub(crate) const TIMES_MAX: usize = (TIMES_LEN - 32) / 16;

/// At this moment this was the last row that could be read. So every row behind it came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Milliseconds since 1970, UTC.
    pub(crate) millis: u64,
    pub(crate) last: Seq,
}

/// The bytes of the last [`TIMES_MAX`] moments.
pub(crate) fn encode(id: LogId, moments: &[Moment]) -> Vec<u8> {
    let from = moments.len().saturating_sub(TIMES_MAX);
    let moments = moments.get(from..).unwrap_or_default();
    let mut out = Vec::with_capacity(TIMES_LEN);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(&(moments.len() as u64).to_le_bytes());
    for moment in moments {
        out.extend_from_slice(&moment.millis.to_le_bytes());
        out.extend_from_slice(&moment.last.to_le_bytes());
    }
    out.resize(TIMES_LEN - 8, 0);
    let sum = xxh3_64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Decodes the times of the log with this id; `None` if they are not valid.
pub(crate) fn decode(bytes: &[u8], id: LogId) -> Option<Vec<Moment>> {
    let (body, sum) = bytes.split_at_checked(TIMES_LEN - 8)?;
    if Fields::new(sum).u64() != Some(xxh3_64(body)) {
        return None;
    }
    let mut take = Fields::new(body);
    if LogId(take.array()?) != id {
        return None;
    }
    let count = usize::try_from(take.u64()?).ok()?;
    let mut moments = Vec::new();
    for _ in 0..count {
        moments.push(Moment {
            millis: take.u64()?,
            last: take.u64()?,
        });
    }
    let ascends = moments.is_sorted_by(|a, b| a.millis <= b.millis && a.last < b.last);
    (ascends && moments.iter().all(|m| m.last < MAX_SEQ)).then_some(moments)
}
