//! One simulated directory: its names now, its durable names, and the changes in between.
//!
//! Invariant: applying `pending` to `durable` in order gives `names`.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::Xoshiro256PlusPlus;

use super::survival::Survival;

/// The number of a file; never used twice on one disk.
pub(super) type InodeNo = u64;

/// The entries of a directory.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    pub(super) names: BTreeMap<String, InodeNo>,
    durable: BTreeMap<String, InodeNo>,
    pending: Vec<(u64, Change)>,
}

#[derive(Debug, Clone)]
enum Change {
    Create(String, InodeNo),
    Remove(String),
    Rename(String, String),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, InodeNo>) {
        match self {
            Change::Create(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Change::Remove(name) => {
                names.remove(name);
            }
            Change::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }

    fn names(&self) -> [&str; 2] {
        match self {
            Change::Create(name, _) | Change::Remove(name) => [name, name],
            Change::Rename(from, to) => [from, to],
        }
    }
}

impl Entries {
    pub(super) fn create(&mut self, seq: u64, name: &str, inode: InodeNo) {
        self.change(seq, Change::Create(name.to_owned(), inode));
    }

    /// Creates an entry that is durable at once, and so is everything before it.
    pub(super) fn create_durable(&mut self, name: &str, inode: InodeNo) {
        self.sync();
        self.names.insert(name.to_owned(), inode);
        self.durable.insert(name.to_owned(), inode);
    }

    pub(super) fn remove(&mut self, seq: u64, name: &str) {
        self.change(seq, Change::Remove(name.to_owned()));
    }

    pub(super) fn rename(&mut self, seq: u64, from: &str, to: &str) {
        if from != to {
            self.change(seq, Change::Rename(from.to_owned(), to.to_owned()));
        }
    }

    fn change(&mut self, seq: u64, change: Change) {
        change.apply(&mut self.names);
        self.pending.push((seq, change));
    }

    pub(super) fn sync(&mut self) {
        for (_, change) in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Makes the changes before this place in the order of the disk durable.
    pub(super) fn sync_before(&mut self, end: u64) {
        let at = self.pending.partition_point(|(seq, _)| *seq < end);
        for (_, change) in self.pending.drain(..at) {
            change.apply(&mut self.durable);
        }
    }

    /// The place of the last change that is not durable.
    pub(super) fn last_pending(&self) -> Option<u64> {
        self.pending.last().map(|(seq, _)| *seq)
    }

    pub(super) fn first_pending(&self) -> Option<u64> {
        self.pending.first().map(|(seq, _)| *seq)
    }

    /// Whether a name leads to this file.
    pub(super) fn leads_to(&self, inode: InodeNo) -> bool {
        self.names.values().any(|i| *i == inode)
    }

    /// Whether a name can lead to this file, now or after a power cut.
    pub(super) fn may_lead_to(&self, inode: InodeNo) -> bool {
        self.leads_to(inode)
            || self.durable.values().any(|i| *i == inode)
            || (self.pending.iter()).any(|(_, c)| matches!(c, Change::Create(_, i) if *i == inode))
    }

    /// The names after a power cut: of each name the changes up to a random point. A rename happens
    /// as a whole or not at all.
    pub(super) fn survivor(
        &self,
        survival: &Survival,
        rng: &mut Xoshiro256PlusPlus,
    ) -> BTreeMap<String, InodeNo> {
        let mut names = self.durable.clone();
        let mut lost = BTreeSet::new();
        for (seq, change) in &self.pending {
            let kept = survival.keeps_entry(*seq, rng);
            if kept && change.names().iter().all(|name| !lost.contains(name)) {
                change.apply(&mut names);
            } else {
                lost.extend(change.names());
            }
        }
        names
    }
}
