//! The rounds of space reclamation: steps, and between them the syncs without which nothing freed is written again and no end is cut off.
//!
//! Syncs take long and need no right. So a round ends where one is due ([`Reclaimed::wants_sync`]): the caller may give up the writer's
//! right, sync ([`Handle::sync_published`]), take it again and go on. Where it has come to is not remembered but seen: in the newest durable
//! commit, and in the slot. So commits of others in between cost another round and nothing else.

use super::{ReclaimBudget, ReclaimNext};
use crate::durable::reserve_behind;
use crate::error::{Damage, Error, Result};
use crate::handle::Handle;
use crate::publish::Besides;
use crate::rewrite;
use crate::shared::Shared;
use densite_disk::SyncKind;
use std::sync::Arc;

/// What reclaiming did in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes of records that were copied.
    pub moved_bytes: u64,
    /// Bytes appended in all.
    pub written_bytes: u64,
    /// Bytes that were cut off the file.
    pub cut_bytes: u64,
    /// What was found damaged.
    pub damaged: Vec<Damage>,
    /// Whether nothing more is to be done: otherwise it was stopped, or a sync is due.
    pub done: bool,
    /// It goes on after [`Handle::sync_published`].
    pub wants_sync: bool,
}

impl Reclaimed {
    /// A unit that something damaged keeps from being moved is looked at again once more of it has died: what is told is told once.
    fn add_damage(&mut self, damage: Vec<Damage>) {
        for each in damage {
            if !self.damaged.contains(&each) {
                self.damaged.push(each);
            }
        }
    }
}

/// A sync that failed while nobody had the writer's right: see [`Handle::after_failed_sync`].
#[derive(Debug)]
#[must_use = "what the disk has dropped must be written again"]
pub struct SyncFailed(pub(crate) densite_disk::Error);

impl Handle {
    /// Gives back what the limit says, in as many rounds as it takes; `stop` is asked between them too.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`], [`Handle::make_reusable`] and [`Handle::cut_end`].
    pub fn reclaim(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
        let mut all = Reclaimed::default();
        loop {
            let round = self.reclaim_unsynced(budget)?;
            all.moved_bytes += round.moved_bytes;
            all.written_bytes += round.written_bytes;
            all.cut_bytes += round.cut_bytes;
            all.add_damage(round.damaged);
            all.done = round.done;
            all.wants_sync = round.wants_sync;
            if all.wants_sync {
                self.sync_published()
                    .map_err(|failed| self.after_failed_sync(failed))?;
                all.wants_sync = false;
            }
            if all.done || (budget.stop)() {
                return Ok(all);
            }
        }
    }

    /// The same up to where a sync is due, which is left to the caller. For whoever has the writer's right; `stop` ends it, too.
    ///
    /// # Errors
    /// As [`Handle::reclaim_step`].
    pub fn reclaim_unsynced(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
        let mut all = Reclaimed::default();
        let mut last = ReclaimNext::Done;
        loop {
            let step = self.reclaim_step(budget)?;
            all.moved_bytes += step.moved_bytes;
            all.written_bytes += step.written_bytes;
            all.add_damage(step.damaged);
            // What made no difference makes none the second time.
            all.done = step.next == ReclaimNext::Done
                || (step.next == last && step.next != ReclaimNext::Again);
            if all.done {
                return Ok(all);
            }
            last = step.next;
            match step.next {
                ReclaimNext::Done | ReclaimNext::Again => {}
                ReclaimNext::Slot => all.wants_sync = self.name_durable()?,
                ReclaimNext::Cut => match self.cut_durable_end()? {
                    Some(bytes) => all.cut_bytes += bytes,
                    None => all.wants_sync = true,
                },
            }
            if all.wants_sync || (budget.stop)() {
                return Ok(all);
            }
        }
    }

    /// Makes everything published durable. Needs no right, and keeps nobody from writing meanwhile.
    ///
    /// # Errors
    /// The disk's, and then [`Handle::after_failed_sync`] is due.
    pub fn sync_published(&mut self) -> std::result::Result<(), SyncFailed> {
        let Some(shared) = self.attached() else {
            return self.file.sync(SyncKind::Data).map_err(SyncFailed);
        };
        // What others publish, and which slot they write, while the sync runs may or may not be covered by it.
        let slot = shared.writer.lock().slot.1.seq;
        let tip = shared.state.read().tip;
        self.file.sync(SyncKind::Data).map_err(SyncFailed)?;
        let mut writer = shared.writer.lock();
        if writer.needs_rewrite {
            return Ok(());
        }
        if writer.durable.is_none_or(|d| d.commit < tip.commit) {
            writer.durable = Some(tip);
        }
        if writer.slot.1.seq == slot {
            writer.slot_is_durable(&shared);
        }
        Ok(())
    }

    /// After a sync that failed, without the writer's right: what may have been dropped needs a rewrite, and the next writer makes it.
    /// This handle answers [`Error::Poisoned`] from now on. Returns the sync's error.
    pub fn leave_failed_sync(&mut self, failed: SyncFailed) -> Error {
        if let Some(shared) = self.attached() {
            shared.writer.lock().owes();
        }
        self.poison(failed.0)
    }

    /// After a sync that failed: what may have been dropped is written once more, and this handle answers [`Error::Poisoned`] from now on. For
    /// whoever has the writer's right. Returns the sync's error.
    pub fn after_failed_sync(&mut self, failed: SyncFailed) -> Error {
        match self.attached() {
            Some(shared) => self.sync_failed(&shared, failed.0),
            None => self.poison(failed.0),
        }
    }

    /// The shared part, where there is one by now: the file may have been empty when this handle was opened.
    fn attached(&mut self) -> Option<Arc<Shared>> {
        // Of a file that cannot be read nothing is known, and no rewrite is needed.
        let _ = self.attach();
        self.shared.clone()
    }

    /// Names the newest commit in a slot once it is durable. Returns whether a sync is due: for the commit, or then for the slot.
    fn name_durable(&mut self) -> Result<bool> {
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        let mut writer = shared.writer.lock();
        let tip = shared.state.read().tip;
        // Nothing would ever count as durable else, and whoever waits for that would go on for ever.
        rewrite::run_if_needed(&mut writer, &*self.file, shared.salt, &tip)?;
        writer.reread_slot(&*self.file)?;
        if writer.slot.1.tip == tip {
            let waits = writer.slot_durable
                && (writer.space.as_ref()).is_some_and(|(_, space)| space.waits_beyond(tip.commit));
            let due = !writer.slot_durable;
            drop(writer);
            return Ok(due || waits && self.pass_attempts()?);
        }
        // A slot must not take the place of the older one before the newer one is durable.
        if writer.durable == Some(tip) && writer.slot_durable {
            writer.write_slot(&*self.file, tip, 0)?;
        }
        Ok(true)
    }

    /// What an attempt that was given up has written waits for its number, which no commit may ever have. So a commit that changes nothing takes the
    /// next one. Returns true: a sync is due.
    fn pass_attempts(&mut self) -> Result<bool> {
        self.begin_write(0)?;
        let published = self.publish_with(&Besides {
            even_empty: true,
            reclaim: true,
            ..Besides::default()
        });
        self.discard();
        published.map(|_| true)
    }

    /// Makes everything published durable and names it in a durable slot, so that what was freed can be written again. Two syncs.
    ///
    /// # Errors
    /// As [`Handle::sync`].
    pub fn make_reusable(&mut self) -> Result<()> {
        self.check_poison()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if !self.attach()? {
            return Ok(());
        }
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        self.sync_and_name(&shared)
    }

    /// Cuts off what is free at the end of the file, but for the reserve. Returns the bytes by which the file is shorter.
    ///
    /// Three steps, each safe where the power may go before the next: a commit says where the file ends; a sync makes it durable; then
    /// the file is cut. What is cut off was reusable, so neither a durable slot nor anything since reaches it, and every
    /// writer who comes learns from the commit where its end is. A reader of an older commit finds nothing there, and looks again.
    ///
    /// # Errors
    /// As [`Handle::sync`]; [`Error::Setting`] within a transaction.
    pub fn cut_end(&mut self) -> Result<u64> {
        self.check_poison()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.between_transactions()?;
        if !self.attach()? {
            return Ok(0);
        }
        if let Some(bytes) = self.cut_durable_end()? {
            return Ok(bytes);
        }
        self.sync_now(SyncKind::Data)?;
        Ok(self.cut_durable_end()?.unwrap_or(0))
    }

    /// The first step of [`Handle::cut_end`], or the last if the commit is durable; `None` where the sync between them is due.
    fn cut_durable_end(&mut self) -> Result<Option<u64>> {
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        let (commit, before) = {
            let state = shared.state.read();
            (state.tip.commit, state.tail_off)
        };
        if commit == 0 {
            return Ok(Some(0));
        }
        self.begin_write(0)?;
        let end = self
            .pending
            .as_ref()
            .map_or(before, |p| p.appender.tail_off());
        if end < before {
            let published = self.publish_with(&Besides {
                even_empty: true,
                reclaim: true,
                ..Besides::default()
            });
            if let Err(e) = published {
                self.discard();
                return Err(e);
            }
        } else {
            self.discard();
        }
        let (tip, end) = {
            let state = shared.state.read();
            (state.tip, state.tail_off)
        };
        if shared.writer.lock().durable != Some(tip) {
            return Ok(None);
        }
        let end = end + reserve_behind(end);
        let len = self.file.len()?;
        if len <= end {
            return Ok(Some(0));
        }
        self.file.set_len(end)?;
        shared.writer.lock().physical_len = end;
        Ok(Some(len - end))
    }
}
