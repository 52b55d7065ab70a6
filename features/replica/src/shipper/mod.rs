//! Ships a database: the state of one writer of a replica.
//!
//! Each restore point becomes a delta `n`, which is created and never replaced. So of two writers
//! that continue the same chain, one fails to create its next delta, and stops. Whoever takes over
//! first ends the chain with an object of kind *end* in the place of the next delta, which stops the
//! writer before it for the same reason. The head is replaced only in the version that was read.

mod base;
mod compacting;
mod deltas;
mod head_writer;
mod logging;
mod recent;
mod resume;

use crate::assemble::total;
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::extents::Writer;
use crate::format::{Footer, Kind, NO_HASH};
use crate::names;
use crate::source::Source;
use base::Damage;
use deltas::Delta;
use densite_store::{CommitId, Written};
use head_writer::HeadWriter;
use logging::LogShipped;
use recent::Recent;
use std::sync::Arc;
use std::time::Duration;

/// A delta of more bytes is stored as a base.
const DELTA_MAX: u64 = 64 << 20;

/// How a database is shipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipperOptions {
    /// How long restore points are kept. At least an hour is.
    pub retain: Duration,
    /// After this time, the next change is shipped with a new base.
    pub base_every: Duration,
    /// After this time without a change, deltas are merged.
    pub rest: Duration,
    /// Which copy of the database this is: random, and kept beside it. Another copy is refused, for
    /// it cannot be told from this one by its contents.
    pub owner: String,
    /// Continue although the replica is of another copy, has another history, or another process
    /// ships to it.
    pub takeover: bool,
}

impl Default for ShipperOptions {
    fn default() -> ShipperOptions {
        ShipperOptions {
            retain: Duration::from_secs(24 * 3600),
            base_every: Duration::from_secs(24 * 3600),
            rest: Duration::from_secs(10),
            owner: String::new(),
            takeover: false,
        }
    }
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There is nothing new.
    Idle,
    /// Readers hold back the next restore point.
    HeldBack,
    /// A restore point of this number was shipped, with so many bytes.
    Shipped {
        /// Its number.
        n: u64,
        /// Bytes of its object.
        bytes: u64,
        /// Readers hold back the next state of the database: it has new rows of the log alone.
        is_held_back: bool,
    },
    /// Deltas were merged into one of so many bytes.
    Compacted {
        /// Bytes of the merged object.
        bytes: u64,
    },
}

/// The end of the chain.
#[derive(Debug, Clone, Copy)]
struct Position {
    n: u64,
    mark: CommitId,
    /// Bytes of the file as of that commit.
    image_len: u64,
    /// What of the log is in the bucket.
    log: Option<LogShipped>,
    /// The chain value of restore point `n`.
    chain: [u8; 16],
    time_ms: u64,
    /// When the database was last found as `mark` has it.
    state_ms: u64,
    /// In the place of delta `n` is an end: a base `n` follows, or another generation.
    is_ended: bool,
}

/// What is to become of a chain whose end is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// It was continued by an earlier attempt of this shipper.
    Known,
    /// It is continued.
    Continued,
    /// Another generation follows.
    Ended,
}

/// A delta that was made. If its creation was not acknowledged, it can exist.
struct Made {
    name: String,
    bytes: Vec<u8>,
    is_held_back: bool,
    /// The position after it.
    then: Position,
}

/// The one writer of a replica.
pub struct Shipper {
    bucket: Arc<dyn Bucket>,
    options: ShipperOptions,
    head: HeadWriter,
    at: Position,
    /// Random, so that no two writers make the same object.
    writer: u64,
    /// A delta whose creation was not acknowledged. It is created again, with the same bytes.
    unsure: Option<Made>,
    /// The head is that of an earlier attempt, from which others can have continued: the end of the
    /// chain must be found before anything is sent.
    is_behind: bool,
    /// Deltas that were shipped since the last compaction.
    recent: Recent,
    /// Bytes of the deltas since the newest base.
    since_base: u64,
    /// Bytes of the deltas that are not merged.
    loose_bytes: u64,
    /// When something was shipped last, in milliseconds since 1970.
    shipped_ms: u64,
    /// Bytes of the merged object of the newest step that also shipped.
    compacted: Option<u64>,
    /// Damage of the database, which keeps it from being sent as a base.
    damage: Option<Damage>,
}

impl Shipper {
    /// The number, the commit and the time in milliseconds since 1970 of the newest restore point
    /// in the bucket.
    #[must_use]
    pub fn position(&self) -> (u64, CommitId, u64) {
        (self.at.n, self.at.mark, self.at.time_ms)
    }

    /// When the newest state of the database in the bucket was taken, in milliseconds since 1970.
    /// Restore points after it have more of the log alone.
    #[must_use]
    pub fn state_ms(&self) -> u64 {
        self.at.state_ms
    }

    /// The name of the current generation.
    #[must_use]
    pub fn generation(&self) -> &str {
        &self.head.current().name
    }

    /// Bytes of the object into which the newest step merged deltas, if it also shipped a restore
    /// point. A step that only merges says so itself.
    pub fn take_compacted(&mut self) -> Option<u64> {
        self.compacted.take()
    }

    /// Ships what is new. Call it at intervals. `now_ms` is the time in milliseconds since 1970.
    /// `progress` gets the bytes of a base that were sent, and stops the work by returning false.
    ///
    /// # Errors
    /// [`Error::TakenOver`] and [`Error::AnotherWriter`] are final. After an error of the bucket or
    /// the source, call it again.
    pub fn step(
        &mut self,
        source: &mut dyn Source,
        now_ms: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Step> {
        self.compacted = None;
        if let Some(made) = self.unsure.take() {
            return self.create_delta(made, now_ms);
        }
        if self.is_behind {
            self.find_end(Wanted::Known)?;
            self.is_behind = false;
        }
        if self.at.is_ended || self.head.newest_base().is_none() {
            // A base could not be shipped before.
            let verified = self.verify(source, now_ms, progress)?;
            return self.ship_base(source, verified, self.at.n, now_ms, progress);
        }
        // Objects that are not needed do no harm if they stay.
        let _ = self.head.clear(&*self.bucket, now_ms);
        let point = source.restore_point()?;
        let image = source.take_log();
        let news = self.log_news(image.as_ref())?;
        let differs = self.log_differs(image.as_ref(), &news);
        let Some(point) = point else {
            let is_possible = differs && news.bytes() <= DELTA_MAX;
            return match image.filter(|image| is_possible && self.log_goes_on(image, &news)) {
                Some(image) => self.ship_log(Some(&image), &news, true, now_ms),
                None => Ok(Step::HeldBack),
            };
        };
        let is_small = news.bytes() <= DELTA_MAX && !self.base_is_due(now_ms);
        if point == self.at.mark {
            return match (differs, is_small) {
                (false, _) => self.rest(now_ms),
                (true, true) => self.ship_log(image.as_ref(), &news, false, now_ms),
                (true, false) => self.next_base(source, now_ms, progress),
            };
        }
        match source.written(&self.at.mark, &point)? {
            Written::Ranges(ranges) if is_small && total(&ranges) <= DELTA_MAX => {
                match self.delta(source, point, ranges, image, now_ms)? {
                    Delta::Made(made) => self.create_delta(*made, now_ms),
                    Delta::HeldBack => Ok(Step::HeldBack),
                    Delta::Unknown => self.next_base(source, now_ms, progress),
                }
            }
            Written::Ranges(_) | Written::Unknown => self.next_base(source, now_ms, progress),
            // An older state was put back over the file.
            Written::AnotherHistory if self.head.is_of(&point) => Err(Error::AnotherHistory),
            Written::AnotherHistory => {
                // It was vacuumed or converted while this process shipped it.
                let verified = self.verify(source, now_ms, progress)?;
                self.new_generation(&point, now_ms)?;
                self.ship_base(source, verified, 0, now_ms, progress)
            }
        }
    }

    /// The footer of an object that ends with restore point `n` and follows the newest one.
    fn footer(&self, kind: Kind, n: u64, now_ms: u64) -> Footer {
        Footer {
            kind,
            first: n,
            last: n,
            writer: self.writer,
            // A clock can be set back; restore points keep their order.
            time_ms: now_ms.max(self.at.time_ms),
            from: None,
            to: None,
            image_len: 0,
            body_len: 0,
            extents: 0,
            log: None,
            previous: self.at.chain,
            chain: NO_HASH,
            body_hash: NO_HASH,
            table_hash: NO_HASH,
        }
    }

    /// Creates an object in the place of the next delta.
    ///
    /// # Errors
    /// The bucket's; [`Error::TakenOver`], [`Error::AnotherWriter`] if there is another one.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self.create_or_find(name, bytes)? {
            None => Ok(()),
            Some((footer, _)) if footer.kind == Kind::End => Err(Error::TakenOver),
            Some(_) => Err(another(name)),
        }
    }

    /// Creates an object. Returns the footer and the chain value of another one that is there.
    fn create_or_find(&self, name: &str, bytes: &[u8]) -> Result<Option<(Footer, [u8; 16])>> {
        if self.bucket.create(name, bytes)?.is_some() {
            return Ok(None);
        }
        let stored = self.bucket.get(name)?.ok_or_else(|| another(name))?;
        match stored.bytes == bytes {
            // The answer to an earlier request got lost.
            true => Ok(None),
            false => Footer::decode(name, &stored.bytes).map(Some),
        }
    }

    /// Ends the chain: in the place of the next delta is an object that says so.
    fn end_chain(&mut self, now_ms: u64) -> Result<()> {
        let n = self.at.n + 1;
        let footer = self.footer(Kind::End, n, now_ms);
        let (bytes, _, chain) = Writer::new(Vec::new()).finish(footer)?;
        let name = names::delta(self.generation(), n);
        let chain = match self.create_or_find(&name, &bytes)? {
            None => chain,
            // An earlier attempt of this writer, whose answer got lost.
            Some((footer, chain)) if footer.writer == self.writer => chain,
            Some((footer, _)) if footer.kind == Kind::End => return Err(Error::TakenOver),
            Some(_) => return Err(another(&name)),
        };
        self.at = Position {
            n,
            chain,
            is_ended: true,
            ..self.at
        };
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn another(object: &str) -> Error {
    Error::AnotherWriter {
        object: object.to_owned(),
    }
}
