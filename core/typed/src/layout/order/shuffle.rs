//! A *shuffle* replays the one of Fisher and Yates: the n-th number says which of the remaining
//! cells is next, and the first of them takes its place. Each number has as many bits as the
//! greatest possible one. So k cells take about half a bit a cell more than log2(k!), in fields
//! whose places are known in advance.

use crate::bits::{BitReader, BitWriter, width_of};

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

/// Writes the order of the numbers from 0 on that is in `sequence`.
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
