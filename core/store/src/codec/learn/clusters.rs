//! Separates two kinds of pages in one family.
//!
//! Tables of one shape are one family, whatever their contents. Models show whether the samples are
//! of two kinds: a model trained on one page codes pages of the same kind well and the others
//! badly. From there it is k-means with two means: a mean is a model, and a distance is the length
//! of a page's frame.

use super::headers;
use densite_typed::{Model, PageContext, Purpose};

/// The number of pages that are examined first.
const SOME: usize = 64;
/// Pages are of two kinds if their relative costs, by a model of one kind, differ by at least this
/// factor.
const APART: f64 = 1.25;
/// This part of the pages, at each end, is ignored as outliers.
const TAIL: usize = 16;
/// How often models are trained on both sides.
const TURNS: usize = 3;
/// If a model reduces pages to less than one part in this many, they are not split: the headers of
/// their frames then take most of the space.
const SMALL: usize = 64;
/// A kind has at least this many pages.
const FEW: usize = 4;
/// Rough models of two kinds must save this part of the bytes of one, or no others are trained.
const PROMISING: f64 = 0.03;
/// Others save about so many times what rough ones do, at most.
const MORE: f64 = 3.0;

/// [`Model::learn`] or [`Model::learn_roughly`].
pub(super) type Learn = fn(&[&[u8]], &Purpose) -> Option<Model>;

/// Learns a model of these pages by this function.
type LearnBy<'a> = &'a dyn Fn(&[&[u8]], Learn) -> Option<Model>;

/// Pages of two kinds.
type Sides<'a> = (Vec<&'a [u8]>, Vec<&'a [u8]>);

/// What two models are for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Reserved bytes at the end of each page.
    pub(super) reserved: usize,
    /// The bytes of pages that they will be used for.
    pub(super) bytes: u64,
    /// They must take less than this part of what one model takes.
    pub(super) below: f64,
}

/// A model for each of two kinds of pages; `None` if they seem to be of one kind, or if rough
/// models of two kinds save too little. The caller decides whether two models are worth their
/// bytes.
pub(super) fn two_kinds(
    trained: &[&[u8]],
    terms: &Terms,
    learn: LearnBy<'_>,
) -> Option<[Model; 2]> {
    let step = trained.len().div_ceil(SOME).max(1);
    let some: Vec<&[u8]> = trained.iter().step_by(step).copied().collect();
    let costs = |model: &Model| -> Vec<f64> {
        let costs = some.iter().map(|page| cost(page, terms.reserved, model));
        costs.collect()
    };
    // A model's own bytes count in the proportion of these pages to all.
    let raw: usize = some.iter().map(|page| page.len()).sum();
    let own = |model: &Model| {
        let part = raw as f64 / terms.bytes.max(1) as f64;
        model.to_bytes().len() as f64 * part
    };
    // Rough models are good enough to find the sides.
    let rough = |pages: &[&[u8]]| learn(pages, Model::learn_roughly);
    let both = |sides: &Sides<'_>, by: Learn| {
        let enough = sides.0.len().min(sides.1.len()) >= FEW;
        enough.then(|| Some([learn(&sides.0, by)?, learn(&sides.1, by)?]))?
    };
    let seed = rough(some.get(..1)?)?;
    let one = rough(&some)?;
    let mut sides = sides(&some, &one, &seed, terms.reserved)?;
    let one = costs(&one).iter().sum::<f64>() + own(&one);
    let mut turn = 0;
    let [near, far] = loop {
        turn += 1;
        let models = both(&sides, Model::learn_roughly)?;
        let [near, far] = models.each_ref().map(costs);
        let mut two = own(&models[0]) + own(&models[1]);
        let mut next = Sides::default();
        for (page, (near, far)) in some.iter().zip(near.iter().zip(&far)) {
            two += near.min(*far);
            let side = if near < far { &mut next.0 } else { &mut next.1 };
            side.push(*page);
        }
        let saved = 1.0 - two / one;
        if saved < PROMISING || 1.0 - saved * MORE > terms.below {
            return None;
        }
        if turn == TURNS || next == sides {
            break models;
        }
        sides = next;
    };
    let cost = |page, model| cost(page, terms.reserved, model);
    let sides = trained
        .iter()
        .partition(|page| cost(page, &near) < cost(page, &far));
    both(&sides, Model::learn)
}

/// Splits `pages` into those near the page that `seed` was trained on, and the others. `all` is a
/// model of all of them. `None` if they seem to be of one kind.
pub(super) fn sides<'a>(
    pages: &[&'a [u8]],
    all: &Model,
    seed: &Model,
    reserved: usize,
) -> Option<Sides<'a>> {
    let raw: usize = pages.iter().map(|page| page.len()).sum();
    let costs: Vec<f64> = pages.iter().map(|page| cost(page, reserved, all)).collect();
    if costs.iter().sum::<f64>() - headers(pages.len()) < (raw / SMALL) as f64 {
        return None;
    }
    let strange = |(page, all): (&&[u8], &f64)| cost(page, reserved, seed) / all;
    let strange: Vec<f64> = pages.iter().zip(&costs).map(strange).collect();
    let mut sorted = strange.clone();
    sorted.sort_by(f64::total_cmp);
    let tail = sorted.len() / TAIL;
    let (near, far) = (
        *sorted.get(tail)?,
        *sorted.get(sorted.len().checked_sub(tail + 1)?)?,
    );
    if far < near * APART {
        return None;
    }
    let middle = (near * far).sqrt();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for (page, strange) in pages.iter().zip(&strange) {
        let side = if *strange < middle {
            &mut one
        } else {
            &mut other
        };
        side.push(*page);
    }
    Some((one, other))
}

/// The length of the frame of a page, in bytes.
fn cost(page: &[u8], reserved: usize, model: &Model) -> f64 {
    // Any page number at which pages are scrubbed: samples do not know theirs.
    let context = PageContext {
        number: 3,
        pages: 0,
        reserved,
    };
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    let coded = densite_typed::encode(page, &context, model, &mut kept, &mut out);
    let len = if coded { out.len() } else { page.len() };
    headers(1) + len as f64
}
