//! What a writer keeps between commits: accounting of space, what is durable, numbers of attempts,
//! what was learned. Nothing here is needed for reading.

mod durability;
pub(crate) mod rewrite;

pub(crate) use durability::reserve_behind;

use crate::codec::Dictionary;
use crate::codec::family::Family;
use crate::codec::learn::Learner;
use crate::error::{Damage, Error, Result};
use crate::format::slot::Slot;
use crate::format::tip::Tip;
use crate::format::trailer::Trailer;
use crate::format::{MAX_DICT, UNIT_LEN};
use crate::reclaim_state::Reclaiming;
use crate::sources::Sources;
use crate::space::{Reuse, Space, Worth};
use crate::state::State;
use durability::Durability;
use std::sync::Arc;

/// The number of reusable units that a writer wants to know: 16 MiB.
const WANTED_FREE: usize = 256;

/// The ranges that each of some commits wrote, in order.
pub(crate) type Written = [(Tip, Vec<(u64, u64)>)];

/// See the module's documentation.
pub(crate) struct Writer {
    pub(crate) accounting: Accounting,
    pub(crate) reclaiming: Reclaiming,
    pub(crate) durability: Durability,
    pub(crate) attempts: Attempts,
    pub(crate) learning: Learning,
    pub(crate) stored: Stored,
}

/// What this process has stored since it opened the file.
#[derive(Default)]
pub(crate) struct Stored {
    /// Bytes of frames that its commits appended, except for those of space reclamation.
    pub(crate) frame_bytes: u64,
    /// Bytes of records that space reclamation copied.
    pub(crate) moved_bytes: u64,
}

impl Writer {
    /// Nothing is known yet. `slot`: the newest slot and its block. `highest`: the highest commit
    /// number ever seen.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn new(slot: (usize, Slot), header_lost: bool, highest: u64) -> Result<Writer> {
        Ok(Writer {
            accounting: Accounting::default(),
            reclaiming: Reclaiming::default(),
            durability: Durability::new(slot, header_lost),
            attempts: Attempts::new(highest)?,
            learning: Learning::new(),
            stored: Stored::default(),
        })
    }

    /// Makes sure that the accounting is that of `state`. If it had to be loaded, the known slot
    /// may be out of date too, because another process can have written one.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn account(&mut self, sources: &Sources<'_>, state: &State) -> Result<()> {
        let numbers = Numbers {
            tried: self.attempts.last(),
            named: self.durability.named(),
        };
        if self.accounting.bring_to(sources, state, numbers)? {
            self.durability.reread_slot(sources.file)?;
        }
        Ok(())
    }

    /// Notes a sync: `tip` is durable, and so is the newest slot. `current`: the extent that is
    /// being appended to.
    pub(crate) fn synced(&mut self, tip: Tip, current: (u64, u64)) {
        self.durability.synced(tip);
        self.slot_synced(current);
    }

    /// Notes a sync that began when the newest commit was `tip` and the newest slot had the number
    /// `slot`. Others can have published while it ran.
    pub(crate) fn synced_meanwhile(&mut self, tip: Tip, slot: u64, current: (u64, u64)) {
        self.durability.synced_meanwhile(tip);
        if self.durability.slot().seq == slot {
            self.slot_synced(current);
        }
    }

    fn slot_synced(&mut self, current: (u64, u64)) {
        if let Some(named) = self.durability.slot_synced()
            && let Some(space) = self.accounting.space_mut()
        {
            space.slot_durable(named, current);
        }
    }
}

/// Numbers of commits, and the epoch that distinguishes attempts of different writers (rule S8).
pub(crate) struct Attempts {
    /// Marks the trailers of this writer; renewed after each failure.
    epoch: u64,
    /// The highest commit number ever tried. A number is never used twice, because versions of
    /// pages must be unique.
    last: u64,
    /// Whether this process published anything.
    published: bool,
}

impl Attempts {
    /// `highest`: the highest number ever seen.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn new(highest: u64) -> Result<Attempts> {
        Ok(Attempts {
            epoch: densite_disk::random::random_u64()?,
            last: highest,
            published: false,
        })
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The highest number that was tried.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Notes that a writer tried this number.
    pub(crate) fn tried(&mut self, number: u64) {
        self.last = self.last.max(number);
    }

    /// Notes that an attempt failed or was given up. Its bytes may look like a commit of this
    /// writer.
    pub(crate) fn failed(&mut self) {
        self.epoch = densite_disk::random::random_u64()
            .unwrap_or(self.epoch.wrapping_add(0x9E37_79B9_7F4A_7C15));
    }

    /// Notes that an attempt succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.published = true;
    }

    /// Whether this process published anything.
    pub(crate) fn has_published(&self) -> bool {
        self.published
    }
}

/// What a process learns from the pages that it writes, and the numbers of the resulting
/// dictionaries (rule S12).
pub(crate) struct Learning {
    learner: Learner,
    /// Whether the learner knows the dictionaries in the file.
    knows_stored: bool,
    /// The highest dictionary number ever given.
    last: u32,
    /// The first dictionary number that this process gave.
    first: u32,
}

impl Learning {
    pub(crate) fn new() -> Learning {
        Learning {
            learner: Learner::new(),
            knows_stored: false,
            last: 0,
            first: u32::MAX,
        }
    }

    pub(crate) fn learner(&mut self) -> &mut Learner {
        &mut self.learner
    }

    /// Whether the dictionaries in the file must still be installed in the learner. True once.
    pub(crate) fn wants_stored(&mut self) -> bool {
        !std::mem::replace(&mut self.knows_stored, true)
    }

    /// The number of the next dictionary; the newest commit would give it `next`. `None` if no
    /// number is left.
    pub(crate) fn next_number(&self, next: u32) -> Option<u32> {
        Some(next.max(self.last + 1)).filter(|id| *id < MAX_DICT)
    }

    /// Notes that a dictionary of this family was appended.
    pub(crate) fn installed(&mut self, family: Family, dict: &Arc<Dictionary>) {
        self.last = dict.id();
        self.first = self.first.min(dict.id());
        self.learner.installed(family, dict);
    }

    /// Whether this process trained the dictionary of that number.
    pub(crate) fn is_own(&self, id: u32) -> bool {
        id >= self.first
    }
}

/// The accounting of space, as far as it is known.
#[derive(Default)]
pub(crate) struct Accounting {
    /// The accounting, and its commit.
    space: Option<(Tip, Space)>,
    /// What is known about free units, and its commit, while the accounting has to be loaded again.
    known_free: Option<(Tip, Reuse)>,
}

/// The numbers that also decide which units can be reused.
#[derive(Clone, Copy)]
struct Numbers {
    /// The highest commit number that was tried.
    pub(crate) tried: u64,
    /// The commit that a durable slot names.
    named: Option<u64>,
}

impl Accounting {
    /// Makes sure that the accounting is that of `state`. Returns whether it had to be loaded.
    ///
    /// # Errors
    /// I/O, damage.
    fn bring_to(&mut self, sources: &Sources<'_>, state: &State, numbers: Numbers) -> Result<bool> {
        if self
            .space
            .as_ref()
            .is_some_and(|(tip, _)| *tip == state.tip())
        {
            return Ok(false);
        }
        let mut space = load(sources, state)?;
        // A commit that failed can be tried again. It has written to units that are free for all
        // other commits, so they wait for its number.
        space.note_free(
            state.tip().commit.max(numbers.tried),
            state.tail_off().min(sources.file.len()?),
        );
        if let Some((tip, known)) = self.known_free.take()
            && tip == state.tip()
        {
            space.adopt(&known);
        }
        // The slot can have become durable before this accounting was loaded. Units that its
        // commit, or an earlier one, freed are reusable at once.
        if let Some(named) = numbers.named {
            space.slot_durable(named, state.current_extent());
        }
        self.space = Some((state.tip(), space));
        Ok(true)
    }

    /// Searches for free units if few reusable ones are known and there are others. `commit` is the
    /// newest number.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn find_free(&mut self, sources: &Sources<'_>, commit: u64) -> Result<()> {
        if let Some((_, space)) = &mut self.space
            && space.unlisted_free() > 0
            && space.known_free() < WANTED_FREE
        {
            space.survey(sources.table, Worth::Free, (2, 4), commit)?;
        }
        Ok(())
    }

    /// The accounting, if it is known.
    pub(crate) fn space(&self) -> Option<&Space> {
        self.space.as_ref().map(|(_, space)| space)
    }

    /// The accounting, mutable.
    pub(crate) fn space_mut(&mut self) -> Option<&mut Space> {
        self.space.as_mut().map(|(_, space)| space)
    }

    /// Takes the accounting out, for a commit that changes it. If the commit fails, it is loaded
    /// again.
    pub(crate) fn take(&mut self) -> Option<Space> {
        self.space.take().map(|(_, space)| space)
    }

    /// Sets the accounting of the commit of `tip`.
    pub(crate) fn put(&mut self, tip: Tip, space: Space) {
        self.space = Some((tip, space));
    }

    /// Drops the accounting, because it may include a commit that was never made.
    pub(crate) fn forget(&mut self) {
        self.space = None;
    }

    /// Advances from `state` to the commit of `trailer`, which another process made. So units freed
    /// earlier can be reused even if several processes write in turn. Returns the bytes that it
    /// wrote, if the accounting was known.
    ///
    /// # Errors
    /// I/O, damage: the accounting is loaded again.
    pub(crate) fn follow(
        &mut self,
        sources: &Sources<'_>,
        state: &State,
        tip: &Tip,
        trailer: &Trailer,
    ) -> Result<Option<u64>> {
        let end = sources.file.len()?;
        let since = [(*tip, trailer.pieces.clone())];
        let Some((at, mut space)) = self.space.take().filter(|(at, _)| *at == state.tip()) else {
            if let Some((at, known)) = self.known_free.take().filter(|(at, _)| *at == state.tip()) {
                self.keep_known_free(known, &at, &since, end);
            }
            return Ok(None);
        };
        let frames = trailer.deltas.iter().map(|(_, e)| e.off + u64::from(e.len));
        let dicts = (trailer.dicts.iter()).map(|d| d.place.off + u64::from(d.place.len));
        let pieces = trailer.pieces.iter().map(|p| p.1);
        if frames.chain(dicts).chain(pieces).any(|to| to > end) {
            // Some of it was moved since, and the end of the file was cut off.
            self.keep_known_free(space.into_reuse(), &at, &since, end);
            return Ok(None);
        }
        for (page, new) in &trailer.deltas {
            let old = state.lookup(sources.map, *page)?;
            space.sub_entry(&old, tip.commit);
            space.add_entry(new);
        }
        for d in &trailer.dicts {
            space.add(d.place.off, u64::from(d.place.len));
        }
        space.add(tip.off, u64::from(tip.len));
        if trailer.room_end != state.room_end() {
            // The other process has left the rest of an extent. If this process took that extent,
            // the rest is in no list of free units. If the other process has put it aside, it gives
            // it up with the next commit that is not its own.
            space.give_back_extents(&[state.current_extent()], tip.commit);
        }
        space.written(&trailer.pieces, tip.commit);
        space.forget_lanes(tip.commit);
        self.space = Some((*tip, space));
        let lens = (trailer.pieces.iter()).map(|(from, to)| to.saturating_sub(*from));
        Ok(Some(lens.sum()))
    }

    /// Handles folds of other processes. It is known which units were free, and the trailers,
    /// including those before the fold, list where commits wrote since. The file is `len` bytes
    /// long.
    pub(crate) fn pass_fold(&mut self, ours: &Tip, since: &Written, len: u64) {
        let known = match (self.space.take(), self.known_free.take()) {
            (Some((at, space)), _) if at == *ours => space.into_reuse(),
            (_, Some((at, known))) if at == *ours => known,
            _ => return,
        };
        self.keep_known_free(known, ours, since, len);
    }

    /// Keeps what was known about free units at the commit `at`, except where later commits wrote.
    /// It is then valid at the last of them.
    fn keep_known_free(&mut self, mut known: Reuse, at: &Tip, since: &Written, len: u64) {
        let mut newest = *at;
        for (tip, pieces) in since {
            known.pass(pieces, len.div_ceil(UNIT_LEN));
            newest = *tip;
        }
        self.known_free = Some((newest, known));
    }
}

/// The accounting of the newest commit, from its root trailer and the later trailers.
///
/// # Errors
/// I/O, damage.
pub(crate) fn load(sources: &Sources<'_>, state: &State) -> Result<Space> {
    let mut space = Space::open(&state.section().space);
    space.load_first(sources.table, state.tip().commit)?;
    for info in state.dicts() {
        *space.dict_uses.entry(info.id).or_default() += info.uses as i64;
    }
    space.add_fixed();
    // The table grows to the highest offset, so records beyond the end of the file are rejected.
    let end = sources.file.len()?;
    let beyond = |what: &str, page: Option<u32>, off: u64, len: u32| {
        let problem = "it is beyond the end of the file".to_owned();
        let damage = Damage {
            what: what.to_owned(),
            offset: off,
            page,
            problem,
        };
        if off + u64::from(len) <= end {
            Ok(())
        } else {
            Err(Error::Corrupt(damage))
        }
    };
    for info in state.new_dicts() {
        beyond("dictionary", None, info.place.off, info.place.len)?;
        space.add(info.place.off, u64::from(info.place.len));
    }
    for (off, len) in state.trailers() {
        space.add(*off, u64::from(*len));
    }
    for (page, entry) in state.overlay() {
        if !state.root().node.is_none() {
            let old = crate::map::tree::lookup(sources.map, state.root(), u64::from(*page) - 1)?;
            space.sub_entry(&old, state.tip().commit);
        }
        beyond("frame", Some(*page), entry.off, entry.len)?;
        space.add_entry(entry);
    }
    space.note_free(state.tip().commit, state.tail_off().min(end));
    Ok(space)
}
