//! Names of the objects of a replica. Numbers have a fixed width, so that names are in their order.

use crate::error::{Error, Result};

/// The object that says what the others are.
pub const HEAD: &str = "head";
/// The least digits of the number of a generation.
const EPOCH_DIGITS: usize = 4;
/// Digits of the number of a restore point.
const POINT_DIGITS: usize = 12;
/// Digits of the random part of a name.
const RANDOM_DIGITS: usize = 8;
/// The end of the name of an object that is created twice.
const PROBE: &str = "probe";

/// A new name for an image of the whole file, as of restore point `n`. It has a random part: an
/// upload that was given up can still end later, and must not replace the one that was acknowledged.
///
/// # Errors
/// [`Error::Source`] if the system gives no random bytes.
pub(crate) fn base(generation: &str, n: u64) -> Result<String> {
    Ok(format!("{}-{:08x}", bases(generation, n), random()? as u32))
}

/// How the names of all images as of restore point `n` begin.
pub(crate) fn bases(generation: &str, n: u64) -> String {
    format!("{generation}-base-{n:012}")
}

/// What changed between restore point `n - 1` and `n`.
pub(crate) fn delta(generation: &str, n: u64) -> String {
    format!("{}{n:012}", deltas(generation))
}

/// The restore point in the name of a delta of this generation.
pub(crate) fn delta_number(generation: &str, name: &str) -> Option<u64> {
    name.strip_prefix(&deltas(generation))?.parse().ok()
}

/// How the names of all deltas begin.
pub(crate) fn deltas(generation: &str) -> String {
    format!("{generation}-delta-")
}

/// What changed between restore point `first - 1` and `last`.
pub(crate) fn compacted(generation: &str, first: u64, last: u64) -> String {
    format!("{}{first:012}-{last:012}", all_compacted(generation))
}

/// How the names of all compacted deltas begin.
pub(crate) fn all_compacted(generation: &str) -> String {
    format!("{generation}-compacted-")
}

/// The first and the last restore point in the name of a compacted delta.
pub(crate) fn compacted_numbers(name: &str) -> Option<(u64, u64)> {
    let (_, numbers) = name.rsplit_once("-compacted-")?;
    let (first, last) = numbers.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// What the name of an object says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// An image as of this restore point.
    Base(u64),
    /// A delta to this restore point, or an end in its place.
    Delta(u64),
    /// A compacted delta: the first and the last restore point in it.
    Compacted(u64, u64),
    /// What a killed shipper can leave: see `shipper/resume.rs`.
    Probe,
}

/// The generation and the rest of the name of an object; `None` for other names.
pub(crate) fn parsed(name: &str) -> Option<(&str, Of)> {
    let (epoch, rest) = name.strip_prefix('g')?.split_once('-')?;
    let (random, rest) = rest.split_once('-')?;
    if epoch.len() < EPOCH_DIGITS || !is_decimal(epoch) || !is_random(random) {
        return None;
    }
    let generation = name.get(..1 + epoch.len() + 1 + random.len())?;
    let of = match rest.split_once('-') {
        None if rest == PROBE => Of::Probe,
        Some(("base", numbers)) => {
            let (n, random) = numbers.split_once('-')?;
            Of::Base(point(n).filter(|_| is_random(random))?)
        }
        Some(("delta", n)) => Of::Delta(point(n)?),
        Some(("compacted", numbers)) => {
            let (first, last) = numbers.split_once('-')?;
            Of::Compacted(point(first)?, point(last)?)
        }
        _ => return None,
    };
    Some((generation, of))
}

/// The number of a generation, from its name.
pub(crate) fn epoch(generation: &str) -> Option<u64> {
    let (epoch, _) = generation.strip_prefix('g')?.split_once('-')?;
    epoch.parse().ok()
}

/// The number of a restore point, as names have it.
fn point(digits: &str) -> Option<u64> {
    (digits.len() == POINT_DIGITS && is_decimal(digits))
        .then(|| digits.parse().ok())
        .flatten()
}

fn is_decimal(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn is_random(text: &str) -> bool {
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    text.len() == RANDOM_DIGITS && text.bytes().all(is_digit)
}

/// A new name for an object that proves that the store creates atomically.
///
/// # Errors
/// [`Error::Source`] if the system gives no random bytes.
pub(crate) fn probe() -> Result<String> {
    Ok(format!("{}-{PROBE}", generation(0)?))
}

/// A new name for a generation: its number and a random part, so that two writers never choose the
/// same.
///
/// # Errors
/// [`Error::Source`] if the system gives no random bytes.
pub(crate) fn generation(epoch: u64) -> Result<String> {
    Ok(format!("g{epoch:04}-{:08x}", random()? as u32))
}

fn random() -> Result<u64> {
    densite_disk::random::random_u64().map_err(|e| Error::Source(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_their_numbers() {
        assert!(delta("g1", 9) < delta("g1", 10));
        let base = |n| base("g1", n).expect("random");
        assert!(base(9) < bases("g1", 10) && bases("g1", 10) < base(10));
        assert_ne!(base(9), base(9));
        assert_eq!(
            compacted_numbers(&compacted("g0001-00ff00ff", 5, 77)),
            Some((5, 77))
        );
        assert_eq!(compacted_numbers(&delta("g0001-00ff00ff", 77)), None);
        assert_eq!(delta_number("g1", &delta("g1", 77)), Some(77));
        assert_eq!(delta_number("g2", &delta("g1", 77)), None);
        let name = generation(12345).expect("random");
        assert_eq!(epoch(&name), Some(12345));
        let (base, probe) = (
            super::base(&name, 8).expect("random"),
            probe().expect("random"),
        );
        for (object, of) in [
            (&base, Of::Base(8)),
            (&delta(&name, 9), Of::Delta(9)),
            (&compacted(&name, 2, 77), Of::Compacted(2, 77)),
        ] {
            assert_eq!(parsed(object), Some((name.as_str(), of)), "{object}");
            assert_eq!(parsed(&format!("{object}0")), None);
            assert_eq!(parsed(&object[1..]), None);
        }
        assert_eq!(parsed(&probe).map(|(_, of)| of), Some(Of::Probe));
        assert_ne!(
            generation(1).expect("random"),
            generation(1).expect("random")
        );
    }
}
