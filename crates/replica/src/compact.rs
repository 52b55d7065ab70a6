//! Merging deltas: where they overlap, the newer one wins. Nothing is decoded.

use crate::error::{Error, Result};
use crate::extents::{Object, Writer};
use crate::format::{Footer, Kind, NO_HASH};
use std::collections::BTreeMap;

/// Bytes of a file at their offsets, without overlaps.
#[derive(Debug, Default)]
struct Overlay(BTreeMap<u64, Vec<u8>>);

impl Overlay {
    /// Lays bytes over what is there.
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        // What begins before and reaches into the range or beyond it.
        let before = self.0.range(..offset).next_back();
        if let Some((start, old)) = before.map(|(start, old)| (*start, old))
            && start + old.len() as u64 > offset
        {
            let keep = usize::try_from(offset - start).unwrap_or(old.len());
            let behind = usize::try_from(end - start)
                .ok()
                .and_then(|at| old.get(at..))
                .map(<[u8]>::to_vec);
            if let Some(old) = self.0.get_mut(&start) {
                old.truncate(keep);
            }
            if let Some(behind) = behind.filter(|behind| !behind.is_empty()) {
                self.0.insert(end, behind);
            }
        }
        let within: Vec<u64> = self.0.range(offset..end).map(|(start, _)| *start).collect();
        for start in within {
            if let Some(old) = self.0.remove(&start) {
                let behind = usize::try_from(end - start)
                    .ok()
                    .and_then(|at| old.get(at..));
                if let Some(behind) = behind.filter(|behind| !behind.is_empty()) {
                    self.0.insert(end, behind.to_vec());
                }
            }
        }
        self.0.insert(offset, bytes.to_vec());
    }
}

/// Merges the objects of these names, which follow one another, into one. `get` reads an object.
/// Returns the footer and the bytes of the merged one.
///
/// # Errors
/// Those of `get`; [`Error::Damaged`].
pub(crate) fn merge(
    names: &[String],
    get: impl Fn(&str) -> Result<Vec<u8>>,
) -> Result<Option<(Footer, Vec<u8>)>> {
    let mut overlay = Overlay::default();
    let mut merged: Option<(Footer, [u8; 16])> = None;
    for name in names {
        let object = Object::decode(name, get(name)?)?;
        let footer = object.index.footer.clone();
        if let Some((_, chain)) = &merged
            && *chain != footer.previous
        {
            return Err(Error::Damaged {
                object: name.clone(),
                problem: "it does not follow the object before it".to_owned(),
            });
        }
        for (offset, bytes) in object.extents() {
            if !bytes.is_empty() {
                overlay.put(offset, bytes);
            }
        }
        let chain = object.index.chain;
        merged = Some(match merged {
            None => (footer, chain),
            Some((first, _)) => (
                Footer {
                    first: first.first,
                    from: first.from,
                    previous: first.previous,
                    ..footer
                },
                chain,
            ),
        });
    }
    let Some((footer, chain)) = merged else {
        return Ok(None);
    };
    let footer = Footer {
        kind: Kind::Compacted,
        chain,
        body_hash: NO_HASH,
        table_hash: NO_HASH,
        ..footer
    };
    let mut writer = Writer::new(Vec::new());
    for (offset, bytes) in overlay.0 {
        let kept = footer
            .image_len
            .saturating_sub(offset)
            .min(bytes.len() as u64);
        let kept = usize::try_from(kept).unwrap_or(bytes.len());
        writer.put(offset, bytes.get(..kept).unwrap_or_default())?;
    }
    let (bytes, _, _) = writer.finish(footer.clone())?;
    Ok(Some((footer, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn an_overlay_is_what_was_put_last() {
        let mut rng = StdRng::seed_from_u64(8);
        for _ in 0..300 {
            let (mut overlay, mut model) = (Overlay::default(), [None; 60]);
            for value in 0..rng.random_range(1..20u8) {
                let start = rng.random_range(0..50usize);
                let len = rng.random_range(1..10usize);
                overlay.put(start as u64, &vec![value; len]);
                model[start..start + len].fill(Some(value));
            }
            let mut got = [None; 60];
            let mut last = 0;
            for (start, bytes) in &overlay.0 {
                assert!(*start >= last && !bytes.is_empty(), "they overlap");
                last = start + bytes.len() as u64;
                for (i, byte) in bytes.iter().enumerate() {
                    got[*start as usize + i] = Some(*byte);
                }
            }
            assert_eq!(got, model);
        }
    }
}
