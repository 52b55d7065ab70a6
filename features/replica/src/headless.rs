//! Reading the head, and what takes its place if it is lost: a list of the objects.
//!
//! The head names the generations, their bases and what is merged. Names and footers of the objects
//! say the same. Only which copy of the database ships is in the head alone. So a restore can do
//! without it, and a shipper cannot continue without it.
//!
//! A base is uploaded before the head names it, and an upload that was given up can end later. Which
//! of several bases of one restore point is meant, the object that follows it proves by its
//! `previous`. Without such an object, each is the state after a whole transaction, and the newest
//! one is taken. What is proved to be missing stays in the derived head, so that reading it is an
//! error, never an older state in its place.

use crate::bucket::{Bucket, Listed};
use crate::error::{Error, Result};
use crate::format::{
    Base, Compacted, FOOTER_LEN, Footer, Generation, Head, Kind, REPLICA_FORMAT_VERSION, Superseded,
};
use crate::names::{self, HEAD, Of};
use densite_store::CommitId;
use std::collections::{BTreeMap, BTreeSet};

/// What is in the place of a head.
pub(crate) enum Read {
    /// It, and its version.
    Head(Head, String),
    Lost(Lost),
}

/// A head that is missing or damaged beside other objects.
pub(crate) struct Lost {
    /// What is wrong with it.
    pub(crate) problem: String,
    /// The version of the damaged one; `None` if it is missing.
    pub(crate) version: Option<String>,
    generations: Vec<Objects>,
}

/// Reads the head.
///
/// # Errors
/// [`Error::NoReplica`]; [`Error::Newer`]; the bucket's.
pub(crate) fn read(bucket: &dyn Bucket) -> Result<Read> {
    let (problem, version) = match bucket.get(HEAD)? {
        Some(stored) => match Head::decode(&stored.bytes) {
            Ok(head) => return Ok(Read::Head(head, stored.version)),
            Err(Error::Damaged { problem, .. }) => {
                (format!("is damaged ({problem})"), Some(stored.version))
            }
            Err(e) => return Err(e),
        },
        None => ("is missing".to_owned(), None),
    };
    if version.is_none() {
        bucket.must_exist()?;
    }
    let generations = match bucket.has_lists() {
        true => grouped(bucket.list("", "")?),
        false => Vec::new(),
    };
    match (generations.is_empty(), &version) {
        (true, None) => Err(Error::NoReplica),
        _ => Ok(Read::Lost(Lost {
            problem,
            version,
            generations,
        })),
    }
}

/// Reads the head, which must be there.
///
/// # Errors
/// As [`read`]; [`Error::HeadLost`].
pub(crate) fn head(bucket: &dyn Bucket) -> Result<(Head, String)> {
    match read(bucket)? {
        Read::Head(head, version) => Ok((head, version)),
        Read::Lost(lost) => Err(lost.error()),
    }
}

/// Reads the head. If it is lost, what a list says in its place, and what is wrong with it.
///
/// # Errors
/// As [`read`]; [`Error::HeadLost`] if nothing can be restored.
pub(crate) fn head_or_list(bucket: &dyn Bucket) -> Result<(Head, Option<String>)> {
    match read(bucket)? {
        Read::Head(head, _) => Ok((head, None)),
        Read::Lost(lost) if lost.generations.is_empty() => Err(lost.error()),
        Read::Lost(lost) => Ok((lost.head(bucket)?, Some(lost.problem))),
    }
}

/// Whether there is a replica, with a head or without one.
///
/// # Errors
/// The bucket's.
pub fn exists(bucket: &dyn Bucket) -> Result<bool> {
    match bucket.get(HEAD)? {
        Some(_) => Ok(true),
        None if bucket.has_lists() => Ok(!grouped(bucket.list("", "")?).is_empty()),
        None => Ok(false),
    }
}

/// An end in the place of delta `n` was read, and the derived head has no base `n`. If another
/// object follows, there was one.
///
/// # Errors
/// [`Error::Missing`]; the bucket's.
pub(crate) fn must_be_last(bucket: &dyn Bucket, generation: &str, n: u64) -> Result<()> {
    let next = bucket.get_end(&names::delta(generation, n + 1), FOOTER_LEN as u64)?;
    match next {
        Some(_) => Err(Error::Missing(names::bases(generation, n))),
        None => Ok(()),
    }
}

/// The names of the objects of one generation.
struct Objects {
    name: String,
    epoch: u64,
    /// Names and lengths of the bases, by their restore point.
    bases: BTreeMap<u64, Vec<Listed>>,
    deltas: BTreeSet<u64>,
    /// Lengths of compacted deltas, by their first and last restore point.
    compacted: BTreeMap<(u64, u64), u64>,
}

/// The objects of each generation, in the order of their numbers.
fn grouped(all: Vec<Listed>) -> Vec<Objects> {
    let mut found: BTreeMap<(u64, String), Objects> = BTreeMap::new();
    for object in all {
        let Some((name, of)) = names::parsed(&object.name) else {
            continue;
        };
        let (Some(epoch), true) = (names::epoch(name), of != Of::Probe) else {
            continue;
        };
        let key = (epoch, name.to_owned());
        let objects = found
            .entry(key)
            .or_insert_with_key(|(epoch, name)| Objects {
                name: name.clone(),
                epoch: *epoch,
                bases: BTreeMap::new(),
                deltas: BTreeSet::new(),
                compacted: BTreeMap::new(),
            });
        match of {
            Of::Base(n) => objects.bases.entry(n).or_default().push(object),
            Of::Delta(n) => drop(objects.deltas.insert(n)),
            Of::Compacted(first, last) => {
                objects.compacted.insert((first, last), object.len);
            }
            Of::Probe => {}
        }
    }
    found.into_values().collect()
}

impl Lost {
    /// What is wrong, and what to do.
    pub(crate) fn error(&self) -> Error {
        Error::HeadLost {
            problem: self.problem.clone(),
            generations: self.generations.iter().map(|g| g.name.clone()).collect(),
        }
    }

    /// A head that says what the objects say. It has at least one generation. That of a replica
    /// without objects has no bases.
    ///
    /// # Errors
    /// The bucket's; [`Error::Newer`].
    pub(crate) fn head(&self, bucket: &dyn Bucket) -> Result<Head> {
        let mut generations = Vec::new();
        let mut superseded = Vec::new();
        // When the newest known restore point of the generations before was taken.
        let mut before_ms = 0;
        let mut ordered = Vec::new();
        for objects in &self.generations {
            ordered.push((objects.epoch, objects.newest_ms(bucket)?, objects));
        }
        // A number can be there twice, if generations were counted again after a head was lost.
        ordered.sort_by_key(|(epoch, newest_ms, _)| (*epoch, *newest_ms));
        for (_, newest_ms, objects) in ordered {
            let mut generation = objects.generation(bucket, before_ms)?;
            let is_older = generations.iter().all(|g: &Generation| g.bases.is_empty());
            let gone = generation.bases.first().map(|base| base.n);
            if gone.is_none() && !is_older {
                // Objects are removed from the oldest on, and bases first. So this one has lost its
                // base.
                let first = objects.deltas.first().map_or(0, |first| first - 1);
                generation.bases.push(Base {
                    name: names::bases(&objects.name, first),
                    n: first,
                    commit: 0,
                    time_ms: before_ms,
                    bytes: 0,
                });
            } else if objects.has_before(gone) {
                superseded.push(Superseded {
                    generation: objects.name.clone(),
                    n: gone,
                    since_ms: 0,
                });
            }
            before_ms = newest_ms.unwrap_or(before_ms);
            generations.push(generation);
        }
        let empty = || Generation {
            name: "g0000-00000000".to_owned(),
            epoch: 0,
            database: String::new(),
            owner: String::new(),
            bases: Vec::new(),
            compacted: Vec::new(),
            rests: false,
        };
        let current = generations.pop().unwrap_or_else(empty);
        generations.retain(|generation| !generation.bases.is_empty());
        Ok(Head {
            version: REPLICA_FORMAT_VERSION,
            current,
            earlier: generations,
            superseded,
        })
    }
}

impl Objects {
    /// Whether there are objects that lead only to restore points before base `n`; without one, any.
    fn has_before(&self, n: Option<u64>) -> bool {
        let n = n.unwrap_or(u64::MAX);
        let has_delta = self.deltas.first().is_some_and(|delta| *delta < n);
        has_delta || self.compacted.keys().any(|(_, last)| *last < n)
    }

    /// The generation as the objects have it. `before_ms`: it is not older than this.
    fn generation(&self, bucket: &dyn Bucket, before_ms: u64) -> Result<Generation> {
        let mut bases = Vec::new();
        let mut database = String::new();
        for (n, named) in &self.bases {
            let (base, mark) = self.base(bucket, *n, named, before_ms)?;
            if let Some(mark) = mark {
                database = format!("{:016x}", mark.salt());
            }
            bases.push(base);
        }
        let mut compacted = Vec::new();
        for base in &bases {
            let mut n = base.n;
            while let Some((merged, last)) = self.compacted_after(bucket, n)? {
                compacted.push(merged);
                n = last;
            }
        }
        Ok(Generation {
            name: self.name.clone(),
            epoch: self.epoch,
            database,
            owner: String::new(),
            bases,
            compacted,
            rests: false,
        })
    }

    /// Which of these objects is base `n`, and its commit if it can be read.
    fn base(
        &self,
        bucket: &dyn Bucket,
        n: u64,
        named: &[Listed],
        before_ms: u64,
    ) -> Result<(Base, Option<CommitId>)> {
        let mut found = Vec::new();
        for object in named {
            if let Some((footer, chain)) = footer(bucket, &object.name)?
                && (footer.kind, footer.last) == (Kind::Base, n)
            {
                found.push((object, footer, chain));
            }
        }
        found.sort_by_key(|(_, footer, _)| footer.time_ms);
        if found.len() > 1
            && let Some(previous) = self.previous_after(bucket, n)?
        {
            found.retain(|(.., chain)| *chain == previous);
        }
        if let Some((object, footer, _)) = found.pop() {
            let base = Base {
                name: object.name.clone(),
                n,
                commit: footer.to.map_or(0, |mark| mark.commit()),
                time_ms: footer.time_ms,
                bytes: object.len,
            };
            return Ok((base, footer.to));
        }
        // It is damaged. It came after the end in its place in the chain.
        let end = footer(bucket, &names::delta(&self.name, n))?;
        let base = Base {
            name: named
                .last()
                .map_or_else(|| names::bases(&self.name, n), |o| o.name.clone()),
            n,
            commit: 0,
            time_ms: end.map_or(before_ms, |(footer, _)| footer.time_ms),
            bytes: named.last().map_or(0, |object| object.len),
        };
        Ok((base, None))
    }

    /// What the object behind restore point `n` says that it follows.
    fn previous_after(&self, bucket: &dyn Bucket, n: u64) -> Result<Option<[u8; 16]>> {
        let mut names = Vec::new();
        if self.deltas.contains(&(n + 1)) {
            names.push(names::delta(&self.name, n + 1));
        }
        let behind = self.compacted.range((n + 1, 0)..(n + 2, 0));
        names.extend(behind.map(|((first, last), _)| names::compacted(&self.name, *first, *last)));
        for name in names {
            if let Some((footer, _)) = footer(bucket, &name)? {
                return Ok(Some(footer.previous));
            }
        }
        Ok(None)
    }

    /// The compacted delta that follows restore point `n` and reaches furthest, and its last restore
    /// point. The deltas are there in the place of a damaged one.
    fn compacted_after(&self, bucket: &dyn Bucket, n: u64) -> Result<Option<(Compacted, u64)>> {
        let behind = self.compacted.range((n + 1, 0)..(n + 2, 0));
        for ((first, last), bytes) in behind.rev() {
            let name = names::compacted(&self.name, *first, *last);
            if let Some((footer, _)) = footer(bucket, &name)?
                && (footer.first, footer.last) == (*first, *last)
            {
                let merged = Compacted {
                    first: *first,
                    last: *last,
                    time_ms: footer.time_ms,
                    bytes: *bytes,
                    merges: 1,
                };
                return Ok(Some((merged, *last)));
            }
        }
        Ok(None)
    }

    /// When the newest restore point was taken, as far as it can be read.
    fn newest_ms(&self, bucket: &dyn Bucket) -> Result<Option<u64>> {
        for n in self.deltas.iter().rev().take(2) {
            if let Some((footer, _)) = footer(bucket, &names::delta(&self.name, *n))? {
                return Ok(Some(footer.time_ms));
            }
        }
        let bases = self.bases.values().rev().flatten();
        for object in bases {
            if let Some((footer, _)) = footer(bucket, &object.name)? {
                return Ok(Some(footer.time_ms));
            }
        }
        Ok(None)
    }
}

/// The footer and the chain value of an object; `None` if it is missing or damaged.
fn footer(bucket: &dyn Bucket, name: &str) -> Result<Option<(Footer, [u8; 16])>> {
    let Some(stored) = bucket.get_end(name, FOOTER_LEN as u64)? else {
        return Ok(None);
    };
    match Footer::decode(name, &stored.bytes) {
        Ok(found) => Ok(Some(found)),
        Err(Error::Damaged { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}
