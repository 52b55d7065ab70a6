//! The rounds of space reclamation: steps, and between them the syncs that make freed units
//! reusable and allow the end to be cut off.
//!
//! Syncs take long and need no right to write. So a round ends where one is due
//! ([`Reclaimed::wants_sync`]). The caller can give up the right to write, sync
//! ([`Handle::sync_published`](crate::Handle::sync_published)), take the right again and continue.
//! The progress is not remembered, but read from the newest durable commit and the slot. So commits
//! of others in between cost only another round.

use super::{ReclaimBudget, ReclaimNext, Reclaimer};
use crate::error::{Damage, Result};
use crate::publish::{self, CommitOptions};
use crate::transaction::Transaction;
use crate::writer::reserve_behind;
use densite_disk::SyncKind;

/// The result of all steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes of records that were copied.
    pub moved_bytes: u64,
    /// Bytes appended in all.
    pub written_bytes: u64,
    /// Bytes that were cut off the file.
    pub cut_bytes: u64,
    /// Records that were found damaged.
    pub damaged: Vec<Damage>,
    /// Whether nothing more can be done. Otherwise it was stopped, or a sync is due.
    pub done: bool,
    /// It continues after [`Handle::sync_published`](crate::Handle::sync_published).
    pub wants_sync: bool,
}

impl Reclaimed {
    /// Adds damage that is not listed yet: a unit with damage is examined again after more of it
    /// has died.
    fn add_damage(&mut self, damage: Vec<Damage>) {
        for each in damage {
            if !self.damaged.contains(&each) {
                self.damaged.push(each);
            }
        }
    }
}

impl Reclaimer<'_> {
    /// Reclaims space down to the limit, in as many rounds as needed. `stop` is also asked between
    /// rounds.
    ///
    /// # Errors
    /// As [`Reclaimer::step`], [`Reclaimer::make_reusable`] and [`Reclaimer::cut_end`].
    pub(crate) fn reclaim(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
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
                let synced = self.connection.sync_published();
                synced.map_err(|failed| self.connection.after_failed_sync(failed))?;
                all.wants_sync = false;
            }
            if all.done || (budget.stop)() {
                return Ok(all);
            }
        }
    }

    /// The same up to the point where a sync is due, which is left to the caller. The caller has
    /// the right to write. `stop` ends it too.
    ///
    /// # Errors
    /// As [`Reclaimer::step`].
    pub(crate) fn reclaim_unsynced(&mut self, budget: &ReclaimBudget<'_>) -> Result<Reclaimed> {
        let mut all = Reclaimed::default();
        let mut last = ReclaimNext::Done;
        loop {
            let step = self.step(budget)?;
            all.moved_bytes += step.moved_bytes;
            all.written_bytes += step.written_bytes;
            all.add_damage(step.damaged);
            // A slot or cut that made no difference makes none the second time.
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

    /// Names the newest commit in a slot if it is durable. Returns whether a sync is due, first for
    /// the commit and then for the slot.
    fn name_durable(&mut self) -> Result<bool> {
        let shared = self.connection.open.shared()?;
        let file = self.connection.open.file();
        shared.refresh(file)?;
        let waits = {
            let mut writer = shared.writer.lock();
            let writer = &mut *writer;
            let tip = shared.state.read().tip();
            let durability = &mut writer.durability;
            // Otherwise nothing would count as durable, and the caller would wait forever.
            durability.rewrite_if_needed(file, shared.salt, &tip)?;
            durability.reread_slot(file)?;
            if durability.slot().tip != tip {
                // A slot must not replace the older one before the newer one is durable.
                if durability.is_durable(&tip) && durability.is_slot_durable() {
                    durability.write_slot(file, tip, 0)?;
                }
                return Ok(true);
            }
            if !durability.is_slot_durable() {
                return Ok(true);
            }
            let space = writer.accounting.space();
            space.is_some_and(|space| space.waits_beyond(tip.commit))
        };
        if waits {
            self.pass_attempts()?;
        }
        Ok(waits)
    }

    /// Makes a commit that changes nothing. The units that a given-up attempt wrote wait for its
    /// number, which no commit may ever have; this commit takes the next one.
    fn pass_attempts(&mut self) -> Result<()> {
        let mut transaction = Some(Transaction::begin(self.connection, 0)?);
        let empty = CommitOptions::empty_reclaim();
        let published = publish::publish(self.connection, &mut transaction, &empty);
        self.discard(transaction);
        published.map(drop)
    }

    /// Makes everything published durable and names it in a durable slot, so that freed space can
    /// be reused. Takes two syncs.
    ///
    /// # Errors
    /// As [`Connection::sync`](crate::connection::Connection::sync).
    pub(crate) fn make_reusable(&mut self) -> Result<()> {
        let open = &mut self.connection.open;
        open.check_writable()?;
        if !open.attach()? {
            return Ok(());
        }
        let shared = open.shared()?;
        shared.refresh(open.file())?;
        self.connection.sync_and_name(&shared)
    }

    /// Cuts free space off the end of the file, except for the reserve. Returns by how many bytes
    /// the file is shorter.
    ///
    /// It takes three steps, and a power cut after each is safe: a commit names the new end; a sync
    /// makes it durable; then the file is cut. What is cut off was reusable, so neither a durable
    /// slot nor any later commit reaches it, and every later writer learns the end from the commit.
    /// A reader of an older commit finds nothing there, and looks again.
    ///
    /// # Errors
    /// As [`Reclaimer::make_reusable`].
    pub(crate) fn cut_end(&mut self) -> Result<u64> {
        self.connection.open.check_writable()?;
        if !self.connection.open.attach()? {
            return Ok(0);
        }
        if let Some(bytes) = self.cut_durable_end()? {
            return Ok(bytes);
        }
        self.connection.sync(SyncKind::Data)?;
        Ok(self.cut_durable_end()?.unwrap_or(0))
    }

    /// The first step of [`Reclaimer::cut_end`], or the last one if the commit is durable. `None`
    /// if the sync between them is due.
    fn cut_durable_end(&mut self) -> Result<Option<u64>> {
        let shared = self.connection.open.shared()?;
        shared.refresh(self.connection.open.file())?;
        let (commit, before) = {
            let state = shared.state.read();
            (state.tip().commit, state.tail_off())
        };
        if commit == 0 {
            return Ok(Some(0));
        }
        let mut transaction = Transaction::begin(self.connection, 0)?;
        let ends_before = transaction.appender().tail_off() < before;
        let mut transaction = Some(transaction);
        let told = if ends_before {
            let empty = CommitOptions::empty_reclaim();
            publish::publish(self.connection, &mut transaction, &empty)
        } else {
            Ok(0)
        };
        self.discard(transaction);
        told?;
        let (tip, end) = {
            let state = shared.state.read();
            (state.tip(), state.tail_off())
        };
        if !shared.writer.lock().durability.is_durable(&tip) {
            return Ok(None);
        }
        let file = self.connection.open.file();
        let end = end + reserve_behind(end);
        let len = file.len()?;
        if len <= end {
            return Ok(Some(0));
        }
        file.set_len(end)?;
        shared.writer.lock().durability.file_was_cut(end);
        Ok(Some(len - end))
    }
}
