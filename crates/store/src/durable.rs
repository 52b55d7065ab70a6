//! Making what was published durable: syncs, slots (rule 9), the clean close (rule 10), and the reserve at the end of the file (rule 11).

use crate::error::{Error, Result};
use crate::format::slot::{CLEAN, Slot};
use crate::format::tip::Tip;
use crate::format::{FORMAT_VERSION, SLOT_COPY, SLOT_OFF};
use crate::handle::Handle;
use crate::publish::Besides;
use crate::reclaim::SyncFailed;
use crate::rewrite;
use crate::shared::{Shared, Writer};
use densite_disk::sync::MutexGuard;
use densite_disk::{File, SyncKind};

impl Handle {
    /// Publishes, then makes everything published durable.
    ///
    /// # Errors
    /// As [`Handle::publish`]; if the sync fails, the handle answers [`Error::Poisoned`] until the file is opened again.
    pub fn sync(&mut self, kind: SyncKind) -> Result<()> {
        self.publish()?;
        self.sync_now(kind)
    }

    /// Makes durable what was published by anybody, without writing anything: for whoever has not the right to write.
    ///
    /// # Errors
    /// As [`Handle::sync`]; [`Error::Poisoned`] while what a failed sync of another handle of this process has dropped is not written again.
    pub fn sync_seen(&mut self, kind: SyncKind) -> Result<()> {
        self.check_poison()?;
        self.owes_nothing()?;
        let synced = self.file.sync(kind);
        synced.map_err(|e| self.leave_failed_sync(SyncFailed(e)))?;
        // Another's sync may have failed meanwhile, and be the one that was told.
        self.owes_nothing()
    }

    /// The file may have been empty when this handle was opened, and others have published since: so the shared part is looked for each time.
    fn owes_nothing(&mut self) -> Result<()> {
        self.attach()?;
        match &self.shared {
            Some(shared) if shared.writer.lock().needs_rewrite => Err(Error::Poisoned),
            _ => Ok(()),
        }
    }

    pub(crate) fn sync_now(&mut self, kind: SyncKind) -> Result<()> {
        self.check_poison()?;
        // Others may have published since this handle was opened on an empty file.
        self.attach()?;
        let Some(shared) = self.shared.clone() else {
            let synced = self.file.sync(kind);
            return synced.map_err(|e| self.leave_failed_sync(SyncFailed(e)));
        };
        let tip = shared.state.read().tip;
        if !self.options.read_only {
            let mut writer = shared.writer.lock();
            rewrite::run_if_needed(&mut writer, &*self.file, shared.salt, &tip)?;
            writer.slot_if_due(&*self.file, self.options.tuning.slot_every_bytes)?;
        }
        self.sync_rewritten(&shared, tip, kind).map(drop)
    }

    /// Makes `tip` durable, for whoever has the right to write. A sync of another's that fails meanwhile may have dropped what this one then
    /// finds nothing left of: so it is written again, and synced again.
    pub(crate) fn sync_rewritten<'a>(
        &mut self,
        shared: &'a Shared,
        tip: Tip,
        kind: SyncKind,
    ) -> Result<MutexGuard<'a, Writer>> {
        loop {
            self.file
                .sync(kind)
                .map_err(|e| self.sync_failed(shared, e))?;
            let mut writer = shared.writer.lock();
            if !writer.needs_rewrite || self.options.read_only {
                writer.synced(tip, shared);
                return Ok(writer);
            }
            rewrite::run_if_needed(&mut writer, &*self.file, shared.salt, &tip)?;
        }
    }

    /// Makes everything published durable and names it in a durable slot, so that what it freed can be written again at once
    /// (rule 9). Two syncs, where nobody else does any.
    pub(crate) fn sync_and_name(&mut self, shared: &Shared) -> Result<()> {
        let tip = shared.state.read().tip;
        {
            let mut writer = shared.writer.lock();
            rewrite::run_if_needed(&mut writer, &*self.file, shared.salt, &tip)?;
            // A slot that another process wrote becomes durable with the first sync.
            writer.reread_slot(&*self.file)?;
        }
        for first in [true, false] {
            let mut writer = self.sync_rewritten(shared, tip, SyncKind::Data)?;
            if first {
                if writer.slot.1.tip == tip {
                    break;
                }
                writer.write_slot(&*self.file, tip, 0)?;
            }
        }
        Ok(())
    }

    /// Whoever goes on after this must not build upon what the disk has dropped: see `rewrite`. If it cannot be written now, a rewrite is needed.
    pub(crate) fn sync_failed(&mut self, shared: &Shared, e: densite_disk::Error) -> Error {
        let tip = shared.state.read().tip;
        let written =
            !self.options.read_only && rewrite::run(&*self.file, shared.salt, &tip).is_ok();
        if !written {
            shared.writer.lock().owes();
        }
        self.poison(e)
    }

    pub(crate) fn poison(&mut self, e: densite_disk::Error) -> Error {
        self.poisoned = true;
        e.into()
    }

    /// Whether this process published something that no slot names yet.
    pub fn unslotted(&self) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        let writer = shared.writer.lock();
        writer.wrote
            && !self.poisoned
            && (writer.slot.1.tip != shared.state.read().tip || writer.slot.1.flags & CLEAN == 0)
    }

    /// Names the newest commit in a slot, and cuts the reserve off the end of the file. The caller has the writer's right. If the
    /// commit is durable already, this costs no sync: should a power cut lose the slot, recovery finds the
    /// commit from the slot before.
    ///
    /// # Errors
    /// As [`Handle::sync`]. What was not published is [discarded](Handle::discard): whoever closes gives up the right to write.
    pub fn close_clean(&mut self) -> Result<()> {
        let done = self.try_close_clean();
        if done.is_err() {
            self.discard();
        }
        done
    }

    fn try_close_clean(&mut self) -> Result<()> {
        self.publish()?;
        if self.options.read_only || !self.attach()? {
            return Ok(());
        }
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        let (tip, trailers) = {
            let state = shared.state.read();
            (state.tip, state.unfolded_bytes())
        };
        if tip.commit == 0 {
            return Ok(());
        }
        // A file that is cut can get its old end back when the power goes, and an attempt with it.
        self.void_left_attempt(&shared)?;
        let mut durable = shared.writer.lock().durable == Some(tip);
        if !durable && trailers > self.options.tuning.fold_trailer_bytes / 16 {
            self.begin_write(0)?;
            self.publish_with(&Besides {
                fold: true,
                ..Besides::default()
            })?;
        }
        let mut writer = shared.writer.lock();
        let tip = shared.state.read().tip;
        rewrite::run_if_needed(&mut writer, &*self.file, shared.salt, &tip)?;
        writer.reread_slot(&*self.file)?;
        if writer.slot.1.tip == tip && writer.slot.1.flags & CLEAN != 0 {
            return Ok(());
        }
        durable &= writer.slot_durable;
        if !durable {
            drop(writer);
            writer = self.sync_rewritten(&shared, tip, SyncKind::Data)?;
        }
        writer.write_slot(&*self.file, tip, CLEAN)?;
        let end = shared.state.read().tail_off;
        if self.file.len()? > end {
            self.file.set_len(end)?;
            writer.physical_len = end;
        }
        Ok(())
    }
}

/// A slot is due when this part of the file was appended since the last one, and so many bytes; or as many as the tuning says.
const SLOT_PART: u64 = 32;
const SLOT_LEAST: u64 = 128 << 10;

/// Bytes kept written behind the end.
pub(crate) fn reserve_behind(tail: u64) -> u64 {
    (tail / 8).clamp(16 << 10, 256 << 10)
}

impl Writer {
    /// A sync failed, and what it dropped is not written again: nothing is known to be durable until it is.
    pub(crate) fn owes(&mut self) {
        self.needs_rewrite = true;
        // What was found durable may rest on what is gone.
        self.durable = None;
        self.slot_durable = false;
    }

    /// After a sync: `tip` is durable, and so is the newest slot.
    fn synced(&mut self, tip: Tip, shared: &Shared) {
        if self.needs_rewrite {
            return;
        }
        self.durable = Some(tip);
        self.since_sync = 0;
        self.slot_is_durable(shared);
    }

    /// A sync followed the newest slot.
    pub(crate) fn slot_is_durable(&mut self, shared: &Shared) {
        if self.needs_rewrite {
            return;
        }
        self.slot_durable = true;
        let current = shared.state.read().current_extent();
        let named = self.slot.1.tip.commit;
        if let Some((_, space)) = &mut self.space {
            space.slot_durable(named, current);
        }
    }

    /// Writes a slot that names the newest durable commit, if enough was appended since the last one and that one is durable.
    /// The sync that follows makes it durable too, so it costs none.
    fn slot_if_due(&mut self, file: &dyn File, every_bytes: u64) -> Result<()> {
        let Some(durable) = self.durable else {
            return Ok(());
        };
        // What is freed waits for two slots, so in a small file they come more often: else more would wait than lives.
        let often = (self.physical_len / SLOT_PART).max(SLOT_LEAST);
        let every_bytes = every_bytes.min(often);
        // The slot of the creation names the empty store; damage behind it must not make the file empty again (rule 7).
        let early = self.since_slot < every_bytes && self.slot.1.tip.commit != 0;
        if early || !self.slot_durable {
            return Ok(());
        }
        self.reread_slot(file)?;
        if self.slot_durable && durable.commit > self.slot.1.tip.commit {
            self.write_slot(file, durable, 0)?;
        }
        Ok(())
    }

    /// Another process may have written a newer slot, which then is not known to be durable.
    pub(crate) fn reread_slot(&mut self, file: &dyn File) -> Result<()> {
        if let Some(slot) = crate::recover::read_slot(file)?
            && slot.1.seq != self.slot.1.seq
        {
            self.slot = slot;
            self.slot_durable = false;
        }
        Ok(())
    }

    /// Writes both copies of a slot, over the older of the two.
    pub(crate) fn write_slot(&mut self, file: &dyn File, tip: Tip, flags: u32) -> Result<()> {
        let (block, old) = self.slot;
        let slot = Slot {
            version: FORMAT_VERSION,
            seq: old.seq + 1,
            salt: old.salt,
            tip,
            flags,
        };
        let block = 1 - block.min(1);
        let mut bytes = slot.encode();
        bytes.resize(SLOT_COPY as usize, 0);
        bytes.extend_from_slice(&slot.encode());
        file.write_at(&bytes, if block == 0 { SLOT_OFF[0] } else { SLOT_OFF[1] })?;
        self.slot = (block, slot);
        self.slot_durable = false;
        self.since_slot = 0;
        Ok(())
    }

    /// Keeps some written bytes behind `tail`, the end after this commit, so that a full disk still takes the checkpoint of a
    /// DELETE (rule 11). Before anything of the commit is written: a failure is then nobody's.
    ///
    /// # Errors
    /// I/O; a disk that is full already is none.
    pub(crate) fn keep_reserve(&mut self, file: &dyn File, tail: u64) -> Result<()> {
        let reserve = reserve_behind(tail);
        if self.physical_len >= tail + reserve / 2 {
            return Ok(());
        }
        // A process that was killed may have left its reserve.
        let from = self.physical_len.max(tail).max(file.len()?);
        let end = tail + reserve;
        let lock = crate::format::LOCK_UNIT * crate::format::UNIT_LEN;
        let crosses_lock = from < lock + crate::format::UNIT_LEN && end > lock;
        if from < end && !crosses_lock {
            let zeros = vec![0; usize::try_from(end - from).unwrap_or(0)];
            match file.write_at(&zeros, from) {
                Err(e) if e.kind == densite_disk::ErrorKind::Full => return Ok(()),
                done => done?,
            }
        }
        self.physical_len = from.max(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
