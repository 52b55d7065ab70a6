//! After a failed sync: what may not have reached the disk is written once more.
//!
//! An operating system drops the writes that a failed sync could not bring to the disk, goes on showing them to everyone, and does not
//! bring them back with a later sync that succeeds. Others, connections and processes, see those commits and build upon
//! them: what they are promised next would stand on nothing. So whoever meets the failure writes the same bytes again while he has the
//! writer's right. Then the next sync that succeeds, whoever's it is, covers them. Without the right nothing may be written: others publish meanwhile, and an
//! older tip would take back what they did. Then a rewrite is needed (`Durability::rewrite_if_needed`), and until it is done nothing counts as durable in this process.
//!
//! Only what is right is written again: the records of a commit are verified first, by the chain hash that its trailer has. Otherwise what the disk gives
//! wrongly would become what it has.

use crate::chain;
use crate::error::{Damage, Error, Result};
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::{DATA_OFF, TIP_OFF, slot};
use densite_disk::File;

/// Bytes written at once.
const PART: u64 = 256 << 10;

/// Writes everything that was published since the older of the two slots again, as it is read: that one was durable before the newer
/// one was written. The caller has the writer's right.
///
/// # Errors
/// I/O: the disk is worse than it was. [`Error::Corrupt`]: what is read is not what was published, and nothing of that commit was written.
pub(crate) fn run(file: &dyn File, salt: u64, tip: &Tip) -> Result<()> {
    let mut preamble = vec![0; DATA_OFF as usize];
    let n = file.read_at(&mut preamble, 0)?;
    preamble.truncate(n);
    let durable = slot::oldest(&preamble).map_or(0, |slot| slot.tip.commit);
    let named = slot::choose(&preamble).map_or(0, |(_, slot)| slot.tip.commit);
    // Others may have published since the caller looked.
    let published = preamble
        .get(TIP_OFF as usize..)
        .and_then(|block| Tip::decode(block.first_chunk::<TIP_LEN>()?, salt));
    if let Some(older) = published.filter(|published| published.commit < tip.commit) {
        return Err(not_published("tip", TIP_OFF, older.commit, tip.commit));
    }
    let mut at = published.unwrap_or(*tip);
    while at.commit > durable {
        // Up to what a slot names all was durable, and places may have been used again since: what is not there any more is not needed.
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
            "after a failed sync the disk gives back something else than was written, and only commit {has}; nothing of it is written again: close the database everywhere and check it"
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
