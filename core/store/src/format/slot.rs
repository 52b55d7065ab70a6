//! Commit slots: the two places from which recovery can start.
//!
//! ```text
//! offset  size  field
//!      0     4  magic      "DSLT"
//!      4     4  version    format version
//!      8     8  seq        one more at each slot written; the larger valid slot wins
//!     16     8  salt       as in the header
//!     24    40  tip        the trailer it names (fields of the tip, without checksum)
//!     64     4  flags      1: written by the last close, nothing was published after it
//!     68     4  reserved   0
//!     72     8  checksum   xxh3-64 of the 72 bytes above
//! ```
//!
//! Invariant: everything that a slot names was synced before the slot was written. Invariant: a
//! writer never writes over the slot that recovery would choose now, and that slot is durable. So
//! the trailer named by the newest valid slot is *proven*: if it cannot be read, the file is
//! damaged (rule S10).

use super::DATA_OFF;
use super::tip::Tip;
use crate::bytes::Put;
use crate::error::Result;
use densite_disk::hash::xxh3_64;
use densite_disk::{Fields, File};

const MAGIC: &[u8; 4] = b"DSLT";
/// Length of one copy of a slot in bytes.
pub(crate) const SLOT_LEN: usize = 80;
/// Flag: nothing was published after this slot when it was written.
pub(crate) const CLEAN: u32 = 1;

/// A decoded slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) version: u32,
    pub(crate) seq: u64,
    pub(crate) salt: u64,
    pub(crate) tip: Tip,
    pub(crate) flags: u32,
}

impl Slot {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SLOT_LEN);
        out.extend_from_slice(MAGIC);
        out.put_u32(self.version);
        out.put_u64(self.seq);
        out.put_u64(self.salt);
        self.tip.put(&mut out);
        out.put_u32(self.flags);
        out.put_u32(0);
        let sum = xxh3_64(&out);
        out.put_u64(sum);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Slot> {
        let mut f = Fields::new(bytes);
        if f.bytes(4)? != MAGIC {
            return None;
        }
        let (version, seq, salt) = (f.u32()?, f.u64()?, f.u64()?);
        let tip = Tip::take(&mut f)?;
        let (flags, _, sum) = (f.u32()?, f.u32()?, f.u64()?);
        (xxh3_64(bytes.get(..72)?) == sum && seq != 0 && seq < super::MAX_COMMIT).then_some(Slot {
            version,
            seq,
            salt,
            tip,
            flags,
        })
    }
}

/// The newest valid slot among the four copies in the two blocks, and the index of its block.
pub(crate) fn choose(preamble: &[u8]) -> Option<(usize, Slot)> {
    // Of equal ones the first is taken: both copies of a block are the same slot.
    valid(preamble).reduce(|best, next| if next.1.seq > best.1.seq { next } else { best })
}

/// The oldest valid slot.
pub(crate) fn oldest(preamble: &[u8]) -> Option<Slot> {
    valid(preamble)
        .map(|(_, slot)| slot)
        .min_by_key(|slot| slot.seq)
}

/// All valid copies, with their blocks.
fn valid(preamble: &[u8]) -> impl Iterator<Item = (usize, Slot)> {
    let places = super::SLOT_OFF
        .iter()
        .enumerate()
        .flat_map(|(i, off)| [(i, *off), (i, off + super::SLOT_COPY)]);
    places.filter_map(|(i, at)| {
        let bytes = preamble.get(at as usize..at as usize + SLOT_LEN)?;
        Some((i, Slot::decode(bytes)?))
    })
}

/// The bytes of the preamble, fewer if the file ends before.
///
/// # Errors
/// I/O.
pub(crate) fn read_preamble(file: &dyn File) -> Result<Vec<u8>> {
    let mut pre = vec![0; DATA_OFF as usize];
    let n = file.read_at(&mut pre, 0)?;
    pre.truncate(n);
    Ok(pre)
}

/// The newest valid slot, and its block.
pub(crate) fn read_slot(file: &dyn File) -> Result<Option<(usize, Slot)>> {
    Ok(choose(&read_preamble(file)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_valid_copy_wins() {
        let mut pre = vec![0u8; super::super::DATA_OFF as usize];
        assert!(choose(&pre).is_none());
        let mk = |seq| Slot {
            version: 1,
            seq,
            salt: 5,
            tip: Tip {
                commit: seq,
                ..Tip::default()
            },
            flags: 0,
        };
        for (at, seq) in [(4096, 3), (6144, 3), (8192, 4), (10240, 4)] {
            pre[at..at + SLOT_LEN].copy_from_slice(&mk(seq).encode());
        }
        assert_eq!(choose(&pre).map(|x| (x.0, x.1.seq)), Some((1, 4)));
        pre[8192 + 30] ^= 1;
        assert_eq!(
            choose(&pre).map(|x| (x.0, x.1.seq)),
            Some((1, 4)),
            "the second copy is used"
        );
        pre[10240 + 30] ^= 1;
        assert_eq!(
            choose(&pre).map(|x| (x.0, x.1.seq)),
            Some((0, 3)),
            "then the older slot"
        );
    }
}
