//! Merging deltas, so that a restore needs few requests.

use super::{Shipper, Step, millis};
use crate::compact;
use crate::error::{Error, Result};
use crate::format::Compacted;
use crate::names;

/// How many deltas are merged at once.
const MANY: u64 = 64;
/// At rest, so many deltas are merged.
const SOME: u64 = 5;
/// An older merged object is merged again while it has at most so many times the bytes of what is
/// behind it. So there are only logarithmically many, and a byte is merged as often.
const RATIO: u64 = 2;
/// Deltas of so many bytes are merged, even if they are few: they are merged in memory.
const LARGE: u64 = 32 << 20;
/// Merged objects of more bytes are not merged again.
const LARGEST: u64 = 128 << 20;

impl Shipper {
    /// Merges deltas if there are many.
    pub(super) fn compact_many(&mut self, now_ms: u64) -> Result<()> {
        if self.loose() >= MANY || (self.loose() >= SOME && self.loose_bytes >= LARGE) {
            self.compacted = Some(self.compact(now_ms)?);
        }
        Ok(())
    }

    /// Nothing has changed: merges deltas after a while.
    pub(super) fn rest(&mut self, now_ms: u64) -> Result<Step> {
        let rested = now_ms.saturating_sub(self.shipped_ms) >= millis(self.options.rest);
        match rested && !self.is_merged() {
            true => Ok(Step::Compacted {
                bytes: self.compact(now_ms)?,
            }),
            false => Ok(Step::Idle),
        }
    }

    /// Whether nothing is left to do while the database does not change.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        self.loose() < SOME
    }

    /// How many deltas are not merged.
    fn loose(&self) -> u64 {
        self.at.n.saturating_sub(self.heading.merged_to())
    }

    /// Merges the deltas that are not merged, and merged ones before them that are not much larger.
    /// Returns the bytes of the new object.
    fn compact(&mut self, now_ms: u64) -> Result<u64> {
        let current = self.heading.current();
        let generation = &current.name;
        let mut first = self.heading.merged_to() + 1;
        let mut names: Vec<String> = (first..=self.at.n)
            .map(|n| names::delta(generation, n))
            .collect();
        let base = self.heading.newest_base().map_or(0, |base| base.n);
        let mut behind: u64 = names
            .iter()
            .map(|name| self.recent.get(name).map_or(0, |bytes| bytes.len() as u64))
            .sum();
        for older in current.compacted.iter().rev() {
            let is_large = older.bytes > (RATIO * behind).min(LARGEST);
            if older.first <= base || is_large {
                break;
            }
            names.insert(0, names::compacted(generation, older.first, older.last));
            behind += older.bytes;
            first = older.first;
        }
        let get = |name: &str| match self.recent.get(name) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => match self.bucket.get(name)? {
                Some(stored) => Ok(stored.bytes),
                None => Err(Error::Missing(name.to_owned())),
            },
        };
        let Some((footer, merged)) = compact::merge(&names, get)? else {
            return Ok(0);
        };
        let name = names::compacted(generation, first, footer.last);
        // An attempt that was interrupted can have left it. No head names it.
        let mut upload = self.bucket.upload(&name, merged.len() as u64)?;
        upload.write(&merged)?;
        upload.finish()?;
        let bytes = merged.len() as u64;
        let entry = Compacted {
            first,
            last: footer.last,
            time_ms: footer.time_ms,
            bytes,
        };
        self.heading.add_compacted(&*self.bucket, entry, now_ms)?;
        self.recent.clear();
        self.loose_bytes = 0;
        self.shipped_ms = now_ms;
        Ok(bytes)
    }
}
