//! The tip (commit pointer): names the newest published trailer. Writing it publishes a commit.
//!
//! ```text
//! offset  size  field
//!      0     8  commit     number of the newest published commit
//!      8     8  off        where its trailer starts (0: the empty store)
//!     16     4  len        length of that trailer's record
//!     20     4  reserved   0
//!     24    16  hash       the chain hash in that trailer
//!     40     8  checksum   xxh3-64 of the 40 bytes above, seeded with the salt
//! ```
//!
//! Invariant: the trailer and everything it covers were written before the tip, so a reader that
//! sees the tip finds them. Invariant: a sync after that makes trailer and tip durable together, so
//! no acknowledged commit is beyond a valid tip. After a power cut the tip may be ahead of what
//! survived. So recovery verifies, and ends where the chain ends.

use super::TIP_OFF;
use crate::bytes::Put;
use crate::error::Result;
use densite_disk::hash::xxh3_64_with_seed;
use densite_disk::{Fields, File};

/// Length of the tip in bytes.
pub(crate) const TIP_LEN: usize = 48;
/// Where the hash begins in it.
pub(crate) const TIP_HASH: usize = 24;

/// A pointer to one trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tip {
    pub(crate) commit: u64,
    pub(crate) off: u64,
    pub(crate) len: u32,
    pub(crate) hash: [u8; 16],
}

impl Tip {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.commit);
        out.put_u64(self.off);
        out.put_u32(self.len);
        out.put_u32(0);
        out.extend_from_slice(&self.hash);
    }

    pub(crate) fn take(f: &mut Fields<'_>) -> Option<Tip> {
        let (commit, off, len, _) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
        let hash = f.array()?;
        (commit < super::MAX_COMMIT).then_some(Tip {
            commit,
            off,
            len,
            hash,
        })
    }

    pub(crate) fn encode(&self, salt: u64) -> [u8; TIP_LEN] {
        let mut out = Vec::with_capacity(TIP_LEN);
        self.put(&mut out);
        let sum = xxh3_64_with_seed(&out, salt);
        out.put_u64(sum);
        let mut array = [0; TIP_LEN];
        array.copy_from_slice(&out);
        array
    }

    pub(crate) fn decode(bytes: &[u8], salt: u64) -> Option<Tip> {
        let mut f = Fields::new(bytes);
        let tip = Tip::take(&mut f)?;
        let sum = f.u64()?;
        (xxh3_64_with_seed(bytes.get(..40)?, salt) == sum).then_some(tip)
    }
}

/// The bytes of the tip block, with zeros beyond the end of the file.
///
/// # Errors
/// I/O.
pub(crate) fn read_tip(file: &dyn File) -> Result<[u8; TIP_LEN]> {
    let mut raw = [0; TIP_LEN];
    file.read_at(&mut raw, TIP_OFF)?;
    Ok(raw)
}
