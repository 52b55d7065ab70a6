//! Finds out whether a newer commit of a file follows an older one that this process knows.
//!
//! A process names pages, map nodes and dictionaries by commit numbers, which are unique within one
//! history of a file. If other contents are written over an open file (`cp` of a backup, a copy
//! that was written to elsewhere), the same numbers name other pages. So what was read before is
//! valid only while the chain of trailers leads from the newest commit back to the known one.
//! Hashes link the trailers, so two histories never meet again.

use crate::chain;
use crate::error::{Error, Result};
use crate::format::tip::Tip;
use crate::format::trailer::Trailer;
use densite_disk::File;

/// The most commits that are followed back when a process reads what others have committed.
pub(crate) const MAX_SINCE: usize = 4096;

/// What the commits before the newest one show.
pub(crate) enum Lineage {
    /// The known commit is among them. Has the pieces that each later commit wrote, in order.
    Ours(Vec<(Tip, Vec<(u64, u64)>)>),
    /// They belong to another history.
    Another,
    /// That cannot be told: their places were written again, or there are too many of them.
    Unknown,
}

/// Follows the chain back to `ours`, from the newest commit `tip`, over at most `most` commits.
/// `back` has its trailers back to the last fold.
///
/// # Errors
/// I/O.
pub(crate) fn of(
    file: &dyn File,
    salt: u64,
    ours: &Tip,
    tip: &Tip,
    back: &[(Tip, Trailer)],
    most: usize,
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
        if since.len() > most {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodecChoice, Handle, Options, recover};
    use densite_disk::OpenMode;
    use densite_sim_disk::{SimDisk, SimFile};

    const PATH: &str = "/a.db";
    const PAGE: usize = 4096;

    /// A file with so many commits, over many folds; its salt, and the tip of each commit.
    fn file_of(commits: usize) -> (SimFile, u64, Vec<Tip>) {
        let disk = SimDisk::new(1);
        let open = || disk.open(PATH, OpenMode::Create).expect("open");
        let options = Options {
            threads: 0,
            codec: CodecChoice::Raw,
            ..Options::default()
        };
        let mut handle = Handle::open(Box::new(open()), PATH, options).expect("open");
        let mut tips = Vec::new();
        for n in 0..commits {
            handle.write_at(&[n as u8; PAGE], 0).expect("write");
            handle.publish().expect("publish");
            tips.push(handle.shared().expect("shared").state.read().tip());
        }
        (open(), handle.shared().expect("shared").salt, tips)
    }

    fn of_tips(file: &SimFile, salt: u64, ours: &Tip, tip: &Tip) -> Lineage {
        let mut back = Vec::new();
        let met = recover::walk_back(file, salt, tip, &mut back, &mut |_| false);
        assert!(!met.expect("walk"));
        of(file, salt, ours, tip, &back, MAX_SINCE).expect("lineage")
    }

    #[test]
    fn a_known_commit_is_found_behind_folds_up_to_a_limit() {
        let (file, salt, tips) = file_of(MAX_SINCE + 50);
        let newest = tips.last().expect("a commit");
        let mut unfolded = Vec::new();
        let walked = recover::walk_back(&file, salt, newest, &mut unfolded, &mut |_| false);
        assert!(!walked.expect("walk"));
        let nearest = unfolded.len();
        for since in [nearest, nearest + 1, MAX_SINCE, MAX_SINCE + 1] {
            let before = tips.len() - since;
            let Lineage::Ours(found) = of_tips(&file, salt, &tips[before - 1], newest) else {
                panic!("{since} commits: not found");
            };
            let found: Vec<Tip> = found.into_iter().map(|(tip, _)| tip).collect();
            assert!(
                found == tips[before..],
                "{since} commits: not those, or not in order"
            );
        }
        for since in [MAX_SINCE + 2, MAX_SINCE + 40] {
            let ours = &tips[tips.len() - since - 1];
            let found = of_tips(&file, salt, ours, newest);
            assert!(matches!(found, Lineage::Unknown), "{since} commits");
        }
    }

    #[test]
    fn a_commit_of_the_same_number_is_of_another_history() {
        let (file, salt, tips) = file_of(2000);
        let (_, _, others) = file_of(500);
        for ours in [&others[0], &others[499]] {
            let found = of_tips(&file, salt, ours, &tips[1999]);
            assert!(matches!(found, Lineage::Another));
        }
    }
}
