//! Separates two kinds of pages in one family.
//!
//! Tables of one shape are one family, whatever their contents. Models show whether the samples are
//! of two kinds: a model trained on one page codes pages of the same kind well and the others
//! badly. From there it is k-means with two means: a mean is a model, and a distance is the length
//! of a page's frame.

use super::headers;
use densite_typed::{Model, Outlook, PageContext};

/// The number of pages that are examined first.
const SOME: usize = 64;
/// Pages are of two kinds if their relative costs, by a model of one kind, differ by at least this
/// factor.
const APART: f64 = 1.25;
/// This part of the pages, at each end, is ignored as outliers.
const TAIL: usize = 16;
/// How often pages are assigned to sides again.
const TURNS: usize = 2;
/// If a model reduces pages to less than one part in this many, they are not split: the headers of
/// their frames then take most of the space.
const SMALL: usize = 64;
/// A kind has at least this many pages.
const FEW: usize = 4;

/// [`Model::learn`] or [`Model::learn_roughly`].
pub(super) type Learn = fn(&[&[u8]], usize, u64, Outlook) -> Option<Model>;

/// Learns a model of these pages by this function.
type LearnBy<'a> = &'a dyn Fn(&[&[u8]], Learn) -> Option<Model>;

/// Pages of two kinds.
type Sides<'a> = (Vec<&'a [u8]>, Vec<&'a [u8]>);

/// A model for each of two kinds of pages; `None` if they seem to be of one kind. The caller
/// decides whether two models are worth their bytes.
pub(super) fn two_kinds(
    trained: &[&[u8]],
    reserved: usize,
    learn: LearnBy<'_>,
) -> Option<[Model; 2]> {
    let some: Vec<&[u8]> = trained
        .iter()
        .step_by(trained.len().div_ceil(SOME).max(1))
        .copied()
        .collect();
    let cost = |page: &[u8], model: &Model| cost(page, reserved, model);
    // Rough models are good enough to find the sides.
    let rough = |pages: &[&[u8]]| learn(pages, Model::learn_roughly);
    let mut sides = sides(&some, &rough(&some)?, &rough(some.get(..1)?)?, reserved)?;
    let both = |sides: &Sides<'_>, by: Learn| {
        let enough = sides.0.len().min(sides.1.len()) >= FEW;
        enough.then(|| Some([learn(&sides.0, by)?, learn(&sides.1, by)?]))?
    };
    for turn in (0..=TURNS).rev() {
        let [one, other] = both(&sides, Model::learn_roughly)?;
        let pages = if turn == 0 { trained } else { &some };
        sides = pages
            .iter()
            .partition(|page| cost(page, &one) < cost(page, &other));
    }
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
