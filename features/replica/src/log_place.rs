//! Where the bytes of a log lie among those of a replica: above those of the file.
//!
//! ```text
//! 2^62                   the state: settings, subscribers, rollbacks
//! 2^62 + n * 2^31 + off  byte `off` of segment n
//! ```
//!
//! A segment has at most 2^30 + 4096 bytes, so none reaches into the next one.

use crate::error::{Error, Result};
use crate::extents::{Sink, Writer};
use crate::format::Logged;
use densite_log::{Image, Part};

/// Where the log begins.
const LOG: u64 = 1 << 62;
/// Bits of an offset in a segment.
const BITS: u32 = 31;
/// Bytes of one read.
const CHUNK: u64 = 1 << 20;

/// What the bytes at an offset belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The database file.
    File,
    /// The state of the log, from this byte on.
    State(u64),
    /// A segment of the log, from this byte on.
    Segment(u64, u64),
}

/// See [`Place`].
pub(crate) fn place(offset: u64) -> Place {
    let Some(at) = offset.checked_sub(LOG) else {
        return Place::File;
    };
    let within = at & ((1 << BITS) - 1);
    match at >> BITS {
        0 => Place::State(within),
        number => Place::Segment(number, within),
    }
}

/// Whether the bytes at an offset belong to the database file.
pub(crate) fn is_of_file(offset: u64) -> bool {
    offset < LOG
}

/// How many of `len` bytes at `offset` belong to a restore point with a file of `image_len` bytes
/// and this log.
pub(crate) fn kept(offset: u64, len: u64, image_len: u64, log: Option<&Logged>) -> u64 {
    let (limit, at) = match (place(offset), log) {
        (Place::File, _) => (image_len, offset),
        (_, None) => (0, 0),
        (Place::State(at), Some(log)) => (u64::from(log.state_len), at),
        (Place::Segment(number, at), Some(log)) => (log.span.limit(number).unwrap_or(0), at),
    };
    limit.saturating_sub(at).min(len)
}

/// Adds parts of a log and its state to an object. Returns what the replica has of the log then.
///
/// # Errors
/// The bucket's; [`Error::Source`].
pub(crate) fn put<S: Sink>(
    writer: &mut Writer<S>,
    image: &Image,
    parts: &[Part],
) -> Result<Logged> {
    for part in parts {
        if part.segment >= LOG >> BITS {
            let message = format!("segment {} of the log has too high a number", part.segment);
            return Err(Error::Source(message));
        }
        let mut at = part.from;
        while at < part.to {
            let len = CHUNK.min(part.to - at);
            let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
            image.read(part.segment, &mut bytes, at)?;
            writer.put(LOG + (part.segment << BITS) + at, &bytes)?;
            at += len;
        }
    }
    let state = image.state();
    writer.put(LOG, &state)?;
    Ok(Logged {
        span: image.span(),
        state_len: u32::try_from(state.len()).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_its_place() {
        assert_eq!(place(LOG - 1), Place::File);
        assert_eq!(place(LOG + 5), Place::State(5));
        let last = (1 << 30) + 4095;
        for number in [1, 2, (1 << 31) - 1] {
            let begin = LOG + (number << BITS);
            assert_eq!(place(begin), Place::Segment(number, 0));
            assert_eq!(place(begin + last), Place::Segment(number, last));
        }
        assert_eq!(kept(100, 50, 120, None), 20);
        assert_eq!(kept(LOG, 50, 120, None), 0);
    }
}
