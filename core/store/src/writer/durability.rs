//! What a process knows to be durable: the newest commit and the newest slot (rule S9). Also the
//! reserve at the end of the file (rule S11).

use super::rewrite;
use crate::error::Result;
use crate::format::header::Header;
use crate::format::slot;
use crate::format::slot::Slot;
use crate::format::tip::Tip;
use crate::format::{FORMAT_VERSION, HEADER_OFF, LOCK_UNIT, SLOT_COPY, SLOT_OFF, UNIT_LEN};
use densite_disk::File;

/// A slot is due if so many bytes and this part of the file were appended since the last one, or as
/// many bytes as the tuning sets.
const SLOT_PART: u64 = 32;
const SLOT_LEAST: u64 = 128 << 10;

/// Bytes of the reserve after the end.
pub(crate) fn reserve_behind(tail: u64) -> u64 {
    (tail / 8).clamp(16 << 10, 256 << 10)
}

/// See the module's documentation.
pub(crate) struct Durability {
    /// The newest commit that a sync of this process made durable.
    durable: Option<Tip>,
    /// A sync failed, and what it may have dropped must still be written again: see `rewrite`.
    needs_rewrite: bool,
    /// The newest slot in the file, and its block.
    slot: (usize, Slot),
    /// Whether a sync of this process followed the newest slot.
    slot_durable: bool,
    /// Bytes appended since the newest slot was written.
    since_slot: u64,
    /// Bytes appended since the last sync.
    since_sync: u64,
    /// A power cut took the header: the next writer restores it.
    header_lost: bool,
    /// The end of what is known to have been written to the file, including the reserve.
    physical_len: u64,
}

impl Durability {
    /// Nothing is known to be durable yet. `slot`: the newest slot and its block.
    pub(crate) fn new(slot: (usize, Slot), header_lost: bool) -> Durability {
        Durability {
            durable: None,
            needs_rewrite: false,
            slot,
            slot_durable: false,
            since_slot: 0,
            since_sync: 0,
            header_lost,
            physical_len: 0,
        }
    }

    /// Whether a sync of this process made this commit durable.
    pub(crate) fn is_durable(&self, tip: &Tip) -> bool {
        self.durable == Some(*tip)
    }

    /// Whether a failed sync has dropped bytes that are not written again yet.
    pub(crate) fn needs_rewrite(&self) -> bool {
        self.needs_rewrite
    }

    /// The newest slot in the file.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot.1
    }

    /// Whether a sync of this process followed the newest slot.
    pub(crate) fn is_slot_durable(&self) -> bool {
        self.slot_durable
    }

    /// The commit that a durable slot names.
    pub(crate) fn named(&self) -> Option<u64> {
        (self.slot_durable && !self.needs_rewrite).then_some(self.slot.1.tip.commit)
    }

    /// Whether so many bytes were appended without a sync.
    pub(crate) fn is_sync_due(&self, every_bytes: u64) -> bool {
        self.since_sync >= every_bytes
    }

    /// Notes that a sync failed: nothing is known to be durable until what it dropped is written
    /// again.
    pub(crate) fn sync_failed(&mut self) {
        self.needs_rewrite = true;
        // What was durable may depend on bytes that are lost.
        self.durable = None;
        self.slot_durable = false;
    }

    /// Writes again what a failed sync may have dropped, if that is needed. A writer calls it
    /// before it writes, and before it treats anything as durable.
    ///
    /// # Errors
    /// I/O; the rewrite is then still needed.
    pub(crate) fn rewrite_if_needed(
        &mut self,
        file: &dyn File,
        salt: u64,
        tip: &Tip,
    ) -> Result<()> {
        if self.needs_rewrite {
            rewrite::run(file, salt, tip)?;
            self.needs_rewrite = false;
        }
        Ok(())
    }

    /// Restores the header if a power cut took it.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn restore_header(&mut self, file: &dyn File, salt: u64) -> Result<()> {
        if self.header_lost {
            let header = Header {
                version: FORMAT_VERSION,
                salt,
            };
            file.write_at(&header.encode(), HEADER_OFF)?;
            self.header_lost = false;
        }
        Ok(())
    }

    /// Notes that a sync made `tip` durable, unless a rewrite is needed.
    pub(super) fn synced(&mut self, tip: Tip) {
        if !self.needs_rewrite {
            self.durable = Some(tip);
            self.since_sync = 0;
        }
    }

    /// Notes the end of a sync that began when the newest commit was `tip`. Other writers may have
    /// published meanwhile.
    pub(super) fn synced_meanwhile(&mut self, tip: Tip) {
        if !self.needs_rewrite && self.durable.is_none_or(|d| d.commit < tip.commit) {
            self.durable = Some(tip);
        }
    }

    /// Notes that a sync followed the newest slot. Returns the commit that the slot names; `None`
    /// while a rewrite is needed.
    pub(super) fn slot_synced(&mut self) -> Option<u64> {
        self.slot_durable |= !self.needs_rewrite;
        self.named()
    }

    /// Notes that a commit of this process appended so many bytes. The file's open end begins at
    /// `tail`.
    pub(crate) fn appended(&mut self, bytes: u64, tail: u64) {
        self.appended_elsewhere(bytes);
        self.physical_len = self.physical_len.max(tail);
    }

    /// Notes that another process appended so many bytes.
    pub(crate) fn appended_elsewhere(&mut self, bytes: u64) {
        self.since_slot += bytes;
        self.since_sync += bytes;
    }

    /// Notes the length of the file, which another process can have cut.
    pub(crate) fn file_has(&mut self, len: u64) {
        self.physical_len = self.physical_len.min(len);
    }

    /// Notes that the file was cut to so many bytes.
    pub(crate) fn file_was_cut(&mut self, len: u64) {
        self.physical_len = len;
    }

    /// Writes a slot that names the newest durable commit, if enough was appended since the last
    /// slot and that one is durable. The next sync makes it durable too, so it needs no sync of its
    /// own.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn write_slot_if_due(&mut self, file: &dyn File, every_bytes: u64) -> Result<()> {
        let Some(durable) = self.durable else {
            return Ok(());
        };
        // Freed units wait for two slots, so slots come more often in a small file. Otherwise more
        // bytes would wait than are live.
        let often = (self.physical_len / SLOT_PART).max(SLOT_LEAST);
        let every_bytes = every_bytes.min(often);
        // The creation's slot names the empty store. Damage after it must not make the file empty
        // again (rule S7).
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

    /// Reads the newest slot. If another process has written it, it is not known to be durable.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn reread_slot(&mut self, file: &dyn File) -> Result<()> {
        if let Some(slot) = slot::read_slot(file)?
            && slot.1.seq != self.slot.1.seq
        {
            self.slot = slot;
            self.slot_durable = false;
        }
        Ok(())
    }

    /// Writes both copies of a slot, over the older of the two slots.
    ///
    /// # Errors
    /// I/O.
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

    /// Keeps some written bytes after `tail`, the end after this commit, so that a full disk still
    /// takes the checkpoint of a DELETE, and the rollback of this commit (rule S11). It comes
    /// before the commit is written, so that a failure loses nothing. At least `least` bytes must be
    /// there.
    ///
    /// # Errors
    /// I/O; a full disk is an error only if there are fewer than `least` bytes.
    pub(crate) fn keep_reserve(&mut self, file: &dyn File, tail: u64, least: u64) -> Result<()> {
        let reserve = reserve_behind(tail).max(least);
        if self.physical_len >= tail + least.max(reserve_behind(tail) / 2) {
            return Ok(());
        }
        // A process that was killed may have left its reserve.
        let from = self.physical_len.max(tail).max(file.len()?);
        let end = tail + reserve;
        match write_zeros(file, from, end) {
            Err(e) if e.kind == densite_disk::ErrorKind::Full => {
                write_zeros(file, from, tail + least)?;
                self.physical_len = self.physical_len.max(tail + least);
                return Ok(());
            }
            done => done?,
        }
        self.physical_len = from.max(end);
        Ok(())
    }
}

/// Writes zeros from `from` to `end`, but not where SQLite locks bytes.
fn write_zeros(file: &dyn File, from: u64, end: u64) -> densite_disk::Result<()> {
    let lock = LOCK_UNIT * UNIT_LEN;
    let crosses_lock = from < lock + UNIT_LEN && end > lock;
    if from >= end || crosses_lock {
        return Ok(());
    }
    file.write_at(&vec![0; usize::try_from(end - from).unwrap_or(0)], from)
}

#[cfg(test)]
#[path = "reserve_tests.rs"]
mod tests;
