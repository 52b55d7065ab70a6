//! A training job that runs while a connection writes, and the dictionaries that its commit can
//! use.

use crate::codec::choice::TrainedFamilies;
use crate::codec::learn::TrainingResult;
use crate::pool::Task;
use std::sync::Arc;

/// Identifies the commit for which the dictionaries were collected: its number, and how many
/// dictionaries it has added.
pub(crate) type MadeFor = (u64, usize);

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Training {
    running: Option<Task<Vec<TrainingResult>>>,
    current: Arc<TrainedFamilies>,
    made_for: MadeFor,
}

impl Training {
    /// Takes the training job, if it is done.
    pub(crate) fn take_done(&mut self) -> Option<Task<Vec<TrainingResult>>> {
        self.running.take_if(|task| task.is_done())
    }

    /// Whether a training job is running.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Notes the running training job.
    pub(crate) fn began(&mut self, task: Task<Vec<TrainingResult>>) {
        self.running = Some(task);
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
