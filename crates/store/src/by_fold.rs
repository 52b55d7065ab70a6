//! What a fold moves: nodes of the map, dictionaries, chunks of the space table.

use crate::format::record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// What a fold writes again in another place.
#[derive(Default, Clone)]
pub(crate) struct ByFold {
    /// Leaves of the map, each by the index of a page below it (0 is page 1). All nodes above them
    /// move too.
    pub(crate) leaves: BTreeSet<u64>,
    pub(crate) dicts: BTreeMap<u32, (Record, Vec<u8>)>,
    /// Chunks of the space table.
    pub(crate) chunks: BTreeSet<u32>,
}

impl ByFold {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty() && self.dicts.is_empty() && self.chunks.is_empty()
    }

    /// Adds the contents of `other`.
    pub(crate) fn add(&mut self, other: &ByFold) {
        self.leaves.extend(&other.leaves);
        for (id, dict) in &other.dicts {
            self.dicts.entry(*id).or_insert_with(|| dict.clone());
        }
        self.chunks.extend(&other.chunks);
    }
}
