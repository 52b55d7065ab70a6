//! A *subset* of some numbers below a limit, and a *shuffle*: two ways to store an order.
//!
//! The reader knows the size of a subset. Two bits say how it is coded: 0, a bitmap; 1, a list of the
//! gaps before its members; 2, the start of its only range; 3, ranges: their number less 1, then in
//! turn their gaps and lengths less 1. Lists are those of [`crate::layout::rice`].

use crate::bits::{BitReader, BitWriter, width_of};
use crate::layout::rice;

const BITMAP: u64 = 0;
const GAPS: u64 = 1;
const RANGE: u64 = 2;
const RANGES: u64 = 3;

/// Bits read at once from a bitmap.
const CHUNK: u32 = 32;

/// Some of the numbers below a limit, ascending and at least one, and their cheapest coding.
pub(super) struct Subset {
    all: usize,
    members: Vec<u16>,
    coding: u64,
    /// The bits of that coding.
    pub(super) bits: u64,
}

impl Subset {
    pub(super) fn new(all: usize, members: Vec<u16>) -> Subset {
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

    pub(super) fn put(&self, w: &mut BitWriter) {
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

/// How many numbers lie between each range and the one before.
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
pub(super) fn take_subset(
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
pub(super) fn shuffle_bits(count: usize) -> u64 {
    // The sum of the widths of all limits up to `count`.
    let width = width_below(count);
    count as u64 * u64::from(width) + 1 - (1 << width)
}

/// Writes the order of the numbers from 0 on that is in `sequence`, as a *shuffle*: it replays the
/// one of Fisher and Yates. The n-th number says which of the remaining cells is next, and the first
/// of them takes its place. Each number has as many bits as the greatest possible one. So k cells
/// take about half a bit a cell more than log2(k!), in fields whose places are known in advance.
pub(super) fn put_shuffle(sequence: &[u16], w: &mut BitWriter) {
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
pub(super) fn take_shuffle(r: &mut BitReader<'_>, numbers: &mut [u16]) -> Option<()> {
    let count = numbers.len();
    let mut at = 0;
    while at < count {
        // All numbers of one width: their limit is above half the power of two.
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
