//! Learning dictionaries and models from the pages that are written.
//!
//! A [`Learner`] is shown every page that is written ([`Learner::observe`]) and told what became of it
//! ([`Learner::coded`]). It keeps a bounded sample of each family and says with [`Learner::due`] when one is worth a training job:
//!
//! - it has no dictionary, and [`FIRST_PAGES`] pages and [`FIRST_BYTES`] bytes of it have been seen;
//! - it has been seen [`GROWTH`] times as much as at its last training job, and a dictionary twice as large would now pay for itself;
//! - its frames have become larger than they were after its last training job (drift).
//!
//! What is trained is a model of the typed codec or a zstd dictionary, whichever makes the family smaller.
//! A [`TrainingJob`] is self-contained, so that it can run on the pool ([`TrainingJob::train`]). If it brings a dictionary, the store
//! stores it and tells the learner ([`Learner::installed`]); if not, the family is not tried again before it has grown or drifted.
//! Pages of families too rare for a dictionary of their own are learned together, as family OTHER: a page whose family
//! has no dictionary is encoded with OTHER's, if there is one.
//!
//! Invariants: samples weigh at most [`SAMPLE_BYTES`] in all; the same pages in the same order give the same training jobs.

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

/// Most bytes of samples kept at a time, over all families.
pub const SAMPLE_BYTES: usize = 8 << 20;
/// Most bytes of samples of one family: a training job then takes about 0.1 s.
const TRAINING_BYTES: usize = 1536 << 10;
/// Pages of a family that must have been seen before its first training job.
const FIRST_PAGES: u64 = 48;
/// The same of OTHER, while a database is being written: tables that have just begun to grow are rare, too, and soon have dictionaries of their own.
const FIRST_PAGES_OF_OTHER: u64 = 4 * FIRST_PAGES;
/// Bytes of a family that must have been seen before its first training job.
const FIRST_BYTES: u64 = 192 << 10;
/// Fewer pages than this are not trained from.
const TRAINING_PAGES: usize = 16;
/// A family is trained again when it has been seen this many times as much.
const GROWTH: u64 = 8;
/// Most families told apart; the rest are OTHER.
const FAMILIES: usize = 256;
/// Smallest and largest dictionary, in bytes.
const DICTIONARY_BYTES: (usize, usize) = (4 << 10, 112 << 10);
/// A dictionary is at most this part of the bytes it is for.
const PART: u64 = 100;
/// Where the generator that draws samples begins.
const SEED: u64 = 0x6465_6e73_6974_6500;

/// See the module's documentation.
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

    /// Tells how large the database is (or is about to become), in bytes: no dictionary is made larger than that is worth,
    /// however often its pages are rewritten.
    pub fn set_database_bytes(&mut self, bytes: u64) {
        self.database = bytes;
    }

    /// Tells that the database is at least so large by now.
    pub fn raise_database_bytes(&mut self, bytes: u64) {
        self.database = self.database.max(bytes);
    }

    /// Tells at which level pages are encoded (3 unless told): dictionaries are judged at it.
    pub fn set_level(&mut self, level: i32) {
        self.level = level;
    }

    /// Tells which codecs pages get: only those are trained.
    pub fn set_choice(&mut self, choice: CodecChoice) {
        self.choice = choice;
    }

    /// Tells how many bytes at the end of each page are not SQLite's.
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

    /// Tells what a page of a family became: `raw` bytes were stored as `stored`. Without it drift is not noticed.
    pub fn coded(&mut self, family: Family, raw: usize, stored: usize) {
        let family = self.enrol(family);
        if let Some(statistics) = self.families.get_mut(&family) {
            statistics.coded(raw, stored);
        }
    }

    /// What was shown so far was drawn evenly from the database whose size was told: judge from it by the size of the
    /// whole, so that families are due before the first page is written.
    pub fn flush(&mut self) {
        if self.seen == 0 || self.database <= self.seen {
            return;
        }
        for statistics in self.families.values_mut() {
            statistics.scale(self.database, self.seen);
        }
        self.seen = self.database;
        self.even = true;
    }

    /// The next training job that is worth while. Its family is not named again as long as the training job exists.
    pub fn due(&mut self) -> Option<TrainingJob> {
        self.due_where(|_| true)
    }

    /// The same among families that have no dictionary yet. These training jobs are short (0.02 s) and every page until their end
    /// is stored the larger way, so in a bulk load they are worth waiting for.
    pub fn due_first(&mut self) -> Option<TrainingJob> {
        self.due_where(FamilyStatistics::is_new)
    }

    fn due_where(&mut self, which: impl Fn(&FamilyStatistics) -> bool) -> Option<TrainingJob> {
        let (database, share) = (self.database, self.share());
        let due = self.families.iter().filter(|(family, statistics)| {
            let first_pages = match **family {
                Family::OTHER if !self.even => FIRST_PAGES_OF_OTHER,
                _ => FIRST_PAGES,
            };
            which(statistics) && statistics.is_due(database, share, first_pages)
        });
        // What is being written now comes first; OTHER comes last, for it is for those who got none of their own.
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
        let mut training_job = statistics.training_job(family, database, terms);
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

    /// Tells that a family has a dictionary now: a new one, or one that the file already had.
    pub fn installed(&mut self, family: Family, dictionary: &Arc<Dictionary>) {
        let family = self.enrol(family);
        if let Some(statistics) = self.families.get_mut(&family) {
            statistics.installed(dictionary);
        }
    }

    /// Tells which families still have a dictionary: the others are trained anew, as if never seen.
    pub fn keep(&mut self, has_dictionary: impl Fn(Family) -> bool) {
        self.families
            .retain(|family, statistics| !statistics.has_dictionary() || has_dictionary(*family));
        self.held = self.families.values().map(|p| p.samples.bytes()).sum();
    }

    /// Bytes of samples held now.
    pub fn sample_bytes(&self) -> usize {
        self.held
    }

    /// The name under which a family is kept; makes a place for it if it is new.
    fn enrol(&mut self, family: Family) -> Family {
        if self.families.contains_key(&family) {
            return family;
        }
        let family = if self.families.len() < FAMILIES - 1 {
            family
        } else {
            Family::OTHER
        };
        self.families.entry(family).or_default();
        family
    }

    /// Most bytes of samples that one family may hold.
    fn share(&self) -> usize {
        (SAMPLE_BYTES / self.families.len().max(1)).min(TRAINING_BYTES)
    }

    fn add_page(&mut self, family: Family, page: &[u8]) {
        let (database, share) = (self.database, self.share());
        let Some(statistics) = self.families.get_mut(&family) else {
            return;
        };
        let before = statistics.samples.bytes();
        statistics.last_seen = self.seen;
        statistics.see(page, database, share, &mut self.random);
        self.held = self.held - before + statistics.samples.bytes();
        // New families have made every share smaller: whoever holds most gives way.
        while self.held > SAMPLE_BYTES {
            let Some(most) = self
                .families
                .values_mut()
                .max_by_key(|statistics| statistics.samples.bytes())
            else {
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

/// Bytes of the headers of so many pages' frames: no training job makes them fewer, and of what compresses very well they are the most.
fn headers(pages: usize) -> f64 {
    (pages * RECORD_LEN) as f64
}

#[cfg(test)]
mod tests;
