//! A training job: from samples of one family to a model or dictionary that is proven to help.

use super::headers;
use std::sync::Arc;

use super::super::family::Family;
use super::super::{CodecId, Dictionary, PageSettings, encode, encode_pages};
use super::{DICTIONARY_BYTES, PART, TRAINING_PAGES, clusters};
use crate::CodecChoice;
use densite_typed::{Model, Outlook, PageContext};

/// One sample in this many is held out, to judge the dictionary by.
const HELD_OUT: usize = 5;
/// Most bytes of held-out samples that are judged by.
const JUDGED_BYTES: usize = 256 << 10;
/// A longer page is cut into samples of this length, of which there are then enough.
const SAMPLE_MAX: usize = 8 << 10;
/// A dictionary must make held-out pages smaller by this part.
const BETTER: f64 = 0.02;
/// A dictionary must make pages smaller than a model does by this part.
const SLOWER: f64 = 0.01;
/// Two models must make pages smaller than one by this part: some pages are tried with both.
const TWICE: f64 = 0.04;
/// A model that takes less than this part of what zstd takes without a dictionary is not to be reached by one with a dictionary,
const HOPELESS: f64 = 0.5;
/// nor is one that takes less than this part of what zstd takes for pages in one piece, each of which has those before it for a dictionary. To find
/// that out takes a thirtieth of the time of making one.
const HOPELESS_TOGETHER: f64 = 0.9;
/// Most bytes to train on.
const TRAINED_BYTES: usize = 3 << 20;

/// Samples of a family, to make a dictionary from. See [`super::Learner::due`].
#[derive(Debug)]
pub struct TrainingJob {
    /// Whose dictionary it will be.
    pub family: Family,
    /// Pages of the family.
    pub(super) samples: Vec<Vec<u8>>,
    /// The largest dictionary that would pay for itself, in bytes.
    pub(super) max_bytes: usize,
    /// Bytes that the dictionary would be used for.
    pub(super) bytes: u64,
    /// How it would be used.
    pub(super) terms: Terms,
    /// What the family has now.
    pub(super) current: Vec<Arc<Dictionary>>,
    /// While it exists the learner knows that the training job does.
    pub(super) _token: Arc<()>,
}

/// How pages are encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// zstd level.
    pub(super) level: i32,
    /// Which codecs may be used.
    pub(super) choice: CodecChoice,
    /// Bytes at the end of each page that are not SQLite's.
    pub(super) reserved: usize,
    /// The samples stand for the whole database, and not for its beginning.
    pub(super) even: bool,
}

/// What a training job brought.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingResult {
    /// Whose dictionary it is.
    pub family: Family,
    /// What it is for: zstd with dictionary, or typed.
    pub codec: CodecId,
    /// The dictionary or model.
    pub bytes: Vec<u8>,
    /// Stored / raw of the pages it was judged by.
    pub ratio: f64,
}

impl TrainingJob {
    /// Leaves samples out that turned out to be none, and with them what they stand for.
    pub(super) fn leave_out(&mut self, which: impl Fn(&[u8]) -> bool) {
        let before = self.samples.len().max(1) as u64;
        self.samples.retain(|page| !which(page));
        self.bytes = self.bytes * self.samples.len() as u64 / before;
        self.max_bytes = self.max_bytes.min(worth(self.bytes));
    }

    /// Whether the family has no dictionary yet, so that pages are stored the larger way until the training job ends.
    pub fn is_first(&self) -> bool {
        self.current.is_empty()
    }

    /// Trains a model and a dictionary and judges them by samples they have not seen, at the level they will be used at. Nothing unless the better
    /// one makes them smaller by 2 % than what the family has (or nothing) does, and repays its own bytes. A model is better unless the dictionary is
    /// smaller by more than 1 %, for it decodes faster. Two models, if the samples are of two kinds (see `clusters`). Takes 0.02 to 0.5 s, and less where
    /// a trial shows that the family has nothing to learn (see `trial`).
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
            // Its own bytes, as a part of what they are for.
            let own: usize = new.iter().map(|d| d.bytes().len()).sum();
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
        let two = match &model {
            Some(_) if self.terms.even || !self.is_first() => {
                clusters::two_kinds(&trained, self.terms.reserved, &|pages| self.model(pages))
                    .map(|two| judged(CodecId::TYPED, two.map(|m| m.to_bytes()).to_vec()))
            }
            _ => None,
        };
        // The model comes first, and stays unless another is that much better.
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

    /// Learns a model, if pages may be typed and the family is one of b-tree pages.
    pub(super) fn model(&self, trained: &[&[u8]]) -> Option<Model> {
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
        Model::learn(trained, self.terms.reserved, self.bytes, outlook)
    }

    /// Bytes that pages take when each gets what suits it best of what the family has and of what is `new`.
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

    /// Whether pages that a model makes `model` bytes of may become smaller by a dictionary made from those that were `trained`.
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
        // Any place where pages may be scrubbed: samples do not know theirs.
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

/// The size of a dictionary that pays for itself with so many bytes.
pub(super) fn worth(bytes: u64) -> usize {
    let (low, high) = DICTIONARY_BYTES;
    usize::try_from(bytes / PART)
        .unwrap_or(high)
        .clamp(low, high)
}

/// Makes a dictionary of at most `max_bytes` from samples of what it is for; `None` when there are too few. Deterministic.
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
    // The trainer wants some tens of samples and refuses a handful; it makes nothing smaller than 256 bytes.
    if lengths.len() < 8 || max_bytes < 256 {
        return None;
    }
    zstd::dict::from_continuous(&all, &lengths, max_bytes).ok()
}
