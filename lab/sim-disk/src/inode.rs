//! One simulated file: what processes see, and how to return to the durable contents.
//!
//! Only the current contents are kept, and the unsynced changes in order, each with the bytes that
//! it replaced. So a sync only clears the list. A power cut undoes the list backwards to the
//! durable contents, and applies the surviving parts again.
//!
//! Invariant: undoing `pending` from its last entry to its first turns `data` into the durable
//! contents.

use rand::rngs::Xoshiro256PlusPlus;

use super::fate::Fate;
use super::pending::{Change, Pending, put};
use super::policy::Policy;
use super::survival::Survival;

/// A file of the simulated disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    data: Vec<u8>,
    pending: Vec<Pending>,
    /// Open handles on this file.
    pub(super) handles: usize,
    /// No name and no handle leads here any more, so its bytes take no room.
    free_of_charge: bool,
}

impl Inode {
    /// A file whose contents are durable.
    pub(super) fn durable(data: Vec<u8>) -> Inode {
        Inode {
            data,
            ..Inode::default()
        }
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Replaces the contents, durably at once.
    pub(super) fn replace(&mut self, data: Vec<u8>) {
        self.data = data;
        self.pending.clear();
    }

    /// Bytes of the disk's capacity that the file takes.
    pub(super) fn charged(&self) -> u64 {
        if self.free_of_charge {
            0
        } else {
            self.data.len() as u64
        }
    }

    pub(super) fn charge_nothing(&mut self) {
        self.free_of_charge = true;
    }

    pub(super) fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// The caller has checked that the end of this write is at most `Policy::LEN_MAX`.
    pub(super) fn write(&mut self, seq: u64, offset: usize, bytes: &[u8]) {
        let old_len = self.data.len();
        let end = offset + bytes.len();
        let old = self.data.get(offset..end.min(old_len)).unwrap_or_default();
        self.pending.push(Pending {
            seq,
            change: Change::Write {
                offset,
                bytes: bytes.into(),
            },
            fate: Fate::Open,
            old_len,
            old: old.into(),
        });
        put(&mut self.data, offset, bytes);
    }

    pub(super) fn set_len(&mut self, seq: u64, len: usize) {
        let old_len = self.data.len();
        if len == old_len {
            return;
        }
        self.pending.push(Pending {
            seq,
            change: Change::SetLen { len },
            fate: Fate::Open,
            old_len,
            old: self.data.get(len..).unwrap_or_default().into(),
        });
        self.data.resize(len, 0);
    }

    /// Makes everything so far durable, except for what an earlier failed sync lost.
    pub(super) fn sync(&mut self) {
        let lost = |p: &Pending| matches!(p.fate, Fate::Lost | Fate::Torn(_));
        if !self.pending.iter().any(lost) {
            self.pending.clear();
            return;
        }
        for p in self.pending.iter_mut().filter(|p| p.fate == Fate::Open) {
            p.fate = Fate::Kept;
        }
    }

    /// The place of the last change of the length that a sync would make durable now.
    pub(super) fn last_set_len(&self) -> Option<u64> {
        let mut open = self.pending.iter().filter(|p| p.is_open_set_len());
        open.next_back().map(|p| p.seq)
    }

    /// Makes changes of the length before this place durable.
    pub(super) fn sync_lengths_before(&mut self, seq: u64) {
        for p in &mut self.pending {
            if p.seq < seq && p.is_open_set_len() {
                p.fate = Fate::Kept;
            }
        }
    }

    /// A failed sync that left nothing to retry: each pending write has reached the disk or never
    /// will, although processes still see it. Lengths are metadata, like names, so they stay
    /// pending.
    pub(super) fn fail_sync(&mut self, survival: &Survival, rng: &mut Xoshiro256PlusPlus) {
        let mut fates = survival.for_file(&self.pending, rng);
        for p in self.pending.iter_mut().filter(|p| p.fate == Fate::Open) {
            let fate = fates.draw(p, rng);
            if !p.is_open_set_len() {
                p.fate = fate;
            }
        }
    }

    /// The contents after a power cut.
    pub(super) fn survivor(
        &self,
        survival: &Survival,
        policy: &Policy,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<u8> {
        let mut data = self.data.clone();
        if self.pending.is_empty() {
            return data;
        }
        for p in self.pending.iter().rev() {
            p.undo(&mut data);
        }
        let mut fates = survival.for_file(&self.pending, rng);
        // If a shortening was lost, the blocks after it are the old ones. Later writes there went
        // to new blocks, which the file does not reference.
        let mut end_of_blocks = usize::MAX;
        for p in &self.pending {
            let mut fate = match &p.fate {
                Fate::Open => fates.draw(p, rng),
                settled => settled.clone(),
            };
            if let Change::SetLen { len } = p.change {
                if len > end_of_blocks {
                    fate = Fate::Lost;
                } else if fate == Fate::Kept {
                    end_of_blocks = usize::MAX;
                } else if len < p.old_len {
                    end_of_blocks = len;
                }
            }
            p.redo(&fate, end_of_blocks, &mut data, policy, rng);
        }
        data
    }
}
