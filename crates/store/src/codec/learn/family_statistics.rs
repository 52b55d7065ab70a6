//! What the learner knows of one family.

use std::sync::{Arc, Weak};

use super::super::choice::CANDIDATES;
use super::super::family::Family;
use super::super::{CodecId, Dictionary};
use super::reservoir::Reservoir;
use super::training_job::{Terms, worth};
use super::{FIRST_BYTES, FIRST_PAGES, GROWTH, PART, TRAINING_PAGES, TrainingJob};

/// The weight of one frame in the running mean of a family's ratio is one part in this many.
const MEMORY: f64 = 96.0;
/// Frames after a training job whose mean is what later ones are compared with.
const SETTLING: u64 = 96;
/// Frames larger than that by this factor have drifted; by a power of it after training jobs in vain, up to [`VAIN_MAX`] of them.
const DRIFT: f64 = 1.08;
const VAIN_MAX: i32 = 3;

/// A model is learned again when its family has been seen so many times as much as would do for a dictionary,
const MODEL_GROWTH: u64 = 4;
/// and only if it was learned from less than this many bytes.
const MODEL_TRAINED: u64 = 4 << 20;

/// A model found in the file that is at least so large was not learned from less.
const MODEL_BYTES: u64 = 2 << 10;

/// A family's record.
#[derive(Default)]
pub(super) struct FamilyStatistics {
    seen_pages: u64,
    seen_bytes: u64,
    /// How much the learner had seen, in bytes, when it last saw this family.
    pub(super) last_seen: u64,
    /// `seen_bytes` at the last training job, or what a dictionary found in the file stands for; 0: never trained.
    trained_bytes: u64,
    /// Its dictionaries and models, the newest last; at most [`CANDIDATES`].
    dictionaries: Vec<Arc<Dictionary>>,
    /// Training jobs for drift that brought nothing, since the last one that did: what makes frames larger may be nothing that can be learned.
    vain: i32,
    /// Upgrades while a training job exists.
    training_job: Weak<()>,
    /// Frames coded since the last training job.
    coded: u64,
    /// Running mean of stored / raw since the last training job.
    ratio: f64,
    /// That mean when it had settled; 0: not yet.
    settled: f64,
    /// Pages to train from.
    pub(super) samples: Reservoir,
}

impl FamilyStatistics {
    /// Takes note of a page, and perhaps a sample.
    pub(super) fn see(&mut self, page: &[u8], database: u64, share: usize, random: &mut u64) {
        self.seen_pages += 1;
        self.seen_bytes += page.len() as u64;
        // Samples are taken only when they would serve a training job that is near.
        if self.trained_bytes == 0 || self.outgrown(database, GROWTH / 2) || self.drifted() {
            self.samples.offer(page, share, random);
        }
    }

    /// Takes note of a frame.
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

    /// What was seen stands for `whole / part` as much.
    pub(super) fn scale(&mut self, whole: u64, part: u64) {
        let scaled = |n: u64| {
            u64::try_from(u128::from(n) * u128::from(whole) / u128::from(part.max(1)))
                .unwrap_or(u64::MAX)
        };
        self.seen_pages = scaled(self.seen_pages);
        self.seen_bytes = scaled(self.seen_bytes);
    }

    /// Begins a training job with the samples that there are.
    pub(super) fn training_job(
        &mut self,
        family: Family,
        database: u64,
        terms: Terms,
    ) -> TrainingJob {
        let token = Arc::new(());
        self.training_job = Arc::downgrade(&token);
        self.trained_bytes = self.seen_bytes;
        if self.drifted() {
            // Until it has brought something.
            self.vain = (self.vain + 1).min(VAIN_MAX);
        }
        // Drift is measured anew, also after a training job in vain: what was drift is then how the family is.
        (self.coded, self.ratio, self.settled) = (0, 0.0, 0.0);
        TrainingJob {
            family,
            samples: std::mem::take(&mut self.samples).into_pages(),
            max_bytes: self.worth(database),
            bytes: self.usable(database),
            terms,
            current: self.dictionaries.clone(),
            _token: token,
        }
    }

    /// Has this dictionary, too, from now on.
    pub(super) fn installed(&mut self, dictionary: &Arc<Dictionary>) {
        if self.trained_bytes == 0 {
            // It was in the file: take it that it was worth its bytes, and that a model of some size has learned what there is.
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

    /// Whether it was never trained and has no dictionary.
    pub(super) fn is_new(&self) -> bool {
        self.trained_bytes == 0
    }

    /// Whether its pages may have to make do with the dictionary of OTHER.
    pub(super) fn is_rare(&self) -> bool {
        self.dictionaries.is_empty() && self.seen_pages <= FIRST_PAGES
    }

    /// Whether it has a dictionary of its own.
    pub(super) fn has_dictionary(&self) -> bool {
        !self.dictionaries.is_empty()
    }

    /// Whether it has a dictionary of its own, or is about to.
    pub(super) fn has_own(&self) -> bool {
        !self.dictionaries.is_empty() || self.training_job.strong_count() > 0
    }

    /// Whether a training job is worth while now; `first_pages`: how many must have been seen before the first one.
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

    /// Bytes that a dictionary would be for.
    fn usable(&self, database: u64) -> u64 {
        if database == 0 {
            self.seen_bytes
        } else {
            self.seen_bytes.min(database)
        }
    }

    /// The size of a dictionary that would pay for itself.
    fn worth(&self, database: u64) -> usize {
        worth(self.usable(database))
    }

    fn drifted(&self) -> bool {
        self.settled > 0.0 && self.ratio > self.settled * DRIFT.powi(1 + self.vain)
    }

    /// Whether it has been seen `growth` times as much as at the last training job, and a dictionary twice as large (or the first one) would pay.
    fn outgrown(&self, database: u64, growth: u64) -> bool {
        if let Some(model) = self.dictionaries.last()
            && model.codec() == CodecId::TYPED
        {
            // A model that was learned from a full sample has learned what there is, but for drift.
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
