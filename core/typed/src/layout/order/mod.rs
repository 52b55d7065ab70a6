//! The order in which a page's cells lie, from the usable end downwards, if it is not that of their
//! keys. docs/FORMAT.md (Layout) has the bits.
//!
//! SQLite seldom leaves a random order. A page that was split or rebuilt begins in order; later
//! cells lie below it or in the places of deleted cells. Rows that were inserted in the order of
//! another key leave rising runs. So an order is written in levels. A level either says how all
//! remaining cells lie, or splits them: into a *base*, whose keys rise or fall, and the *rest*,
//! which is left to the next level.

mod subset;
#[cfg(test)]
mod tests;

use self::subset::{Subset, take_subset};
use crate::bits::{BitReader, BitWriter, width_of};
use subset::{put_shuffle, shuffle_bits, take_shuffle};

const SHUFFLED: u64 = 0;
const SPLIT: u64 = 1;
const FALLING: u64 = 2;
const RISING: u64 = 3;

/// The most splits of an order. They bound the time of decoding.
const SPLITS_MAX: usize = 8;

/// Buffers for decoding.
#[derive(Debug, Clone, Default)]
pub(super) struct Work {
    /// The remaining cells, in order of their keys.
    cells: Vec<u16>,
    /// The remaining places, ascending.
    places: Vec<u16>,
    /// The numbers, among these, of the cells or places that belong to the rest.
    rest: Vec<u16>,
    base_cells: Vec<u16>,
    base_places: Vec<u16>,
}

/// The last order that was written, and its bits. SQLite leaves many pages of an index in the same
/// order if the index is filled in order.
#[derive(Debug, Default)]
pub struct LastOrder {
    order: Vec<u16>,
    bits: Vec<u8>,
    len: usize,
}

impl LastOrder {
    /// As [`put`].
    pub(super) fn put(&mut self, order: &[u16], w: &mut BitWriter) {
        if self.order != order {
            let mut bits = BitWriter::default();
            put(order, &mut bits);
            self.len = bits.len();
            self.bits.clear();
            bits.finish(&mut self.bits);
            self.order.clear();
            self.order.extend_from_slice(order);
        }
        let mut left = self.len;
        for byte in &self.bits {
            let width = left.min(8);
            w.put(u64::from(*byte), width as u32);
            left -= width;
        }
    }
}

/// Writes an order of two cells or more.
pub(super) fn put(order: &[u16], w: &mut BitWriter) {
    let mut splits: Vec<Split> = Vec::new();
    let mut spent = 0;
    let (mut least, mut levels) = (whole_bits(order), 0);
    while splits.len() < SPLITS_MAX {
        let left = splits.last().map_or(order, |split| &split.rest);
        // If a split did not pay, the next one still can if keys mostly rise or mostly fall.
        if whole_bits(left) == 0 || splits.len() > levels && !has_runs(left) {
            break;
        }
        let Some(split) = best_split(left) else {
            break;
        };
        spent += 2 + split.bits;
        let bits = spent + whole_bits(&split.rest);
        splits.push(split);
        if bits < least {
            (least, levels) = (bits, splits.len());
        }
    }
    splits.truncate(levels);
    for split in &splits {
        w.put(SPLIT, 2);
        split.put(w);
    }
    let left = splits.last().map_or(order, |split| &split.rest);
    if is_falling(left) {
        w.put(FALLING, 2);
    } else if is_rising(left) {
        w.put(RISING, 2);
    } else {
        w.put(SHUFFLED, 2);
        put_shuffle(left, w);
    }
}

fn is_rising(order: &[u16]) -> bool {
    order.is_sorted()
}

fn is_falling(order: &[u16]) -> bool {
    order.is_sorted_by(|a, b| a >= b)
}

fn falls(pair: &[u16]) -> bool {
    matches!(pair, [a, b] if a > b)
}

/// How often a key is followed by a lower one.
fn falling(order: &[u16]) -> usize {
    let next = order.get(1..).unwrap_or_default();
    let pairs = order.iter().zip(next);
    pairs.map(|(a, b)| usize::from(a > b)).sum()
}

fn has_runs(order: &[u16]) -> bool {
    let falling = falling(order);
    falling.min(order.len() - falling) * 3 < order.len()
}

/// Bits of an order without a split, without the first two bits.
fn whole_bits(order: &[u16]) -> u64 {
    match is_rising(order) || is_falling(order) {
        true => 0,
        false => shuffle_bits(order.len()),
    }
}

/// Cells that lie in order, and the rest.
struct Split {
    base_falls: bool,
    all: usize,
    cells: Subset,
    /// `None` if the rest lies below the base.
    places: Option<Subset>,
    /// The order of the rest, whose cells are numbered from 0.
    rest: Vec<u16>,
    bits: u64,
}

/// The cheaper of two splits. The base is the cells in order from the usable end on, or the longest
/// sequence of cells in order anywhere.
fn best_split(order: &[u16]) -> Option<Split> {
    let base_falls = falling(order) * 2 > order.len();
    let first = order
        .windows(2)
        .take_while(|pair| falls(pair) == base_falls);
    let first: Vec<u16> = (0..=first.count() as u16).collect();
    let longest = longest_rising(
        order,
        |cell| if base_falls { u16::MAX - cell } else { cell },
    );
    // The first split does not store the places of its base. It is taken if its base is nearly as
    // long as the longest, and is not tried if its base is much shorter.
    let short = first.len() * 2 < longest.len();
    let long = first.len() * 4 >= longest.len() * 3;
    let first = (!short)
        .then(|| Split::new(order, &first, base_falls))
        .flatten();
    let longest = (!long)
        .then(|| Split::new(order, &longest, base_falls))
        .flatten();
    let both = first.into_iter().chain(longest);
    both.min_by_key(|split| split.bits + whole_bits(&split.rest))
}

/// The places, ascending, of a longest subsequence whose keys rise, by patience sorting. Keys are
/// unique, so no other key lies between consecutive ones: they are taken together.
fn longest_rising(order: &[u16], key: impl Fn(u16) -> u16) -> Vec<u16> {
    const NONE: u16 = u16::MAX;
    // For each length, the subsequence with the lowest last key: that key, and its place.
    let [mut keys, mut ends, mut previous] = [(); 3].map(|()| Vec::with_capacity(order.len()));
    let mut near = 0;
    for run in order.chunk_by(|a, b| key(*b) == key(*a).wrapping_add(1)) {
        let Some(first) = run.first().map(|cell| key(*cell)) else {
            continue;
        };
        // It continues the run before if keys rise; otherwise its length is searched for.
        let is_below = |at: usize| keys.get(at).is_some_and(|end| *end < first);
        let len = match near > 0 && is_below(near - 1) && !is_below(near) {
            true => near,
            false => keys.partition_point(|end| *end < first),
        };
        near = len + run.len();
        let place = previous.len() as u16;
        let before = len.checked_sub(1).and_then(|at| ends.get(at));
        previous.push(before.copied().unwrap_or(NONE));
        let places = place..place + run.len() as u16;
        previous.extend(places.clone().take(run.len() - 1));
        write_at(&mut keys, len, first..=first + (run.len() - 1) as u16);
        write_at(&mut ends, len, places);
    }
    let mut places = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(place) = at {
        places.push(place);
        let before = previous.get(usize::from(place)).copied();
        at = before.filter(|place| *place != NONE);
    }
    places.reverse();
    places
}

/// Writes numbers into a list from `at` on, and extends the list if needed.
fn write_at(list: &mut Vec<u16>, at: usize, mut numbers: impl Iterator<Item = u16>) {
    let there = list.get_mut(at..).unwrap_or_default();
    for (to, number) in there.iter_mut().zip(&mut numbers) {
        *to = number;
    }
    list.extend(numbers);
}

impl Split {
    /// The split whose base lies at the places `base`, ascending. `None` if the base or the rest is
    /// empty.
    fn new(order: &[u16], base: &[u16], base_falls: bool) -> Option<Split> {
        let all = order.len();
        let count = all.checked_sub(base.len())?;
        if count == 0 || base.is_empty() {
            return None;
        }
        // The places that are not the base's, the cells there, and the numbers of these cells among
        // themselves.
        let mut places = Vec::with_capacity(count);
        let mut from = 0;
        for &base in base {
            places.extend(from..base);
            from = base + 1;
        }
        places.extend(from..all as u16);
        let mut rest = places.clone();
        for place in &mut rest {
            *place = *order.get(usize::from(*place))?;
        }
        let mut cells = rest.clone();
        cells.sort_unstable();
        let mut number = vec![0u16; all];
        for (cell, n) in cells.iter().zip(0..) {
            *number.get_mut(usize::from(*cell))? = n;
        }
        for cell in &mut rest {
            *cell = *number.get(usize::from(*cell))?;
        }
        let cells = Subset::new(all, cells);
        let is_below = places
            .first()
            .is_some_and(|&first| usize::from(first) == base.len());
        let places = (!is_below).then(|| Subset::new(all, places));
        let bits = 2
            + u64::from(width_of(all as u64))
            + cells.bits
            + places.as_ref().map_or(0, |places| places.bits);
        Some(Split {
            base_falls,
            all,
            cells,
            places,
            rest,
            bits,
        })
    }

    fn put(&self, w: &mut BitWriter) {
        w.put(self.rest.len() as u64, width_of(self.all as u64));
        w.put(u64::from(self.base_falls), 1);
        self.cells.put(w);
        w.put(u64::from(self.places.is_none()), 1);
        if let Some(places) = &self.places {
            places.put(w);
        }
    }
}

/// Reads an order of `cells` cells. Any bits result in a valid order or `None`.
pub(super) fn take(
    r: &mut BitReader<'_>,
    cells: usize,
    order: &mut Vec<u16>,
    work: &mut Work,
) -> Option<()> {
    if cells < 2 {
        return None;
    }
    order.clear();
    order.resize(cells, 0);
    work.cells.clear();
    work.cells.extend(0..cells as u16);
    work.places.clear();
    work.places.extend(0..cells as u16);
    for _ in 0..=SPLITS_MAX {
        match r.get(2)? {
            SPLIT => {
                work.split(r, order)?;
                continue;
            }
            SHUFFLED => take_shuffle(r, &mut work.cells)?,
            FALLING => work.cells.reverse(),
            _ => {}
        }
        return put_into_places(order, &work.places, work.cells.iter());
    }
    None
}

/// Puts cells into places.
#[inline]
fn put_into_places<'a>(
    order: &mut [u16],
    places: &[u16],
    cells: impl Iterator<Item = &'a u16>,
) -> Option<()> {
    for (&place, &cell) in places.iter().zip(cells) {
        *order.get_mut(usize::from(place))? = cell;
    }
    Some(())
}

impl Work {
    /// Reads a split, puts the base's cells into their places, and keeps the rest.
    fn split(&mut self, r: &mut BitReader<'_>, order: &mut [u16]) -> Option<()> {
        let all = self.cells.len();
        let count = r.get(width_of(all as u64))? as usize;
        if count == 0 || count >= all {
            return None;
        }
        let base_falls = r.get(1)? == 1;
        take_subset(r, all, count, &mut self.rest)?;
        partition(&mut self.cells, &self.rest, &mut self.base_cells)?;
        if r.get(1)? == 1 {
            self.base_places.clear();
            self.base_places.extend(self.places.drain(..all - count));
        } else {
            take_subset(r, all, count, &mut self.rest)?;
            partition(&mut self.places, &self.rest, &mut self.base_places)?;
        }
        match base_falls {
            false => put_into_places(order, &self.base_places, self.base_cells.iter()),
            true => put_into_places(order, &self.base_places, self.base_cells.iter().rev()),
        }
    }
}

/// Keeps in `list` the members at `positions`, ascending, and moves the others to `others`.
fn partition(list: &mut Vec<u16>, positions: &[u16], others: &mut Vec<u16>) -> Option<()> {
    others.clear();
    let mut from = 0;
    for (kept, &position) in positions.iter().enumerate() {
        let position = usize::from(position);
        others.extend_from_slice(list.get(from..position)?);
        let member = *list.get(position)?;
        *list.get_mut(kept)? = member;
        from = position + 1;
    }
    others.extend_from_slice(list.get(from..)?);
    list.truncate(positions.len());
    Some(())
}
