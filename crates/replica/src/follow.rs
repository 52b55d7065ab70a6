//! Following a replica: its newest state as a file, without a copy.
//!
//! A [`Snapshot`] is one restore point and never changes, so a transaction reads one state. The
//! [`Follower`] asks for the next delta when a reader wants the newest one and the last answer is
//! too old. The base, and what is large, is read by ranges; small objects are kept in memory.

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::extents::{Index, Object};
use crate::format::{Footer, Generation, Kind};
use crate::log::is_of_file;
use crate::names;
use crate::overlay::{Overlay, Part};
use crate::plan::NEWEST;
use crate::restore::{head, index};
use densite_disk::sync::Mutex;
use densite_store::Mark;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A merged object of at most so many bytes is kept in memory: one request instead of several.
const SMALL: u64 = 1 << 20;
/// So many bytes of deltas are kept before the state is built again from merged objects.
const KEPT_MAX: u64 = 32 << 20;

/// An object that is read by ranges.
pub trait RemoteObject: Send + Sync {
    /// Reads from `offset` on, until `buf` is full or the object ends. Returns the number of bytes.
    ///
    /// # Errors
    /// [`Error::Bucket`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// The length in bytes.
    fn len(&self) -> u64;
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Opens the object of a name for reading by ranges.
pub type Opener = dyn Fn(&str) -> Result<Arc<dyn RemoteObject>> + Send + Sync;

/// Where bytes of the file are.
#[derive(Clone)]
enum Holder {
    Memory(Arc<Object>),
    Remote(Arc<dyn RemoteObject>),
}

/// A part of the file.
#[derive(Clone)]
struct Piece {
    holder: Holder,
    at: u64,
    len: u64,
}

impl Part for Piece {
    fn len(&self) -> u64 {
        self.len
    }

    fn slice(&self, from: u64, len: u64) -> Piece {
        Piece {
            holder: self.holder.clone(),
            at: self.at + from,
            len,
        }
    }
}

/// The file as of one restore point.
#[derive(Clone)]
pub struct Snapshot {
    generation: String,
    footer: Footer,
    chain: [u8; 16],
    pieces: Overlay<Piece>,
    /// Bytes of deltas in memory that could be merged ones.
    kept: u64,
}

impl Snapshot {
    /// The number of the restore point, and when it was taken in milliseconds since 1970.
    #[must_use]
    pub fn point(&self) -> (u64, u64) {
        (self.footer.last, self.footer.time_ms)
    }

    /// The commit.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.footer.to
    }

    /// The name of the generation.
    #[must_use]
    pub fn generation(&self) -> &str {
        &self.generation
    }

    /// Bytes of the file.
    #[must_use]
    pub fn image_len(&self) -> u64 {
        self.footer.image_len
    }

    /// Reads from `offset` on, until `buf` is full or the file ends. Returns the number of bytes.
    ///
    /// # Errors
    /// [`Error::Bucket`].
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.image_len().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let buf = buf.get_mut(..len).unwrap_or_default();
        buf.fill(0);
        let end = offset + len as u64;
        let mut at = offset;
        while at < end {
            let next = self.pieces.at(at).filter(|(start, _)| *start < end);
            let Some((start, piece)) = next else {
                break;
            };
            at = at.max(start);
            let n = (start + piece.len).min(end) - at;
            let (from, to) = (usize_of(at - offset), usize_of(at + n - offset));
            let part = buf.get_mut(from..to).unwrap_or_default();
            piece.read(part, at - start)?;
            at += n;
        }
        Ok(len)
    }

    /// Lays an object over the file.
    fn lay(&mut self, holder: &Holder, index: &Index) {
        for (offset, at, len) in index.places().filter(|(offset, ..)| is_of_file(*offset)) {
            let holder = holder.clone();
            self.pieces.put(offset, Piece { holder, at, len });
        }
        self.footer = index.footer.clone();
        self.chain = index.chain;
    }

    /// Whether this is a later state than another one, or the same one with less in memory.
    fn is_after(&self, other: &Snapshot) -> bool {
        let is_new = self.generation != other.generation;
        is_new || self.footer.last > other.footer.last || self.kept < other.kept
    }

    /// Checks that an object follows.
    fn must_precede(&self, name: &str, footer: &Footer) -> Result<()> {
        match footer.previous == self.chain && footer.first == self.footer.last + 1 {
            true => Ok(()),
            false => Err(Error::Damaged {
                object: name.to_owned(),
                problem: "it does not follow the object before it".to_owned(),
            }),
        }
    }
}

impl Piece {
    fn read(&self, buf: &mut [u8], from: u64) -> Result<()> {
        let n = match &self.holder {
            Holder::Memory(object) => {
                let bytes = object.bytes(self.at + from, buf.len() as u64);
                if let Some(buf) = buf.get_mut(..bytes.len()) {
                    buf.copy_from_slice(bytes);
                }
                bytes.len()
            }
            Holder::Remote(object) => object.read_at(buf, self.at + from)?,
        };
        match n == buf.len() {
            true => Ok(()),
            false => Err(Error::Bucket("an object became shorter".to_owned())),
        }
    }
}

/// What is known of a replica.
struct Known {
    snapshot: Arc<Snapshot>,
    asked: Instant,
}

/// See the module's documentation.
pub struct Follower {
    bucket: Arc<dyn Bucket>,
    open: Box<Opener>,
    known: Mutex<Known>,
}

impl Follower {
    /// Reads the newest state.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(bucket: Arc<dyn Bucket>, open: Box<Opener>) -> Result<Follower> {
        let snapshot = load(&*bucket, &*open)?;
        let known = Mutex::new(Known {
            snapshot: Arc::new(snapshot),
            asked: Instant::now(),
        });
        let follower = Follower {
            bucket,
            open,
            known,
        };
        follower.newest(Duration::ZERO)?;
        Ok(follower)
    }

    /// The newest state. It is asked for if the last answer is older than `age`.
    ///
    /// # Errors
    /// See [`Error`]. An older state is never returned in the place of an error.
    pub fn newest(&self, age: Duration) -> Result<Arc<Snapshot>> {
        let mut known = self.known.lock();
        if known.asked.elapsed() >= age {
            let asked = Instant::now();
            if let Some(newer) = self.advance(&known.snapshot)? {
                known.snapshot = Arc::new(newer);
            }
            known.asked = asked;
        }
        Ok(Arc::clone(&known.snapshot))
    }

    /// What follows a state; `None` if there is nothing.
    fn advance(&self, known: &Snapshot) -> Result<Option<Snapshot>> {
        let mut newer: Option<Snapshot> = None;
        loop {
            let now = newer.as_ref().unwrap_or(known);
            let name = names::delta(&now.generation, now.footer.last + 1);
            let Some(stored) = self.bucket.get(&name)? else {
                return Ok(newer);
            };
            let object = Object::decode(&name, stored.bytes)?;
            now.must_precede(&name, &object.index.footer)?;
            let kept = now.kept + stored.len;
            if object.index.footer.kind == Kind::End || kept > KEPT_MAX {
                let loaded = load(&*self.bucket, &*self.open)?;
                // After an end, the state stays while nothing follows.
                if !loaded.is_after(now) {
                    return Ok(newer);
                }
                newer = Some(loaded);
                continue;
            }
            let mut next = newer.unwrap_or_else(|| known.clone());
            let object = Arc::new(object);
            next.lay(&Holder::Memory(Arc::clone(&object)), &object.index);
            next.kept = kept;
            newer = Some(next);
        }
    }
}

/// The newest base, and the merged objects and deltas after it.
fn load(bucket: &dyn Bucket, open: &Opener) -> Result<Snapshot> {
    let (head, _) = head(bucket)?;
    let generation = head.newest_first().find(|g| !g.bases.is_empty());
    let generation = generation.ok_or(Error::NoReplica)?;
    let base = generation.bases.last().ok_or(Error::NoReplica)?;
    let name = names::base(&generation.name, base.n);
    let (holder, index) = by_ranges(open, &name)?;
    let mut snapshot = Snapshot {
        generation: generation.name.clone(),
        footer: index.footer.clone(),
        chain: index.chain,
        pieces: Overlay::default(),
        kept: 0,
    };
    snapshot.lay(&holder, &index);
    merged(bucket, open, generation, &mut snapshot)?;
    Ok(snapshot)
}

/// Lays the merged objects after the base over it.
fn merged(
    bucket: &dyn Bucket,
    open: &Opener,
    generation: &Generation,
    snapshot: &mut Snapshot,
) -> Result<()> {
    while let Some(next) = generation.compacted_after(snapshot.footer.last, NEWEST) {
        let name = names::compacted(&generation.name, next.first, next.last);
        let (holder, index) = if next.bytes <= SMALL {
            let stored = bucket.get(&name)?;
            let stored = stored.ok_or_else(|| Error::Missing(name.clone()))?;
            let object = Arc::new(Object::decode(&name, stored.bytes)?);
            let index = object.index.clone();
            (Holder::Memory(object), index)
        } else {
            by_ranges(open, &name)?
        };
        snapshot.must_precede(&name, &index.footer)?;
        snapshot.lay(&holder, &index);
    }
    Ok(())
}

/// Opens an object to read it by ranges.
fn by_ranges(open: &Opener, name: &str) -> Result<(Holder, Index)> {
    let object = open(name)?;
    let index = index(name, object.len(), &mut |buf, offset| {
        object.read_at(buf, offset)
    })?;
    Ok((Holder::Remote(object), index))
}

fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
