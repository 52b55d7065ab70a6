//! Transactions of this open log that are appended and neither committed nor rolled back.
//!
//! A reader in any process stops before the first of them: see [`crate::format::slot`]. A commit
//! only removes the transaction from this list. So if a process dies between append and commit, the
//! transaction counts as committed.

use crate::batch::{Appended, TxnId};
use crate::format::slot::WriterSlot;
use crate::open_dir::OpenDir;
use crate::{Result, Seq};
use densite_disk::File;
use densite_disk::sync::Mutex;
use std::collections::{BTreeMap, HashMap};

struct Inner {
    file: Box<dyn File>,
    slot: WriterSlot,
    by_id: HashMap<TxnId, Appended>,
    by_seq: BTreeMap<Seq, TxnId>,
    /// Rollbacks that could not be stored in the state yet.
    unkept: Vec<TxnId>,
    /// The slot could not be written: other processes still see the one before.
    is_slot_old: bool,
}

/// See the module.
pub(crate) struct Decisions {
    /// Number of this log's slot.
    slot_no: u32,
    inner: Mutex<Inner>,
}

impl Inner {
    /// Writes the slot if it changed.
    fn tell(&mut self) -> Result<()> {
        let first = self.by_seq.first_key_value();
        let slot = WriterSlot {
            prepared: first.map_or(0, |(seq, _)| *seq),
            ..self.slot
        };
        // This process uses the new value even if the write fails and other processes do not see
        // it.
        self.slot = slot;
        let written = self.file.write_at(&slot.encode(), 0);
        self.is_slot_old = written.is_err();
        Ok(written?)
    }

    fn forget(&mut self, id: TxnId) {
        if let Some(at) = self.by_id.remove(&id) {
            self.by_seq.remove(&at.first);
        }
        self.unkept.retain(|u| *u != id);
    }

    fn cancel(&mut self, id: TxnId, dir: &OpenDir) -> Result<()> {
        let Some(at) = self.by_id.get(&id).copied() else {
            return Ok(());
        };
        dir.with_state(|state| {
            state.cancel(at.first, at.last);
            Ok(((), true))
        })?;
        self.slot.cancels += 1;
        self.forget(id);
        self.tell()
    }
}

impl Decisions {
    /// `file` is that of the slot with this number, locked.
    pub(crate) fn new(slot_no: u32, file: Box<dyn File>) -> Result<Decisions> {
        let slot = WriterSlot {
            nonce: densite_disk::random::random_u64()?,
            ..WriterSlot::default()
        };
        file.write_at(&slot.encode(), 0)?;
        Ok(Decisions {
            slot_no,
            inner: Mutex::new(Inner {
                file,
                slot,
                by_id: HashMap::new(),
                by_seq: BTreeMap::new(),
                unkept: Vec::new(),
                is_slot_old: false,
            }),
        })
    }

    pub(crate) fn slot_no(&self) -> u32 {
        self.slot_no
    }

    pub(crate) fn slot(&self) -> WriterSlot {
        self.inner.lock().slot
    }

    /// The rows of a prepared transaction.
    pub(crate) fn find(&self, id: TxnId) -> Option<Appended> {
        self.inner.lock().by_id.get(&id).copied()
    }

    /// Announces transactions that are written, before any process can sync them.
    pub(crate) fn add(&self, new: impl Iterator<Item = (TxnId, Appended)>) -> Result<()> {
        let mut inner = self.inner.lock();
        let before = inner.by_id.len();
        for (id, at) in new {
            inner.by_id.insert(id, at);
            inner.by_seq.insert(at.first, id);
        }
        if inner.by_id.len() > before {
            inner.tell()
        } else {
            Ok(())
        }
    }

    /// Removes transactions that are decided, or that are not in the log.
    pub(crate) fn forget(&self, ids: &[TxnId]) {
        let mut inner = self.inner.lock();
        let before = inner.by_id.len();
        ids.iter().for_each(|id| inner.forget(*id));
        if inner.by_id.len() < before {
            // If the write fails, other processes wait for these rows until it is tried again.
            inner.tell().ok();
        }
    }

    /// Commits the transaction. A transaction that is not prepared is already committed.
    pub(crate) fn commit(&self, id: TxnId) {
        let mut inner = self.inner.lock();
        if inner.by_id.contains_key(&id) {
            inner.forget(id);
            // If the write fails nothing is lost: readers in other processes wait until it is tried
            // again.
            inner.tell().ok();
        }
    }

    /// Rolls the transaction back, durably. If that fails, it stays prepared and invisible, and the
    /// rollback is tried again later.
    pub(crate) fn cancel(&self, id: TxnId, dir: &OpenDir) -> Result<()> {
        let mut inner = self.inner.lock();
        let done = inner.cancel(id, dir);
        if done.is_err() && inner.by_id.contains_key(&id) && !inner.unkept.contains(&id) {
            inner.unkept.push(id);
        }
        done
    }

    /// Whether a decision is still to be stored.
    pub(crate) fn has_unkept(&self) -> bool {
        let inner = self.inner.lock();
        !inner.unkept.is_empty() || inner.is_slot_old
    }

    /// Tries the failed rollbacks again, and a failed write of the slot. Returns whether there were
    /// any.
    pub(crate) fn retry(&self, dir: &OpenDir) -> bool {
        let mut inner = self.inner.lock();
        let is_any = !inner.unkept.is_empty() || inner.is_slot_old;
        for id in inner.unkept.clone() {
            // A rollback that is stored but not written to the slot is done: the slot is written
            // below.
            if inner.cancel(id, dir).is_err() && inner.by_id.contains_key(&id) {
                break;
            }
        }
        if inner.is_slot_old {
            inner.tell().ok();
        }
        is_any
    }
}
