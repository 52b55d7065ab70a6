//! Integers and decimals: from a number of a stream to its serial type and bytes in a record.
//!
//! A processor cannot predict which of several types a number has, so the type comes from a table
//! instead of a branch.

use densite_sqlite_format::record::{BODY_LEN, REAL};
use std::hint::select_unpredictable;

/// A number as a record holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    /// An integer, or the bits of a REAL.
    pub(crate) value: i64,
    pub(crate) serial_type: u8,
    /// Bytes of `value`, the lowest, that are stored.
    pub(crate) len: u8,
}

impl Stored {
    /// The bytes that are stored, followed by arbitrary bytes.
    #[inline(always)]
    pub(crate) fn first_bytes(self) -> [u8; 8] {
        (self.value << (64u32.wrapping_sub(8 * u32::from(self.len)) & 63)).to_be_bytes()
    }
}

/// Serial type and length of a REAL.
const REALS: (u8, u8) = (REAL as u8, 8);
/// See [`index`].
const INDEX_END: usize = 128;
/// The serial types of integers and their lengths, by [`index`]: first if 0 and 1 have no types of
/// their own, then if they have.
const INTEGERS: [[(u8, u8); INDEX_END]; 2] = [integers(false), integers(true)];

const fn integers(small: bool) -> [(u8, u8); INDEX_END] {
    let mut types = [(6, 8); INDEX_END];
    let mut i = 0;
    while i < INDEX_END {
        let magnitude_bits = i / 2;
        types[i] = match magnitude_bits {
            0..=7 => (1, 1),
            8..=15 => (2, 2),
            16..=23 => (3, 3),
            24..=31 => (4, 4),
            32..=47 => (5, 6),
            _ => (6, 8),
        };
        i += 1;
    }
    if small {
        types[index(0)] = (8, 0);
        types[index(1)] = (9, 0);
    }
    types
}

/// Twice the bits of a number's magnitude (of `v`, or of its complement if `v` is negative), plus
/// one if it is negative.
#[inline(always)]
const fn index(v: i64) -> usize {
    let negative = (v >> 63) as u64;
    // The additional bit avoids a test for zero.
    let magnitude = (v as u64 ^ negative) << 1 | 1;
    (2 * (63 - magnitude.leading_zeros()) + (negative & 1) as u32) as usize
}

/// Numbers below this are in a table, with value, type and length.
const SMALL: usize = 128;
/// The largest scale with such a table.
const SMALL_SCALE: usize = 4;

const ZERO: Stored = Stored {
    value: 0,
    serial_type: 8,
    len: 0,
};

/// How numbers from 0 to below [`SMALL`] are stored.
pub(crate) struct SmallNumbers([Stored; SMALL]);

impl SmallNumbers {
    /// How `v` is stored, which must be in the table.
    #[inline(always)]
    pub(crate) fn of(&self, v: i64) -> Stored {
        self.0.get(v as usize % SMALL).copied().unwrap_or(ZERO)
    }
}

/// The tables by scale, for files in which 0 and 1 have types of their own.
static SMALL_NUMBERS: [SmallNumbers; SMALL_SCALE + 1] = {
    let mut tables = [const { SmallNumbers([ZERO; SMALL]) }; SMALL_SCALE + 1];
    let mut scale = 0;
    while scale <= SMALL_SCALE {
        let mut v = 0;
        while v < SMALL {
            let (whole, power) = (v as i64 / POWERS[scale], POWERS[scale]);
            let ((serial_type, len), value) = if whole * power == v as i64 {
                (INTEGERS[1][index(whole)], whole)
            } else {
                (REALS, (v as f64 / power as f64).to_bits() as i64)
            };
            tables[scale].0[v] = Stored {
                value,
                serial_type,
                len,
            };
            v += 1;
        }
        scale += 1;
    }
    tables
};

/// How the numbers of a page are stored.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    types: &'static [(u8, u8); INDEX_END],
    small: bool,
}

impl Numbers {
    /// `small`: 0 and 1 have types of their own.
    #[inline]
    pub(crate) fn new(small: bool) -> Numbers {
        let [long, short] = &INTEGERS;
        Numbers {
            types: if small { short } else { long },
            small,
        }
    }

    /// The table of small numbers of this scale, if it has all numbers between the two of `range`.
    #[inline]
    pub(crate) fn table(
        self,
        range: Option<(i64, i64)>,
        scale: u8,
    ) -> Option<&'static SmallNumbers> {
        let (least, most) = range?;
        let within = self.small && least >= 0 && most < SMALL as i64;
        SMALL_NUMBERS.get(usize::from(scale)).filter(|_| within)
    }

    /// An integer.
    #[inline(always)]
    pub(crate) fn stored(self, value: i64) -> Stored {
        let (serial_type, len) = self.types.get(index(value)).copied().unwrap_or((6, 8));
        Stored {
            value,
            serial_type,
            len,
        }
    }

    /// The type and length of all integers of a range, if they are the same.
    #[inline]
    pub(crate) fn same(self, (least, most): (i64, i64)) -> Option<(u8, u8)> {
        let (low, high) = (self.stored(least), self.stored(most));
        // The integers between have at least as many bits as the end nearer to zero, and at most as
        // many as the other end.
        let same = low.serial_type == high.serial_type && (least < 0) == (most < 0);
        same.then_some((low.serial_type, low.len))
    }

    /// A number that was multiplied by ten to the power of `scale`. `POWER` is that power, or 0 if
    /// it is not known at compile time.
    #[inline(always)]
    pub(crate) fn unscaled<const POWER: i64>(self, v: i64, scale: u8) -> Stored {
        // The compiler turns a division by a constant into a multiplication.
        let power = if POWER == 0 { power_of(scale) } else { POWER };
        let whole = v / power;
        let is_whole = whole.wrapping_mul(power) == v;
        let integer = self.stored(whole);
        // Powers of ten up to 10^18 are exact as REALs.
        let real = v as f64 / power as f64;
        Stored {
            value: select_unpredictable(is_whole, whole, real.to_bits() as i64),
            serial_type: select_unpredictable(is_whole, integer.serial_type, REALS.0),
            len: select_unpredictable(is_whole, integer.len, REALS.1),
        }
    }
}

/// Ten to the power of `scale`. If that does not fit in an `i64`, any number except 0 will do: no
/// number was multiplied by it.
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
pub(crate) fn number_len(serial_type: u32) -> u32 {
    u32::from(BODY_LEN.get(serial_type as usize).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decimal::{SCALE_MAX, from_scaled};
    use densite_sqlite_format::record::{body_len, int_type};
    use proptest::prelude::*;

    fn plainly(v: i64, scale: u8, small: bool) -> Stored {
        let power = 10i64.pow(u32::from(scale));
        let (value, serial_type) = match v % power {
            0 => (v / power, int_type(v / power, small)),
            _ => (from_scaled(v, scale).to_bits() as i64, REAL),
        };
        Stored {
            value,
            serial_type: serial_type as u8,
            len: body_len(serial_type) as u8,
        }
    }

    proptest! {
        #[test]
        fn numbers_are_stored_as_the_encoder_found_them(v: i64, shift in 0u32..64, small: bool, scale in 0..=SCALE_MAX) {
            let n = Numbers::new(small);
            for v in [v >> shift, 0, 1, 2, 100, -1, -100, i64::MIN, i64::MAX] {
                prop_assert_eq!(n.stored(v), plainly(v, 0, small));
                prop_assert_eq!(n.unscaled::<0>(v, scale), plainly(v, scale, small));
                prop_assert_eq!(n.unscaled::<10>(v, 1), plainly(v, 1, small));
                prop_assert_eq!(n.unscaled::<100>(v, 2), plainly(v, 2, small));
                prop_assert_eq!(n.unscaled::<1000>(v, 3), plainly(v, 3, small));
                prop_assert_eq!(n.unscaled::<10_000>(v, 4), plainly(v, 4, small));
            }
        }

        #[test]
        fn the_bytes_are_those_of_the_number(v: i64, shift in 0u32..64) {
            let stored = Numbers::new(true).stored(v >> shift);
            let bytes = stored.first_bytes();
            let len = usize::from(stored.len);
            prop_assert_eq!(&bytes[..len], &(v >> shift).to_be_bytes()[8 - len..]);
        }
    }

    #[test]
    fn a_range_of_one_type_has_no_other() {
        let powers = [0i64, 1, 2, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62].map(|bits| 1 << bits);
        let near = powers.into_iter().flat_map(|p| [p - 2, p - 1, p, p + 1]);
        let mut ends: Vec<i64> = near.flat_map(|v| [v, -v]).collect();
        ends.sort_unstable();
        let mut ranges = 0;
        for n in [Numbers::new(true), Numbers::new(false)] {
            for (i, least) in ends.iter().enumerate() {
                for (count, most) in ends.iter().skip(i).enumerate() {
                    if let Some(same) = n.same((*least, *most)) {
                        let within = ends.iter().skip(i).take(count + 1).map(|v| n.stored(*v));
                        assert!(within.into_iter().all(|s| (s.serial_type, s.len) == same));
                        ranges += 1;
                    }
                }
            }
        }
        assert!(ranges > 500, "{ranges}");
    }

    #[test]
    fn small_numbers_are_in_their_table() {
        let n = Numbers::new(true);
        for scale in 0..=SMALL_SCALE as u8 {
            let table = n
                .table(Some((0, SMALL as i64 - 1)), scale)
                .expect("there is one");
            for v in 0..SMALL as i64 {
                assert_eq!(table.of(v), plainly(v, scale, true), "{v} at {scale}");
            }
        }
        assert!(n.table(Some((-1, 5)), 0).is_none());
        assert!(n.table(Some((0, SMALL as i64)), 0).is_none());
        assert!(n.table(Some((0, 5)), SMALL_SCALE as u8 + 1).is_none());
        assert!(n.table(None, 0).is_none());
        assert!(Numbers::new(false).table(Some((0, 5)), 0).is_none());
    }
}
