//! Runs of equal values.

/// How many values are compared at once.
const CHUNK: usize = 8;

/// Iterates over runs: the value of each, and how often it repeats.
#[derive(Clone)]
pub(super) struct Runs<'a>(&'a [i64]);

impl<'a> Runs<'a> {
    pub(super) fn of(values: &'a [i64]) -> Runs<'a> {
        Runs(values)
    }
}

impl Iterator for Runs<'_> {
    type Item = (i64, usize);

    #[inline]
    fn next(&mut self) -> Option<(i64, usize)> {
        let &value = self.0.first()?;
        let is_other = |chunk: &&[i64; CHUNK]| chunk.iter().fold(0, |d, v| d | (v ^ value)) != 0;
        let chunks = self.0.as_chunks().0;
        let whole = chunks.iter().position(|chunk| is_other(&chunk));
        let mut len = whole.unwrap_or(chunks.len()) * CHUNK;
        let rest = self.0.get(len..).unwrap_or_default();
        len += rest.iter().take_while(|v| **v == value).count();
        self.0 = self.0.get(len..).unwrap_or_default();
        Some((value, len))
    }
}
