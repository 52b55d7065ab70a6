//! Names of the objects of a replica. Numbers have a fixed width, so that names are in their order.

use crate::error::{Error, Result};

/// The object that says what the others are.
pub const HEAD: &str = "head";

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
        assert_ne!(
            generation(1).expect("random"),
            generation(1).expect("random")
        );
    }
}
