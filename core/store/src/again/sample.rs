//! Trains on pages that are drawn evenly, and tells whether the results are better than what the
//! pages are encoded with.

use crate::codec::family::Family;
use crate::codec::learn::{Learner, TrainingJob, TrainingResult};
use crate::codec::{CodecId, Dictionary, PageSettings, encode_pages};
use crate::encode::EncodeSettings;
use crate::format::record::Record;
use densite_typed::PageContext;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sample is a 64th of all pages, but within these limits in bytes.
const SAMPLE_PART: u64 = 64;
const SAMPLE_LEAST: u64 = 4 << 20;
const SAMPLE_MOST: u64 = 32 << 20;

/// What is known about a family in the sample, in bytes.
#[derive(Default)]
struct Sampled {
    raw: u64,
    stored: u64,
}

/// Pages that were drawn evenly.
pub(crate) struct EvenSample {
    learner: Learner,
    settings: EncodeSettings,
    families: BTreeMap<Family, Sampled>,
    /// Bytes of all pages.
    raw: u64,
}

impl EvenSample {
    /// A sample of pages of `raw` bytes in all, for which the settings are used.
    pub(crate) fn new(settings: EncodeSettings, level: i32, raw: u64) -> EvenSample {
        let mut learner = Learner::new();
        learner.set_level(level);
        learner.set_choice(settings.choice);
        learner.set_reserved(settings.reserved);
        learner.set_database_bytes(raw);
        EvenSample {
            learner,
            settings,
            families: BTreeMap::new(),
            raw,
        }
    }

    /// How many bytes of pages are to be drawn.
    pub(crate) fn wanted(&self) -> u64 {
        let part = self.raw / SAMPLE_PART;
        part.clamp(SAMPLE_LEAST, SAMPLE_MOST).min(self.raw)
    }

    /// Adds a page, which is stored in the frame of this record with this dictionary.
    pub(crate) fn add(&mut self, page: &[u8], record: &Record, dict: Option<&Arc<Dictionary>>) {
        let family = Family::of(page);
        self.learner.observe(family, page);
        let sampled = self.families.entry(family).or_default();
        sampled.raw += page.len() as u64;
        // Training jobs judge each page alone and by the level of most pages. Runs are smaller than
        // their pages, and some pages are coded at a higher level.
        sampled.stored += match (record.run_log2, CodecId(record.codec)) {
            (0, CodecId::TYPED) => u64::from(record.stored_len),
            _ => alone(page, dict, &self.settings),
        };
    }

    /// The training jobs that are worthwhile.
    pub(crate) fn training_jobs(&mut self) -> Vec<TrainingJob> {
        self.learner.flush();
        let mut jobs = Vec::new();
        // A family is not due again while its job exists.
        while let Some(job) = self.learner.due() {
            jobs.push(job);
        }
        jobs
    }

    /// Whether the result of a training job makes the pages of its family smaller by this part of
    /// what they take, and repays its own bytes.
    pub(crate) fn is_better(&self, results: &[TrainingResult], part: f64) -> bool {
        let family = results.first().map(|result| (result.family, result.ratio));
        let Some((family, ratio)) = family else {
            return false;
        };
        let Some(Sampled { raw, stored }) = self.families.get(&family) else {
            return false;
        };
        let own = results.iter().map(|result| {
            let dict = Dictionary::new(0, result.codec, result.bytes.clone());
            dict.to_stored().1.len()
        });
        let own: usize = own.sum();
        let before = *stored as f64 / (*raw).max(1) as f64;
        // Bytes of the family, by the sample.
        let all = *raw as f64 * self.raw as f64 / self.wanted().max(1) as f64;
        before - ratio > before * part && (before - ratio) * all > own as f64
    }
}

/// Bytes of a page that is encoded alone, with the dictionary of its frame.
fn alone(page: &[u8], dict: Option<&Arc<Dictionary>>, set: &EncodeSettings) -> u64 {
    let settings = PageSettings {
        level: set.level,
        choice: set.choice,
        family: dict.map(|dict| &**dict),
        other: None,
        checked: true,
    };
    // The place by which training jobs judge.
    let context = PageContext {
        number: 3,
        pages: 0,
        reserved: set.reserved,
    };
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    encode_pages(page, page.len(), &context, &settings, &mut kept, &mut out);
    out.len() as u64
}
