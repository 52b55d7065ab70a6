//! Chooses the dictionary of its family that encodes a page best.
//!
//! Tables and indexes of one shape are one family (see `family`), and a dictionary trained on one
//! of them may not suit another. So a family can have several dictionaries or models, and a page
//! gets the one that makes it smallest. Trying all of them takes several times as long, but
//! adjacent pages mostly belong to one table. So a page is tried with the dictionary of the
//! previous page of its family. The others are tried only if the ratio is worse than that page's by
//! more than [`SURPRISE`].

use super::family::Family;
use super::page::{PageSettings, encode_pages};
use super::{Dictionary, Encoded};
use crate::CodecChoice;
use densite_typed::PageContext;
use std::collections::HashMap;
use std::sync::Arc;

/// The most dictionaries of a family that are tried.
pub(crate) const CANDIDATES: usize = 4;
/// A page whose ratio is worse than that of the previous one by this factor may belong to another
/// table.
const SURPRISE: f64 = 1.25;

/// The dictionaries and models of families, the newest first.
pub(crate) type TrainedFamilies = HashMap<Family, Vec<Arc<Dictionary>>>;

/// Pages of one family, adjacent and of one length.
pub(crate) struct Pages<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) page_size: usize,
    /// The place of the first of them.
    pub(crate) context: PageContext,
    pub(crate) family: Family,
}

/// Encodes pages one after the other, each with the dictionary that suits it.
pub(crate) struct Chooser<'a> {
    level: i32,
    choice: CodecChoice,
    trained: &'a TrainedFamilies,
    /// For each family: the index of the dictionary that the last fully tried page got, and stored
    /// / raw of that page.
    last: HashMap<Family, (usize, f64)>,
    other: Vec<u8>,
    /// See [`PageSettings::checked`].
    checked: bool,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(
        level: i32,
        choice: CodecChoice,
        trained: &'a TrainedFamilies,
        checked: bool,
    ) -> Chooser<'a> {
        Chooser {
            checked,
            level,
            choice,
            trained,
            last: HashMap::new(),
            other: Vec::new(),
        }
    }

    /// The settings for pages of a family without trying: those of the last fully tried page.
    pub(crate) fn settings(&self, family: Family) -> PageSettings<'a> {
        let place = self.last.get(&family).map_or(0, |(place, _)| *place);
        self.settings_at(family, place)
    }

    /// The same, with the family's dictionary at index `place`.
    fn settings_at(&self, family: Family, place: usize) -> PageSettings<'a> {
        let trained = self.trained;
        let at = |family: Family, place: usize| -> Option<&'a Dictionary> {
            Some(trained.get(&family)?.get(place)?)
        };
        PageSettings {
            level: self.level,
            choice: self.choice,
            family: at(family, place),
            other: at(Family::OTHER, 0),
            checked: self.checked,
        }
    }

    /// Like [`encode_pages`]: appends the payload to `out`. `kept` becomes what decoding it gives.
    pub(crate) fn encode(
        &mut self,
        pages: &Pages<'_>,
        kept: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let by = |settings: PageSettings<'_>, kept: &mut Vec<u8>, out: &mut Vec<u8>| {
            let Pages {
                raw,
                page_size,
                context,
                ..
            } = pages;
            encode_pages(raw, *page_size, context, &settings, kept, out)
        };
        let candidates = self.trained.get(&pages.family).map_or(0, Vec::len);
        let last = self.last.get(&pages.family).copied();
        let first = last.map_or(0, |(place, _)| place);
        let before = out.len();
        let mut encoded = by(self.settings_at(pages.family, first), kept, out);
        if candidates < 2 {
            return encoded;
        }
        let ratio = |len: usize| len as f64 / pages.raw.len().max(1) as f64;
        if last.is_some_and(|(_, usual)| ratio(out.len() - before) <= usual * SURPRISE) {
            return encoded;
        }
        let mut best = first;
        for place in (0..candidates).filter(|place| *place != first) {
            self.other.clear();
            let settings = self.settings_at(pages.family, place);
            let tried = by(settings, kept, &mut self.other);
            if self.other.len() < out.len() - before {
                out.truncate(before);
                out.extend_from_slice(&self.other);
                (best, encoded) = (place, tried);
            }
        }
        let usual = ratio(out.len() - before);
        self.last.insert(pages.family, (best, usual));
        encoded
    }
}

#[cfg(test)]
mod tests {
    use super::super::learn::Learner;
    use super::super::tests::page;
    use super::*;

    /// Pages with words that no other kind of page has.
    fn other_page(n: u64) -> Vec<u8> {
        page(n, 4096).iter().map(|b| b ^ 0x15).collect()
    }

    fn trained(of: impl Fn(u64) -> Vec<u8>, id: u32) -> Arc<Dictionary> {
        let mut learner = Learner::new();
        for n in 0..200 {
            learner.observe(Family::OTHER, &of(n));
        }
        let training_job = learner.due().expect("enough pages");
        let trained = training_job.train().pop().expect("they are alike");
        Arc::new(Dictionary::new(id, trained.codec, trained.bytes))
    }

    #[test]
    fn every_page_gets_the_dictionary_that_suits_it() {
        const FAMILY: Family = Family(0x2003);
        let (one, two) = (trained(|n| page(n, 4096), 1), trained(other_page, 2));
        let both = TrainedFamilies::from([(FAMILY, vec![Arc::clone(&two), Arc::clone(&one)])]);
        let mut chooser = Chooser::new(3, CodecChoice::Zstd, &both, true);
        let (mut kept, mut out) = (Vec::new(), Vec::new());
        for n in 1000..1200 {
            // Runs of pages of one kind, and single ones.
            let kind = u64::from((n % 64 >= 40) != (n % 7 == 0));
            let raw = if kind == 0 {
                page(n, 4096)
            } else {
                other_page(n)
            };
            let context = PageContext {
                number: 3,
                pages: 0,
                reserved: 0,
            };
            let pages = Pages {
                raw: &raw,
                page_size: 4096,
                context,
                family: FAMILY,
            };
            let before = out.len();
            let encoded = chooser.encode(&pages, &mut kept, &mut out);
            assert_eq!(encoded.dict_id, 1 + kind as u32, "page {n}");
            let used = if kind == 0 { &one } else { &two };
            let mut back = vec![0; 4096];
            super::super::decode(encoded.codec, &out[before..], Some(used), &mut back)
                .expect("decodes");
            assert!(back == raw && kept == raw);
        }
    }
}
