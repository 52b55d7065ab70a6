//! What the learner knows about one family.

use std::sync::{Arc, Weak};

use super::super::dictionary_choice::CANDIDATES;
use super::super::family::Family;
use super::super::{CodecId, Dictionary};
use super::reservoir::Reservoir;
use super::training_job::{Terms, worth};
use super::{FIRST_BYTES, FIRST_PAGES, GROWTH, PART, TRAINING_PAGES, TrainingJob};

/// The weight of one frame in the running mean of a family's ratio is one part in this many.
const MEMORY: f64 = 96.0;
/// So many frames after a training job, the mean ratio becomes the reference for later frames.
const SETTLING: u64 = 96;
/// A family has drifted if its mean ratio exceeds the reference by this factor. After training jobs
/// without result a power of it applies, up to [`VAIN_MAX`] of them.
const DRIFT: f64 = 1.08;
const VAIN_MAX: i32 = 3;

/// A model is trained again when this many times the growth that a dictionary needs was seen,
const MODEL_GROWTH: u64 = 4;
/// and only if it was trained on less than this many bytes.
const MODEL_TRAINED: u64 = 4 << 20;

/// A model that was trained on [`MODEL_TRAINED`] bytes is trained again, on an even sample, only if
/// this many times as much was seen.
const FULL_GROWTH: u64 = 16;

/// A model from the file of at least this length counts as trained on [`MODEL_TRAINED`] bytes.
const MODEL_BYTES: u64 = 2 << 10;

/// What is known about a family.
#[derive(Default)]
pub(super) struct FamilyStatistics {
    family: Family,
    seen_pages: u64,
    seen_bytes: u64,
    /// The bytes that the learner had seen in all when it last saw this family.
    pub(super) last_seen: u64,
    /// `seen_bytes` at the last training job, or the bytes that a dictionary from the file stands
    /// for. 0: never trained.
    trained_bytes: u64,
    /// `seen_bytes` when it was last trained by pages drawn evenly from what was written. 0: never.
    even_bytes: u64,
    /// Its dictionaries and models, the newest last; at most [`CANDIDATES`].
    dictionaries: Vec<Arc<Dictionary>>,
    /// The number of training jobs for drift without a result, since the last one with a result.
    /// The cause of the drift may be something that training cannot improve.
    vain: i32,
    /// Upgrades while a training job exists.
    training_job: Weak<()>,
    /// Frames encoded since the last training job.
    coded: u64,
    /// Running mean of stored / raw since the last training job.
    ratio: f64,
    /// The reference for drift: that mean after [`SETTLING`] frames; 0: not yet.
    settled: f64,
    /// Pages to train from.
    pub(super) samples: Reservoir,
}

impl FamilyStatistics {
    /// Those of a family that nothing is known about.
    pub(super) fn of(family: Family) -> FamilyStatistics {
        FamilyStatistics {
            family,
            ..FamilyStatistics::default()
        }
    }

    /// Counts a page, and perhaps keeps it as a sample.
    pub(super) fn see(&mut self, page: &[u8], database: u64, share: usize, random: &mut u64) {
        self.seen_pages += 1;
        self.seen_bytes += page.len() as u64;
        // Samples are taken only if a training job is near.
        if self.trained_bytes == 0 || self.outgrown(database, GROWTH / 2) || self.drifted() {
            self.samples.offer(page, share, random);
        }
    }

    /// Counts a frame.
    pub(super) fn coded(&mut self, raw: usize, stored: usize) {
        if raw == 0 {
            return;
        }
        self.coded += 1;
        let weight = (1.0 / self.coded as f64).max(1.0 / MEMORY);
        self.ratio += (stored as f64 / raw as f64 - self.ratio) * weight;
        if self.coded == SETTLING {
            self.settled = self.ratio;
        }
    }

    /// Scales what was seen by `whole / part`, because the samples stand for a larger whole.
    pub(super) fn scale(&mut self, whole: u64, part: u64) {
        let scaled = |n: u64| {
            u64::try_from(u128::from(n) * u128::from(whole) / u128::from(part.max(1)))
                .unwrap_or(u64::MAX)
        };
        self.seen_pages = scaled(self.seen_pages);
        self.seen_bytes = scaled(self.seen_bytes);
    }

    /// Begins a training job with the present samples.
    pub(super) fn training_job(&mut self, database: u64, terms: Terms) -> TrainingJob {
        let token = Arc::new(());
        self.training_job = Arc::downgrade(&token);
        if self.trained_bytes > 0 && !self.drifted() {
            // Its samples are from at least half of the pages.
            self.even_bytes = self.seen_bytes;
        }
        self.trained_bytes = self.seen_bytes;
        if self.drifted() {
            // Reset when a training job has a result.
            self.vain = (self.vain + 1).min(VAIN_MAX);
        }
        // Drift is measured from the beginning again, even after a training job without a result:
        // the larger frames are then the new reference.
        (self.coded, self.ratio, self.settled) = (0, 0.0, 0.0);
        TrainingJob {
            family: self.family,
            samples: std::mem::take(&mut self.samples).into_pages(),
            max_bytes: self.worth(database),
            bytes: self.usable(database),
            terms,
            current: self.dictionaries.clone(),
            threads: 1,
            token,
        }
    }

    /// Adds a dictionary or model to the family.
    pub(super) fn installed(&mut self, dictionary: &Arc<Dictionary>) {
        if self.trained_bytes == 0 {
            // It was in the file. Assume that it was worth its bytes, and that a model of this
            // length was trained on a full sample.
            let bytes = dictionary.bytes().len() as u64;
            self.trained_bytes = match dictionary.codec() {
                CodecId::TYPED if bytes >= MODEL_BYTES => MODEL_TRAINED,
                _ => (bytes * PART).max(FIRST_BYTES),
            };
            self.seen_bytes += self.trained_bytes;
            self.seen_pages += FIRST_PAGES;
        }
        (self.coded, self.ratio, self.settled) = (0, 0.0, 0.0);
        self.vain = 0;
        if self.dictionaries.len() == CANDIDATES {
            self.dictionaries.remove(0);
        }
        self.dictionaries.push(Arc::clone(dictionary));
    }

    /// Whether it has grown or drifted since it was last trained by an even sample, so that a new
    /// one is worth its time. It then counts as trained now.
    pub(super) fn trains_again(&mut self) -> bool {
        let codec = self
            .dictionaries
            .last()
            .map(|dictionary| dictionary.codec());
        let growth = match codec {
            _ if self.even_bytes < MODEL_TRAINED => 2,
            // More pages of the same table improve a model little, and a dictionary more.
            Some(CodecId::TYPED) => FULL_GROWTH,
            _ => FULL_GROWTH / 4,
        };
        let grown = self.seen_bytes >= self.even_bytes.saturating_mul(growth);
        let again = grown || self.drifted();
        if again {
            (self.trained_bytes, self.even_bytes) = (self.seen_bytes, self.seen_bytes);
            (self.coded, self.ratio, self.settled) = (0, 0.0, 0.0);
        }
        again
    }

    /// Whether it was never trained and has no dictionary.
    pub(super) fn is_new(&self) -> bool {
        self.trained_bytes == 0
    }

    /// Whether the family is small, so that its pages may have to use the dictionary of OTHER.
    pub(super) fn is_rare(&self) -> bool {
        self.dictionaries.is_empty() && self.seen_pages <= FIRST_PAGES
    }

    /// Whether it has a dictionary of its own.
    pub(super) fn has_dictionary(&self) -> bool {
        !self.dictionaries.is_empty()
    }

    /// Whether it has a dictionary of its own, or a training job for one.
    pub(super) fn has_own(&self) -> bool {
        !self.dictionaries.is_empty() || self.training_job.strong_count() > 0
    }

    /// Whether a training job is worthwhile now. `first_pages`: how many pages must be seen before
    /// the first one.
    pub(super) fn is_due(&self, database: u64, share: usize, first_pages: u64) -> bool {
        self.training_job.strong_count() == 0
            && self.samples.pages() >= TRAINING_PAGES
            && match self.trained_bytes {
                0 => self.seen_pages >= first_pages && self.seen_bytes >= FIRST_BYTES,
                _ => {
                    self.outgrown(database, GROWTH)
                        || self.drifted()
                            && self.samples.bytes() >= (self.worth(database) * 8).min(share / 2)
                }
            }
    }

    /// The bytes that a dictionary would be used for.
    fn usable(&self, database: u64) -> u64 {
        if database == 0 {
            self.seen_bytes
        } else {
            self.seen_bytes.min(database)
        }
    }

    /// The size of a dictionary that would pay for itself, in bytes.
    fn worth(&self, database: u64) -> usize {
        worth(self.family, self.usable(database))
    }

    fn drifted(&self) -> bool {
        self.settled > 0.0 && self.ratio > self.settled * DRIFT.powi(1 + self.vain)
    }

    /// Whether `growth` times as much was seen as at the last training job, and a dictionary of
    /// twice the size (or the first one) would pay.
    fn outgrown(&self, database: u64, growth: u64) -> bool {
        if let Some(model) = self.dictionaries.last()
            && model.codec() == CodecId::TYPED
        {
            // Unless the family drifts, a model that was trained on a full sample cannot improve.
            let growth = growth * MODEL_GROWTH;
            return self.trained_bytes < MODEL_TRAINED
                && self.seen_bytes >= self.trained_bytes.saturating_mul(growth);
        }
        let has = self
            .dictionaries
            .last()
            .map_or(0, |dictionary| dictionary.bytes().len());
        self.seen_bytes >= self.trained_bytes.saturating_mul(growth)
            && self.worth(database) >= has * 2
    }
}
