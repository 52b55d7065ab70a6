//! What a process remembers between the steps of `relearn`.

use crate::again::EvenSample;
use crate::codec::learn::TrainingResult;
use crate::encode::EncodeSettings;
use crate::format::trailer::Learned;
use crate::pool::{Job, Pool, Task};
use std::cmp::Reverse;
use std::sync::Arc;

/// New models and dictionaries must make the pages of their family smaller by this part. More than
/// in a transaction: frames in the file cost more to encode again than those in memory.
const BETTER: f64 = 0.02;

/// What this process does at present.
#[derive(Default)]
pub(crate) enum Stage {
    #[default]
    Idle,
    Sampling(Sampling),
    Training(Training),
}

impl Stage {
    /// Whether another process has learned from the database since this sample was begun.
    pub(crate) fn is_overtaken(&self, learned: Learned) -> bool {
        match self {
            Stage::Idle => false,
            Stage::Sampling(sampling) => learned.pages >= sampling.pages,
            Stage::Training(training) => learned.pages >= training.pages,
        }
    }
}

/// A sample that is being drawn.
pub(crate) struct Sampling {
    sample: EvenSample,
    /// Bytes of a page.
    page_size: u64,
    /// Pages of the database when this began.
    pages: u32,
    /// How many of them are drawn, and how many were.
    count: u32,
    drawn: u32,
}

impl Sampling {
    /// A sample of so many pages, for which the settings are used.
    pub(crate) fn new(
        settings: EncodeSettings,
        level: i32,
        page_size: u32,
        pages: u32,
    ) -> Sampling {
        let page_size = u64::from(page_size).max(1);
        let sample = EvenSample::new(settings, level, u64::from(pages) * page_size);
        let count = sample.wanted().div_ceil(page_size);
        Sampling {
            count: u32::try_from(count).unwrap_or(pages).min(pages),
            sample,
            page_size,
            pages,
            drawn: 0,
        }
    }

    /// The next page to draw from a database with pages of this size; `None` if the sample is
    /// complete.
    pub(crate) fn next_page(&mut self, page_size: u32) -> Option<u32> {
        if self.drawn >= self.count || u64::from(page_size) != self.page_size {
            return None;
        }
        let number = u64::from(self.drawn) * u64::from(self.pages) / u64::from(self.count);
        self.drawn += 1;
        Some(number as u32 + 1)
    }

    pub(crate) fn sample(&mut self) -> &mut EvenSample {
        &mut self.sample
    }

    /// The training jobs of the sample, those of the most samples first.
    pub(crate) fn train(mut self) -> Training {
        let mut jobs = self.sample.training_jobs();
        jobs.sort_by_key(|job| Reverse(job.sample_bytes()));
        Training {
            tasks: jobs
                .into_iter()
                .map(|job| Task::lazy(move || job.train()))
                .collect(),
            sample: self.sample,
            pages: self.pages,
            queued: 0,
        }
    }
}

/// The training jobs of a sample.
pub(crate) struct Training {
    sample: EvenSample,
    /// Pages of the database when it was drawn.
    pages: u32,
    tasks: Vec<Task<Vec<TrainingResult>>>,
    /// How many of the tasks were given to the pool.
    queued: usize,
}

impl Training {
    /// Goes on. Returns whether all tasks are done. Without a pool, a call runs one task.
    pub(crate) fn goes_on(&mut self, pool: Option<&Arc<Pool>>) -> bool {
        while let Some(task) = self.tasks.get(self.queued) {
            match pool {
                Some(pool) if !task.offer(pool) => break,
                Some(_) => self.queued += 1,
                None => {
                    task.join();
                    self.queued += 1;
                    break;
                }
            }
        }
        self.tasks.iter().all(Task::is_done)
    }

    /// The first training job that no thread has begun.
    pub(crate) fn unbegun(&self) -> Option<Job> {
        Task::unbegun(&self.tasks)
    }

    /// Pages of the database when the sample was drawn.
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// The results that are better than what the pages are encoded with.
    pub(crate) fn better(self) -> Vec<TrainingResult> {
        let results = self.tasks.into_iter().filter_map(Task::wait);
        let sample = self.sample;
        let better = results.filter(|results| sample.is_better(results, BETTER));
        better.flatten().collect()
    }
}
