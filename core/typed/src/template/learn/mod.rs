//! Learns the template of a column from samples.
//!
//! The text has the most frequent length. For each place of the text, the bytes that occur there
//! are counted. Runs of digits or hexadecimal digits become numbers. Digits with the separators of
//! dates and times become these if the numbers are in range. A few samples of another form would
//! spoil this, so it is done with all samples, and again with those that are alike. Of the
//! templates that match enough samples, the one with the fewest bits a value is taken.

mod parts;
mod place;

use self::parts::build;
use self::place::{Class, Counts};
use super::{FIELDS_MAX, TEXT_MAX, Template};

/// The part of the samples that a template must match.
const PART_PERCENT: usize = 98;
/// Bits of a value that does not match, in addition to its bytes.
const MISS_BITS: f64 = 32.0;

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
