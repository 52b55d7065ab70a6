//! Learns the default parameters of streams. Of some candidates, it takes those with which the
//! sample pages have the fewest bits.

use super::Outlook;
use crate::bits::{mask, width_of};
use crate::ints::{DefaultParameters, Params, Shape, Stats};
use crate::split::Split;

/// Bits of a page in which one stream deviates from its default parameters: every other stream then
/// has a bit which says that it does not.
const DEVIANT_BITS: usize = 24;
/// The part of the bits that a relation must save.
const RELATION_GAIN: f64 = 0.04;
/// Pages on which a relation is tried first.
const TRIED_PAGES: usize = 24;
/// How many earlier streams are tried for a relation.
const RELATIONS_TRIED: usize = 48;

/// A stream in all sample pages.
#[derive(Default)]
struct Observed {
    /// Page, and begin and end of its values.
    pages: Vec<(usize, usize, usize)>,
}

/// The default parameters of all streams, by number. `valued` says which streams can be related;
/// see [`crate::model::Model::valued`].
pub(super) fn learn_defaults(
    splits: &[Split],
    valued: &[bool],
    outlook: Outlook,
) -> Vec<DefaultParameters> {
    let mut observed: Vec<Observed> = Vec::new();
    observed.resize_with(valued.len(), Observed::default);
    for (i, split) in splits.iter().enumerate() {
        for stream in &split.streams {
            if let Some(o) = observed.get_mut(stream.number) {
                o.pages.push((i, stream.from, stream.to));
            }
        }
    }
    let values = |place: &(usize, usize, usize)| -> &[i64] {
        let split = splits.get(place.0);
        split
            .and_then(|s| s.ints.get(place.1..place.2))
            .unwrap_or_default()
    };
    let full = |o: &Observed| {
        !o.pages.is_empty()
            && o.pages.len() == splits.len()
            && o.pages
                .iter()
                .zip(splits)
                .all(|(place, split)| place.2 - place.1 == split.page.count())
    };
    // Tables grow, and twice the range costs one bit. What is learned from a few pages must suffice
    // until the model is learned again.
    let growth = match outlook {
        Outlook::Whole => 1,
        Outlook::Beginning => 8,
    };
    let mut all = Vec::with_capacity(valued.len());
    // Streams to which others can be related.
    let mut bases: Vec<usize> = Vec::new();
    for (number, (o, valued)) in observed.iter().zip(valued).enumerate() {
        let stats: Vec<Stats> = o.pages.iter().map(|p| Stats::of(values(p))).collect();
        let (mut defaults, mut cost) = learn(&stats, growth);
        if *valued && full(o) {
            let count: usize = stats.iter().map(|s| s.n).sum();
            if cost > count {
                for &base in bases.iter().rev().take(RELATIONS_TRIED) {
                    let Some(other) = observed.get(base) else {
                        continue;
                    };
                    let differences = |pages: usize| -> Vec<Stats> {
                        let pairs = o.pages.iter().zip(&other.pages).take(pages);
                        pairs
                            .map(|(a, b)| {
                                let pairs = values(a).iter().zip(values(b));
                                let d: Vec<i64> = pairs.map(|(a, b)| a.wrapping_sub(*b)).collect();
                                Stats::of(&d)
                            })
                            .collect()
                    };
                    let gains =
                        |new: usize, old: usize| (new as f64) < old as f64 * (1.0 - RELATION_GAIN);
                    let tried = learn(&differences(TRIED_PAGES), growth).1;
                    let before = learn(stats.get(..TRIED_PAGES).unwrap_or(&stats), growth).1;
                    if !gains(tried, before) {
                        continue;
                    }
                    let (related, with) = learn(&differences(usize::MAX), growth);
                    if gains(with, cost) {
                        defaults = DefaultParameters {
                            relation: u16::try_from(base).ok(),
                            ..related
                        };
                        cost = with;
                    }
                }
            }
            bases.push(number);
        }
        all.push(defaults);
    }
    all
}

/// The best default parameters for pages with these statistics, and the bits of these pages.
fn learn(stats: &[Stats], growth: u32) -> (DefaultParameters, usize) {
    let Some(first) = stats.first() else {
        return (DefaultParameters::default(), 0);
    };
    // Bits of each page if it deviates.
    let alone: Vec<usize> = stats
        .iter()
        .map(|s| s.cost(&s.best()) + DEVIANT_BITS)
        .collect();
    let mut best = (DefaultParameters::constant(first.min), usize::MAX);
    let mut offer = |defaults: DefaultParameters| {
        let mut cost = 0;
        for (s, alone) in stats.iter().zip(&alone) {
            cost += defaults.params_for(s).map_or(*alone, |p| {
                (defaults.own_bits() + p.value_bits(s)).min(*alone)
            });
        }
        if cost < best.1 {
            best = (defaults, cost);
        }
    };
    let fixed = |params: Params| DefaultParameters {
        params,
        anchor_width: None,
        own_widths: false,
        relation: None,
    };
    // One frame for all values, with and without the outermost pages.
    let lows = sorted(stats.iter().map(|s| s.min));
    let highs = sorted(stats.iter().map(|s| s.max));
    for trim in [0.0, 0.02, 0.1] {
        let (low, high) = (quantile(&lows, trim), quantile(&highs, 1.0 - trim));
        offer(fixed(Params {
            width: width_of(high.wrapping_sub(low) as u64),
            ..frame_at(low)
        }));
    }
    // An anchor of its own for each page.
    for shape in [Shape::Frame, Shape::Delta, Shape::Runs, Shape::Ramps] {
        let of: Vec<Params> = stats
            .iter()
            .map(|s| match shape {
                Shape::Delta => s.delta(),
                Shape::Runs => s.by_runs(),
                Shape::Ramps => s.by_ramps(),
                _ => s.frame(),
            })
            .collect();
        let anchors = sorted(of.iter().map(|p| p.anchor));
        let (mut low, high) = (quantile(&anchors, 0.0), quantile(&anchors, 1.0));
        let anchor_width = if low == high {
            None
        } else {
            Some((width_of(high.wrapping_sub(low) as u64) + growth).min(64))
        };
        // Pages come in the order in which they were written. If anchors mostly fell, later ones
        // fall too.
        if let Some(width) = anchor_width
            && mostly_fall(&of)
            && let Some(least) = high.checked_sub_unsigned(mask(width))
        {
            low = least;
        }
        let steps = sorted(stats.iter().map(|s| match shape {
            Shape::Delta => s.step.0,
            Shape::Runs => s.run_step.0,
            Shape::Ramps => s.rise.0 as i64,
            _ => 0,
        }));
        let tops: Vec<i64> = stats
            .iter()
            .map(|s| match shape {
                Shape::Delta => s.step.1,
                Shape::Runs => s.run_step.1,
                Shape::Ramps => s.rise.1 as i64,
                _ => s.max.wrapping_sub(s.min),
            })
            .collect();
        let lens = sorted(of.iter().map(|p| i64::from(p.len_width)));
        // Where ramps begin: near the lowest value of all pages, if there are any.
        let begins = of.iter().zip(stats).filter(|(_, s)| s.ramps > 1);
        let begin = begins.map(|(p, _)| p.low).min().unwrap_or(0);
        let firsts = stats.iter().filter(|s| s.ramps > 1);
        let firsts = firsts.map(|s| i64::from(width_of(s.begin.1.wrapping_sub(begin) as u64)));
        let firsts = sorted(firsts);
        let begin = if shape == Shape::Ramps { begin } else { 0 };
        let first_width = |part: f64| match shape {
            Shape::Ramps => quantile(&firsts, part) as u32,
            _ => 0,
        };
        for trim in [0.0, 0.05, 0.25] {
            let step = quantile(&steps, trim);
            let widths = sorted(
                tops.iter()
                    .filter(|top| **top >= step)
                    .map(|top| i64::from(width_of(top.wrapping_sub(step) as u64))),
            );
            for part in [1.0, 0.95, 0.8, 0.5] {
                offer(DefaultParameters {
                    params: Params {
                        shape,
                        anchor: low,
                        step,
                        low: begin,
                        width: quantile(&widths, part) as u32,
                        len_width: quantile(&lens, part) as u32,
                        first_width: first_width(1.0),
                    },
                    anchor_width,
                    own_widths: false,
                    relation: None,
                });
            }
            offer(DefaultParameters {
                params: Params {
                    shape,
                    anchor: low,
                    step,
                    low: begin,
                    ..Params::NOTHING
                },
                anchor_width,
                own_widths: true,
                relation: None,
            });
        }
    }
    best
}

/// Whether anchors that change from page to page mostly fall. In random order, as many rise as
/// fall.
fn mostly_fall(pages: &[Params]) -> bool {
    let pairs = || pages.iter().zip(pages.iter().skip(1));
    let falls = pairs().filter(|(a, b)| a.anchor > b.anchor).count();
    let rises = pairs().filter(|(a, b)| a.anchor < b.anchor).count();
    falls > 3 * (rises + 1)
}

fn frame_at(anchor: i64) -> Params {
    Params {
        anchor,
        ..Params::NOTHING
    }
}

fn sorted(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values
}

/// The value at this part of a sorted list, from 0 to 1.
fn quantile(sorted: &[i64], part: f64) -> i64 {
    let last = sorted.len().saturating_sub(1);
    let place = (last as f64 * part).round() as usize;
    sorted.get(place).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_pages_fit_the_defaults_if_numbers_rise_or_fall() {
        for sign in [1, -1] {
            // Every fifth page has higher numbers than those before, or lower numbers.
            let page = |n: i64| -> Vec<i64> {
                let values = (0..300).map(|i| sign * 1400 * (n / 5 + i / 290));
                values.collect()
            };
            let stats = |n: i64| Stats::of(&page(n));
            let sample: Vec<Stats> = (0..48).map(stats).collect();
            let (defaults, _) = learn(&sample, 8);
            for n in 0..2000 {
                let kept = defaults.params_for(&stats(n));
                assert!(kept.is_some(), "page {n} of {sign}: {defaults:?}");
            }
        }
    }
}
