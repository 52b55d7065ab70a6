//! Lists of small numbers, Rice coded (Rice and Plaunt, 1971). A number is its quotient by a power
//! of two, as so many ones and a zero, then its remainder. Four bits before the list hold the
//! exponent of the power that makes the list shortest.

use crate::bits::{BitReader, BitWriter};

const EXPONENT_BITS: u32 = 4;
const EXPONENTS: u32 = 1 << EXPONENT_BITS;
/// Ones that are written or read at once.
const CHUNK: u32 = 32;

/// The best exponent, and the bits of the list with it, the exponent's own included.
pub(super) fn best(values: impl Iterator<Item = u32> + Clone) -> (u32, u64) {
    // An exponent that is too large costs a bit per number; one that is too small doubles the ones.
    // The best is near the width of the mean.
    let (count, sum) = values.clone().fold((0u64, 0u64), |(n, sum), value| {
        (n + 1, sum + u64::from(value))
    });
    let mean = sum.checked_div(count).unwrap_or(0);
    let large = (64 - mean.leading_zeros()).min(EXPONENTS - 1);
    let small = large.saturating_sub(1);
    let (ones_small, ones_large) = values.fold((0u64, 0u64), |(small_ones, large_ones), value| {
        (
            small_ones + u64::from(value >> small),
            large_ones + u64::from(value >> large),
        )
    });
    let bits = |exponent: u32, ones: u64| {
        ones + count * u64::from(exponent + 1) + u64::from(EXPONENT_BITS)
    };
    let (with_small, with_large) = (bits(small, ones_small), bits(large, ones_large));
    match with_small <= with_large {
        true => (small, with_small),
        false => (large, with_large),
    }
}

/// Writes a list. The reader must know its length.
pub(super) fn put(values: impl Iterator<Item = u32> + Clone, w: &mut BitWriter) {
    let list = Giver::new(values.clone(), w);
    for value in values {
        list.put(value, w);
    }
}

/// Writes a list, one number at a time.
pub(super) struct Giver {
    exponent: u32,
}

impl Giver {
    /// Begins the list of `values`.
    pub(super) fn new(values: impl Iterator<Item = u32> + Clone, w: &mut BitWriter) -> Giver {
        let (exponent, _) = best(values);
        w.put(u64::from(exponent), EXPONENT_BITS);
        Giver { exponent }
    }

    /// Writes the next number.
    pub(super) fn put(&self, value: u32, w: &mut BitWriter) {
        let mut ones = value >> self.exponent;
        while ones >= CHUNK {
            w.put(u64::from(u32::MAX), CHUNK);
            ones -= CHUNK;
        }
        w.put((1u64 << ones) - 1, ones + 1);
        w.put(u64::from(value) & ((1 << self.exponent) - 1), self.exponent);
    }
}

/// Reads a list.
pub(super) struct Taker {
    exponent: u32,
    most: u32,
}

impl Taker {
    /// Begins to read numbers of at most `most`.
    pub(super) fn new(r: &mut BitReader<'_>, most: u32) -> Option<Taker> {
        Some(Taker {
            exponent: r.get(EXPONENT_BITS)? as u32,
            most,
        })
    }

    /// The next number.
    pub(super) fn next(&self, r: &mut BitReader<'_>) -> Option<u32> {
        let mut ones = 0;
        loop {
            let width = r.left().min(CHUNK as usize) as u32;
            let run = r.clone().get(width)?.trailing_ones().min(width);
            ones += run;
            if ones > self.most >> self.exponent {
                return None;
            }
            if run < width {
                r.get(run + 1)?;
                break;
            }
            // No zero among these bits: more follow.
            r.get(run)?;
            if width < CHUNK {
                return None;
            }
        }
        let value = ones << self.exponent | r.get(self.exponent)? as u32;
        (value <= self.most).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::PADDING;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_read_as_they_were_written(values in prop::collection::vec((0u32..=65_536, 0u32..17), 0..100)) {
            let values: Vec<u32> = values.iter().map(|(value, shift)| value >> shift).collect();
            let mut w = BitWriter::default();
            put(values.iter().copied(), &mut w);
            prop_assert_eq!(w.len() as u64, best(values.iter().copied()).1);
            let mut bytes = Vec::new();
            w.finish(&mut bytes);
            bytes.extend([0; PADDING]);
            let mut r = BitReader::new(&bytes);
            let list = Taker::new(&mut r, 65_536).expect("reads the exponent");
            for value in values {
                prop_assert_eq!(list.next(&mut r), Some(value));
            }
        }
    }
}
