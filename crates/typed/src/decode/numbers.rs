//! Integers and decimals: from what was read to what is stored, and its serial type.
//!
//! Which of several types a number has is as good as random to a processor's branch prediction, so it is looked up.

use crate::decimal::from_scaled;
use crate::record::{BODY_LEN, REAL};
use std::hint::select_unpredictable;

/// The serial types of integers, by twice the bits of their magnitude and their sign: where 0 and 1 have types of their own, and where not.
const INT_TYPES: [[u8; INDEX_END]; 2] = [int_types(false), int_types(true)];
/// See [`index`].
const INDEX_END: usize = 128;

const fn int_types(small: bool) -> [u8; INDEX_END] {
    let mut types = [6; INDEX_END];
    let mut i = 0;
    while i < INDEX_END {
        let magnitude_bits = i / 2;
        types[i] = match magnitude_bits {
            0..=7 => 1,
            8..=15 => 2,
            16..=23 => 3,
            24..=31 => 4,
            32..=47 => 5,
            _ => 6,
        };
        i += 1;
    }
    if small {
        types[index(0)] = 8;
        types[index(1)] = 9;
    }
    types
}

/// Twice the bits of a number's magnitude (of `v`, or of its complement when it is negative), and one more when it is negative.
#[inline(always)]
const fn index(v: i64) -> usize {
    let negative = (v >> 63) as u64;
    // The one behind the magnitude spares a look at whether there is any bit.
    let magnitude = (v as u64 ^ negative) << 1 | 1;
    (2 * (63 - magnitude.leading_zeros()) + (negative & 1) as u32) as usize
}

/// How the numbers of a column are stored.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    types: &'static [u8; INDEX_END],
}

impl Numbers {
    /// `small`: 0 and 1 have types of their own.
    pub(super) fn new(small: bool) -> Numbers {
        let [long, short] = &INT_TYPES;
        Numbers {
            types: if small { short } else { long },
        }
    }

    /// The serial type that SQLite gives an integer.
    #[inline(always)]
    pub(super) fn int_type(self, v: i64) -> u32 {
        u32::from(self.types.get(index(v)).copied().unwrap_or(6))
    }

    /// A number that was times ten to the power of `scale`, as it is stored, and its type. `POWER` is that power, or 0 if the
    /// caller has no name for it.
    #[inline(always)]
    pub(super) fn unscaled<const POWER: i64>(self, v: i64, scale: u8) -> (i64, u32) {
        // A division by a number that is known here is a multiplication.
        let (power, real) = match POWER {
            0 => (power_of(scale), from_scaled(v, scale)),
            _ => (POWER, v as f64 / POWER as f64),
        };
        let whole = v / power;
        let is_whole = whole.wrapping_mul(power) == v;
        (
            select_unpredictable(is_whole, whole, real.to_bits() as i64),
            select_unpredictable(is_whole, self.int_type(whole), REAL),
        )
    }
}

/// Ten to the power of `scale`; where that is no `i64`, anything but 0 will do: nothing was multiplied by it.
#[inline(always)]
fn power_of(scale: u8) -> i64 {
    POWERS.get(usize::from(scale)).copied().unwrap_or(i64::MAX)
}

const POWERS: [i64; 19] = {
    let mut powers = [1; 19];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = 10 * powers[i - 1];
        i += 1;
    }
    powers
};

/// Bytes of a number of this type.
#[inline(always)]
pub(super) fn number_len(serial_type: u32) -> u32 {
    u32::from(BODY_LEN.get(serial_type as usize).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::int_type;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn types_are_those_of_the_encoder(v: i64, shift in 0u32..64, small: bool) {
            for v in [v >> shift, 0, 1, 2, -1, i64::MIN, i64::MAX] {
                prop_assert_eq!(Numbers::new(small).int_type(v), int_type(v, small));
            }
        }

        #[test]
        fn numbers_divided_by_a_known_power_are_those_divided_by_any(v: i64, shift in 0u32..64) {
            let n = Numbers::new(true);
            let v = v >> shift;
            prop_assert_eq!(n.unscaled::<10>(v, 1), n.unscaled::<0>(v, 1));
            prop_assert_eq!(n.unscaled::<100>(v, 2), n.unscaled::<0>(v, 2));
            prop_assert_eq!(n.unscaled::<1000>(v, 3), n.unscaled::<0>(v, 3));
            prop_assert_eq!(n.unscaled::<10_000>(v, 4), n.unscaled::<0>(v, 4));
            prop_assert_eq!(n.unscaled::<1>(v, 0), (v, n.int_type(v)));
        }
    }
}
