//! Following a replica: its newest state as a file, without a copy.
//!
//! A [`Snapshot`] is one restore point and never changes, so a transaction reads one state. The
//! [`Follower`] asks for the next delta when a reader wants the newest one and the last answer is
//! too old. The base, and what is large, is read by ranges; small objects are kept in memory.
//!
//! A follower is never behind in silence. A delta that does not exist is the normal case, and also
//! what a deleted one looks like. So now and then a poll asks for the delta after the next one, or
//! for the head, in the place of the next delta. docs/decisions/replication.md has the reasons.

mod load;
mod snapshot;

pub use snapshot::Snapshot;

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::extents::Object;
use crate::format::{FOOTER_LEN, Head, Kind};
use crate::gap::{end_after, gap};
use crate::{headless, names};
use densite_disk::sync::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many bytes of deltas are kept in memory. Those that follow are read by ranges.
const KEPT_MAX: u64 = 32 << 20;
/// Of so many polls in a row that find nothing, one asks for the delta after the next one.
const BEYOND_EVERY: u32 = 8;
/// Which of them.
const BEYOND_AT: u32 = 3;
/// Of so many, one asks for the head.
const HEAD_EVERY: u32 = 64;
/// Which of them.
const HEAD_AT: u32 = 7;
/// Before a poll, the head and the list of deltas are read if that was longer ago: objects that the
/// head does not name any more stay for an hour.
const CHECK_AGE: Duration = Duration::from_secs(20 * 60);

/// What is known of a replica.
struct Known {
    snapshot: Arc<Snapshot>,
    head: Head,
    /// When the head and the list of deltas were read last.
    checked: Instant,
    asked: Instant,
    /// When the bucket answered last.
    answered: Instant,
    /// Polls in a row that found nothing.
    idle: u32,
    /// Why the newest poll failed.
    failure: Option<Error>,
}

/// What comes after a state.
enum Next {
    Nothing,
    /// Another base or generation.
    End,
    Delta(Box<Delta>),
}

/// The next delta.
struct Delta {
    name: String,
    object: Object,
    /// Its length in bytes.
    len: u64,
}

/// See the module's documentation.
pub struct Follower {
    bucket: Arc<dyn Bucket>,
    known: Mutex<Known>,
}

impl Follower {
    /// Reads the newest state.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(bucket: Arc<dyn Bucket>) -> Result<Follower> {
        let asked = Instant::now();
        let (head, _) = headless::head(&*bucket)?;
        let snapshot = build(&*bucket, &head)?;
        let known = Mutex::new(Known {
            snapshot: Arc::new(snapshot),
            head,
            checked: asked,
            asked,
            answered: asked,
            idle: 0,
            failure: None,
        });
        Ok(Follower { bucket, known })
    }

    /// The newest state. It is asked for if the last answer is older than `age`.
    ///
    /// # Errors
    /// See [`Error`]. An older state is never returned in the place of an error. An error is also
    /// returned again until it is older than `age`.
    pub fn newest(&self, age: Duration) -> Result<Arc<Snapshot>> {
        let mut known = self.known.lock();
        if known.asked.elapsed() >= age {
            known.asked = Instant::now();
            known.failure = match self.poll(&mut known) {
                Ok(true) => {
                    known.idle = 0;
                    None
                }
                Ok(false) => {
                    known.idle = known.idle.wrapping_add(1);
                    None
                }
                Err(e) => Some(e),
            };
        }
        if known.failure.is_none() {
            known.answered = known.asked;
        }
        match &known.failure {
            Some(e) => Err(e.clone()),
            None => Ok(Arc::clone(&known.snapshot)),
        }
    }

    /// The newest known state, and the age of the last answer of the bucket. Sends nothing.
    pub fn known(&self) -> (Arc<Snapshot>, Duration) {
        let known = self.known.lock();
        (Arc::clone(&known.snapshot), known.answered.elapsed())
    }

    /// Reads the head and the list of deltas now, as happens every 20 minutes: no gap stays unnoticed,
    /// and no object is read that was removed long after it was replaced.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn check(&self) -> Result<()> {
        self.checked(&mut self.known.lock()).map(drop)
    }

    /// The same. Returns whether there is a later state.
    fn checked(&self, known: &mut Known) -> Result<bool> {
        let is_after = self.by_head(known)?;
        if !is_after && self.bucket.has_lists() {
            let snapshot = &known.snapshot;
            end_after(&*self.bucket, snapshot.generation(), snapshot.last())?;
        }
        known.checked = Instant::now();
        Ok(is_after)
    }

    /// Asks once. Returns whether there is a later state.
    fn poll(&self, known: &mut Known) -> Result<bool> {
        if known.checked.elapsed() >= CHECK_AGE && self.checked(known)? {
            return Ok(true);
        }
        match known.idle {
            n if n % HEAD_EVERY == HEAD_AT => self.by_head(known),
            n if n % BEYOND_EVERY == BEYOND_AT => self.beyond(known),
            _ => self.advance(known),
        }
    }

    /// Takes the deltas that follow. Returns whether there are any.
    fn advance(&self, known: &mut Known) -> Result<bool> {
        let mut has_moved = false;
        loop {
            match next(&*self.bucket, &known.snapshot)? {
                Next::Nothing => return Ok(has_moved),
                Next::End => {
                    // The state stays while nothing follows.
                    if !self.by_head(known)? {
                        return Ok(has_moved);
                    }
                }
                Next::Delta(delta) => {
                    let is_full = known.snapshot.kept() + delta.len > KEPT_MAX;
                    // Merged objects can have come in the place of what is in memory.
                    if !is_full || !self.by_head(known)? {
                        let snapshot = Arc::make_mut(&mut known.snapshot);
                        lay(&*self.bucket, snapshot, *delta)?;
                    }
                }
            }
            has_moved = true;
        }
    }

    /// Asks for the delta after the next one. If it exists, the next one must, too.
    fn beyond(&self, known: &mut Known) -> Result<bool> {
        let (generation, n) = (
            known.snapshot.generation().to_owned(),
            known.snapshot.last(),
        );
        if !exists(&*self.bucket, &generation, n + 2)? {
            return Ok(false);
        }
        // After days without a poll, the deltas before a newer base can be removed.
        match self.advance(known)? || self.by_head(known)? {
            true => Ok(true),
            false => Err(gap(&generation, n + 1, n + 2)),
        }
    }

    /// Reads the head. If it has changed, the state is built again from the objects that it names.
    /// Returns whether that is a later one, or takes less memory.
    fn by_head(&self, known: &mut Known) -> Result<bool> {
        let (head, _) = headless::head(&*self.bucket)?;
        let mut is_after = false;
        if head != known.head {
            let built = build(&*self.bucket, &head)?;
            is_after = built.is_after(&known.snapshot);
            if is_after {
                known.snapshot = Arc::new(built);
            }
            known.head = head;
        }
        Ok(is_after)
    }
}

/// The state after the newest base that the head names, and all objects behind it.
fn build(bucket: &dyn Bucket, head: &Head) -> Result<Snapshot> {
    let mut snapshot = load::merged(bucket, head)?;
    if head.current.rests && snapshot.generation() == head.current.name {
        return Ok(snapshot);
    }
    let end = match bucket.has_lists() {
        true => end_after(bucket, snapshot.generation(), snapshot.last())?,
        false => u64::MAX,
    };
    while snapshot.last() < end {
        let n = snapshot.last() + 1;
        match next(bucket, &snapshot)? {
            Next::Delta(delta) => lay(bucket, &mut snapshot, *delta)?,
            Next::End => break,
            Next::Nothing if end < u64::MAX => {
                return Err(Error::Missing(names::delta(snapshot.generation(), n)));
            }
            Next::Nothing if exists(bucket, snapshot.generation(), n + 1)? => {
                return Err(gap(snapshot.generation(), n, n + 1));
            }
            Next::Nothing => break,
        }
    }
    Ok(snapshot)
}

/// What comes after a state.
fn next(bucket: &dyn Bucket, now: &Snapshot) -> Result<Next> {
    let name = names::delta(now.generation(), now.last() + 1);
    let Some(stored) = bucket.get(&name)? else {
        return Ok(Next::Nothing);
    };
    let object = Object::decode(&name, stored.bytes)?;
    // Whoever began to take over can have ended the chain before the last base was sent.
    if object.index.footer.kind == Kind::End {
        return Ok(Next::End);
    }
    now.must_precede(&name, &object.index.footer)?;
    Ok(Next::Delta(Box::new(Delta {
        name,
        object,
        len: stored.len,
    })))
}

/// Lays a delta over a state.
fn lay(bucket: &dyn Bucket, snapshot: &mut Snapshot, delta: Delta) -> Result<()> {
    let Delta { name, object, len } = delta;
    if snapshot.kept() + len <= KEPT_MAX {
        snapshot.lay_kept(object, len);
        return Ok(());
    }
    drop(object);
    let (holder, index) = load::by_ranges(bucket, &name, len, load::END)?;
    snapshot.lay(&holder, &index);
    Ok(())
}

/// Whether delta `n` exists.
fn exists(bucket: &dyn Bucket, generation: &str, n: u64) -> Result<bool> {
    let end = bucket.get_end(&names::delta(generation, n), FOOTER_LEN as u64)?;
    Ok(end.is_some())
}
