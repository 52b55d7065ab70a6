//! What a process learns from the pages that it writes, and the numbers of the resulting
//! dictionaries (rule S12).

use crate::codec::Dictionary;
use crate::codec::family::Family;
use crate::codec::learn::Learner;
use crate::format::MAX_DICT;
use std::sync::Arc;

/// See the module's documentation.
pub(crate) struct Learning {
    learner: Learner,
    /// Whether the learner knows the dictionaries in the file.
    knows_stored: bool,
    /// The highest dictionary number ever given.
    last: u32,
    /// The first dictionary number that this process gave.
    first: u32,
}

impl Learning {
    pub(crate) fn new() -> Learning {
        Learning {
            learner: Learner::new(),
            knows_stored: false,
            last: 0,
            first: u32::MAX,
        }
    }

    pub(crate) fn learner(&mut self) -> &mut Learner {
        &mut self.learner
    }

    /// Whether the dictionaries in the file must still be installed in the learner. True once.
    pub(crate) fn wants_stored(&mut self) -> bool {
        !std::mem::replace(&mut self.knows_stored, true)
    }

    /// The number of the next dictionary; the newest commit would give it `next`. `None` if no
    /// number is left.
    pub(crate) fn next_number(&self, next: u32) -> Option<u32> {
        Some(next.max(self.last + 1)).filter(|id| *id < MAX_DICT)
    }

    /// Notes that a dictionary of this family was appended.
    pub(crate) fn installed(&mut self, family: Family, dict: &Arc<Dictionary>) {
        self.last = dict.id();
        self.first = self.first.min(dict.id());
        self.learner.installed(family, dict);
    }

    /// Whether this process trained the dictionary of that number.
    pub(crate) fn is_own(&self, id: u32) -> bool {
        id >= self.first
    }
}
