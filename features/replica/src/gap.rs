//! Missing deltas: a chain that stops before later objects is an error, never an older state.

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::names;

/// The last delta that follows restore point `n` without a gap, by one list. It is `n` if there are
/// no deltas.
///
/// # Errors
/// [`Error::Gap`]; the bucket's.
pub(crate) fn end_after(bucket: &dyn Bucket, generation: &str, n: u64) -> Result<u64> {
    let after = names::delta(generation, n);
    let listed = bucket.list(&names::deltas(generation), &after)?;
    let names = listed.iter().map(|object| object.name.as_str());
    end_of(generation, n, names)
}

/// The same, among these names of deltas in their order. Those up to `n` do not matter.
///
/// # Errors
/// [`Error::Gap`].
pub(crate) fn end_of<'a>(
    generation: &str,
    n: u64,
    deltas: impl Iterator<Item = &'a str>,
) -> Result<u64> {
    let mut end = n;
    for name in deltas {
        match names::delta_number(generation, name) {
            Some(found) if found > end + 1 => return Err(gap(generation, end + 1, found)),
            Some(found) => end = end.max(found),
            None => {}
        }
    }
    Ok(end)
}

/// The error for delta `n`, which is missing although a later one exists.
pub(crate) fn gap(generation: &str, n: u64, later: u64) -> Error {
    Error::Gap {
        missing: names::delta(generation, n),
        later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_missing_delta_is_named() {
        let of = |n: u64, numbers: &[u64]| {
            let names: Vec<String> = numbers.iter().map(|n| names::delta("g", *n)).collect();
            end_of("g", n, names.iter().map(String::as_str))
        };
        assert_eq!(of(3, &[]), Ok(3));
        assert_eq!(of(3, &[1, 3, 4, 5]), Ok(5));
        assert_eq!(of(3, &[4, 7, 8]), Err(gap("g", 5, 7)));
        assert_eq!(of(3, &[5]), Err(gap("g", 4, 5)));
    }
}
