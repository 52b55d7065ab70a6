//! What a writer keeps between commits. Nothing here is needed for reading.

pub(crate) mod accounting;
mod attempts;
mod durability;
mod learning;
pub(crate) mod rewrite;

pub(crate) use durability::reserve_behind;

use crate::error::Result;
use crate::format::slot::Slot;
use crate::format::tip::Tip;
use crate::reclaim_state::Reclaiming;
use crate::sources::Sources;
use crate::state::State;
use accounting::{Accounting, Numbers};
use attempts::Attempts;
use durability::Durability;
use learning::Learning;

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
