//! Copying a log while it is in use: which bytes a copy has ([`Span`]), reading them
//! ([`Hold`], [`Image`]), and putting the files of a copy together ([`RestoredLog`]).
//!
//! A copy has the segments' bytes up to the end word, so it is what a process would find that opens
//! the log after a crash: a transaction that was prepared and not yet decided counts as committed.

mod put;
mod take;

pub use put::RestoredLog;
pub use take::{Hold, Image, News, Part};

use crate::LogId;
use crate::format::MAX_SEQ;
use crate::format::word::{EndWord, WORD_LEN};

/// What a copy of a log has: its segments from the first one on, up to the end that a word names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    first: u64,
    end: EndWord,
}

impl Span {
    /// Bytes of an encoded span: the number of the first segment, then an end word.
    pub const LEN: usize = 8 + WORD_LEN;

    /// The id of the log.
    #[must_use]
    pub fn id(&self) -> LogId {
        self.end.id
    }

    /// Number of the first segment.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of the last segment, and where it ends.
    #[must_use]
    pub fn end(&self) -> (u64, u64) {
        (self.end.segment, self.end.off)
    }

    /// How many bytes of a segment the copy can have; `None` if it does not have that segment.
    #[must_use]
    pub fn limit(&self, segment: u64) -> Option<u64> {
        match segment {
            n if n < self.first || n > self.end.segment => None,
            n if n == self.end.segment => Some(self.end.off),
            _ => Some(u64::MAX),
        }
    }

    /// The span as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Span::LEN] {
        let mut out = [0; Span::LEN];
        let (first, end) = out.split_at_mut(8);
        first.copy_from_slice(&self.first.to_le_bytes());
        end.copy_from_slice(&self.end.encode());
        out
    }

    /// Decodes a span; `None` if it is not valid.
    #[must_use]
    pub fn decode(bytes: &[u8; Span::LEN]) -> Option<Span> {
        let (first, word) = bytes.split_first_chunk::<8>()?;
        let first = u64::from_le_bytes(*first);
        let end = EndWord::decode(word, LogId(*word.first_chunk()?))?;
        ((1..MAX_SEQ).contains(&first) && first <= end.segment).then_some(Span { first, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_survives_its_encoding_and_damage_is_seen() {
        let end = EndWord {
            id: LogId([3; 16]),
            segment: 9,
            off: 5000,
            check: 77,
            next_seq: 12,
            writers: 0,
            flags: 0,
        };
        let span = Span { first: 4, end };
        let bytes = span.encode();
        assert_eq!(Span::decode(&bytes), Some(span));
        assert_eq!(
            [3, 4, 8, 9, 10].map(|n| span.limit(n)),
            [None, Some(u64::MAX), Some(u64::MAX), Some(5000), None]
        );
        for at in 8..Span::LEN {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert_eq!(Span::decode(&changed), None, "byte {at}");
        }
        for first in [0, 10, MAX_SEQ] {
            assert_eq!(Span::decode(&Span { first, end }.encode()), None, "{first}");
        }
    }
}
