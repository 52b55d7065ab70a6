//! What lies where in a file, if later parts are laid over earlier ones.

use std::collections::BTreeMap;

/// A part of a file.
pub(crate) trait Part: Clone {
    /// Its length in bytes; never 0.
    fn len(&self) -> u64;
    /// The part of it from `from` on, `len` bytes. Both lie within it.
    fn slice(&self, from: u64, len: u64) -> Self;
}

/// Parts by their offsets. They do not overlap.
#[derive(Debug, Clone)]
pub(crate) struct Overlay<P>(BTreeMap<u64, P>);

impl<P> Default for Overlay<P> {
    fn default() -> Overlay<P> {
        Overlay(BTreeMap::new())
    }
}

impl<P: Part> Overlay<P> {
    /// Lays a part over the earlier ones.
    pub(crate) fn put(&mut self, offset: u64, part: P) {
        let end = offset + part.len();
        // At most one part begins before and reaches into the range; it can reach beyond it.
        let before = self.0.range(..offset).next_back();
        let before = before.filter(|(start, old)| *start + old.len() > offset);
        let first = before.map_or(offset, |(start, _)| *start);
        let hidden: Vec<u64> = self.0.range(first..end).map(|(start, _)| *start).collect();
        for start in hidden {
            let Some(old) = self.0.remove(&start) else {
                continue;
            };
            if start < offset {
                self.0.insert(start, old.slice(0, offset - start));
            }
            let old_end = start + old.len();
            if old_end > end {
                self.0.insert(end, old.slice(end - start, old_end - end));
            }
        }
        self.0.insert(offset, part);
    }

    /// The part that has the byte at `offset`, and where it begins; otherwise the next one.
    pub(crate) fn at(&self, offset: u64) -> Option<(u64, &P)> {
        let before = self.0.range(..=offset).next_back();
        let before = before.filter(|(start, part)| *start + part.len() > offset);
        let found = before.or_else(|| self.0.range(offset..).next());
        found.map(|(start, part)| (*start, part))
    }

    /// The parts by their offsets.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = (u64, P)> {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    impl Part for Vec<u8> {
        fn len(&self) -> u64 {
            self.len() as u64
        }

        fn slice(&self, from: u64, len: u64) -> Vec<u8> {
            self[from as usize..(from + len) as usize].to_vec()
        }
    }

    #[test]
    fn an_overlay_is_what_was_put_last() {
        let mut rng = StdRng::seed_from_u64(8);
        for _ in 0..500 {
            let (mut overlay, mut model) = (Overlay::default(), [None; 60]);
            for value in 0..rng.random_range(1..20u8) {
                let start = rng.random_range(0..50usize);
                let len = rng.random_range(1..10usize);
                let bytes: Vec<u8> = (0..len as u8).map(|i| value * 10 + i).collect();
                overlay.put(start as u64, bytes.clone());
                for (place, byte) in model[start..].iter_mut().zip(bytes) {
                    *place = Some(byte);
                }
            }
            for (at, byte) in model.iter().enumerate() {
                let found = overlay
                    .at(at as u64)
                    .filter(|(start, _)| *start <= at as u64);
                let found = found.map(|(start, part)| part[at - start as usize]);
                assert_eq!(found, *byte, "byte {at}");
            }
            let mut last = 0;
            for (start, part) in overlay.into_parts() {
                assert!(start >= last && !part.is_empty(), "they overlap");
                last = start + part.len() as u64;
            }
        }
    }
}
