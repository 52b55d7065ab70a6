//! Disks made from a disk: after a cut, as a snapshot, and captures during a run.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::super::entries::Entries;
use super::super::survival::Survival;
use super::World;

/// What to take of a disk without changing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// What a power cut with this seed would leave.
    Cut(u64),
    /// What processes see.
    Snapshot,
}

/// Requested captures by change, and taken ones.
#[derive(Debug, Default)]
pub(super) struct Captures {
    wanted: BTreeMap<u64, Vec<Capture>>,
    taken: Vec<(u64, Capture, World)>,
}

impl World {
    pub(crate) fn capture_at(&mut self, change: u64, how: Capture) {
        self.captures.wanted.entry(change).or_default().push(how);
    }

    pub(crate) fn take_captures(&mut self) -> Vec<(u64, Capture, World)> {
        self.capture_due();
        std::mem::take(&mut self.captures.taken)
    }

    pub(super) fn capture_due(&mut self) {
        while let Some(first) = self.captures.wanted.first_entry() {
            let change = *first.key();
            if change > self.changes {
                return;
            }
            for how in first.remove() {
                let world = match how {
                    Capture::Cut(seed) => self.survivor(seed),
                    Capture::Snapshot => self.snapshot(0),
                };
                self.captures.taken.push((change, how, world));
            }
        }
    }

    /// A disk with the contents that a power cut would leave now.
    pub(crate) fn survivor(&self, seed: u64) -> World {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let first_of_files = self.inodes.values().filter_map(|i| i.pending().first());
        let first_of_dirs = self.dirs.values().filter_map(Entries::first_pending);
        let first = first_of_files.map(|p| p.seq).chain(first_of_dirs).min();
        let first = first.unwrap_or(self.seq);
        let survival = Survival::draw(first, self.seq, &self.policy, &mut rng);
        let mut next = World::new(seed, self.policy.clone());
        for (dir, entries) in &self.dirs {
            for (name, no) in entries.survivor(&survival, &mut rng) {
                let Some(inode) = self.inodes.get(&no) else {
                    continue;
                };
                let data = inode.survivor(&survival, &self.policy, &mut rng);
                next.put_file(&format!("{dir}/{name}"), data);
            }
        }
        next
    }

    /// A disk with the contents that processes see now, all of it durable.
    pub(crate) fn snapshot(&self, seed: u64) -> World {
        let mut next = World::new(seed, self.policy.clone());
        for (dir, entries) in &self.dirs {
            for (name, no) in &entries.names {
                if let Some(inode) = self.inodes.get(no) {
                    next.put_file(&format!("{dir}/{name}"), inode.data().to_vec());
                }
            }
        }
        next
    }
}
