//! The order in which a page's cells lie, seen from the usable end downwards, where it is not that of their keys.
//!
//! What SQLite leaves is seldom quite at random. A page that was split or rebuilt begins in order; cells that came later lie
//! below it or in the places of cells that went, and rows that came in the order of another key left rising runs of this one.
//! So an order is written level by level. A level either says how all the cells that are left lie in the places that are left,
//! or splits them: a *base*, whose keys rise (or fall) from the usable end downwards, and the *rest*, left to the next level.
//!
//! | bits | what |
//! |---|---|
//! | 2 | 0: the cells are shuffled, and a shuffle follows; 1: base and rest; 2: keys fall; 3: keys rise |
//! | | after 1: |
//! | width of the number of cells left | size of the rest, neither none nor all |
//! | 1 | whether the base's keys fall |
//! | | which cells are the rest: a subset of the cells left, in order of their keys |
//! | 1 | whether the rest lies below the base; otherwise its places follow: a subset of the places left |
//! | | the next level |
//!
//! A *shuffle* is the one of Fisher and Yates, played back: the n-th number, below as many as are left, tells which of those
//! left is next, and the one that stood first takes its place. Each number takes as many bits as the greatest it could be, so
//! k cells take about half a bit per cell more than log2(k!), in fields whose places are known beforehand.
//!
//! A *subset*, whose size the reader knows, begins with two bits: 0, a bit for each of all; 1, a list of the gaps before its
//! members; 2, one range, and its begin follows; 3, ranges: their number less 1, then two lists in turn, of the gaps before them
//! and of their lengths less 1. Lists are those of [`super::rice`].

use super::rice;
use crate::bits::{BitReader, BitWriter, width_of};

const SHUFFLED: u64 = 0;
const SPLIT: u64 = 1;
const FALLING: u64 = 2;
const RISING: u64 = 3;

const BITMAP: u64 = 0;
const GAPS: u64 = 1;
const RANGE: u64 = 2;
const RANGES: u64 = 3;

/// Most splits: bounds the time that reading takes.
const SPLITS_MAX: usize = 8;
/// Bits read at once from a bitmap.
const CHUNK: u32 = 32;

/// Memory that reading needs.
#[derive(Debug, Clone, Default)]
pub(super) struct Work {
    /// The cells that are left, in order of their keys.
    cells: Vec<u16>,
    /// The places that are left, ascending.
    places: Vec<u16>,
    /// Which of them are the rest's.
    rest: Vec<u16>,
    base_cells: Vec<u16>,
    base_places: Vec<u16>,
}

/// The order that was written last, and its bits: SQLite leaves the pages of an index that is filled in order in the same one again and again.
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
        // Where a split did not pay the next may still, if keys mostly rise or mostly fall.
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

/// Bits that an order takes without a split, the first two apart.
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
    /// None if the rest lies below the base.
    places: Option<Subset>,
    /// The order of the rest, its cells numbered anew.
    rest: Vec<u16>,
    bits: u64,
}

/// The cheaper of two splits: the base is what lies in order from the usable end on, or the most that lies in order anywhere.
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
    // The first saves telling its places: it wins where it is nearly as long, and is not tried where it is much shorter.
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

/// Places, ascending, of a longest subsequence whose keys rise: patience sorting. No two have the same key, and those whose keys follow each other are
/// taken together: no other key is between.
fn longest_rising(order: &[u16], key: impl Fn(u16) -> u16) -> Vec<u16> {
    const NONE: u16 = u16::MAX;
    // Where the subsequences of each length that end lowest do: their keys, and their places.
    let [mut keys, mut ends, mut previous] = [(); 3].map(|()| Vec::with_capacity(order.len()));
    let mut near = 0;
    for run in order.chunk_by(|a, b| key(*b) == key(*a).wrapping_add(1)) {
        let Some(first) = run.first().map(|cell| key(*cell)) else {
            continue;
        };
        // Behind the run before, where keys rise; searched for otherwise.
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
        lay_over(&mut keys, len, first..=first + (run.len() - 1) as u16);
        lay_over(&mut ends, len, places);
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

/// Puts numbers into a list from `at` on, which becomes longer where they do not fit.
fn lay_over(list: &mut Vec<u16>, at: usize, mut numbers: impl Iterator<Item = u16>) {
    let there = list.get_mut(at..).unwrap_or_default();
    for (to, number) in there.iter_mut().zip(&mut numbers) {
        *to = number;
    }
    list.extend(numbers);
}

impl Split {
    /// The split whose base lies at the places `base`, ascending. `None` if there is no rest or no base.
    fn new(order: &[u16], base: &[u16], base_falls: bool) -> Option<Split> {
        let all = order.len();
        let count = all.checked_sub(base.len())?;
        if count == 0 || base.is_empty() {
            return None;
        }
        // The places between those of the base, the cells there, and their numbers among themselves.
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

/// Reads an order of `cells` cells. Whatever the bits say, it is one.
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
        return lay(order, &work.places, work.cells.iter());
    }
    None
}

/// Lays cells to places.
#[inline]
fn lay<'a>(order: &mut [u16], places: &[u16], cells: impl Iterator<Item = &'a u16>) -> Option<()> {
    for (&place, &cell) in places.iter().zip(cells) {
        *order.get_mut(usize::from(place))? = cell;
    }
    Some(())
}

impl Work {
    /// Reads a split, lays the base's cells to their places and leaves the rest.
    fn split(&mut self, r: &mut BitReader<'_>, order: &mut [u16]) -> Option<()> {
        let all = self.cells.len();
        let count = r.get(width_of(all as u64))? as usize;
        if count == 0 || count >= all {
            return None;
        }
        let base_falls = r.get(1)? == 1;
        take_subset(r, all, count, &mut self.rest)?;
        part(&mut self.cells, &self.rest, &mut self.base_cells)?;
        if r.get(1)? == 1 {
            self.base_places.clear();
            self.base_places.extend(self.places.drain(..all - count));
        } else {
            take_subset(r, all, count, &mut self.rest)?;
            part(&mut self.places, &self.rest, &mut self.base_places)?;
        }
        match base_falls {
            false => lay(order, &self.base_places, self.base_cells.iter()),
            true => lay(order, &self.base_places, self.base_cells.iter().rev()),
        }
    }
}

/// Keeps in `list` what stands at `positions`, ascending, and moves the others to `others`.
fn part(list: &mut Vec<u16>, positions: &[u16], others: &mut Vec<u16>) -> Option<()> {
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

/// Some of the numbers below a limit, ascending and not none, and their cheapest coding.
struct Subset {
    all: usize,
    members: Vec<u16>,
    coding: u64,
    bits: u64,
}

impl Subset {
    fn new(all: usize, members: Vec<u16>) -> Subset {
        let count = members.len();
        let ranges = ranges(&members).count();
        let (coding, bits) = if ranges == 1 {
            (RANGE, u64::from(width_of((all - count) as u64)))
        } else {
            let bitmap = (BITMAP, all as u64);
            let by_gaps = (GAPS, rice::best(gaps(&members)).1);
            let mut least = if by_gaps.1 < bitmap.1 {
                by_gaps
            } else {
                bitmap
            };
            if ranges * 2 < count {
                let gaps = rice::best(range_gaps(&members)).1;
                let lengths = rice::best(range_lengths(&members)).1;
                let by_ranges = u64::from(width_of(count as u64)) + gaps + lengths;
                if by_ranges < least.1 {
                    least = (RANGES, by_ranges);
                }
            }
            least
        };
        Subset {
            all,
            members,
            coding,
            bits: bits + 2,
        }
    }

    fn put(&self, w: &mut BitWriter) {
        let (all, members) = (self.all, self.members.as_slice());
        w.put(self.coding, 2);
        match self.coding {
            RANGE => {
                let first = members.first().copied().unwrap_or(0);
                w.put(u64::from(first), width_of((all - members.len()) as u64));
            }
            RANGES => {
                w.put(
                    ranges(members).count() as u64 - 1,
                    width_of(members.len() as u64),
                );
                let gaps = rice::Giver::new(range_gaps(members), w);
                let lengths = rice::Giver::new(range_lengths(members), w);
                for (gap, length) in range_gaps(members).zip(range_lengths(members)) {
                    gaps.put(gap, w);
                    lengths.put(length, w);
                }
            }
            GAPS => rice::put(gaps(members), w),
            _ => {
                for gap in gaps(members) {
                    put_zeros(gap - gap % CHUNK, w);
                    w.put(1 << (gap % CHUNK), gap % CHUNK + 1);
                }
                let behind = members.last().map_or(0, |&last| usize::from(last) + 1);
                put_zeros((all - behind) as u32, w);
            }
        }
    }
}

fn ranges(members: &[u16]) -> impl Iterator<Item = &[u16]> + Clone {
    members.chunk_by(|a, b| a + 1 == *b)
}

/// How many numbers lie before each range, behind the one before.
fn range_gaps(members: &[u16]) -> impl Iterator<Item = u32> + Clone {
    let begin = |range: &[u16]| range.first().map_or(0, |&first| u32::from(first));
    let end = |range: &[u16]| range.last().map_or(0, |&last| u32::from(last) + 1);
    let ends = std::iter::once(0).chain(ranges(members).map(end));
    ranges(members)
        .map(begin)
        .zip(ends)
        .map(|(begin, end)| begin - end)
}

fn range_lengths(members: &[u16]) -> impl Iterator<Item = u32> + Clone {
    ranges(members).map(|range| range.len() as u32 - 1)
}

fn gaps(subset: &[u16]) -> impl Iterator<Item = u32> + Clone {
    let ends = std::iter::once(0).chain(subset.iter().map(|&member| u32::from(member) + 1));
    subset
        .iter()
        .zip(ends)
        .map(|(&member, end)| u32::from(member) - end)
}

fn put_zeros(mut count: u32, w: &mut BitWriter) {
    while count > 0 {
        let some = count.min(CHUNK);
        w.put(0, some);
        count -= some;
    }
}

/// Reads a subset of `count` of the numbers below `all`, ascending.
fn take_subset(
    r: &mut BitReader<'_>,
    all: usize,
    count: usize,
    subset: &mut Vec<u16>,
) -> Option<()> {
    subset.clear();
    match r.get(2)? {
        BITMAP => {
            let mut from = 0;
            while from < all {
                let width = ((all - from) as u32).min(CHUNK);
                let mut bits = r.get(width)?;
                while bits != 0 {
                    subset.push((from as u32 + bits.trailing_zeros()) as u16);
                    bits &= bits - 1;
                }
                from += width as usize;
            }
            (subset.len() == count).then_some(())
        }
        GAPS => {
            let list = rice::Taker::new(r, all as u32)?;
            let mut from = 0;
            for _ in 0..count {
                let member = from + list.next(r)? as usize;
                if member >= all {
                    return None;
                }
                subset.push(member as u16);
                from = member + 1;
            }
            Some(())
        }
        RANGE => {
            let first = r.get(width_of((all - count) as u64))? as usize;
            if first > all - count {
                return None;
            }
            subset.extend(first as u16..(first + count) as u16);
            Some(())
        }
        _ => {
            let ranges = r.get(width_of(count as u64))? as usize + 1;
            let gaps = rice::Taker::new(r, all as u32)?;
            let lengths = rice::Taker::new(r, count as u32)?;
            let mut from = 0;
            for _ in 0..ranges {
                let first = from + gaps.next(r)? as usize;
                from = first + lengths.next(r)? as usize + 1;
                if from > all {
                    return None;
                }
                subset.extend(first as u16..from as u16);
            }
            (subset.len() == count).then_some(())
        }
    }
}

/// Bits of a number below `limit`, which is at least 1.
#[inline]
fn width_below(limit: usize) -> u32 {
    width_of(limit as u64 - 1)
}

/// Bits of a shuffle of `count` numbers, at least one.
fn shuffle_bits(count: usize) -> u64 {
    // The sum of the widths of all limits up to `count`.
    let width = width_below(count);
    count as u64 * u64::from(width) + 1 - (1 << width)
}

/// Writes the order of the numbers from 0 on that `sequence` holds.
fn put_shuffle(sequence: &[u16], w: &mut BitWriter) {
    let count = sequence.len();
    let mut left: Vec<u16> = (0..count as u16).collect();
    let mut places = left.clone();
    for (at, &next) in sequence.iter().enumerate() {
        let place = places
            .get(usize::from(next))
            .map_or(at, |&place| usize::from(place));
        w.put((place - at) as u64, width_below(count - at));
        left.swap(at, place);
        if let Some(moved) = left
            .get(place)
            .and_then(|&moved| places.get_mut(usize::from(moved)))
        {
            *moved = place as u16;
        }
    }
}

/// Puts `numbers` into the order that was written.
fn take_shuffle(r: &mut BitReader<'_>, numbers: &mut [u16]) -> Option<()> {
    let count = numbers.len();
    let mut at = 0;
    while at < count {
        // All that are written in one width: those whose limit is above half the power of two.
        let width = width_below(count - at);
        let others = (1 << width) / 2;
        let same = count - at - others;
        let mut run = r.run(same, width)?;
        for at in at..at + same {
            let place = at + run.next() as usize;
            if place >= count {
                return None;
            }
            numbers.swap(at, place);
        }
        at += same;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::PADDING;
    use proptest::prelude::*;

    fn bits_of(order: &[u16]) -> usize {
        let mut w = BitWriter::default();
        put(order, &mut w);
        let bits = w.len();
        let mut bytes = Vec::new();
        w.finish(&mut bytes);
        // The same bits come from whoever has written it before, or another one.
        let mut last = LastOrder::default();
        let turned: Vec<u16> = order.iter().rev().copied().collect();
        for other in [order, order, &turned, order] {
            let [mut one, mut same] = [Vec::new(), Vec::new()];
            put(other, &mut w);
            w.finish(&mut one);
            last.put(other, &mut w);
            w.finish(&mut same);
            assert_eq!(one, same);
        }
        bytes.extend([0xff; PADDING]);
        let mut again = vec![7; 3];
        take(
            &mut BitReader::new(&bytes),
            order.len(),
            &mut again,
            &mut Work::default(),
        )
        .expect("was written");
        assert_eq!(again, order);
        bits
    }

    /// What it costs where the order is not quite at random: a change here is one of compression.
    #[test]
    fn usual_orders_are_cheap() {
        let falling: Vec<u16> = (0..30).rev().collect();
        assert_eq!(bits_of(&falling), 2);
        // A block of cells was put in front of those of a rebuilt page.
        let in_front: Vec<u16> = (10..30).chain(0..10).collect();
        assert!(bits_of(&in_front) <= 25, "{}", bits_of(&in_front));
        // One cell grew and was moved.
        let moved: Vec<u16> = (0..7).chain(8..30).chain([7]).collect();
        assert!(bits_of(&moved) <= 25, "{}", bits_of(&moved));
        // An index whose rows came in three rounds, each in order of its keys.
        let rounds: Vec<u16> = (0..3).flat_map(|round| (round..300).step_by(3)).collect();
        assert!(bits_of(&rounds) <= 700, "{}", bits_of(&rounds));
        // The same with blocks of neighbours instead.
        let blocks: Vec<u16> = [100..200, 250..300, 0..100, 200..250]
            .into_iter()
            .flatten()
            .collect();
        assert!(bits_of(&blocks) <= 100, "{}", bits_of(&blocks));
        // Two streams in turn.
        let two: Vec<u16> = (0..15).chain(15..30).map(|i| i * 2 % 30 + i / 15).collect();
        assert!(bits_of(&two) <= 45, "{}", bits_of(&two));
    }

    proptest! {
        #[test]
        fn every_order_is_taken_as_it_was_put(order in (2u16..300).prop_flat_map(|n| {
            Just((0..n).collect::<Vec<u16>>()).prop_shuffle()
        })) {
            let n = order.len();
            // Each of the numbers of a shuffle takes as many bits as the greatest, or one less.
            let most: u32 = (1..=n as u64).map(|left| width_of(left - 1)).sum();
            prop_assert!(bits_of(&order) <= 2 + most as usize);
        }

        #[test]
        fn nearly_sorted_orders_too(n in 2u16..300, falls: bool, swaps in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..12)) {
            let mut order: Vec<u16> = (0..n).collect();
            if falls {
                order.reverse();
            }
            for (from, to) in swaps {
                let cell = order.remove(from.index(order.len()));
                order.insert(to.index(order.len() + 1), cell);
            }
            prop_assume!(!order.is_sorted());
            bits_of(&order);
        }

        #[test]
        fn runs_too(lengths in prop::collection::vec((1usize..60, any::<bool>()), 1..20), seed in prop::collection::vec(any::<u16>(), 1200)) {
            // Every cell falls to one run, and each of the runs rises or falls.
            let n: usize = lengths.iter().map(|(len, _)| len).sum();
            let mut cells: Vec<u16> = (0..n as u16).collect();
            cells.sort_by_key(|&cell| seed.get(usize::from(cell)));
            let mut order = Vec::new();
            for (len, falls) in lengths {
                let mut run: Vec<u16> = cells.drain(..len).collect();
                run.sort_unstable();
                if falls {
                    run.reverse();
                }
                order.extend(run);
            }
            prop_assume!(!order.is_sorted());
            bits_of(&order);
        }

        #[test]
        fn subsets_are_taken_as_they_were_put(ranges in prop::collection::vec((0usize..50, 1usize..50), 1..30), behind in 0usize..50) {
            let mut members = Vec::new();
            let mut all = 0;
            for (gap, len) in ranges {
                members.extend((all + gap) as u16..(all + gap + len) as u16);
                all += gap + len;
            }
            let all = all + behind;
            let subset = Subset::new(all, members.clone());
            let mut w = BitWriter::default();
            subset.put(&mut w);
            prop_assert_eq!(w.len() as u64, subset.bits);
            let mut bytes = Vec::new();
            w.finish(&mut bytes);
            bytes.extend([0xff; PADDING]);
            let mut again = Vec::new();
            prop_assert_eq!(take_subset(&mut BitReader::new(&bytes), all, members.len(), &mut again), Some(()));
            prop_assert_eq!(again, members);
        }

        #[test]
        fn any_bits_are_an_order_or_none(bytes in prop::collection::vec(any::<u8>(), PADDING..200), cells in 0usize..400) {
            let mut order = Vec::new();
            if take(&mut BitReader::new(&bytes), cells, &mut order, &mut Work::default()).is_some() {
                order.sort_unstable();
                prop_assert_eq!(order, (0..cells as u16).collect::<Vec<u16>>());
            }
        }
    }
}
