//! The memory of a shard: slots of one length in chunks, each a piece of memory of its own.
//!
//! A heap keeps the holes that evicted pages leave in it. A chunk goes back to the system as a
//! whole: [`Slab::compact`] moves the pages out of chunks that are not needed.

use super::arena::Arena;
use densite_disk::memory::Piece;
use std::sync::Arc;

/// No owner.
const NONE: u32 = u32::MAX;

/// A place for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    chunk: u32,
    /// Which slot of the chunk.
    at: u32,
}

struct Chunk {
    bytes: Piece,
    /// Who has each slot.
    owners: Vec<u32>,
}

/// See the module's documentation.
///
/// Invariant: a slot is in `free` if and only if it has no owner.
pub(super) struct Slab {
    /// The length of a slot, in bytes.
    len: usize,
    chunks: Vec<Chunk>,
    free: Vec<Slot>,
    /// The length of all chunks, in bytes.
    bytes: usize,
    arena: Arc<Arena>,
}

impl Slab {
    /// A slab of slots of `len` bytes. It takes no memory from the arena yet.
    pub(super) fn new(len: usize, arena: &Arc<Arena>) -> Slab {
        Slab {
            arena: Arc::clone(arena),
            len,
            chunks: Vec::new(),
            free: Vec::new(),
            bytes: 0,
        }
    }

    /// The length of a slot, in bytes.
    pub(super) fn slot_len(&self) -> usize {
        self.len
    }

    /// The memory of all slots, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A free slot, which `owner` has from now on. `None` if there is no memory.
    pub(super) fn take(&mut self, owner: u32) -> Option<Slot> {
        if self.free.is_empty() {
            self.grow()?;
        }
        let slot = self.free.pop()?;
        self.chunks[slot.chunk as usize].owners[slot.at as usize] = owner;
        Some(slot)
    }

    /// Frees a slot.
    pub(super) fn give(&mut self, slot: Slot) {
        self.chunks[slot.chunk as usize].owners[slot.at as usize] = NONE;
        self.free.push(slot);
    }

    pub(super) fn get(&self, slot: Slot) -> &[u8] {
        let from = slot.at as usize * self.len;
        &self.chunks[slot.chunk as usize].bytes[from..from + self.len]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut [u8] {
        let from = slot.at as usize * self.len;
        &mut self.chunks[slot.chunk as usize].bytes[from..from + self.len]
    }

    /// Adds a chunk.
    fn grow(&mut self) -> Option<()> {
        let bytes = self.arena.take(self.bytes, self.len)?;
        let slots = bytes.len() / self.len.max(1);
        let chunk = self.chunks.len() as u32;
        self.bytes += bytes.len();
        let owners = vec![NONE; slots];
        // The first slots are taken first.
        (self.free).extend((0..slots as u32).rev().map(|at| Slot { chunk, at }));
        self.chunks.push(Chunk { bytes, owners });
        Some(())
    }

    /// Gives chunks back to the system that are not needed, after moving what they hold. `moved` is
    /// told the owner of each moved page and its new place.
    pub(super) fn compact(&mut self, mut moved: impl FnMut(u32, Slot)) {
        let used: usize = self.chunks.iter().map(|chunk| chunk.owners.len()).sum();
        let used = used - self.free.len();
        let mut room = 0;
        let keep = (self.chunks.iter())
            .take_while(|chunk| {
                let needed = room < used;
                room += chunk.owners.len();
                needed
            })
            .count();
        self.free.retain(|slot| (slot.chunk as usize) < keep);
        for chunk in self.chunks.split_off(keep) {
            self.bytes -= chunk.bytes.len();
            let pages = chunk.bytes.chunks_exact(self.len.max(1));
            for (owner, page) in chunk.owners.iter().zip(pages) {
                // The chunks before it have room for all pages.
                if *owner != NONE
                    && let Some(slot) = self.take(*owner)
                {
                    self.get_mut(slot).copy_from_slice(page);
                    moved(*owner, slot);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::PIECE;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn pages_keep_their_bytes(shards in prop_oneof![Just(1usize), Just(64)], len in prop_oneof![Just(512usize), Just(4096)], ops in prop::collection::vec((0u32..300, 0u8..20), 1..600)) {
            let arena = Arc::new(Arena::new());
            arena.set_shards(shards);
            let mut slab = Slab::new(len, &arena);
            let mut places: HashMap<u32, (Slot, u8)> = HashMap::new();
            for (owner, op) in ops {
                if op == 0 {
                    slab.compact(|owner, slot| places.get_mut(&owner).expect("an owner").0 = slot);
                    let least = (places.len() * len).max(1).next_multiple_of(PIECE);
                    prop_assert!(slab.bytes() <= 2 * least + PIECE, "{} of {least}", slab.bytes());
                } else if let Some((slot, _)) = places.remove(&owner) {
                    slab.give(slot);
                } else {
                    let slot = slab.take(owner).expect("there is memory");
                    slab.get_mut(slot).fill(op);
                    places.insert(owner, (slot, op));
                }
            }
            for (slot, byte) in places.values() {
                prop_assert!(slab.get(*slot).iter().all(|b| b == byte));
                slab.give(*slot);
            }
            slab.compact(|_, _| ());
            prop_assert_eq!(slab.bytes(), 0);
        }
    }
}
