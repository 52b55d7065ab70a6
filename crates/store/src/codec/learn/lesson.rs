//! A lesson: from samples of one family to a dictionary that is proven to help.

use std::sync::Arc;

use super::super::family::Family;
use super::super::{Dictionary, encode};
use super::LESSON_PAGES;
use crate::CodecChoice;

/// One sample in this many is held out, to judge the dictionary by.
const HELD_OUT: usize = 5;
/// Most bytes of held-out samples that are judged by.
const JUDGED_BYTES: usize = 256 << 10;
/// A longer page is cut into samples of this length, of which there are then enough.
const SAMPLE_MAX: usize = 8 << 10;
/// A dictionary must make held-out pages smaller by this part.
const BETTER: f64 = 0.02;
/// Most bytes to train on.
const TRAINED_BYTES: usize = 3 << 20;

/// Samples of a family, to make a dictionary from. See [`super::Learner::due`].
#[derive(Debug)]
pub struct Lesson {
    /// Whose dictionary it will be.
    pub family: Family,
    /// Pages of the family.
    pub(super) samples: Vec<Vec<u8>>,
    /// The largest dictionary that would pay for itself, in bytes.
    pub(super) max_bytes: usize,
    /// Bytes that the dictionary would be used for.
    pub(super) bytes: u64,
    /// The level it would be used at.
    pub(super) level: i32,
    /// What the family has now.
    pub(super) current: Option<Arc<Dictionary>>,
    /// While it exists the learner knows that the lesson does.
    pub(super) _token: Arc<()>,
}

/// What a lesson brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// Whose dictionary it is.
    pub family: Family,
    /// The dictionary.
    pub bytes: Vec<u8>,
    /// Stored / raw of the pages it was judged by.
    pub ratio: f64,
}

impl Lesson {
    /// Whether the family has no dictionary yet, so that pages are stored the larger way until the lesson ends.
    pub fn is_first(&self) -> bool {
        self.current.is_none()
    }

    /// Trains a dictionary and judges it by samples it has not seen, at the level it will be used at. `None` unless it makes them
    /// smaller by 2 % than the family's dictionary (or none) does, and repays its own bytes. Takes 0.02 to 0.1 s.
    pub fn train(self) -> Option<Trained> {
        if self.samples.len() < LESSON_PAGES {
            return None;
        }
        let (held_out, taught): (Vec<_>, Vec<_>) = self
            .samples
            .iter()
            .enumerate()
            .partition(|(i, _)| i % HELD_OUT == 0);
        let taught: Vec<&[u8]> = taught
            .into_iter()
            .map(|(_, page)| page.as_slice())
            .collect();
        let new = Dictionary::new(0, train(&taught, self.max_bytes)?);
        let (mut raw, mut before, mut after) = (0, 0, 0);
        let mut out = Vec::new();
        for (_, page) in held_out {
            if raw >= JUDGED_BYTES {
                break;
            }
            raw += page.len();
            for (dict, sum) in [
                (self.current.as_deref(), &mut before),
                (Some(&new), &mut after),
            ] {
                out.clear();
                encode(page, self.level, dict, CodecChoice::Zstd, &mut out);
                *sum += out.len();
            }
        }
        let saved = before as f64 - after as f64;
        let repaid = saved / raw.max(1) as f64 * self.bytes as f64;
        if saved <= 0.0 || saved < before as f64 * BETTER || repaid < new.bytes().len() as f64 {
            return None;
        }
        Some(Trained {
            family: self.family,
            ratio: after as f64 / raw as f64,
            bytes: new.into_bytes(),
        })
    }
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
