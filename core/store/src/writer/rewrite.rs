//! Writes again what a failed sync can have dropped.
//!
//! After a failed sync, the system drops writes that did not reach the disk, but still shows them
//! to all processes. So a connection that has the right to write and gets the error writes the same
//! bytes again; the next successful sync covers them. Without the right, an older tip would undo
//! commits of others. Then the rewrite is noted (`Durability::rewrite_if_needed`), and nothing
//! counts as durable in this process until it is done. Only bytes that match the chain hash of
//! their commit are written.

use crate::chain;
use crate::error::{Damage, Error, Result};
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::{DATA_OFF, TIP_OFF, slot};
use densite_disk::File;

/// Bytes of one write.
const PART: u64 = 256 << 10;

/// Reads everything that was published since the older of the two slots, and writes it again. That
/// slot was durable before the newer one was written. The caller has the right to write.
///
/// # Errors
/// I/O. [`Error::Corrupt`] if the bytes read are not what was published; nothing of that commit is
/// then written.
pub(crate) fn run(file: &dyn File, salt: u64, tip: &Tip) -> Result<()> {
    let mut preamble = vec![0; DATA_OFF as usize];
    let n = file.read_at(&mut preamble, 0)?;
    preamble.truncate(n);
    let durable = slot::oldest(&preamble).map_or(0, |slot| slot.tip.commit);
    let named = slot::choose(&preamble).map_or(0, |(_, slot)| slot.tip.commit);
    // Others may have published since the caller read the tip.
    let published = preamble
        .get(TIP_OFF as usize..)
        .and_then(|block| Tip::decode(block.first_chunk::<TIP_LEN>()?, salt));
    if let Some(older) = published.filter(|published| published.commit < tip.commit) {
        return Err(not_published("tip", TIP_OFF, older.commit, tip.commit));
    }
    let mut at = published.unwrap_or(*tip);
    while at.commit > durable {
        // Everything up to the commit that a slot names was durable, and its places may have been
        // reused. Records that are not there any more are not needed.
        let trailer = match chain::read_trailer(file, salt, &at) {
            Ok(trailer) => trailer,
            Err(Error::Corrupt(_)) if at.commit <= named => break,
            Err(e) => return Err(e),
        };
        let start = trailer.pieces.first().map_or(DATA_OFF, |piece| piece.0);
        let whole = chain::next_commit(file, salt, &trailer.prev, start)?;
        if whole.is_none_or(|(tip, _)| tip != at) {
            if at.commit <= named {
                break;
            }
            return Err(not_published(
                "records",
                start,
                trailer.prev.commit,
                at.commit,
            ));
        }
        for (start, end) in &trailer.pieces {
            write_range(file, *start, *end)?;
        }
        if trailer.prev.commit >= at.commit {
            break;
        }
        at = trailer.prev;
    }
    Ok(file.write_at(&preamble, 0)?)
}

fn not_published(what: &str, offset: u64, has: u64, lacks: u64) -> Error {
    Error::Corrupt(Damage {
        what: format!("{what} of commit {lacks}"),
        offset,
        page: None,
        problem: format!(
            "after a failed sync the disk returns other bytes than were written, and only commit {has} is intact; nothing of it was written again: close the database in all processes and check it"
        ),
    })
}

fn write_range(file: &dyn File, start: u64, end: u64) -> Result<()> {
    let mut at = start;
    while at < end {
        let mut bytes = vec![0; (end - at).min(PART) as usize];
        let n = file.read_at(&mut bytes, at)?;
        let Some(read) = bytes.get(..n).filter(|read| !read.is_empty()) else {
            break;
        };
        file.write_at(read, at)?;
        at += n as u64;
    }
    Ok(())
}
