//! A mark: names one commit of one file, so that a copy of the file can be brought up to date.
//!
//! ```text
//! offset  size  field
//!      0     8  salt    as in the header of the file
//!      8    40  tip     the trailer of the commit, as in the tip
//! ```

use crate::bytes::Put;
use crate::format::tip::Tip;
use densite_disk::Fields;

/// Names one commit of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitId {
    pub(crate) salt: u64,
    pub(crate) tip: Tip,
}

impl CommitId {
    /// Bytes of an encoded mark.
    pub const LEN: usize = 48;

    /// The number of the commit.
    #[must_use]
    pub fn commit(&self) -> u64 {
        self.tip.commit
    }

    /// The random number of the file: files with different ones have nothing in common.
    #[must_use]
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// The mark as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; CommitId::LEN] {
        let mut out = Vec::with_capacity(CommitId::LEN);
        out.put_u64(self.salt);
        self.tip.put(&mut out);
        let mut array = [0; CommitId::LEN];
        array.copy_from_slice(&out);
        array
    }

    /// The mark that these bytes encode; `None` if its numbers are out of range.
    #[must_use]
    pub fn decode(bytes: &[u8; CommitId::LEN]) -> Option<CommitId> {
        let mut fields = Fields::new(bytes);
        Some(CommitId {
            salt: fields.u64()?,
            tip: Tip::take(&mut fields)?,
        })
    }
}

/// What was written to a file between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The ranges of bytes, start and end, in ascending order and without overlaps. The preamble is
    /// not among them.
    Ranges(Vec<(u64, u64)>),
    /// The earlier commit is not in the history of the file.
    AnotherHistory,
    /// It cannot be told: the places of the commits in between were written again, or there are too
    /// many of them.
    Unknown,
}

/// Sorts ranges, start and end, and joins those that touch.
#[must_use]
pub fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.retain(|(start, end)| start < end);
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_its_encoding() {
        let tip = Tip {
            commit: 7,
            off: 16384,
            len: 300,
            hash: [9; 16],
        };
        let mark = CommitId { salt: 5, tip };
        assert_eq!(CommitId::decode(&mark.encode()), Some(mark));
        let mut bytes = mark.encode();
        bytes[8..16].fill(0xff);
        assert_eq!(CommitId::decode(&bytes), None, "the commit is out of range");
    }

    #[test]
    fn ranges_that_touch_are_joined() {
        let ranges = vec![(8, 9), (1, 3), (3, 5), (2, 4), (7, 7)];
        assert_eq!(joined(ranges), [(1, 5), (8, 9)]);
    }
}
