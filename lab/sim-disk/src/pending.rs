//! A change of a simulated file that is not durable: how it is undone, and its surviving part done
//! again.

use rand::rngs::Xoshiro256PlusPlus;

use super::fate::{Fate, Torn};
use super::policy::{Extension, Policy};

/// A change that is not durable.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Its place in the order of all changes of the disk.
    pub(super) seq: u64,
    pub(super) change: Change,
    pub(super) fate: Fate,
    /// Length in bytes before the change.
    pub(super) old_len: usize,
    /// The bytes that the change replaced, as far as the file reached.
    pub(super) old: Box<[u8]>,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Box<[u8]> },
    SetLen { len: usize },
}

impl Pending {
    pub(super) fn is_open_set_len(&self) -> bool {
        self.fate == Fate::Open && matches!(self.change, Change::SetLen { .. })
    }

    /// Undoes the change; `data` is as it was right after it.
    pub(super) fn undo(&self, data: &mut Vec<u8>) {
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

    /// Does the surviving part of the change again, whatever the file is now. Nothing that was
    /// written from `end_of_blocks` on survives.
    pub(super) fn redo(
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
pub(super) fn put(data: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
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

/// Extends the file by bytes that no surviving write covers yet.
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
