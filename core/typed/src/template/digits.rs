//! Numbers of a fixed count of digits, decimal and hexadecimal, eight characters at a time in a
//! register.

/// Eight times the digit zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The most decimal digits of a number.
pub(super) const DECIMAL_MAX: usize = 18;
/// The most hexadecimal digits of a number.
pub(super) const HEX_MAX: usize = 15;

/// The most digits that [`write_left`] writes.
pub(super) const SIXTEEN: usize = 16;

/// 10^0 to 10^18.
const POWERS: [u64; DECIMAL_MAX + 1] = {
    let mut powers = [1; DECIMAL_MAX + 1];
    let mut i = 1;
    while i <= DECIMAL_MAX {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// 10^`n` for `n` up to [`DECIMAL_MAX`], and the largest of them for greater `n`.
#[inline(always)]
pub(super) fn power(n: usize) -> i64 {
    POWERS.get(n).map_or(POWERS[DECIMAL_MAX], |power| *power) as i64
}

/// Loads 1 to 8 characters into the high end of a register, with the digit zero before them. The
/// first character is in the lowest byte.
#[inline(always)]
pub(super) fn load(text: &[u8]) -> Option<u64> {
    let n = text.len() as u32;
    if let Some(all) = text.first_chunk::<8>() {
        return Some(u64::from_le_bytes(*all));
    }
    let shift = 64 - 8 * n;
    let characters = if let (Some(first), Some(last)) =
        (text.first_chunk::<4>(), text.last_chunk::<4>())
    {
        u64::from(u32::from_le_bytes(*first)) << shift | u64::from(u32::from_le_bytes(*last)) << 32
    } else if let (Some(first), Some(last)) = (text.first_chunk::<2>(), text.last_chunk::<2>()) {
        u64::from(u16::from_le_bytes(*first)) << shift | u64::from(u16::from_le_bytes(*last)) << 48
    } else {
        u64::from(*text.first()?) << 56
    };
    Some(characters | ZEROS >> (8 * n))
}

/// The inverse of [`load`]: stores as many characters as `text` has bytes, 1 to 8.
#[inline(always)]
pub(super) fn store(characters: u64, text: &mut [u8]) {
    let n = text.len() as u32;
    if let Some(all) = text.first_chunk_mut::<8>() {
        *all = characters.to_le_bytes();
        return;
    }
    let low = characters.checked_shr(64 - 8 * n).unwrap_or(0);
    if let Some(first) = text.first_chunk_mut::<4>() {
        *first = (low as u32).to_le_bytes();
        if let Some(last) = text.last_chunk_mut::<4>() {
            *last = ((characters >> 32) as u32).to_le_bytes();
        }
    } else if let Some(first) = text.first_chunk_mut::<2>() {
        *first = (low as u16).to_le_bytes();
        if let Some(last) = text.last_chunk_mut::<2>() {
            *last = ((characters >> 48) as u16).to_le_bytes();
        }
    } else if let Some(only) = text.first_mut() {
        *only = low as u8;
    }
}

/// Joins eight characters to a number; `None` if one of them is not a digit.
#[inline(always)]
fn join_decimal(characters: u64) -> Option<u64> {
    let x = characters ^ ZEROS;
    // Adding 0x76 sets the highest bit of a byte above nine. A byte that carries into the next one
    // has its own highest bit set.
    if (x | x.wrapping_add(ONES * 0x76)) & HIGH != 0 {
        return None;
    }
    let x = (x * 10 + (x >> 8)) & 0x00ff_00ff_00ff_00ff;
    let x = (x * 100 + (x >> 16)) & 0x0000_ffff_0000_ffff;
    Some((x * 10_000 + (x >> 32)) & 0xffff_ffff)
}

/// The digits of a number below 10^8, as eight characters.
#[inline(always)]
fn split_decimal(value: u64) -> u64 {
    let x = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((x * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let x = hundreds | (x - hundreds * 100) << 16;
    let tens = ((x * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | (x - tens * 10) << 8) | ZEROS
}

/// Reads a number of as many digits as `text` has bytes, 1 to [`DECIMAL_MAX`]. `None` if another
/// character is in it.
#[inline(always)]
pub(super) fn read_decimal(text: &[u8]) -> Option<i64> {
    if text.len() > DECIMAL_MAX {
        return None;
    }
    if text.len() <= 8 {
        return Some(join_decimal(load(text)?)? as i64);
    }
    let (head, rest) = text.split_at_checked((text.len() - 1) % 8 + 1)?;
    let mut value = join_decimal(load(head)?)?;
    for eight in rest.chunks_exact(8) {
        value = value * 100_000_000 + join_decimal(load(eight)?)?;
    }
    Some(value as i64)
}

/// Fills `text`, 1 to [`DECIMAL_MAX`] bytes, with the number's digits and leading zeros. Returns
/// false if the number is negative or too large.
#[inline(always)]
pub(super) fn write_decimal(value: i64, text: &mut [u8]) -> bool {
    let mut value = value as u64;
    if POWERS.get(text.len()).is_none_or(|end| value >= *end) {
        return false;
    }
    if text.len() <= 8 {
        store(split_decimal(value), text);
        return true;
    }
    for eight in text.rchunks_mut(8) {
        store(split_decimal(value % 100_000_000), eight);
        value /= 100_000_000;
    }
    true
}

/// Writes the number's `n` digits, 1 to [`SIXTEEN`], with leading zeros, to the beginning of `out`;
/// the bytes behind them are undefined. Returns false if the number is negative or too large.
#[inline(always)]
pub(super) fn write_left(value: i64, n: usize, out: &mut [u8; SIXTEEN]) -> bool {
    let value = value as u64;
    if n > SIXTEEN || POWERS.get(n).is_none_or(|end| value >= *end) {
        return false;
    }
    // Numbers in names are usually small, however many digits they have.
    let (head, last) = if value < 100_000_000 {
        (ZEROS, split_decimal(value))
    } else {
        let (head, last) = (value / 100_000_000, value % 100_000_000);
        (split_decimal(head), split_decimal(last))
    };
    let all = u128::from(head) | u128::from(last) << 64;
    let unused = 8 * (SIXTEEN - n) as u32;
    *out = all.checked_shr(unused).unwrap_or(0).to_le_bytes();
    true
}

/// What is added to a hexadecimal digit above nine, in addition to the digit zero.
#[inline(always)]
fn letter_gap(upper: bool) -> u64 {
    if upper { 7 } else { 39 }
}

/// The characters of eight nibbles, one in each byte.
#[inline(always)]
fn hex_characters(nibbles: u64, gap: u64) -> u64 {
    nibbles + ZEROS + ((nibbles + ONES * 6) >> 4 & ONES) * gap
}

/// As [`read_decimal`], for hexadecimal digits of one case, 1 to [`HEX_MAX`].
#[inline]
pub(super) fn read_hex(text: &[u8], upper: bool) -> Option<i64> {
    if text.len() > HEX_MAX {
        return None;
    }
    let gap = letter_gap(upper);
    if text.len() <= 8 {
        return Some(join_hex(load(text)?, gap)? as i64);
    }
    let (head, rest) = text.split_at_checked((text.len() - 1) % 8 + 1)?;
    let mut value = join_hex(load(head)?, gap)?;
    for eight in rest.chunks_exact(8) {
        value = value << 32 | join_hex(load(eight)?, gap)?;
    }
    Some(value as i64)
}

#[inline(always)]
fn join_hex(characters: u64, gap: u64) -> Option<u64> {
    let nibbles = (characters & (ONES * 0x0f)) + ((characters >> 6) & ONES) * 9;
    // A character that is not a digit of this case differs from the character of its nibble.
    if nibbles & (ONES * 0xf0) != 0 || hex_characters(nibbles, gap) != characters {
        return None;
    }
    let x = nibbles.swap_bytes();
    let x = (x | x >> 4) & 0x00ff_00ff_00ff_00ff;
    let x = (x | x >> 8) & 0x0000_ffff_0000_ffff;
    Some((x | x >> 16) & 0xffff_ffff)
}

/// As [`write_decimal`], for hexadecimal digits, 1 to [`HEX_MAX`].
#[inline]
pub(super) fn write_hex(value: i64, text: &mut [u8], upper: bool) -> bool {
    let mut value = value as u64;
    if text.len() > HEX_MAX || value >> (4 * text.len()) != 0 {
        return false;
    }
    let gap = letter_gap(upper);
    for eight in text.rchunks_mut(8) {
        let x = value & 0xffff_ffff;
        let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
        let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
        let x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        store(hex_characters(x.swap_bytes(), gap), eight);
        value >>= 32;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_eight_digits_round_trip() {
        for value in (0..100_000_000u64)
            .step_by(37)
            .chain(99_990_000..100_000_000)
        {
            let mut text = [0; 8];
            assert!(write_decimal(value as i64, &mut text));
            if value % 101 == 0 {
                assert_eq!(text, format!("{value:08}").as_bytes());
            }
            assert_eq!(read_decimal(&text), Some(value as i64));
        }
    }

    #[test]
    fn only_digits_are_read() {
        for n in 1..=DECIMAL_MAX {
            for at in 0..n {
                for byte in 0..=255u8 {
                    let mut text = vec![b'7'; n];
                    text[at] = byte;
                    assert_eq!(
                        read_decimal(&text).is_some(),
                        byte.is_ascii_digit(),
                        "{text:?}"
                    );
                    if n <= HEX_MAX {
                        let lower = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                        let upper = matches!(byte, b'0'..=b'9' | b'A'..=b'F');
                        assert_eq!(read_hex(&text, false).is_some(), lower, "{text:?}");
                        assert_eq!(read_hex(&text, true).is_some(), upper, "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_and_values_out_of_range_are_refused() {
        assert_eq!(read_decimal(b""), None);
        assert_eq!(read_decimal(&[b'1'; 19]), None);
        assert_eq!(read_hex(b"", false), None);
        assert_eq!(read_hex(&[b'1'; 16], false), None);
        assert!(!write_decimal(1, &mut []));
        assert!(!write_decimal(1, &mut [0; 19]));
        assert!(!write_hex(1, &mut [], true));
        assert!(!write_hex(1, &mut [0; 16], true));
        assert!(!write_decimal(10, &mut [0]));
        assert!(!write_left(1, 0, &mut [0; SIXTEEN]));
        assert!(!write_left(1, 17, &mut [0; SIXTEEN]));
        assert!(!write_left(-1, 16, &mut [0; SIXTEEN]));
        assert!(!write_decimal(-1, &mut [0; 18]));
        assert!(!write_hex(16, &mut [0], true));
        assert!(!write_hex(-1, &mut [0; 15], true));
    }

    proptest! {
        #[test]
        fn decimal_digits_equal_the_standard_formatting(value in any::<u64>(), n in 1..=DECIMAL_MAX) {
            let value = value % POWERS[n];
            let mut text = vec![0; n];
            prop_assert!(write_decimal(value as i64, &mut text));
            let expected = format!("{value:0n$}");
            prop_assert_eq!(&text, expected.as_bytes());
            prop_assert_eq!(read_decimal(&text), Some(value as i64));
            let mut left = [0; SIXTEEN];
            prop_assert_eq!(write_left(value as i64, n, &mut left), n <= SIXTEEN);
            if n <= SIXTEEN {
                prop_assert_eq!(&left[..n], expected.as_bytes());
                prop_assert!(!write_left(POWERS[n] as i64, n, &mut left));
            }
        }

        #[test]
        fn hexadecimal_digits_equal_the_standard_formatting(value in any::<u64>(), n in 1..=HEX_MAX, upper in any::<bool>()) {
            let value = value % (1 << (4 * n));
            let mut text = vec![0; n];
            prop_assert!(write_hex(value as i64, &mut text, upper));
            let expected = if upper { format!("{value:0n$X}") } else { format!("{value:0n$x}") };
            prop_assert_eq!(&text, expected.as_bytes());
            prop_assert_eq!(read_hex(&text, upper), Some(value as i64));
        }
    }
}
