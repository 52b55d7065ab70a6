//! The parts of a text of one length: literals, choices, numbers, dates and times.

use super::super::calendar::{self, COMPACT_LEN, DATE_LEN, TIME_LEN};
use super::super::{CHOICES_MAX, FRACTION_MAX, Fraction, Kind, Template, digits};
use super::{Case, Counts, Place, enough};

/// Longer hexadecimal runs are cut into fields of at most this many digits. They have 56 bits,
/// which one load of eight bytes can hold.
const HEX_FIELD_MAX: usize = 14;
/// Runs of digits that are too long for one number are cut into fields of at most this many.
const LONG_DIGITS_MAX: usize = 16;
/// The most adjacent choices. More of them are words.
const CHOICES_TOGETHER_MAX: usize = 3;
/// Eight digits are a date only between these days, 1900-01-01 and 2100-12-31.
const COMPACT_DAYS: std::ops::RangeInclusive<i64> = -25_567..=47_846;
/// A place in a hexadecimal run is decimal if it has this many different digits and no letter.
const DECIMAL_SEEN: usize = 9;

/// Builds the template of samples of one length.
pub(super) fn build(rows: &[&[u8]], counts: &[Counts]) -> Option<Template> {
    let builder = Builder {
        rows,
        places: counts.iter().map(Place::of).collect(),
    };
    let mut parts = Vec::new();
    let mut at = 0;
    while at < builder.places.len() {
        let last = builder.part(at, &mut parts)?;
        parts.push(last);
        at = parts.iter().map(|(_, len)| len).sum();
    }
    builder.finish(&parts)
}

struct Builder<'a> {
    rows: &'a [&'a [u8]],
    places: Vec<Place>,
}

impl Builder<'_> {
    fn place(&self, at: usize) -> Option<&Place> {
        self.places.get(at)
    }

    /// Length of the run of places, from `at` on, that pass `test`.
    fn run(&self, at: usize, mut test: impl FnMut(&Place) -> bool) -> usize {
        let rest = self.places.get(at..).unwrap_or_default();
        rest.iter().take_while(|place| test(place)).count()
    }

    /// Whether one of these places varies.
    fn varies(&self, at: usize, len: usize) -> bool {
        let places = self.places.get(at..at + len).unwrap_or_default();
        places.iter().any(Place::varies)
    }

    /// The byte at this place, if it is the same in all samples and one of `bytes`.
    fn constant(&self, at: usize, bytes: &[u8]) -> Option<u8> {
        self.place(at)?
            .constant()
            .filter(|byte| bytes.contains(byte))
    }

    /// Whether the place is part of a number.
    fn numeric(&self, at: Option<usize>) -> bool {
        at.and_then(|at| self.place(at)).is_some_and(Place::numeric)
    }

    /// Whether `read` accepts the text at `at` in enough samples.
    fn most(&self, at: usize, len: usize, read: impl Fn(&[u8]) -> bool) -> bool {
        let taken = self
            .rows
            .iter()
            .filter(|row| row.get(at..at + len).is_some_and(&read));
        enough(taken.count(), self.rows.len())
    }

    /// The part of the text that begins at `at`. If it is cut into several parts, all but the last
    /// are added to `parts`.
    fn part(&self, at: usize, parts: &mut Vec<(Kind, usize)>) -> Option<(Kind, usize)> {
        let place = self.place(at)?;
        if place.digits() && !self.numeric(at.checked_sub(1)) {
            let found = self
                .date(at)
                .or_else(|| self.time(at))
                .or_else(|| self.compact_date(at));
            if found.is_some() {
                return found;
            }
        }
        if let Some((case, len)) = self.hex(at) {
            return self.hex_part(at, case, len, parts);
        }
        if place.digits() {
            let len = self.run(at, Place::digits);
            if !self.varies(at, len) {
                return Some((Kind::Literal, len));
            }
            return Some(cut(
                Kind::Digits,
                len,
                digits::DECIMAL_MAX,
                LONG_DIGITS_MAX,
                1,
                parts,
            ));
        }
        if place.varies() {
            let together = self.run(at, |place| place.varies() && !place.numeric());
            let before = parts
                .iter()
                .rev()
                .take_while(|(kind, _)| matches!(kind, Kind::Choice(_)));
            if together + before.count() > CHOICES_TOGETHER_MAX || place.bytes.len() > CHOICES_MAX {
                return None;
            }
            return Some((Kind::Choice(0), 1));
        }
        Some((Kind::Literal, 1))
    }

    /// A date, or date and time, if it varies.
    fn date(&self, at: usize) -> Option<(Kind, usize)> {
        let separator = self.constant(at + 4, b"-/")?;
        self.constant(at + 7, &[separator])?;
        let numbers = self.run(at, Place::digits) == 4
            && self.run(at + 5, Place::digits) == 2
            && self.run(at + 8, Place::digits) >= 2;
        let is_date = |text: &[u8]| {
            let text = text.first_chunk();
            text.is_some_and(|text| calendar::read_date(text, separator).is_some())
        };
        if !numbers || self.numeric(Some(at + DATE_LEN)) || !self.most(at, DATE_LEN, is_date) {
            return None;
        }
        // A time that never varies (usually midnight) is a literal.
        if let Some(between) = self.constant(at + DATE_LEN, b" T")
            && let Some((Kind::Time { fraction }, len)) = self.time(at + DATE_LEN + 1)
        {
            let kind = Kind::DateTime {
                separator,
                between,
                fraction,
            };
            return Some((kind, DATE_LEN + 1 + len));
        }
        self.varies(at, DATE_LEN)
            .then_some((Kind::Date { separator }, DATE_LEN))
    }

    /// A time of day, if it varies.
    fn time(&self, at: usize) -> Option<(Kind, usize)> {
        self.constant(at + 2, b":")?;
        self.constant(at + 5, b":")?;
        let numbers = self.run(at, Place::digits) == 2
            && self.run(at + 3, Place::digits) == 2
            && self.run(at + 6, Place::digits) == 2;
        // If a pair of digits and a colon come before or behind, it is an address of hexadecimal
        // pairs.
        let alone = !self.numeric(Some(at + TIME_LEN))
            && self.constant(at + TIME_LEN, b":").is_none()
            && at
                .checked_sub(1)
                .is_none_or(|before| self.constant(before, b":").is_none());
        let is_time = |text: &[u8]| {
            let text = text.first_chunk();
            text.is_some_and(|text| calendar::read_time(text).is_some())
        };
        if !numbers || !alone || !self.most(at, TIME_LEN, is_time) {
            return None;
        }
        let fraction = self.fraction(at + TIME_LEN).unwrap_or(Fraction::NONE);
        let len = TIME_LEN + fraction.len();
        self.varies(at, len)
            .then_some((Kind::Time { fraction }, len))
    }

    /// The digits behind a time, without the zeros at the end that all samples have.
    fn fraction(&self, at: usize) -> Option<Fraction> {
        let mark = self.constant(at, b".,")?;
        let mut len = self.run(at + 1, Place::digits);
        if self.numeric(Some(at + 1 + len)) {
            return None;
        }
        while len > 0 && self.constant(at + len, b"0").is_some() {
            len -= 1;
        }
        let digits = u8::try_from(len).ok()?;
        (1..=FRACTION_MAX)
            .contains(&digits)
            .then_some(Fraction { digits, mark })
    }

    /// Eight digits, if they are a date within [`COMPACT_DAYS`] in all samples.
    fn compact_date(&self, at: usize) -> Option<(Kind, usize)> {
        let is_date = |row: &&[u8]| {
            let text = row.get(at..).and_then(|rest| rest.first_chunk());
            let days = text.and_then(calendar::read_compact);
            days.is_some_and(|days| COMPACT_DAYS.contains(&days))
        };
        let found = self.run(at, Place::digits) == COMPACT_LEN
            && !self.numeric(Some(at + COMPACT_LEN))
            && self.varies(at, COMPACT_LEN)
            && self.rows.iter().all(is_date);
        found.then_some((Kind::CompactDate, COMPACT_LEN))
    }

    /// The hexadecimal number that begins at `at`, if letters in it vary.
    fn hex(&self, at: usize) -> Option<(Case, usize)> {
        let mut case = None;
        let mut len = self.run(at, |place| {
            if place.digits() {
                return true;
            }
            let same = place
                .hex_case()
                .filter(|found| case.is_none_or(|case| case == *found));
            case = case.or(same);
            same.is_some()
        });
        // Letters at the end of a word before or behind the number do not belong to it.
        let letter = |at: usize| self.place(at).is_some_and(Place::constant_letter);
        if letter(at) && at.checked_sub(1).is_some_and(letter) {
            return None;
        }
        while len > 0 && letter(at + len) && letter(at + len - 1) {
            len -= 1;
        }
        let places = self.places.get(at..at + len)?;
        let varying = places
            .iter()
            .any(|place| place.varies() && place.hex_case().is_some());
        Some((case.filter(|_| varying)?, len))
    }

    /// A hexadecimal run, or its beginning up to the decimal digits in it.
    fn hex_part(
        &self,
        at: usize,
        case: Case,
        mut len: usize,
        parts: &mut Vec<(Kind, usize)>,
    ) -> Option<(Kind, usize)> {
        let mut from = at;
        while from < at + len {
            let digits = self.run(from, Place::digits);
            let places = self.places.get(from..from + digits)?;
            let decimal = |place: &&Place| place.bytes.len() >= DECIMAL_SEEN;
            if places.iter().filter(decimal).count() >= 2 {
                if from == at {
                    let most = digits::DECIMAL_MAX;
                    return Some(cut(Kind::Digits, digits, most, LONG_DIGITS_MAX, 1, parts));
                }
                len = from - at;
                break;
            }
            from += digits.max(1);
        }
        if !self.varies(at, len) {
            return Some((Kind::Literal, len));
        }
        if len == 1 && !self.place(at)?.bytes.iter().any(u8::is_ascii_digit) {
            return Some((Kind::Choice(0), 1));
        }
        let upper = case == Case::Upper;
        Some(cut(
            Kind::Hex { upper },
            len,
            HEX_FIELD_MAX,
            HEX_FIELD_MAX,
            2,
            parts,
        ))
    }

    /// The template of these parts, with adjacent literals joined.
    fn finish(&self, parts: &[(Kind, usize)]) -> Option<Template> {
        let text: Vec<u8> = self
            .places
            .iter()
            .map(|place| place.constant().unwrap_or(0))
            .collect();
        let mut at = 0;
        let mut joined: Vec<(Kind, usize, usize)> = Vec::new();
        for &(kind, len) in parts {
            match joined.last_mut() {
                Some((Kind::Literal, _, total)) if kind == Kind::Literal => *total += len,
                _ => joined.push((kind, at, len)),
            }
            at += len;
        }
        // Only choices: short words, for which a dictionary is as good.
        let numbers = joined
            .iter()
            .any(|(kind, ..)| !matches!(kind, Kind::Literal | Kind::Choice(_)));
        if !numbers && text.len() > 1 {
            return None;
        }
        let with_bytes: Option<Vec<_>> = joined
            .iter()
            .map(|&(kind, at, len)| {
                let bytes = match kind {
                    Kind::Choice(_) => &self.place(at)?.bytes,
                    Kind::Literal => text.get(at..at + len)?,
                    _ => &[],
                };
                Some((kind, len, bytes))
            })
            .collect();
        Template::new(&with_bytes?)
    }
}

/// Makes one field of a run of `len` places if it has at most `most`. Otherwise makes equal fields
/// of at most `piece` places, each but the last a multiple of `step`. Returns the last field, and
/// adds the others to `parts`.
fn cut(
    kind: Kind,
    len: usize,
    most: usize,
    piece: usize,
    step: usize,
    parts: &mut Vec<(Kind, usize)>,
) -> (Kind, usize) {
    if len <= most {
        return (kind, len);
    }
    let each = len.div_ceil(len.div_ceil(piece)).next_multiple_of(step);
    let mut rest = len;
    while rest > each {
        parts.push((kind, each));
        rest -= each;
    }
    (kind, rest)
}
