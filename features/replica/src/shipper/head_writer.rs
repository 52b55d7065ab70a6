//! The head, as its one writer has it: what it says, and the version that can be replaced.
//!
//! Invariant: what this holds is what was stored last. A change that cannot be stored is dropped.

use super::millis;
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::{Base, Compacted, Generation, Head, REPLICA_FORMAT_VERSION, Superseded};
use crate::headless::{self, Lost, Read};
use crate::names;
use crate::restore::Others;
use densite_disk::hash::xxh3_128;
use densite_store::CommitId;
use std::time::Duration;

/// How long superseded objects stay for readers.
const GRACE: Duration = Duration::from_secs(3600);
/// So many objects are removed at once, so that shipping does not wait for long.
const REMOVED: usize = 50;

/// What is in the place of a head.
pub(super) enum Found {
    Head(HeadWriter),
    /// It is lost: there are other objects.
    Lost(Lost),
    Nothing,
}

/// See the module's documentation.
pub(super) struct HeadWriter {
    head: Head,
    /// `None` if there is no head.
    version: Option<String>,
    /// Hashes of heads whose storing was not acknowledged. One of them can be in the bucket.
    unsure: Vec<u128>,
}

impl HeadWriter {
    /// Reads the head.
    ///
    /// # Errors
    /// The bucket's; [`Error::Newer`].
    pub(super) fn read(bucket: &dyn Bucket) -> Result<Found> {
        match headless::read(bucket) {
            Ok(Read::Head(head, version)) => Ok(Found::Head(HeadWriter {
                head,
                version: Some(version),
                unsure: Vec::new(),
            })),
            Ok(Read::Lost(lost)) => Ok(Found::Lost(lost)),
            Err(Error::NoReplica) => Ok(Found::Nothing),
            Err(e) => Err(e),
        }
    }

    /// What a list of the objects says in the place of a head that is lost. Storing a change of it
    /// makes a head again, with all generations.
    ///
    /// # Errors
    /// The bucket's.
    pub(super) fn by_list(bucket: &dyn Bucket, lost: Lost, now_ms: u64) -> Result<HeadWriter> {
        let mut head = lost.head(bucket)?;
        for superseded in &mut head.superseded {
            superseded.since_ms = now_ms;
        }
        Ok(HeadWriter {
            head,
            version: lost.version,
            unsure: Vec::new(),
        })
    }

    /// Creates the head of a new replica.
    ///
    /// # Errors
    /// The bucket's; [`Error::AnotherWriter`].
    pub(super) fn create(
        bucket: &dyn Bucket,
        newest: &CommitId,
        owner: &str,
    ) -> Result<HeadWriter> {
        let head = Head {
            version: REPLICA_FORMAT_VERSION,
            current: generation(1, newest, owner)?,
            earlier: Vec::new(),
            superseded: Vec::new(),
        };
        let bytes = head.encode();
        let version = match bucket.create(names::HEAD, &bytes)? {
            Some(version) => version,
            // The answer to an earlier request got lost, or there is another one.
            None => match bucket.get(names::HEAD)? {
                Some(stored) if stored.bytes == bytes => stored.version,
                _ => return Err(super::another(names::HEAD)),
            },
        };
        Ok(HeadWriter {
            head,
            version: Some(version),
            unsure: Vec::new(),
        })
    }

    /// The generation that grows.
    pub(super) fn current(&self) -> &Generation {
        &self.head.current
    }

    /// Whether the current generation is of the database file that has this commit.
    pub(super) fn is_of(&self, mark: &CommitId) -> bool {
        self.head.current.database == database(mark)
    }

    /// The newest base of the current generation.
    pub(super) fn newest_base(&self) -> Option<&Base> {
        self.head.current.bases.last()
    }

    /// An error, which says what can be done if it is that of this base.
    pub(super) fn of_base(&self, e: Error, base: &Base) -> Error {
        Others::of(&self.head, base).explained(e, base)
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
    /// As [`HeadWriter::put`].
    pub(super) fn begin_generation(
        &mut self,
        bucket: &dyn Bucket,
        newest: &CommitId,
        owner: &str,
    ) -> Result<()> {
        let epoch = self.head.current.epoch;
        while self.head.current.epoch == epoch {
            let mut head = self.head.clone();
            let next = generation(epoch + 1, newest, owner)?;
            let before = std::mem::replace(&mut head.current, next);
            if !before.bases.is_empty() {
                head.earlier.push(before);
            }
            // What was stored earlier can be the generation, or a change before it.
            match self.put(bucket, head) {
                Err(Error::TakenOver) => self.read_again(bucket)?,
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// Reads a head that the writer before has changed since: its chain has ended, but it can still
    /// merge, or end a rest.
    ///
    /// # Errors
    /// The bucket's; [`Error::TakenOver`] if there is another generation.
    fn read_again(&mut self, bucket: &dyn Bucket) -> Result<()> {
        let now = match HeadWriter::read(bucket)? {
            Found::Head(now) => now,
            Found::Lost(lost) => return Err(lost.error()),
            Found::Nothing => return Err(Error::TakenOver),
        };
        let is_same = now.head.current.name == self.head.current.name;
        match is_same && now.version != self.version {
            true => *self = now,
            false => return Err(Error::TakenOver),
        }
        Ok(())
    }

    /// Adds a base, and drops restore points that are older than `retain`. Returns false if an
    /// earlier attempt was stored instead.
    ///
    /// # Errors
    /// As [`HeadWriter::put`].
    pub(super) fn add_base(
        &mut self,
        bucket: &dyn Bucket,
        base: Base,
        retain: Duration,
        now_ms: u64,
    ) -> Result<bool> {
        let mut head = self.head.clone();
        head.current.bases.push(base);
        head.current.rests = true;
        let limit_ms = now_ms.saturating_sub(millis(retain.max(GRACE)));
        retire(&mut head, limit_ms, now_ms);
        self.put(bucket, head)
    }

    /// A delta comes next. Until the head says so, readers can believe that none follows.
    ///
    /// # Errors
    /// As [`HeadWriter::put`].
    pub(super) fn end_rest(&mut self, bucket: &dyn Bucket) -> Result<()> {
        while self.head.current.rests {
            let mut head = self.head.clone();
            head.current.rests = false;
            // If an earlier attempt was stored instead, that one is changed.
            self.put(bucket, head)?;
        }
        Ok(())
    }

    /// Adds a compacted delta in the place of those that it has merged. `rests`: no delta follows.
    ///
    /// # Errors
    /// As [`HeadWriter::put`].
    pub(super) fn add_compacted(
        &mut self,
        bucket: &dyn Bucket,
        merged: Compacted,
        rests: bool,
    ) -> Result<()> {
        let mut head = self.head.clone();
        head.current.rests = rests;
        // Those that it has merged stay in the bucket, for restores to a moment among them.
        head.current.compacted.retain(|c| c.first < merged.first);
        head.current.compacted.push(merged);
        // If an earlier attempt was stored, these are merged the next time.
        self.put(bucket, head).map(drop)
    }

    /// Removes some objects that were superseded long ago. The next change of the head forgets
    /// them.
    ///
    /// # Errors
    /// The bucket's. It is no harm if they stay.
    pub(super) fn clear(&mut self, bucket: &dyn Bucket, now_ms: u64) -> Result<()> {
        let mut removed = 0;
        while let Some(at) = (self.head.superseded.iter())
            .position(|s| now_ms.saturating_sub(s.since_ms) >= millis(GRACE))
        {
            let Superseded { generation, n, .. } = &self.head.superseded[at];
            let names = before(bucket, generation, *n)?;
            for name in &names {
                if removed == REMOVED {
                    return Ok(());
                }
                bucket.remove(name)?;
                removed += 1;
            }
            self.head.superseded.remove(at);
        }
        Ok(())
    }

    /// Stores another head in the place of this one. Returns false if an earlier attempt, whose
    /// answer got lost, was stored instead: then this is that head now. Others can have continued
    /// from it, so it must not be replaced as if it had not been stored.
    ///
    /// # Errors
    /// The bucket's; [`Error::TakenOver`] if another process has replaced it.
    fn put(&mut self, bucket: &dyn Bucket, head: Head) -> Result<bool> {
        let bytes = head.encode();
        let replaced = match &self.version {
            Some(version) => bucket.replace(names::HEAD, &bytes, version),
            None => bucket.create(names::HEAD, &bytes),
        };
        let replaced = replaced.inspect_err(|_| self.unsure.push(xxh3_128(&bytes)))?;
        let (head, version, is_stored) = match replaced {
            Some(version) => (head, version, true),
            None => {
                let Some(now) = bucket.get(names::HEAD)? else {
                    return Err(not_there(bucket));
                };
                let is_earlier = self.unsure.contains(&xxh3_128(&now.bytes));
                match now.bytes == bytes {
                    // The answer to this request got lost.
                    true => (head, now.version, true),
                    false if is_earlier => (Head::decode(&now.bytes)?, now.version, false),
                    false => return Err(not_there(bucket)),
                }
            }
        };
        *self = HeadWriter {
            head,
            version: Some(version),
            unsure: Vec::new(),
        };
        Ok(is_stored)
    }
}

/// Why a head that was stored is not there any more.
fn not_there(bucket: &dyn Bucket) -> Error {
    match headless::read(bucket) {
        Ok(Read::Lost(lost)) => lost.error(),
        Ok(Read::Head(..)) | Err(Error::NoReplica) => Error::TakenOver,
        Err(e) => e,
    }
}

/// Takes out of the head what no restore point after the limit needs.
fn retire(head: &mut Head, limit_ms: u64, now_ms: u64) {
    let mut gone = Vec::new();
    // A base is needed for the moments from its own to that of the next one.
    let mut next_ms = u64::MAX;
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
        (generation.bases).retain(|_| is_needed.next().unwrap_or(true));
        if generation.bases.len() == before {
            continue;
        }
        let n = generation.bases.first().map(|base| base.n);
        (generation.compacted).retain(|c| n.is_some_and(|n| c.first > n));
        gone.push(Superseded {
            generation: generation.name.clone(),
            n,
            since_ms: now_ms,
        });
    }
    head.superseded.extend(gone);
    head.earlier
        .retain(|generation| !generation.bases.is_empty());
}

/// The objects of a generation that only lead to restore points before the base `n`; without one,
/// all.
fn before(bucket: &dyn Bucket, generation: &str, n: Option<u64>) -> Result<Vec<String>> {
    let all = bucket.list(&format!("{generation}-"), "")?;
    let names = all.into_iter().map(|object| object.name);
    let Some(n) = n else {
        return Ok(names.collect());
    };
    let (base, delta) = (names::bases(generation, n), names::delta(generation, n));
    let deltas = names::deltas(generation);
    let is_before = |name: &String| match names::compacted_numbers(name) {
        Some((_, last)) => last <= n,
        None if name.starts_with(&deltas) => *name <= delta,
        None => *name < base,
    };
    Ok(names.filter(is_before).collect())
}

/// How the head names a database file.
fn database(mark: &CommitId) -> String {
    format!("{:016x}", mark.salt())
}

fn generation(epoch: u64, newest: &CommitId, owner: &str) -> Result<Generation> {
    Ok(Generation {
        name: names::generation(epoch)?,
        epoch,
        database: database(newest),
        owner: owner.to_owned(),
        bases: Vec::new(),
        compacted: Vec::new(),
        rests: false,
    })
}
