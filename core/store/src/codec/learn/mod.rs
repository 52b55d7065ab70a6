//! Training dictionaries and models from the pages that are written.
//!
//! The store shows every written page to a [`Learner`] ([`Learner::observe`]) and reports its
//! stored size ([`Learner::coded`]). The learner keeps a bounded sample of each family. Pages of
//! families that are too rare for a dictionary of their own are trained together, as family OTHER.
//! A page whose family has no dictionary is encoded with OTHER's, if there is one.
//! docs/decisions/dictionaries.md and docs/decisions/typed-codec.md have the reasons.

mod clusters;
mod family_statistics;
mod reservoir;
mod training_job;
mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Dictionary;
use super::family::Family;
use crate::CodecChoice;
use crate::format::record::RECORD_LEN;
use family_statistics::FamilyStatistics;
use training_job::Terms;
pub use training_job::{TrainingJob, TrainingResult};

/// The most bytes of samples kept at a time, over all families.
pub const SAMPLE_BYTES: usize = 8 << 20;
/// The most bytes of samples of one family: a training job then takes about 0.1 s.
const TRAINING_BYTES: usize = 1536 << 10;
/// The same for OTHER, whose dictionary can be larger.
const OVERFLOW_TRAINING_BYTES: usize = 3 << 20;
/// Pages of a family that must have been seen before its first training job.
const FIRST_PAGES: u64 = 48;
/// The same for OTHER, while a database is being written. Tables that have just begun to grow are
/// rare at first, but soon have dictionaries of their own.
const FIRST_PAGES_OF_OTHER: u64 = 4 * FIRST_PAGES;
/// Bytes of a family that must have been seen before its first training job.
const FIRST_BYTES: u64 = 192 << 10;
/// The fewest samples that a training job needs.
const TRAINING_PAGES: usize = 16;
/// A family is trained again when it has been seen this many times as much.
const GROWTH: u64 = 8;
/// The most families that are distinguished; pages of further ones are OTHER.
const FAMILIES: usize = 256;
/// Smallest and largest dictionary, in bytes.
const DICTIONARY_BYTES: (usize, usize) = (4 << 10, 112 << 10);
/// The largest dictionary of overflow pages. They hold long text of all tables: three times as much
/// makes them a twentieth smaller.
const OVERFLOW_DICTIONARY_BYTES: usize = 384 << 10;
/// A dictionary is at most this part of the bytes that it is used for.
const PART: u64 = 100;
/// The seed of the generator that draws samples.
const SEED: u64 = 0x6465_6e73_6974_6500;

/// Samples of the pages that are written, by family.
///
/// [`Learner::due`] returns a training job for a family if one of these holds:
///
/// - it has no dictionary, and `FIRST_PAGES` pages and `FIRST_BYTES` bytes of it were seen;
/// - `GROWTH` times as much was seen as at its last training job, and a dictionary of twice the
///   size would now pay for itself;
/// - its frames are larger than after its last training job (drift).
///
/// A job makes a model of the typed codec or a zstd dictionary, whichever makes the family smaller.
/// A [`TrainingJob`] is self-contained, so it can run on the pool ([`TrainingJob::train`]). If it
/// has a result, the store keeps it and calls [`Learner::installed`]. If not, the family is trained
/// again only after it has grown or drifted.
///
/// Invariants: all samples together weigh at most [`SAMPLE_BYTES`]; the same pages in the same
/// order give the same training jobs.
pub struct Learner {
    families: BTreeMap<Family, FamilyStatistics>,
    random: u64,
    /// Bytes of all samples.
    held: usize,
    /// Bytes of the database, 0 when not known.
    database: u64,
    /// Bytes of all pages seen.
    seen: u64,
    level: i32,
    choice: CodecChoice,
    reserved: usize,
    /// The samples stand for the whole database.
    even: bool,
}

impl Default for Learner {
    fn default() -> Self {
        Learner::new()
    }
}

impl Learner {
    /// A learner that knows nothing.
    pub fn new() -> Learner {
        Learner {
            families: BTreeMap::new(),
            random: SEED,
            held: 0,
            database: 0,
            seen: 0,
            level: 3,
            choice: CodecChoice::Auto,
            reserved: 0,
            even: false,
        }
    }

    /// Sets the present or expected size of the database, in bytes. Dictionaries are sized for it,
    /// however often its pages are rewritten.
    pub fn set_database_bytes(&mut self, bytes: u64) {
        self.database = bytes;
    }

    /// Raises the size of the database to at least `bytes`.
    pub fn raise_database_bytes(&mut self, bytes: u64) {
        self.database = self.database.max(bytes);
    }

    /// Sets the level at which pages are encoded (default 3). Dictionaries are judged at it.
    pub fn set_level(&mut self, level: i32) {
        self.level = level;
    }

    /// Sets which codecs pages get; only those are trained.
    pub fn set_choice(&mut self, choice: CodecChoice) {
        self.choice = choice;
    }

    /// Sets how many bytes at the end of each page are reserved, so not SQLite's.
    pub fn set_reserved(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    /// Shows a page (or a run of pages) of a family.
    pub fn observe(&mut self, family: Family, page: &[u8]) {
        self.seen += page.len() as u64;
        let family = self.enrol(family);
        self.add_page(family, page);
        if family != Family::OTHER
            && self
                .families
                .get(&family)
                .is_some_and(FamilyStatistics::is_rare)
        {
            let other = self.enrol(Family::OTHER);
            self.add_page(other, page);
        }
    }

    /// Reports that a page of a family with `raw` bytes was stored as `stored` bytes. Drift is
    /// found by these reports.
    pub fn coded(&mut self, family: Family, raw: usize, stored: usize) {
        let family = self.enrol(family);
        if let Some(statistics) = self.families.get_mut(&family) {
            statistics.coded(raw, stored);
        }
    }

    /// Treats the pages shown so far as an even sample of the database whose size was set. Families
    /// are then judged by the size of the whole, so they are due before the first page is written.
    pub fn flush(&mut self) {
        if self.seen == 0 {
            return;
        }
        if self.database > self.seen {
            for statistics in self.families.values_mut() {
                statistics.scale(self.database, self.seen);
            }
            self.seen = self.database;
        }
        self.even = true;
    }

    /// Whether the pages shown first were an even sample of the database.
    pub fn is_even(&self) -> bool {
        self.even
    }

    /// Whether a family has grown since it was last trained by pages drawn evenly from what was
    /// written, so that a new sample is worth its time. It then counts as trained now.
    pub fn trains_again(&mut self, family: Family) -> bool {
        let family = self.enrol(family);
        (self.families.get_mut(&family)).is_some_and(FamilyStatistics::trains_again)
    }

    /// The next training job that is worthwhile. Its family is not due again while the training job
    /// exists.
    pub fn due(&mut self) -> Option<TrainingJob> {
        self.due_where(|_| true)
    }

    /// The same, only for families that have no dictionary yet. These training jobs are short (0.02
    /// s), and until they end every page is stored in a larger form. So a bulk load waits for them.
    pub fn due_first(&mut self) -> Option<TrainingJob> {
        self.due_where(FamilyStatistics::is_new)
    }

    fn due_where(&mut self, which: impl Fn(&FamilyStatistics) -> bool) -> Option<TrainingJob> {
        let database = self.database;
        let due = self.families.iter().filter(|(family, statistics)| {
            let share = Self::share(**family);
            let first_pages = match **family {
                Family::OTHER if !self.even => FIRST_PAGES_OF_OTHER,
                _ => FIRST_PAGES,
            };
            which(statistics) && statistics.is_due(database, share, first_pages)
        });
        // The family seen last comes first. OTHER comes last, because it is for pages whose family
        // has no dictionary.
        let (&family, _) = due
            .max_by_key(|(family, statistics)| (**family != Family::OTHER, statistics.last_seen))?;
        let statistics = self.families.get_mut(&family)?;
        self.held -= statistics.samples.bytes();
        let terms = Terms {
            level: self.level,
            choice: self.choice,
            reserved: self.reserved,
            even: self.even,
        };
        let mut training_job = statistics.training_job(database, terms);
        if family == Family::OTHER {
            training_job.leave_out(|page| {
                let of = Family::of(page);
                of != Family::OTHER
                    && self
                        .families
                        .get(&of)
                        .is_some_and(FamilyStatistics::has_own)
            });
        }
        Some(training_job)
    }

    /// Registers a dictionary of a family: a new one, or one that the file already had.
    pub fn installed(&mut self, family: Family, dictionary: &Arc<Dictionary>) {
        let family = self.enrol(family);
        if let Some(statistics) = self.families.get_mut(&family) {
            statistics.installed(dictionary);
        }
    }

    /// Forgets the families with a dictionary for which `has_dictionary` is false. They are trained
    /// again, as if never seen.
    pub fn keep(&mut self, has_dictionary: impl Fn(Family) -> bool) {
        self.families
            .retain(|family, statistics| !statistics.has_dictionary() || has_dictionary(*family));
        self.held = self.families.values().map(|p| p.samples.bytes()).sum();
    }

    /// Bytes of the samples kept now.
    pub fn sample_bytes(&self) -> usize {
        self.held
    }

    /// The family under which statistics are kept: OTHER if there are too many. Adds an entry if it
    /// is new.
    fn enrol(&mut self, family: Family) -> Family {
        if self.families.contains_key(&family) {
            return family;
        }
        let family = if self.families.len() < FAMILIES - 1 {
            family
        } else {
            Family::OTHER
        };
        let new = || FamilyStatistics::of(family);
        self.families.entry(family).or_insert_with(new);
        family
    }

    /// The most bytes of samples that a family can hold.
    fn share(family: Family) -> usize {
        match family {
            Family::OTHER => OVERFLOW_TRAINING_BYTES,
            _ => TRAINING_BYTES,
        }
    }

    fn add_page(&mut self, family: Family, page: &[u8]) {
        let (database, share) = (self.database, Self::share(family));
        let Some(statistics) = self.families.get_mut(&family) else {
            return;
        };
        let before = statistics.samples.bytes();
        statistics.last_seen = self.seen;
        statistics.see(page, database, share, &mut self.random);
        self.held = self.held - before + statistics.samples.bytes();
        // The sample that is the largest part of its share is thinned.
        while self.held > SAMPLE_BYTES {
            let part = |(family, statistics): &(&Family, &mut FamilyStatistics)| {
                statistics.samples.bytes() * OVERFLOW_TRAINING_BYTES / Self::share(**family)
            };
            let Some((_, most)) = self.families.iter_mut().max_by_key(part) else {
                return;
            };
            let before = most.samples.bytes();
            most.samples.thin(&mut self.random);
            self.held = self.held - before + most.samples.bytes();
            if before == 0 {
                return;
            }
        }
    }
}

/// The bytes of the headers of the frames of so many pages. Training cannot reduce them, and for
/// pages that compress very well they are the largest part.
fn headers(pages: usize) -> f64 {
    (pages * RECORD_LEN) as f64
}

#[cfg(test)]
mod tests;
