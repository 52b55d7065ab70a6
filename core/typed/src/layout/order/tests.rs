//! Orders are read as they were written, and usual orders are cheap.

use super::*;
use crate::bits::PADDING;
use proptest::prelude::*;

fn bits_of(order: &[u16]) -> usize {
    let mut w = BitWriter::default();
    put(order, &mut w);
    let bits = w.len();
    let mut bytes = Vec::new();
    w.finish(&mut bytes);
    // The bits are the same, whichever order was written before.
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
    .expect("reads what was written");
    assert_eq!(again, order);
    bits
}

/// Bits of orders that are nearly sorted. A change of these limits is a change of compression.
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
    // Two streams, one after the other.
    let two: Vec<u16> = (0..15).chain(15..30).map(|i| i * 2 % 30 + i / 15).collect();
    assert!(bits_of(&two) <= 45, "{}", bits_of(&two));
}

proptest! {
    #[test]
    fn every_order_is_read_as_it_was_written(order in (2u16..300).prop_flat_map(|n| {
        Just((0..n).collect::<Vec<u16>>()).prop_shuffle()
    })) {
        let n = order.len();
        // Each number of a shuffle takes as many bits as the greatest, or one less.
        let most: u32 = (1..=n as u64).map(|left| width_of(left - 1)).sum();
        prop_assert!(bits_of(&order) <= 2 + most as usize);
    }

    #[test]
    fn nearly_sorted_orders_are_read_as_they_were_written(n in 2u16..300, falls: bool, swaps in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..12)) {
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
    fn orders_of_runs_are_read_as_they_were_written(lengths in prop::collection::vec((1usize..60, any::<bool>()), 1..20), seed in prop::collection::vec(any::<u16>(), 1200)) {
        // Every cell belongs to one run, and each run rises or falls.
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
    fn subsets_are_read_as_they_were_written(ranges in prop::collection::vec((0usize..50, 1usize..50), 1..30), behind in 0usize..50) {
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
    fn any_bits_give_an_order_or_nothing(bytes in prop::collection::vec(any::<u8>(), PADDING..200), cells in 0usize..400) {
        let mut order = Vec::new();
        if take(&mut BitReader::new(&bytes), cells, &mut order, &mut Work::default()).is_some() {
            order.sort_unstable();
            prop_assert_eq!(order, (0..cells as u16).collect::<Vec<u16>>());
        }
    }
}
