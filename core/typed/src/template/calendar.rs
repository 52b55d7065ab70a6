//! Dates and times of day as text, and as numbers.
//!
//! Days count from 1970-01-01 in the proleptic Gregorian calendar, for the years 0000 to 9999. Both
//! directions follow Neri and Schneider, "Euclidean affine functions and their application to
//! calendar algorithms" (Software: Practice and Experience, 2022). Years begin in March, so the
//! leap day is the last day, and divisions become multiplications.

/// Days of 0000-01-01 and 9999-12-31.
pub(super) const DAY_MIN: i64 = -719_528;
pub(super) const DAY_MAX: i64 = 2_932_896;
/// Seconds of a day.
pub(super) const DAY_SECONDS: i64 = 86_400;

/// Lengths of `YYYY-MM-DD`, `YYYYMMDD` and `HH:MM:SS`.
pub(super) const DATE_LEN: usize = 10;
pub(super) const COMPACT_LEN: usize = 8;
pub(super) const TIME_LEN: usize = 8;

/// The calendar repeats after this many years and days. One such era is added, so that no number is
/// negative.
const ERA_YEARS: u32 = 400;
const ERA_DAYS: u32 = 146_097;
/// Days from a March 1st, one era before 0000-03-01, to 1970-01-01.
const SHIFT: u32 = 719_468 + ERA_DAYS;

/// Two bits for each month: its days beyond 28, in years that are not leap years.
const BEYOND_28: u32 = 0b11_10_11_10_11_11_10_11_10_11_00_11 << 2;

const HIGH: u64 = 0x8080_8080_8080_8080;
const ZEROS: u64 = 0x3030_3030_3030_3030;
/// The factor that puts a separator at its places in `YYYY-MM-`.
const SEPARATORS: u64 = 1 << 32 | 1 << 56;
/// The separators of `HH:MM:SS`.
const COLONS: u64 = 0x0000_3a00_003a_0000;
/// The digits zero of `HH:MM:SS`.
const TIME_ZEROS: u64 = 0x3030_0030_3000_3030;

/// The days since 1970-01-01 of a date whose numbers have at most 4, 2 and 2 digits. `None` if the
/// date does not exist.
#[inline(always)]
fn days(year: u32, month: u32, day: u32) -> Option<i64> {
    let leap = year & if year.is_multiple_of(100) { 15 } else { 3 } == 0;
    // Shifts are modulo 32, and the month has two digits. The result for months above 12 is not
    // used.
    let last = 28 + (BEYOND_28.wrapping_shr(2 * month) & 3) + u32::from(leap & (month == 2));
    if (month.wrapping_sub(1) >= 12) | (day.wrapping_sub(1) >= last) {
        return None;
    }
    let early = u32::from(month <= 2);
    let year = year + ERA_YEARS - early;
    let month = month + 12 * early;
    let century = year / 100;
    let of_years = 1461 * year / 4 - century + century / 4;
    let of_months = (979 * month - 2919) / 32;
    Some(i64::from(of_years + of_months + day - 1) - i64::from(SHIFT))
}

/// The eight digits of a day's year, month and day as text, in byte order. `None` if the year does
/// not have four digits.
#[inline(always)]
fn date_digits(days: i64) -> Option<u64> {
    // The usual case: two hundred years in which every fourth year is a leap year.
    let near = days.wrapping_sub(NEAR) as u64;
    if near < NEAR_DAYS {
        let of_years = 4 * near as u32 + 3;
        let year = of_years / 1461;
        let day_of_year = (of_years % 1461) / 4;
        let late = u32::from(day_of_year >= 306);
        let year = NEAR_YEARS.get((year + late) as usize)?;
        let month_and_day = MONTHS_AND_DAYS.get(day_of_year as usize)?;
        return Some(u64::from(*year) | u64::from(*month_and_day) << 32);
    }
    any_date_digits(days)
}

/// As [`date_digits`], for any year.
fn any_date_digits(days: i64) -> Option<u64> {
    let n = days.wrapping_sub(DAY_MIN) as u64;
    if n > (DAY_MAX - DAY_MIN) as u64 {
        return None;
    }
    let n = n as u32 + (DAY_MIN + SHIFT as i64) as u32;
    let of_centuries = 4 * n + 3;
    let century = of_centuries / ERA_DAYS;
    let of_years = (of_centuries % ERA_DAYS) | 3;
    let product = 2_939_745 * u64::from(of_years);
    let of_century = (product >> 32) as u32;
    let day_of_year = product as u32 / 2_939_745 / 4;
    // January and February belong to the next year.
    let late = day_of_year >= 306;
    let year = 100 * century + of_century + u32::from(late) - ERA_YEARS;
    let high = year / 100;
    let pair = |n: u32| PAIRS.get(n as usize).copied().map(u64::from);
    let month_and_day = MONTHS_AND_DAYS.get(day_of_year as usize)?;
    Some(pair(high)? | pair(year - 100 * high)? << 16 | u64::from(*month_and_day) << 32)
}

/// The day of 1900-03-01, and the number of days to 2100-02-28.
const NEAR: i64 = -25_508;
const NEAR_DAYS: u64 = 73_049;
/// The years 1900 to 2100 as four digits, the first in the lowest byte.
static NEAR_YEARS: [u32; 201] = {
    let mut texts = [0; 201];
    let mut n = 0;
    while n < 201 {
        texts[n] = PAIRS[19 + n / 100] as u32 | (PAIRS[n % 100] as u32) << 16;
        n += 1;
    }
    texts
};

/// The numbers below 100 as two digits, the first in the lowest byte.
const PAIRS: [u16; 100] = {
    let mut pairs = [0; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = (n / 10 + 0x30) as u16 | ((n % 10 + 0x30) as u16) << 8;
        n += 1;
    }
    pairs
};

/// Month and day as four digits, by day of a year that begins in March.
const MONTHS_AND_DAYS: [u32; 366] = {
    let mut texts = [0; 366];
    let mut n = 0;
    while n < 366 {
        let of_months = 2141 * n as u32 + 197_913;
        let month = (of_months >> 16) - if n >= 306 { 12 } else { 0 };
        let day = (of_months & 0xffff) / 2141 + 1;
        texts[n] = PAIRS[month as usize] as u32 | (PAIRS[day as usize] as u32) << 16;
        n += 1;
    }
    texts
};

/// Whether each byte is at most nine (if `limits` has 0x76 there) or zero (if it has 0x7f).
#[inline(always)]
fn within(bytes: u64, limits: u64) -> bool {
    (bytes | bytes.wrapping_add(limits)) & HIGH == 0
}

/// The date of eight digits, one in each byte, the first in the lowest.
#[inline(always)]
fn date_of(digits: u64) -> Option<i64> {
    let pairs = digits * 10 + (digits >> 8);
    let pair = |at: u32| (pairs >> at & 0xff) as u32;
    days(pair(0) * 100 + pair(16), pair(32), pair(48))
}

/// Reads `YYYY-MM-DD` with the given separator.
#[inline(always)]
pub(super) fn read_date(text: &[u8; DATE_LEN], separator: u8) -> Option<i64> {
    let (front, back) = text.split_at(8);
    let front = u64::from_le_bytes(*front.first_chunk()?)
        ^ (0x0030_3000_3030_3030 | (SEPARATORS * u64::from(separator)));
    let back = u64::from(u16::from_le_bytes(*back.first_chunk()?)) ^ 0x3030;
    if !within(front, 0x7f76_767f_7676_7676) | !within(back, 0x7676) {
        return None;
    }
    date_of(front & 0xffff_ffff | (front >> 8) & 0xffff_0000_0000 | back << 48)
}

/// Writes `YYYY-MM-DD`. Returns false if the year does not have four digits.
#[inline(always)]
pub(super) fn write_date(days: i64, text: &mut [u8; DATE_LEN], separator: u8) -> bool {
    let Some(digits) = date_digits(days) else {
        return false;
    };
    let front = digits & 0xffff_ffff
        | (digits & 0xffff_0000_0000) << 8
        | (SEPARATORS * u64::from(separator));
    let (to_front, to_back) = text.split_at_mut(8);
    to_front.copy_from_slice(&front.to_le_bytes());
    to_back.copy_from_slice(&((digits >> 48) as u16).to_le_bytes());
    true
}

/// Reads `YYYYMMDD`.
#[inline(always)]
pub(super) fn read_compact(text: &[u8; COMPACT_LEN]) -> Option<i64> {
    let digits = u64::from_le_bytes(*text) ^ ZEROS;
    if !within(digits, 0x7676_7676_7676_7676) {
        return None;
    }
    date_of(digits)
}

/// Writes `YYYYMMDD`. Returns false if the year does not have four digits.
#[inline(always)]
pub(super) fn write_compact(days: i64, text: &mut [u8; COMPACT_LEN]) -> bool {
    let Some(digits) = date_digits(days) else {
        return false;
    };
    *text = digits.to_le_bytes();
    true
}

/// Reads `HH:MM:SS` as seconds of the day. Leap seconds are not read.
#[inline(always)]
pub(super) fn read_time(text: &[u8; TIME_LEN]) -> Option<i64> {
    let digits = u64::from_le_bytes(*text) ^ (TIME_ZEROS | COLONS);
    if !within(digits, 0x7676_7f76_767f_7676) {
        return None;
    }
    let pairs = digits * 10 + (digits >> 8);
    let pair = |at: u32| (pairs >> at & 0xff) as u32;
    let (hour, minute, second) = (pair(0), pair(24), pair(48));
    let valid = (hour < 24) & (minute < 60) & (second < 60);
    valid.then_some(i64::from(hour * 3600 + minute * 60 + second))
}

/// Writes `HH:MM:SS`. Returns false if the seconds are not within a day.
#[inline(always)]
pub(super) fn write_time(seconds: u64, text: &mut [u8; TIME_LEN]) -> bool {
    if seconds >= DAY_SECONDS as u64 {
        return false;
    }
    let seconds = seconds as u32;
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let pairs = u64::from(hours)
        | u64::from(minutes - 60 * hours) << 24
        | u64::from(seconds - 60 * minutes) << 48;
    let tens = ((pairs * 103) >> 10) & 0x000f_0000_0f00_000f;
    *text = (tens | (pairs - 10 * tens) << 8 | TIME_ZEROS | COLONS).to_le_bytes();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_date_of_four_digit_years_round_trips() {
        let mut day = DAY_MIN;
        for year in 0..=9999u32 {
            let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
            let lengths = [
                31,
                if leap { 29 } else { 28 },
                31,
                30,
                31,
                30,
                31,
                31,
                30,
                31,
                30,
                31,
            ];
            for (month, length) in (1..).zip(lengths) {
                for of_month in 1..=length {
                    assert_eq!(days(year, month, of_month), Some(day));
                    let mut text = [0; DATE_LEN];
                    assert!(write_date(day, &mut text, b'-'));
                    assert_eq!(read_date(&text, b'-'), Some(day));
                    let mut compact = [0; COMPACT_LEN];
                    assert!(write_compact(day, &mut compact));
                    assert_eq!(read_compact(&compact), Some(day));
                    if day % 61 == 0 {
                        let expected = format!("{year:04}-{month:02}-{of_month:02}");
                        assert_eq!(text, expected.as_bytes());
                        assert_eq!(compact, expected.replace('-', "").as_bytes());
                    }
                    day += 1;
                }
                assert_eq!(days(year, month, 0), None);
                assert_eq!(days(year, month, length + 1), None);
            }
            for month in [0].into_iter().chain(13..100) {
                assert_eq!((0..100).find_map(|day| days(year, month, day)), None);
            }
        }
        assert_eq!(day, DAY_MAX + 1);
        for outside in [DAY_MIN - 1, DAY_MAX + 1, i64::MIN, i64::MAX] {
            assert!(!write_date(outside, &mut [0; DATE_LEN], b'-'));
        }
        assert_eq!(days(1970, 1, 1), Some(0));
    }

    #[test]
    fn every_second_of_a_day_round_trips() {
        for seconds in 0..DAY_SECONDS {
            let mut text = [0; TIME_LEN];
            assert!(write_time(seconds as u64, &mut text));
            let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            assert_eq!(
                text,
                format!("{hour:02}:{minute:02}:{second:02}").as_bytes()
            );
            assert_eq!(read_time(&text), Some(seconds));
        }
        for outside in [DAY_SECONDS as u64, u64::MAX / 2, u64::MAX] {
            assert!(!write_time(outside, &mut [0; TIME_LEN]));
        }
    }

    #[test]
    fn every_text_that_is_read_round_trips() {
        for byte in 0..=255u8 {
            for at in 0..DATE_LEN {
                let mut text = *b"1996-11-11";
                let same = text[at] == byte;
                text[at] = byte;
                let read = read_date(&text, b'-');
                let digit = byte.is_ascii_digit() && at != 4 && at != 7;
                assert!(read.is_none() || digit || same, "{text:?}");
                let mut back = [0; DATE_LEN];
                assert!(read.is_none_or(|days| write_date(days, &mut back, b'-') && back == text));
            }
            for at in 0..TIME_LEN {
                let mut text = *b"11:11:11";
                text[at] = byte;
                let mut back = [0; TIME_LEN];
                assert!(
                    read_time(&text)
                        .is_none_or(|s| write_time(s as u64, &mut back) && back == text)
                );
                let mut text = *b"19961111";
                text[at] = byte;
                let mut back = [0; COMPACT_LEN];
                assert!(
                    read_compact(&text).is_none_or(|d| write_compact(d, &mut back) && back == text)
                );
            }
        }
    }
}
