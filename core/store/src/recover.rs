//! Recovery: finds the newest commit of a file (docs/decisions/store-commits.md). It writes
//! nothing.
//!
//! The newest valid slot names a commit that was durable before the slot was written: if its
//! trailer is missing, the file is damaged. The trailers back to the last root trailer give its
//! state. The tip names what was published since. Commits between slot and tip are verified record
//! by record, because after a power cut any part of them can be missing. The state is the last
//! whole one (rules S8 and S10). The next writer appends after it, over the torn tail.

use crate::chain;
use crate::error::{Damage, Error, Result};
use crate::format::header::{HEADER_LEN, Header, HeaderFault};
use crate::format::slot::{self, SLOT_LEN, Slot, read_preamble};
use crate::format::tip::{TIP_HASH, TIP_LEN, Tip};
use crate::format::trailer::Trailer;
use crate::format::{DATA_OFF, FORMAT_VERSION, SLOT_COPY, SLOT_OFF, TIP_OFF};
use crate::state::State;
use densite_disk::File;
use std::ops::Range;

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No bytes, or a store whose creation was interrupted: a database of no pages.
    Empty,
    /// A Densite file of any version.
    Densite,
    /// Anything else.
    Other,
}

/// What a file is, by its first bytes.
///
/// # Errors
/// I/O.
pub fn probe(file: &dyn File) -> Result<Kind> {
    let pre = read_preamble(file)?;
    Ok(match Header::decode(&pre) {
        Ok(_) | Err(HeaderFault::Newer(_) | HeaderFault::Damaged) => Kind::Densite,
        Err(HeaderFault::Foreign) if is_unborn(file, &pre)? => Kind::Empty,
        // The header is gone, but a slot identifies the file.
        Err(HeaderFault::Foreign) if slot::choose(&pre).is_some() => Kind::Densite,
        Err(HeaderFault::Foreign) => Kind::Other,
    })
}

/// A store as found in its file.
pub(crate) struct Found {
    pub(crate) salt: u64,
    pub(crate) state: State,
    /// The newest slot and its block.
    pub(crate) slot: (usize, Slot),
    /// A description of published commits that did not survive, if there are any.
    pub(crate) cut: Option<String>,
    /// The next writer must write the header again.
    pub(crate) header_lost: bool,
}

/// The salt in a file's header, or else in its newest slot; `None` if neither is whole.
pub(crate) fn salt_of(file: &dyn File) -> Result<Option<u64>> {
    let pre = read_preamble(file)?;
    Ok(match Header::decode(&pre) {
        Ok(header) => Some(header.salt),
        Err(_) => slot::choose(&pre).map(|(_, slot)| slot.salt),
    })
}

/// Creation writes slots, syncs, and writes the header last. So a file without a header that is not
/// longer than the preamble holds no data.
///
/// Without a header, a power cut may have left any bytes, because the sync may not have happened. A
/// whole slot then identifies the file as a store. Without a slot too, the file is not recognised
/// as a store: SQLite then rolls back the journal beside it, as for a plain file.
///
/// A header torn after its magic does not mean an interrupted creation, and is not damage. It is
/// written after the slots are durable, so the first slot has its salt ([`find_in`]). With the
/// magic and without a slot the file is damaged: no power cut leaves that (tests/born.rs), and it
/// may have held anything.
fn is_unborn(file: &dyn File, pre: &[u8]) -> Result<bool> {
    let header_missing = matches!(Header::decode(pre), Err(HeaderFault::Foreign));
    let only_born = match slot::choose(pre) {
        Some((_, s)) => s.tip.commit == 0,
        None => pre.iter().take(64).all(|b| *b == 0),
    };
    Ok(pre.is_empty() || (header_missing && only_born && file.len()? <= DATA_OFF))
}

fn damage(what: &str, offset: u64, problem: &str) -> Error {
    Error::Corrupt(Damage {
        what: what.to_owned(),
        offset,
        page: None,
        problem: problem.to_owned(),
    })
}

/// The most tries while another writer publishes.
const TRIES: usize = 50;

/// Finds the newest commit of a file; `None` if it is empty.
///
/// # Errors
/// I/O; [`Error::NotDensite`], [`Error::NewerFormat`], [`Error::Corrupt`].
pub(crate) fn find(file: &dyn File) -> Result<Option<Found>> {
    let mut last: Option<(Vec<u8>, Result<Found>)> = None;
    for _ in 0..TRIES {
        let pre = read_preamble(file)?;
        if is_unborn(file, &pre)? {
            return Ok(None);
        }
        // If slots and tip have not changed, the result is final. Otherwise a writer is active.
        if let Some((seen, answer)) = last.take()
            && seen == pre
        {
            return answer.map(Some);
        }
        let answer = find_in(file, &pre);
        match &answer {
            Ok(found) if found.cut.is_none() => return answer.map(Some),
            _ => last = Some((pre, answer)),
        }
    }
    last.map(|(_, answer)| answer).transpose()
}

fn find_in(file: &dyn File, pre: &[u8]) -> Result<Found> {
    let slot = slot::choose(pre);
    // The header is written after the creation's sync. So a power cut can lose or tear it, while
    // commits published before the next sync survive. Only the first slot exists then.
    let first = slot.filter(|(_, s)| s.tip.commit == 0);
    let (salt, header_lost) = match (Header::decode(pre), first) {
        (Ok(h), _) => (h.salt, false),
        // A slot of a known version contradicts a header that has another version and a wrong
        // checksum.
        (Err(HeaderFault::Newer(found)), _)
            if Header::is_whole(pre) || slot.is_none_or(|(_, s)| s.version > FORMAT_VERSION) =>
        {
            return Err(Error::NewerFormat {
                found,
                supported: FORMAT_VERSION,
            });
        }
        (Err(_), Some((_, s))) => (s.salt, true),
        (Err(HeaderFault::Damaged | HeaderFault::Newer(_)), None) => {
            return Err(damage("header", 0, "checksum mismatch"));
        }
        (Err(HeaderFault::Foreign), None) if slot.is_some() => {
            return Err(damage("header", 0, "the magic is missing"));
        }
        (Err(HeaderFault::Foreign), None) => return Err(Error::NotDensite),
    };
    if pre.len() < DATA_OFF as usize {
        return Err(damage(
            "preamble",
            pre.len() as u64,
            "the file ends within it",
        ));
    }
    let Some((block, slot)) = slot else {
        return Err(damage(
            "commit slots",
            SLOT_OFF[0],
            "none of the four copies is valid",
        ));
    };
    if slot.version > FORMAT_VERSION {
        return Err(Error::NewerFormat {
            found: slot.version,
            supported: FORMAT_VERSION,
        });
    }
    if slot.salt != salt {
        return Err(damage(
            "commit slot",
            SLOT_OFF[block & 1],
            "it belongs to another file",
        ));
    }
    let mut state = if slot.tip.commit == 0 {
        State::empty(salt)
    } else {
        load_back(file, salt, &slot.tip)?
    };
    let raw = pre.get(TIP_OFF as usize..TIP_OFF as usize + TIP_LEN);
    let raw: [u8; TIP_LEN] = raw.and_then(|b| b.try_into().ok()).unwrap_or([0; TIP_LEN]);
    let claimed = Tip::decode(&raw, salt);
    // Nothing is published beyond a valid tip. Without a valid tip, every whole commit counts.
    let limit = claimed.map_or(u64::MAX, |t| t.commit);
    while state.tip().commit < limit {
        let Some((tip, trailer)) = chain::next_commit(file, salt, &state.tip(), state.next_off())?
        else {
            break;
        };
        // The tip names one attempt. A stopped writer can have left another attempt of the same
        // number in its place. That one is whole if its pieces reached the disk and those of the
        // named one did not.
        let is_another =
            claimed.is_some_and(|claimed| claimed.commit == tip.commit && claimed != tip);
        if tip.commit > limit || is_another {
            break;
        }
        state.apply(tip, &trailer);
    }
    if state.tip().commit == 0 && claimed.is_none_or(|t| t.commit != 0) {
        may_be_empty(pre, block)?;
    }
    state.note_tip_block(raw);
    let mut cut = None;
    if let Some(t) = claimed {
        state.note_commit_number(t.commit);
        if t.commit > state.tip().commit {
            cut = Some(format!(
                "the file was not closed; of the commits up to {}, those after {} are incomplete after offset {} and were cut off",
                t.commit,
                state.tip().commit,
                state.next_off()
            ));
        }
    } else {
        let commit = state.tip().commit;
        cut = Some(format!(
            "the tip at offset {TIP_OFF} is not valid; if there were commits after {commit} that are incomplete, they were cut off"
        ));
    }
    Ok(Found {
        salt,
        state,
        slot: (block, slot),
        cut,
        header_lost,
    })
}

/// Checks that no commit can have been durable in a file in which only the creation is readable
/// (rule S7). `block` is that of the creation's slot.
///
/// The creation makes the whole preamble durable, with zeros in the gaps. After that only tip and
/// slots are written, and the second slot only after a commit is durable. So a power cut leaves the
/// gaps zero and the place of the second slot too. In the tip it leaves bytes of two tips, whose
/// hashes are not zero.
fn may_be_empty(pre: &[u8], block: usize) -> Result<()> {
    let used = |at: u64, len: usize| at as usize..at as usize + len;
    let copies = |block: usize| {
        let at = SLOT_OFF[block & 1];
        [used(at, SLOT_LEN), used(at + SLOT_COPY, SLOT_LEN)]
    };
    let is_zero = |range: Range<usize>| pre.get(range).is_some_and(|b| b.iter().all(|b| *b == 0));
    if !copies(1 - (block & 1)).into_iter().all(is_zero) {
        return Err(damage(
            "first commit",
            DATA_OFF,
            "it is not whole, and neither is the slot that was written after it",
        ));
    }
    let [first, second] = copies(block);
    let tip = used(TIP_OFF, TIP_LEN);
    let mut end = HEADER_LEN;
    for next in [first, second, tip.clone(), pre.len()..pre.len()] {
        if !is_zero(end..next.start) {
            return Err(damage(
                "preamble",
                end as u64,
                "there are bytes where nothing is ever written",
            ));
        }
        end = next.end;
    }
    if is_zero(tip.start + TIP_HASH..tip.end) {
        return Err(damage("tip", TIP_OFF, "it is zero, which no tip ever was"));
    }
    Ok(())
}

/// The state of the commit that `tip` names, by its trailers back to the last root trailer.
///
/// # Errors
/// I/O; [`Error::Corrupt`] if a trailer is not there.
pub(crate) fn load_back(file: &dyn File, salt: u64, tip: &Tip) -> Result<State> {
    let mut back = Vec::new();
    walk_back(file, salt, tip, &mut back, &mut |_| false)?;
    let mut state = State::empty(salt);
    for (tip, trailer) in back.iter().rev() {
        state.apply(*tip, trailer);
    }
    Ok(state)
}

/// Collects trailers from `tip` back to the last root trailer, or until `stop` is true for the next
/// one. Returns whether `stop` ended it.
pub(crate) fn walk_back(
    file: &dyn File,
    salt: u64,
    tip: &Tip,
    out: &mut Vec<(Tip, Trailer)>,
    stop: &mut dyn FnMut(&Tip) -> bool,
) -> Result<bool> {
    let mut at = *tip;
    loop {
        if stop(&at) {
            return Ok(true);
        }
        if at.commit == 0 {
            return Ok(false);
        }
        let trailer = chain::read_trailer(file, salt, &at)?;
        let (prev, root) = (trailer.prev, trailer.root.is_some());
        if prev.commit >= at.commit {
            return Err(damage("trailer", at.off, "commit numbers do not ascend"));
        }
        out.push((at, trailer));
        if root {
            return Ok(false);
        }
        at = prev;
    }
}

#[cfg(test)]
mod tests;
