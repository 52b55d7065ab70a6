//! Whether a newer commit of a file stands on an older one that this process knows.
//!
//! A process names pages, map nodes and dictionaries by commit numbers, which are unique within one history of a file. When other contents are
//! written over an open file (`cp` of a backup, a copy that was written to elsewhere), the same numbers name other pages. So what was read before counts only
//! as long as the chain of trailers leads from the newest commit back to the known one: hashes link them, so two histories never meet again.

use crate::chain;
use crate::error::{Error, Result};
use crate::format::tip::Tip;
use crate::format::trailer::Trailer;
use densite_disk::File;

/// Commits that are followed back.
const MAX_SINCE: usize = 4096;

/// What the commits before the newest one say.
pub(crate) enum Lineage {
    /// The known commit is among them: what each commit since has written, in order.
    Ours(Vec<(Tip, Vec<(u64, u64)>)>),
    /// They are of another history.
    Another,
    /// Their places were written again, or there are too many of them.
    Unknown,
}

/// Follows the chain back to `ours`, from the newest commit `tip`, whose trailers back to the last fold are `back`.
///
/// # Errors
/// I/O.
pub(crate) fn of(
    file: &dyn File,
    salt: u64,
    ours: &Tip,
    tip: &Tip,
    back: &[(Tip, Trailer)],
) -> Result<Lineage> {
    let mut since: Vec<(Tip, Vec<(u64, u64)>)> = back
        .iter()
        .map(|(tip, trailer)| (*tip, trailer.pieces.clone()))
        .collect();
    let mut at = back.last().map_or(*tip, |(_, trailer)| trailer.prev);
    while at != *ours {
        if at.commit <= ours.commit {
            return Ok(Lineage::Another);
        }
        if since.len() > MAX_SINCE {
            return Ok(Lineage::Unknown);
        }
        let trailer = match chain::read_trailer(file, salt, &at) {
            Ok(trailer) if trailer.prev.commit < at.commit => trailer,
            Ok(_) | Err(Error::Corrupt(_)) => return Ok(Lineage::Unknown),
            Err(e) => return Err(e),
        };
        since.push((at, trailer.pieces));
        at = trailer.prev;
    }
    since.sort_by_key(|(tip, _)| tip.commit);
    Ok(Lineage::Ours(since))
}
