//! Dates, times and decimals as text, which sorts like them in the years 0000 to 9999 (other years
//! have a sign), and which SQLite's date functions read.
//!
//! - a date: `2024-02-29`; a time: `12:30:00`; a timestamp: `2024-02-29 12:30:00`
//! - A fraction that is not zero has the fewest of 3, 6 or 9 digits that hold it, in any unit, so
//!   equal instants have equal text. If the type has a time zone, `+00:00` follows (Arrow uses
//!   UTC).
//! - a decimal: all its digits, `12.30`; the column's affinity decides how it is stored

use std::fmt::Write as _;

/// The unit of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Thousandths.
    Milli,
    /// Millionths.
    Micro,
    /// Billionths.
    Nano,
}

impl Unit {
    fn per_second(self) -> i64 {
        match self {
            Unit::Seconds => 1,
            Unit::Milli => 1_000,
            Unit::Micro => 1_000_000,
            Unit::Nano => 1_000_000_000,
        }
    }

    fn digits(self) -> usize {
        match self {
            Unit::Seconds => 0,
            Unit::Milli => 3,
            Unit::Micro => 6,
            Unit::Nano => 9,
        }
    }
}

/// The format of decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// The size of a value in bytes: 4, 8, 16 or 32, little-endian, two's complement.
    pub(crate) bytes: usize,
    /// The number of digits after the point.
    pub(crate) scale: i32,
}

const DAY_SECONDS: i64 = 86_400;

/// Writes a date, given as days since 1970-01-01.
pub fn date(out: &mut String, days: i64) {
    let (year, month, day) = civil(days);
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
}

/// Year, month and day in the proleptic Gregorian calendar, from days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // If years begin in March, the leap day is the last day. 400 years have 146,097 days.
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, over) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + over, month, day)
}

/// Writes a time since midnight. A negative time, which is not valid, gets a sign.
pub fn time(out: &mut String, since: i64, unit: Unit) {
    if since < 0 {
        out.push('-');
    }
    let per_second = unit.per_second().unsigned_abs();
    let since = since.unsigned_abs();
    let (seconds, fraction) = (since / per_second, since % per_second);
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    let (mut fraction, mut digits) = (fraction, unit.digits());
    if fraction != 0 {
        while fraction.is_multiple_of(1000) {
            (fraction, digits) = (fraction / 1000, digits - 3);
        }
        let _ = write!(out, ".{fraction:0digits$}");
    }
}

/// Writes a timestamp since 1970-01-01 00:00:00.
pub fn timestamp(out: &mut String, since: i64, unit: Unit, utc: bool) {
    let day = DAY_SECONDS * unit.per_second();
    date(out, since.div_euclid(day));
    out.push(' ');
    time(out, since.rem_euclid(day), unit);
    if utc {
        out.push_str("+00:00");
    }
}

/// Writes a decimal, given as a little-endian number in two's complement. `scale` is the number of
/// digits after the point.
pub fn decimal(out: &mut String, value: &[u8], scale: i32) {
    let negative = value.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut digits = digits(value, negative);
    let scale = match usize::try_from(scale) {
        Ok(scale) => scale,
        Err(_) => {
            if digits != "0" {
                digits.extend(std::iter::repeat_n(
                    '0',
                    usize::try_from(scale.unsigned_abs()).unwrap_or(0),
                ));
            }
            0
        }
    };
    if negative {
        out.push('-');
    }
    if scale == 0 {
        out.push_str(&digits);
        return;
    }
    // At least one digit is before the point.
    let missing = (scale + 1).saturating_sub(digits.len());
    digits.insert_str(0, &"0".repeat(missing));
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let _ = write!(out, "{whole}.{fraction}");
}

/// The digits of a little-endian number's magnitude.
fn digits(value: &[u8], negative: bool) -> String {
    if let Some(bytes) = value.first_chunk::<16>().filter(|_| value.len() == 16) {
        return i128::from_le_bytes(*bytes).unsigned_abs().to_string();
    }
    let mut magnitude: Vec<u8> = value.to_vec();
    if negative {
        // Two's complement: invert all bits and add one.
        let mut carry = true;
        for byte in &mut magnitude {
            let (turned, over) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (turned, over);
        }
    }
    // Groups of nine digits, the lowest group first.
    const GROUP: u32 = 1_000_000_000;
    let mut groups = Vec::new();
    while magnitude.iter().any(|&byte| byte != 0) {
        let mut rest = 0u64;
        for byte in magnitude.iter_mut().rev() {
            let part = rest << 8 | u64::from(*byte);
            *byte = (part / u64::from(GROUP)) as u8;
            rest = part % u64::from(GROUP);
        }
        groups.push(rest);
    }
    let mut text = groups.pop().unwrap_or(0).to_string();
    for group in groups.iter().rev() {
        let _ = write!(text, "{group:09}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn dates_through_the_ages() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_782, "2024-02-29"),
            (11_016, "2000-02-29"),
            (-719_528, "0000-01-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (-719_529, "-0001-12-31"),
        ] {
            assert_eq!(written(|out| date(out, days)), text);
        }
    }

    #[test]
    fn timestamps_by_unit_and_zone() {
        let at = |n, unit, utc| written(|out| timestamp(out, n, unit, utc));
        assert_eq!(at(0, Unit::Seconds, false), "1970-01-01 00:00:00");
        assert_eq!(at(-1, Unit::Milli, false), "1969-12-31 23:59:59.999");
        for (n, unit) in [
            (-20, Unit::Milli),
            (-20_000, Unit::Micro),
            (-20_000_000, Unit::Nano),
        ] {
            assert_eq!(at(n, unit, false), "1969-12-31 23:59:59.980");
        }
        assert_eq!(at(1_000, Unit::Nano, false), "1970-01-01 00:00:00.000001");
        assert_eq!(
            at(1_709_210_096_000_007, Unit::Micro, true),
            "2024-02-29 12:34:56.000007+00:00"
        );
        assert_eq!(
            at(86_399_000_000_010, Unit::Nano, false),
            "1970-01-01 23:59:59.000000010"
        );
        assert_eq!(
            at(i64::MIN, Unit::Nano, false),
            "1677-09-21 00:12:43.145224192"
        );
    }

    #[test]
    fn times_by_unit() {
        let at = |n, unit| written(|out| time(out, n, unit));
        assert_eq!(at(3723, Unit::Seconds), "01:02:03");
        assert_eq!(at(86_399_999_999, Unit::Micro), "23:59:59.999999");
        // Not a time of day, but no digit of the number is lost.
        assert_eq!(at(-5, Unit::Nano), "-00:00:00.000000005");
        assert_eq!(at(90_000_000, Unit::Milli), "25:00:00");
        assert_eq!(at(i64::MIN, Unit::Seconds), "-2562047788015215:30:08");
    }

    #[test]
    fn decimals_of_every_width() {
        let of = |value: &[u8], scale| written(|out| decimal(out, value, scale));
        assert_eq!(of(&1230i128.to_le_bytes(), 2), "12.30");
        assert_eq!(of(&(-5i128).to_le_bytes(), 3), "-0.005");
        assert_eq!(of(&7i32.to_le_bytes(), -2), "700");
        assert_eq!(of(&0i64.to_le_bytes(), 2), "0.00");
        assert_eq!(of(&0i64.to_le_bytes(), -3), "0");
        assert_eq!(of(&(-1i64).to_le_bytes(), 0), "-1");
        assert_eq!(of(&i128::MIN.to_le_bytes(), 0), i128::MIN.to_string());
        let mut wide = [0u8; 32];
        wide[24] = 1;
        assert_eq!(
            of(&wide, 0),
            "6277101735386680763835789423207666416102355444464034512896"
        );
        let mut negative = [0xffu8; 32];
        negative[0] = 0xfe;
        assert_eq!(of(&negative, 1), "-0.2");
    }
}
