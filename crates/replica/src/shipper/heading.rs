//! The head, as its one writer has it: what it says, and the version that can be replaced.

use super::millis;
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::{Base, Compacted, Generation, Head, REPLICA_FORMAT_VERSION, Superseded};
use crate::names;
use crate::restore;
use densite_store::Mark;
use std::time::Duration;

/// How long superseded objects stay for readers.
const GRACE: Duration = Duration::from_secs(3600);

/// See the module's documentation.
pub(super) struct Heading {
    head: Head,
    version: String,
}

impl Heading {
    /// Reads the head; `None` if there is none.
    ///
    /// # Errors
    /// The bucket's; [`Error::Damaged`], [`Error::Newer`].
    pub(super) fn read(bucket: &dyn Bucket) -> Result<Option<Heading>> {
        match restore::head(bucket) {
            Ok((head, version)) => Ok(Some(Heading { head, version })),
            Err(Error::NoReplica) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates the head of a new replica.
    ///
    /// # Errors
    /// The bucket's; [`Error::AnotherWriter`].
    pub(super) fn create(bucket: &dyn Bucket, newest: &Mark) -> Result<Heading> {
        let head = Head {
            version: REPLICA_FORMAT_VERSION,
            current: generation(1, newest)?,
            earlier: Vec::new(),
            superseded: Vec::new(),
        };
        let created = bucket.create(names::HEAD, &head.encode())?;
        let version = created.ok_or_else(|| super::another(names::HEAD))?;
        Ok(Heading { head, version })
    }

    /// The generation that grows.
    pub(super) fn current(&self) -> &Generation {
        &self.head.current
    }

    /// The newest base of the current generation.
    pub(super) fn newest_base(&self) -> Option<&Base> {
        self.head.current.bases.last()
    }

    /// The restore point up to which deltas are merged, or that a base is.
    pub(super) fn merged_to(&self) -> u64 {
        let base = self.newest_base().map_or(0, |base| base.n);
        let merged = self.head.current.compacted.last().map_or(0, |c| c.last);
        base.max(merged)
    }

    /// Begins a generation after the current one.
    ///
    /// # Errors
    /// As [`Heading::put`].
    pub(super) fn begin_generation(&mut self, bucket: &dyn Bucket, newest: &Mark) -> Result<()> {
        let next = generation(self.head.current.epoch + 1, newest)?;
        let before = std::mem::replace(&mut self.head.current, next);
        if !before.bases.is_empty() {
            self.head.earlier.push(before);
        }
        self.put(bucket)
    }

    /// Adds a base, and drops restore points that are older than `retain`.
    ///
    /// # Errors
    /// As [`Heading::put`].
    pub(super) fn add_base(
        &mut self,
        bucket: &dyn Bucket,
        base: Base,
        retain: Duration,
        now_ms: u64,
    ) -> Result<()> {
        self.head.current.bases.push(base);
        let limit_ms = now_ms.saturating_sub(millis(retain.max(GRACE)));
        let gone = self.retire(bucket, limit_ms)?;
        self.supersede(gone, now_ms);
        self.put_and_clear(bucket, now_ms)
    }

    /// Adds a compacted delta in the place of those that it has merged.
    ///
    /// # Errors
    /// As [`Heading::put`].
    pub(super) fn add_compacted(
        &mut self,
        bucket: &dyn Bucket,
        merged: Compacted,
        now_ms: u64,
    ) -> Result<()> {
        let current = &mut self.head.current;
        let replaced = current
            .compacted
            .extract_if(.., |c| c.first >= merged.first)
            .map(|c| names::compacted(&current.name, c.first, c.last))
            .collect();
        current.compacted.push(merged);
        self.supersede(replaced, now_ms);
        self.put_and_clear(bucket, now_ms)
    }

    fn supersede(&mut self, names: Vec<String>, now_ms: u64) {
        for name in names {
            if !self.head.superseded.iter().any(|s| s.name == name) {
                self.head.superseded.push(Superseded {
                    name,
                    since_ms: now_ms,
                });
            }
        }
    }

    /// Takes out of the head what no restore point after the limit needs. Returns the names of the
    /// objects.
    fn retire(&mut self, bucket: &dyn Bucket, limit_ms: u64) -> Result<Vec<String>> {
        let mut gone = Vec::new();
        // A base is needed for the moments from its own to that of the next one.
        let mut next_ms = u64::MAX;
        let head = &mut self.head;
        let newest_first = std::iter::once(&mut head.current).chain(head.earlier.iter_mut().rev());
        for generation in newest_first {
            let before = generation.bases.len();
            let times: Vec<u64> = generation.bases.iter().map(|base| base.time_ms).collect();
            let mut needed = Vec::with_capacity(before);
            for time_ms in times.into_iter().rev() {
                needed.push(next_ms > limit_ms);
                next_ms = time_ms;
            }
            let mut is_needed = needed.into_iter().rev();
            generation
                .bases
                .retain(|_| is_needed.next().unwrap_or(true));
            if generation.bases.len() == before {
                continue;
            }
            let first = generation.bases.first().map_or(u64::MAX, |base| base.n);
            generation.compacted.retain(|c| c.first > first);
            gone.extend(before_base(bucket, &generation.name, first)?);
        }
        head.earlier
            .retain(|generation| !generation.bases.is_empty());
        Ok(gone)
    }

    /// Stores the head. Then removes objects that were superseded long ago.
    fn put_and_clear(&mut self, bucket: &dyn Bucket, now_ms: u64) -> Result<()> {
        let is_old = |s: &mut Superseded| now_ms.saturating_sub(s.since_ms) >= millis(GRACE);
        let old: Vec<Superseded> = self.head.superseded.extract_if(.., is_old).collect();
        self.put(bucket)?;
        for object in old {
            bucket.remove(&object.name)?;
        }
        Ok(())
    }

    /// Stores the head.
    ///
    /// # Errors
    /// The bucket's; [`Error::TakenOver`] if another process has replaced it.
    fn put(&mut self, bucket: &dyn Bucket) -> Result<()> {
        let bytes = self.head.encode();
        if let Some(version) = bucket.replace(names::HEAD, &bytes, &self.version)? {
            self.version = version;
            return Ok(());
        }
        match bucket.get(names::HEAD)? {
            // The answer to an earlier request got lost.
            Some(stored) if stored.bytes == bytes => {
                self.version = stored.version;
                Ok(())
            }
            _ => Err(Error::TakenOver),
        }
    }
}

/// The objects of a generation that only lead to restore points before the base `first`.
fn before_base(bucket: &dyn Bucket, generation: &str, first: u64) -> Result<Vec<String>> {
    let (base, delta) = (
        names::base(generation, first),
        names::delta(generation, first),
    );
    let deltas = names::deltas(generation);
    let is_before = |name: &String| match names::compacted_last(name) {
        _ if first == u64::MAX => true,
        Some(last) => last <= first,
        None if name.starts_with(&deltas) => *name <= delta,
        None => *name < base,
    };
    let all = bucket.list(&format!("{generation}-"), "")?;
    Ok(all.into_iter().map(|o| o.name).filter(is_before).collect())
}

/// How the head names a database file.
pub(super) fn database(mark: &Mark) -> String {
    format!("{:016x}", mark.salt())
}

fn generation(epoch: u64, newest: &Mark) -> Result<Generation> {
    Ok(Generation {
        name: names::generation(epoch)?,
        epoch,
        database: database(newest),
        bases: Vec::new(),
        compacted: Vec::new(),
    })
}
