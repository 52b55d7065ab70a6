//! A trial finds out from a few pages whether a later training job may have a result.
//!
//! A family is trained again when it has grown or drifted (see `family_statistics`). Mostly the job
//! has no result, for example if a table has numbers that only grow. Such a job takes as long as
//! encoding a thousand pages. If all models of a family are of numbers, a few pages show whether
//! new ones would be better. Text is different: its symbols and dictionaries improve with more
//! samples.

use std::sync::Arc;

use super::super::{CodecId, Dictionary};
use super::clusters;
use super::headers;
use super::training_job::TrainingJob;
use densite_typed::Model;

/// The number of pages that a trial trains on, and the number that it judges by.
const PAGES: usize = 32;
/// The part that a model from so few pages must save. It is lower than the limit of a training job,
/// which has more samples.
const PROMISING: f64 = 0.015;

impl TrainingJob {
    /// Whether the whole training job is worth its time.
    pub(super) fn may_bring_something(&self, held_out: &[&[u8]], trained: &[&[u8]]) -> bool {
        let numbers = |d: &Arc<Dictionary>| d.model().is_some_and(Model::is_of_numbers);
        if trained.len() <= PAGES || !self.current.iter().all(numbers) {
            return true;
        }
        let (trained, held_out) = (some(trained), some(held_out));
        let reserved = self.terms.reserved;
        let Some(model) = self.model(&trained).filter(Model::is_of_numbers) else {
            return true;
        };
        let mut new = vec![model];
        // Tables of one shape are one family, and one model for two of them suits neither.
        let seed = trained.get(..1).and_then(|one| self.model(one));
        if let (Some(seed), Some(model)) = (seed, new.first())
            && let Some((one, other)) = clusters::sides(&trained, model, &seed, reserved)
        {
            new.extend([one, other].iter().filter_map(|side| self.model(side)));
        }
        let new = new.iter().map(Model::to_bytes);
        let new: Vec<Dictionary> = new
            .map(|bytes| Dictionary::new(0, CodecId::TYPED, bytes))
            .collect();
        let choice = self.terms.choice;
        let before = self.judge(&held_out, &[], choice) as f64;
        let after = self.judge(&held_out, &new, choice) as f64;
        before - after > (before + headers(held_out.len())) * PROMISING
    }
}

/// At most [`PAGES`] of them, evenly spread.
fn some<'a>(pages: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let step = pages.len().div_ceil(PAGES).max(1);
    pages.iter().step_by(step).copied().collect()
}
