//! A training job: from samples of one family to a model or dictionary that is proven to help.

use super::headers;
use std::sync::Arc;

use super::super::family::Family;
use super::super::{CodecId, Dictionary, PageSettings, encode, encode_pages};
use super::clusters::{self, Learn};
use super::{DICTIONARY_BYTES, OVERFLOW_DICTIONARY_BYTES, PART, TRAINING_PAGES};
use crate::CodecChoice;
use densite_typed::{Model, Outlook, PageContext, Purpose};

/// One sample in this many is held out, to judge the dictionary.
const HELD_OUT: usize = 5;
/// The most bytes of held-out samples that are used.
const JUDGED_BYTES: usize = 256 << 10;
/// A longer page is cut into samples of this length, so that there are enough samples.
const SAMPLE_MAX: usize = 8 << 10;
/// A dictionary must make held-out pages smaller by this part.
const BETTER: f64 = 0.02;
/// A dictionary must make pages smaller than a model does by this part, because it decodes more
/// slowly.
const SLOWER: f64 = 0.01;
/// Two models must make pages smaller than one does by this part, because some pages are tried with
/// both.
const TWICE: f64 = 0.04;
/// No dictionary is tried if the model takes less than this part of what zstd takes without a
/// dictionary,
const HOPELESS: f64 = 0.5;
/// or less than this part of what zstd takes for pages in one piece, where each page has the
/// previous ones as its dictionary. This check takes a thirtieth of the time of training a
/// dictionary.
const HOPELESS_TOGETHER: f64 = 0.9;
/// The most bytes to train on.
const TRAINED_BYTES: usize = 3 << 20;

/// Samples of a family, to train a dictionary or model from. See [`super::Learner::due`].
#[derive(Debug)]
pub struct TrainingJob {
    /// The family that gets the dictionary.
    pub family: Family,
    /// Pages of the family.
    pub(super) samples: Vec<Vec<u8>>,
    /// The largest dictionary that would pay for itself, in bytes.
    pub(super) max_bytes: usize,
    /// Bytes that the dictionary would be used for.
    pub(super) bytes: u64,
    /// How it would be used.
    pub(super) terms: Terms,
    /// The present dictionaries and models of the family.
    pub(super) current: Vec<Arc<Dictionary>>,
    /// How many threads train at the same time.
    pub(super) threads: usize,
    /// While it exists, the learner knows that the training job exists.
    pub(super) token: Arc<()>,
}

/// How pages are encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// zstd level.
    pub(super) level: i32,
    /// Which codecs are allowed.
    pub(super) choice: CodecChoice,
    /// Reserved bytes at the end of each page, which are not SQLite's.
    pub(super) reserved: usize,
    /// The samples stand for the whole database, and not only for its beginning.
    pub(super) even: bool,
}

/// The result of a training job.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingResult {
    /// The family that gets the dictionary.
    pub family: Family,
    /// Its codec: zstd with dictionary, or typed.
    pub codec: CodecId,
    /// The dictionary or model.
    pub bytes: Vec<u8>,
    /// Stored / raw of the pages that it was judged by.
    pub ratio: f64,
}

impl TrainingJob {
    /// Trains on so many threads at the same time, for a caller that waits for the result. The
    /// result is the same.
    pub fn on(self, threads: usize) -> TrainingJob {
        TrainingJob { threads, ..self }
    }

    /// Bytes of all samples.
    pub fn sample_bytes(&self) -> usize {
        self.samples.iter().map(Vec::len).sum()
    }

    /// Removes samples that match `which`, and reduces the sizes in proportion.
    pub(super) fn leave_out(&mut self, which: impl Fn(&[u8]) -> bool) {
        let before = self.samples.len().max(1) as u64;
        self.samples.retain(|page| !which(page));
        self.bytes = self.bytes * self.samples.len() as u64 / before;
        self.max_bytes = self.max_bytes.min(worth(self.family, self.bytes));
    }

    /// The learner treats the training job as existing while this exists. A caller keeps it until
    /// the result is installed: otherwise it would matter when the pool is done.
    pub fn token(&self) -> Arc<()> {
        Arc::clone(&self.token)
    }

    /// Whether the family has no dictionary yet, so that pages are stored in a larger form until
    /// the training job ends.
    pub fn is_first(&self) -> bool {
        self.current.is_empty()
    }

    /// Trains a model and a dictionary and judges them by held-out samples, at the level of the
    /// terms.
    ///
    /// Returns the better one if it makes those samples at least 2 % smaller than the family's
    /// present dictionaries do, and repays its own bytes. The model wins unless the dictionary is
    /// smaller by more than 1 %, because it decodes faster. Returns two models if the samples are
    /// of two kinds (see `clusters`). Otherwise returns nothing.
    ///
    /// Takes 0.02 to 0.5 s, and less if a trial shows that there is nothing to learn (see `trial`).
    pub fn train(self) -> Vec<TrainingResult> {
        if self.samples.len() < TRAINING_PAGES {
            return Vec::new();
        }
        let (held_out, trained): (Vec<_>, Vec<_>) = self
            .samples
            .iter()
            .enumerate()
            .partition(|(i, _)| i % HELD_OUT == 0);
        let trained: Vec<&[u8]> = trained
            .into_iter()
            .map(|(_, page)| page.as_slice())
            .collect();
        let mut held_out: Vec<&[u8]> = held_out
            .into_iter()
            .map(|(_, page)| page.as_slice())
            .collect();
        let mut raw = 0;
        held_out.retain(|page| {
            raw += page.len();
            raw <= JUDGED_BYTES + page.len()
        });
        if !self.is_first() && !self.may_bring_something(&held_out, &trained) {
            return Vec::new();
        }
        let raw: usize = held_out.iter().map(|page| page.len()).sum();
        let choice = self.terms.choice;
        let before = self.judge(&held_out, &[], choice);
        let headers = headers(held_out.len());
        let judged = |codec: CodecId, bytes: Vec<Vec<u8>>| {
            let new = bytes.into_iter().map(|b| Dictionary::new(0, codec, b));
            let new: Vec<Dictionary> = new.collect();
            let after = self.judge(&held_out, &new, choice);
            // Its own bytes, in the proportion of the judged bytes to those it is used for.
            let own: usize = new.iter().map(|d| d.to_stored().1.len()).sum();
            let own = own as f64 / self.bytes.max(1) as f64 * raw as f64;
            (new, after, after as f64 + own)
        };
        let model = self
            .model(&trained)
            .map(|m| judged(CodecId::TYPED, vec![m.to_bytes()]));
        let may_help = match (&model, choice) {
            (_, CodecChoice::Typed) => false,
            (None, _) => true,
            (Some(model), _) => self.dictionary_may_help(model.2, &held_out, &trained),
        };
        let dictionary = if may_help {
            train(&trained, self.max_bytes).map(|d| judged(CodecId::ZSTD_DICT, vec![d]))
        } else {
            None
        };
        let one = model.as_ref().map(|(_, _, bytes)| *bytes);
        let one = one.filter(|_| self.terms.even || !self.is_first());
        let two = one.and_then(|bytes| {
            let least = (dictionary.as_ref()).map_or(bytes, |(_, _, other)| bytes.min(*other));
            let terms = clusters::Terms {
                reserved: self.terms.reserved,
                bytes: self.bytes,
                below: (least + headers) / (bytes + headers),
            };
            let learn = |pages: &[&[u8]], by| self.model_by(pages, by);
            let two = clusters::two_kinds(&trained, &terms, &learn)?;
            Some(judged(CodecId::TYPED, two.map(|m| m.to_bytes()).to_vec()))
        });
        // The model comes first, and stays unless another is better by that factor.
        let all = model.into_iter().chain(dictionary).chain(two);
        let best = all.reduce(|best, next| {
            let much = if next.0.len() > 1 { TWICE } else { SLOWER };
            if next.2 + headers < (best.2 + headers) * (1.0 - much) {
                next
            } else {
                best
            }
        });
        let Some((new, after, with_own)) = best else {
            return Vec::new();
        };
        let saved = before as f64 - after as f64;
        if with_own >= before as f64 || saved < (before as f64 + headers) * BETTER {
            return Vec::new();
        }
        let ratio = after as f64 / raw as f64;
        new.into_iter()
            .map(|new| TrainingResult {
                family: self.family,
                codec: new.codec(),
                ratio,
                bytes: new.into_bytes(),
            })
            .collect()
    }

    /// Trains a model, if typed pages are allowed and the family is one of b-tree pages.
    pub(super) fn model(&self, trained: &[&[u8]]) -> Option<Model> {
        self.model_by(trained, Model::learn)
    }

    /// The same by a given function.
    fn model_by(&self, trained: &[&[u8]], learn: Learn) -> Option<Model> {
        if self.family == Family::OTHER
            || matches!(self.terms.choice, CodecChoice::Zstd | CodecChoice::Raw)
        {
            return None;
        }
        let outlook = if self.terms.even {
            Outlook::Whole
        } else {
            Outlook::Beginning
        };
        let purpose = Purpose {
            reserved: self.terms.reserved,
            bytes: self.bytes,
            outlook,
            threads: self.threads,
        };
        learn(trained, &purpose)
    }

    /// The bytes that pages take if each gets the best of the family's dictionaries and of `new`.
    pub(super) fn judge(&self, pages: &[&[u8]], new: &[Dictionary], choice: CodecChoice) -> usize {
        let all: Vec<&Dictionary> = self.current.iter().map(|d| &**d).chain(new).collect();
        if all.is_empty() {
            return self.judge_alone(pages, choice);
        }
        let best = |page: &&[u8]| {
            let all = all.iter().map(|d| self.cost(page, Some(d), choice));
            all.min().unwrap_or(0)
        };
        pages.iter().map(best).sum()
    }

    /// Bytes that pages take without a dictionary.
    pub(super) fn judge_alone(&self, pages: &[&[u8]], choice: CodecChoice) -> usize {
        pages.iter().map(|page| self.cost(page, None, choice)).sum()
    }

    /// Whether a dictionary trained on `trained` may make pages smaller that take `model` bytes
    /// with the model.
    pub(super) fn dictionary_may_help(
        &self,
        model: f64,
        held_out: &[&[u8]],
        trained: &[&[u8]],
    ) -> bool {
        let raw: usize = held_out.iter().map(|page| page.len()).sum();
        model > self.judge_alone(held_out, CodecChoice::Zstd) as f64 * HOPELESS
            && model > self.together(trained) * raw as f64 * HOPELESS_TOGETHER
    }

    /// Stored / raw of pages that are coded in one piece by zstd.
    pub(super) fn together(&self, pages: &[&[u8]]) -> f64 {
        let mut all = Vec::new();
        for page in pages {
            if all.len() + page.len() > JUDGED_BYTES {
                break;
            }
            all.extend_from_slice(page);
        }
        let mut out = Vec::new();
        encode(&all, self.terms.level, None, CodecChoice::Zstd, &mut out);
        out.len() as f64 / all.len().max(1) as f64
    }

    fn cost(&self, page: &[u8], dictionary: Option<&Dictionary>, choice: CodecChoice) -> usize {
        let settings = PageSettings {
            level: self.terms.level,
            choice,
            family: dictionary,
            other: None,
            checked: true,
        };
        // Any page number at which pages are scrubbed: samples do not know theirs.
        let context = PageContext {
            number: 3,
            pages: 0,
            reserved: self.terms.reserved,
        };
        let (mut kept, mut out) = (Vec::new(), Vec::new());
        encode_pages(page, page.len(), &context, &settings, &mut kept, &mut out);
        out.len()
    }
}

/// The size of a dictionary, in bytes, that pays for itself if it is used for so many bytes of a
/// family.
pub(super) fn worth(family: Family, bytes: u64) -> usize {
    let (low, mut high) = DICTIONARY_BYTES;
    if family == Family::OTHER {
        high = OVERFLOW_DICTIONARY_BYTES;
    }
    usize::try_from(bytes / PART)
        .unwrap_or(high)
        .clamp(low, high)
}

/// Trains a dictionary of at most `max_bytes` from samples; `None` if there are too few.
/// Deterministic.
pub(super) fn train(samples: &[&[u8]], max_bytes: usize) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let mut lengths = Vec::new();
    for piece in samples.iter().flat_map(|page| page.chunks(SAMPLE_MAX)) {
        if all.len() + piece.len() > TRAINED_BYTES {
            break;
        }
        all.extend_from_slice(piece);
        lengths.push(piece.len());
    }
    // The trainer needs some tens of samples and rejects a handful. It makes nothing smaller than
    // 256 bytes.
    if lengths.len() < 8 || max_bytes < 256 {
        return None;
    }
    zstd::dict::from_continuous(&all, &lengths, max_bytes).ok()
}
