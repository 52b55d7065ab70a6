//! Telling apart what looks alike: two kinds of pages in one family.
//!
//! Tables of one shape are one family, whatever is in them. Whether the samples are of two kinds, models tell: one that was learned from one
//! page alone codes pages of its own kind well and the others badly. From there it is k-means with two means, where a mean is a
//! model and a distance is the length of a page's payload.

use densite_typed::{Model, PageContext};

/// Pages that are looked at first.
const SOME: usize = 64;
/// Pages of two kinds cost this many times more or less, one with the other, by a model of one kind.
const APART: f64 = 1.25;
/// Of the pages this part, at both ends, may be as it likes.
const TAIL: usize = 16;
/// How often pages change sides.
const TURNS: usize = 2;
/// Fewer pages are no kind.
const FEW: usize = 4;

/// A model for each of two kinds of pages; `None` if they seem to be of one kind. Whether two models are worth their bytes, the caller judges.
pub(super) fn two_kinds(
    taught: &[&[u8]],
    reserved: usize,
    learn: &dyn Fn(&[&[u8]]) -> Option<Model>,
) -> Option<[Model; 2]> {
    let some: Vec<&[u8]> = taught
        .iter()
        .step_by(taught.len().div_ceil(SOME).max(1))
        .copied()
        .collect();
    let (all, seed) = (learn(&some)?, learn(some.get(..1)?)?);
    let cost = |page: &[u8], model: &Model| cost(page, reserved, model);
    let strange = |page: &[u8]| cost(page, &seed) / cost(page, &all);
    let mut sorted: Vec<f64> = some.iter().map(|page| strange(page)).collect();
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
    let mut sides: (Vec<&[u8]>, Vec<&[u8]>) = some.iter().partition(|page| strange(page) < middle);
    let both = |sides: &(Vec<&[u8]>, Vec<&[u8]>)| {
        let enough = sides.0.len().min(sides.1.len()) >= FEW;
        enough.then(|| Some([learn(&sides.0)?, learn(&sides.1)?]))?
    };
    for turn in (0..=TURNS).rev() {
        let [one, other] = both(&sides)?;
        let pages = if turn == 0 { taught } else { &some };
        sides = pages
            .iter()
            .partition(|page| cost(page, &one) < cost(page, &other));
    }
    both(&sides)
}

/// Bytes of the payload of a page, at least 1.
fn cost(page: &[u8], reserved: usize, model: &Model) -> f64 {
    // Any place where pages may be scrubbed: samples do not know theirs.
    let context = PageContext {
        number: 3,
        pages: 0,
        reserved,
    };
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    let coded = densite_typed::encode(page, &context, model, &mut kept, &mut out);
    let len = if coded { out.len() } else { page.len() };
    len.max(1) as f64
}
