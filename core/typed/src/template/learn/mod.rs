//! Learns the template of a column from samples.
//!
//! The text has the most frequent length. For each place of the text, the bytes that occur there
//! are counted. Runs of digits or hexadecimal digits become numbers. Digits with the separators of
//! dates and times become these if the numbers are in range. A few samples of another form would
//! spoil this, so it is done with all samples, and again with those that are alike. Of the
//! templates that match enough samples, the one with the fewest bits a value is taken.

mod parts;

use super::{FIELDS_MAX, TEXT_MAX, Template};
use parts::build;

/// The part of the samples that a template must match.
const PART_PERCENT: usize = 98;
/// Bits of a value that does not match, in addition to its bytes.
const MISS_BITS: f64 = 32.0;

/// How often each byte occurs at one place.
type Counts = [u32; 256];

pub(super) fn learn(samples: &[&[u8]]) -> Option<Template> {
    let mut lens = [0usize; TEXT_MAX + 1];
    for sample in samples {
        if let Some(count) = lens.get_mut(sample.len()) {
            *count += 1;
        }
    }
    let (len, &count) = lens.iter().enumerate().max_by_key(|(_, count)| **count)?;
    if len == 0 || !enough(count, samples.len()) {
        return None;
    }
    let rows: Vec<&[u8]> = samples
        .iter()
        .copied()
        .filter(|sample| sample.len() == len)
        .collect();
    let counts = count_bytes(&rows, len);
    let mut best = price(build(&rows, &counts), samples);
    for constants in [false, true] {
        let classes: Vec<Class> = counts
            .iter()
            .map(|counts| Class::of(counts, rows.len(), constants))
            .collect();
        let alike: Vec<&[u8]> = rows
            .iter()
            .copied()
            .filter(|row| {
                row.iter()
                    .zip(&classes)
                    .all(|(byte, class)| class.holds(*byte))
            })
            .collect();
        if alike.len() < rows.len() && enough(alike.len(), samples.len()) {
            let other = price(build(&alike, &count_bytes(&alike, len)), samples);
            best = match (best, other) {
                (Some(a), Some(b)) => Some(if b.1 < a.1 { b } else { a }),
                (a, b) => a.or(b),
            };
        }
    }
    Some(best?.0)
}

fn enough(part: usize, of: usize) -> bool {
    part > 0 && part * 100 >= of * PART_PERCENT
}

fn count_bytes(rows: &[&[u8]], len: usize) -> Vec<Counts> {
    let mut counts = vec![[0; 256]; len];
    for row in rows {
        for (counts, byte) in counts.iter_mut().zip(*row) {
            if let Some(count) = counts.get_mut(usize::from(*byte)) {
                *count += 1;
            }
        }
    }
    counts
}

/// The template and its bits for a value, if it matches enough samples.
fn price(template: Option<Template>, samples: &[&[u8]]) -> Option<(Template, f64)> {
    let template = template?;
    let mut ranges = [(i64::MAX, i64::MIN); FIELDS_MAX];
    let mut fields = [0; FIELDS_MAX];
    let mut matches = 0;
    for sample in samples {
        if template.parse(sample, &mut fields) {
            matches += 1;
            for ((low, high), field) in ranges.iter_mut().zip(fields).take(template.fields()) {
                *low = field.min(*low);
                *high = field.max(*high);
            }
        }
    }
    if !enough(matches, samples.len()) {
        return None;
    }
    let bits: u32 = ranges
        .iter()
        .take(template.fields())
        .map(|(low, high)| 64 - high.abs_diff(*low).leading_zeros())
        .sum();
    let missed = (samples.len() - matches) as f64 / samples.len() as f64;
    let bits = f64::from(bits) + missed * (8.0 * template.text_len() as f64 + MISS_BITS);
    Some((template, bits))
}

/// A class of bytes.
#[derive(Clone, Copy)]
enum Class {
    Byte(u8),
    Digit,
    HexLower,
    HexUpper,
    Any,
}

impl Class {
    /// The narrowest class that has enough of `rows` values. A digit that never varies is a class
    /// of its own only with `constants`.
    fn of(counts: &Counts, rows: usize, constants: bool) -> Class {
        let held = |class: Class| -> usize {
            let bytes = (0..=255u8)
                .zip(counts)
                .filter(|(byte, _)| class.holds(*byte));
            bytes.map(|(_, count)| *count as usize).sum()
        };
        let commonest = (0..=255u8).zip(counts).max_by_key(|(_, count)| **count);
        let byte = commonest.map_or(0, |(byte, _)| byte);
        let single = constants || !byte.is_ascii_hexdigit();
        [
            Class::Byte(byte),
            Class::Digit,
            Class::HexLower,
            Class::HexUpper,
        ]
        .into_iter()
        .filter(|class| single || !matches!(class, Class::Byte(_)))
        .find(|class| enough(held(*class), rows))
        .unwrap_or(Class::Any)
    }

    fn holds(self, byte: u8) -> bool {
        match self {
            Class::Byte(only) => byte == only,
            Class::Digit => byte.is_ascii_digit(),
            Class::HexLower => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Class::HexUpper => matches!(byte, b'0'..=b'9' | b'A'..=b'F'),
            Class::Any => true,
        }
    }
}

/// One place of the text, in the samples that the template is made of.
struct Place {
    /// The bytes that occur, ascending.
    bytes: Vec<u8>,
}

impl Place {
    fn of(counts: &Counts) -> Place {
        let bytes = (0..=255u8).zip(counts).filter(|(_, count)| **count > 0);
        Place {
            bytes: bytes.map(|(byte, _)| byte).collect(),
        }
    }

    fn constant(&self) -> Option<u8> {
        match *self.bytes.as_slice() {
            [byte] => Some(byte),
            _ => None,
        }
    }

    fn varies(&self) -> bool {
        self.bytes.len() > 1
    }

    fn all(&self, class: Class) -> bool {
        self.bytes.iter().all(|byte| class.holds(*byte))
    }

    fn digits(&self) -> bool {
        self.all(Class::Digit)
    }

    fn constant_letter(&self) -> bool {
        self.constant()
            .is_some_and(|byte| byte.is_ascii_alphabetic())
    }

    /// The case of hexadecimal digits, if letters are among them.
    fn hex_case(&self) -> Option<Case> {
        if self.digits() {
            None
        } else if self.all(Class::HexLower) {
            Some(Case::Lower)
        } else if self.all(Class::HexUpper) {
            Some(Case::Upper)
        } else {
            None
        }
    }

    /// Whether the place is part of a number: it has digits, or hexadecimal letters that vary.
    fn numeric(&self) -> bool {
        self.digits() || self.varies() && self.hex_case().is_some()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Case {
    Lower,
    Upper,
}
