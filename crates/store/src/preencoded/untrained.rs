//! Training jobs from noted pages: what a bulk load brings is of families that nothing is known of, and its frames would be stored the larger way, or
//! encoded by the checkpoint, if they waited for its training jobs.
//!
//! The first pages of such a family wait, here by their numbers, until they are enough for the training job that the checkpoint would begin with; then a worker of the pool
//! learns. What it brings has no number: it gets one when a commit takes the first frame that was coded with it.

use crate::codec::Dictionary;
use crate::codec::choice::TrainedFamilies;
use crate::codec::family::Family;
use crate::codec::learn::{Learner, TrainingJob};
use crate::encode::EncodeSettings;
use crate::encode::UNNAMED;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// So many pages of a family are needed for its first training job, and more if they are short.
pub(super) const FIRST_PAGES: usize = 48;

/// Pages that wait for a training job of their family: the number of each and that of its note.
#[derive(Default)]
pub(super) struct Untrained {
    waiting: HashMap<Family, BTreeMap<u32, u64>>,
    /// Training jobs so far: each dictionary has a number of its own.
    training_jobs: u32,
}

impl Untrained {
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Has a page wait. Returns how many of its family do.
    pub(super) fn add(&mut self, family: Family, page: u32, seq: u64) -> usize {
        let of_family = self.waiting.entry(family).or_default();
        of_family.insert(page, seq);
        of_family.len()
    }

    /// Those of a family.
    pub(super) fn of(&self, family: Family) -> impl Iterator<Item = (u32, u64)> + Clone {
        let of_family = self.waiting.get(&family).into_iter().flatten();
        of_family.map(|(page, seq)| (*page, *seq))
    }

    /// Those of a family, which wait no more.
    pub(super) fn take(&mut self, family: Family) -> BTreeMap<u32, u64> {
        self.waiting.remove(&family).unwrap_or_default()
    }

    /// A number for what a training job brings.
    pub(super) fn number(&mut self) -> u32 {
        self.training_jobs = self.training_jobs.wrapping_add(1) % UNNAMED;
        UNNAMED + self.training_jobs
    }
}

/// The first training job of a family as the checkpoint would have it after these pages, if they are enough; `database`: bytes that there will be.
pub(super) fn training_job<'a>(
    family: Family,
    pages: impl Iterator<Item = &'a [u8]>,
    database: u64,
    set: &EncodeSettings,
) -> Option<TrainingJob> {
    let mut learner = Learner::new();
    learner.set_level(set.level);
    learner.set_choice(set.choice);
    learner.set_reserved(set.reserved);
    learner.set_database_bytes(database);
    for page in pages {
        learner.observe(family, page);
    }
    learner
        .due_first()
        .filter(|training_job| training_job.family == family)
}

/// What is trained, with what a training job of `family` brought: nothing at all is known, too, and its pages need not wait.
pub(super) fn with(
    trained: &TrainedFamilies,
    family: Family,
    brought: Vec<Arc<Dictionary>>,
) -> Arc<TrainedFamilies> {
    let mut trained = trained.clone();
    trained.entry(family).or_insert(brought);
    Arc::new(trained)
}
