//! Training jobs from noted pages. A bulk load writes pages of families without a dictionary. If
//! they waited for the checkpoint's training jobs, their frames would be larger, or the checkpoint
//! would encode them.
//!
//! The first pages of such a family wait here, by their numbers, until they are enough for the
//! training job that the checkpoint would begin with. Then a worker of the pool trains. The result
//! has no stored number: it gets one when a commit takes the first frame that was coded with it.

use crate::codec::Dictionary;
use crate::codec::dictionary_choice::TrainedFamilies;
use crate::codec::family::Family;
use crate::codec::learn::{Learner, TrainingJob};
use crate::encode::EncodeSettings;
use crate::encode::UNNAMED;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The pages that the first training job of a family needs. Short pages need more.
pub(super) const FIRST_PAGES: usize = 48;

/// Pages that wait for a training job of their family: the number of each page and of its note.
#[derive(Default)]
pub(super) struct Untrained {
    waiting: HashMap<Family, BTreeMap<u32, u64>>,
    /// Families whose job had no result. The next one is the checkpoint's, which knows when they
    /// have grown.
    vain: BTreeSet<Family>,
    /// The number of dictionaries so far, so that each gets its own number.
    training_jobs: u32,
}

impl Untrained {
    /// Forgets which pages wait.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Notes that the job of a family had no result.
    pub(super) fn in_vain(&mut self, family: Family) {
        self.vain.insert(family);
    }

    /// Adds an empty result for each family whose job had none and for which there is none since.
    pub(super) fn with_vain(&mut self, trained: &Arc<TrainedFamilies>) -> Arc<TrainedFamilies> {
        self.vain.retain(|family| !trained.contains_key(family));
        if self.vain.is_empty() {
            return Arc::clone(trained);
        }
        let vain = self.vain.iter().map(|family| (*family, Vec::new()));
        let trained = trained.iter().map(|(family, by)| (*family, by.clone()));
        Arc::new(trained.chain(vain).collect())
    }

    /// Adds a waiting page. Returns how many of its family wait.
    pub(super) fn add(&mut self, family: Family, page: u32, seq: u64) -> usize {
        let of_family = self.waiting.entry(family).or_default();
        of_family.insert(page, seq);
        of_family.len()
    }

    /// The waiting pages of a family.
    pub(super) fn of(&self, family: Family) -> impl Iterator<Item = (u32, u64)> + Clone {
        let of_family = self.waiting.get(&family).into_iter().flatten();
        of_family.map(|(page, seq)| (*page, *seq))
    }

    /// Removes and returns the waiting pages of a family.
    pub(super) fn take(&mut self, family: Family) -> BTreeMap<u32, u64> {
        self.waiting.remove(&family).unwrap_or_default()
    }

    /// A number for the result of a training job.
    pub(super) fn number(&mut self) -> u32 {
        self.training_jobs = self.training_jobs.wrapping_add(1) % UNNAMED;
        UNNAMED + self.training_jobs
    }
}

/// The first training job of a family, as the checkpoint would make it from these pages, if they
/// are enough. `database`: the expected bytes of the database.
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

/// Adds the result of a training job of `family` to what is trained. An empty result is added too,
/// so that the family's pages need not wait.
pub(super) fn with(
    trained: &TrainedFamilies,
    family: Family,
    brought: Vec<Arc<Dictionary>>,
) -> Arc<TrainedFamilies> {
    let mut trained = trained.clone();
    trained.entry(family).or_insert(brought);
    Arc::new(trained)
}
