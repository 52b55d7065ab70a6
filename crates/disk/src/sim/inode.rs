//! One simulated file: what processes see, and how to get back to what is durable.
//!
//! Only the current contents are kept, with the unsynced changes in order, each holding the
//! bytes that it replaced. So a sync forgets the list and costs nothing, and a power cut walks
//! it backwards to the durable contents and forwards again with what survives.
//!
//! Invariant: undoing `pending` from its last entry to its first turns `data` into the durable
//! contents.

use rand::rngs::Xoshiro256PlusPlus;

use super::fate::{Fate, Survival, Torn};
use super::policy::{Extension, Policy};

/// A file of the simulated disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    data: Vec<u8>,
    pending: Vec<Pending>,
    /// Open handles on this file.
    pub(super) handles: usize,
    /// No name and no handle leads here any more: its bytes take no room.
    free_of_charge: bool,
}

/// A change that is not durable.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Place in the order of all changes of the disk.
    pub(super) seq: u64,
    pub(super) change: Change,
    pub(super) fate: Fate,
    /// Length in bytes before the change.
    old_len: usize,
    /// What stood in the place of the change, as far as the file reached then.
    old: Box<[u8]>,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Box<[u8]> },
    SetLen { len: usize },
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

    /// Gives the file other contents, durable at once.
    pub(super) fn replace(&mut self, data: Vec<u8>) {
        self.data = data;
        self.pending.clear();
    }

    /// Bytes that the file takes of the disk's capacity.
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

    /// The end of this write is at most `Policy::LEN_MAX`: the caller checked.
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

    /// Everything so far is durable, but for what an earlier failed sync lost.
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

    /// Changes of the length before this place are durable.
    pub(super) fn sync_lengths_before(&mut self, seq: u64) {
        for p in &mut self.pending {
            if p.seq < seq && p.is_open_set_len() {
                p.fate = Fate::Kept;
            }
        }
    }

    /// A sync that failed and left nothing to retry: each pending write has reached the disk
    /// or never will, although processes go on seeing it. Lengths are metadata, as names are:
    /// they are still to be made durable.
    pub(super) fn fail_sync(&mut self, survival: &Survival, rng: &mut Xoshiro256PlusPlus) {
        let mut fates = survival.for_file(&self.pending, rng);
        for p in self.pending.iter_mut().filter(|p| p.fate == Fate::Open) {
            let fate = fates.draw(p, rng);
            if !p.is_open_set_len() {
                p.fate = fate;
            }
        }
    }

    /// What a power cut leaves.
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
        // Where a shrinking was lost, the blocks beyond are the old ones. What was written
        // there afterwards went to new blocks, which nothing leads to.
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

impl Pending {
    fn is_open_set_len(&self) -> bool {
        self.fate == Fate::Open && matches!(self.change, Change::SetLen { .. })
    }

    /// Takes the change back; `data` is as it was right after it.
    fn undo(&self, data: &mut Vec<u8>) {
        match &self.change {
            Change::Write { offset, .. } => {
                put(data, *offset, &self.old);
                data.truncate(self.old_len);
            }
            Change::SetLen { len } => {
                data.truncate(*len);
                data.extend_from_slice(&self.old);
                data.truncate(self.old_len);
            }
        }
    }

    /// Does again what survived of the change, on whatever the file is now; nothing that was
    /// written from `end_of_blocks` on survives.
    fn redo(
        &self,
        fate: &Fate,
        end_of_blocks: usize,
        data: &mut Vec<u8>,
        policy: &Policy,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let whole = Torn::whole();
        let torn = match fate {
            Fate::Kept => &whole,
            Fate::Torn(torn) => torn,
            Fate::Lost | Fate::Open => return,
        };
        match &self.change {
            Change::SetLen { len } => data.resize(*len, 0),
            Change::Write { offset, bytes } => {
                let end = (offset + torn.reach(bytes.len())).min(end_of_blocks);
                if end > data.len() {
                    grow(data, end, policy.extension, rng);
                }
                for (from, to) in torn.pieces(bytes.len()) {
                    let to = to.min(end_of_blocks.saturating_sub(*offset));
                    put(data, offset + from, bytes.get(from..to).unwrap_or_default());
                }
            }
        }
    }
}

/// Writes `bytes` at `offset`, with zeros in any gap before it.
fn put(data: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if offset == data.len() {
        data.extend_from_slice(bytes);
        return;
    }
    if end > data.len() {
        data.resize(end, 0);
    }
    if let Some(place) = data.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}

/// Lengthens the file by bytes that no surviving write covers yet.
fn grow(data: &mut Vec<u8>, len: usize, extension: Extension, rng: &mut Xoshiro256PlusPlus) {
    use rand::Rng;
    let old_len = data.len();
    data.resize(len, 0);
    if extension == Extension::Garbage
        && let Some(new) = data.get_mut(old_len..)
    {
        rng.fill_bytes(new);
    }
}
