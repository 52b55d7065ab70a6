//! A training job that runs while a connection writes, and the dictionaries that its commit can
//! use.

use crate::codec::dictionary_choice::TrainedFamilies;
use crate::codec::learn::{TrainingJob, TrainingResult};
use crate::pool::{Pool, Task};
use std::sync::Arc;

/// Identifies the commit for which the dictionaries were collected: its number, and how many
/// dictionaries it has added.
pub(crate) type MadeFor = (u64, usize);

/// The result of a training job is installed so many batches after the job began, whenever it ends:
/// what is stored then depends on the pages alone. The writer waits if the job takes longer.
const BATCHES: u32 = 32;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Training {
    running: Option<Task<Vec<TrainingResult>>>,
    /// See [`TrainingJob::token`].
    token: Option<Arc<()>>,
    /// Batches until the result is installed.
    left: u32,
    current: Arc<TrainedFamilies>,
    made_for: MadeFor,
}

impl Training {
    /// Counts a batch. Returns the training job if its result is installed before this batch.
    pub(crate) fn next_batch(&mut self) -> Option<Task<Vec<TrainingResult>>> {
        self.left = self.left.saturating_sub(1);
        let done = self.running.take_if(|_| self.left == 0);
        if done.is_some() {
            self.token = None;
        }
        done
    }

    /// Whether a training job is running.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts a training job on the pool.
    pub(crate) fn begin(&mut self, training_job: TrainingJob, pool: &Option<Arc<Pool>>) {
        self.token = Some(training_job.token());
        self.running = Some(Task::spawn(pool, move || training_job.train()));
        self.left = BATCHES;
    }

    /// Gives up the running training job.
    pub(crate) fn cancel(&mut self) {
        (self.running, self.token) = (None, None);
    }

    /// Forgets the collected dictionaries, because the commit does not have all of them any more.
    pub(crate) fn forget(&mut self) {
        self.made_for = MadeFor::default();
    }

    /// The dictionaries that were collected for this commit.
    pub(crate) fn trained(&self, made_for: MadeFor) -> Option<Arc<TrainedFamilies>> {
        (self.made_for == made_for).then(|| Arc::clone(&self.current))
    }

    /// Keeps the dictionaries that were collected for this commit.
    pub(crate) fn keep(&mut self, made_for: MadeFor, trained: &Arc<TrainedFamilies>) {
        self.made_for = made_for;
        self.current = Arc::clone(trained);
    }
}
