//! Beginning a replica, continuing one, and taking one over.

use super::base::{empty, verified};
use super::head_writer::{Found, HeadWriter};
use super::logging::LogShipped;
use super::recent::Recent;
use super::{Position, Shipper, ShipperOptions, Wanted};
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::{FOOTER_LEN, Footer, Kind, NO_HASH};
use crate::gap::end_of;
use crate::names;
use crate::source::Source;
use densite_store::{CommitId, Written};
use std::sync::Arc;

impl Shipper {
    /// Continues a replica, or begins one with a base. `now_ms` is the time in milliseconds since
    /// 1970. `progress` gets the bytes of a base that were sent, and stops the work by returning
    /// false.
    ///
    /// # Errors
    /// [`Error::AnotherDatabase`], [`Error::AnotherHistory`], [`Error::NotAtomic`]; the bucket's and
    /// the source's.
    pub fn begin(
        bucket: Arc<dyn Bucket>,
        source: &mut dyn Source,
        options: ShipperOptions,
        now_ms: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Shipper> {
        let newest = source.newest()?.ok_or_else(empty)?;
        let (head, is_new) = match HeadWriter::read(&*bucket)? {
            Found::Head(head) => (head, None),
            // Whose replica it is, only the head says.
            Found::Lost(lost) if !options.takeover => return Err(lost.error()),
            Found::Lost(lost) => {
                must_be_atomic(&*bucket)?;
                (HeadWriter::by_list(&*bucket, lost, now_ms)?, None)
            }
            Found::Nothing => {
                let verified = verified(source, progress)?;
                must_be_atomic(&*bucket)?;
                let head = HeadWriter::create(&*bucket, &newest, &options.owner)?;
                (head, Some(verified))
            }
        };
        let writer = densite_disk::random::random_u64();
        let mut shipper = Shipper {
            bucket,
            options,
            head,
            at: start(newest, 0),
            writer: writer.map_err(|e| Error::Source(e.to_string()))?,
            unsure: None,
            is_behind: false,
            recent: Recent::default(),
            since_base: 0,
            loose_bytes: 0,
            shipped_ms: now_ms,
            compacted: None,
            damage: None,
        };
        match is_new {
            Some(verified) => drop(shipper.ship_base(source, verified, 0, now_ms, progress)?),
            None => shipper.resume(source, &newest, now_ms, progress)?,
        }
        Ok(shipper)
    }

    /// Finds the end of the chain, and continues there.
    fn resume(
        &mut self,
        source: &mut dyn Source,
        newest: &CommitId,
        now_ms: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        if self.head.current().owner != self.options.owner && !self.options.takeover {
            return Err(Error::AnotherDatabase);
        }
        // The same copy with another file: it was vacuumed or converted.
        let is_same = self.head.is_of(newest);
        let continues = is_same && !self.options.takeover;
        let end = match continues {
            true => self.find_end(Wanted::Continued)?,
            false => self.find_end(Wanted::Ended)?,
        };
        if !continues {
            let verified = self.verify(source, now_ms, progress)?;
            self.new_generation(newest, now_ms)?;
            let shipped = self.ship_base(source, verified, 0, now_ms, progress);
            return shipped.map(drop);
        }
        match end {
            End::NoBase | End::Ended | End::Unknown => {
                let verified = self.verify(source, now_ms, progress)?;
                let shipped = self.ship_base(source, verified, self.at.n, now_ms, progress);
                shipped.map(drop)
            }
            End::At(mark) => match source.written(&mark, newest)? {
                Written::AnotherHistory => Err(Error::AnotherHistory),
                Written::Ranges(_) | Written::Unknown => Ok(()),
            },
        }
    }

    /// Sets the position to the end of the chain. If it is to be continued, it must have no gap: no
    /// later restore point could be restored. If it is to be ended, its end can be lost or damaged.
    pub(super) fn find_end(&mut self, wanted: Wanted) -> Result<End> {
        let Some(base) = self.head.newest_base() else {
            return Ok(End::NoBase);
        };
        let generation = self.generation();
        let after = names::delta(generation, base.n);
        let deltas = self.bucket.list(&names::deltas(generation), &after)?;
        if wanted == Wanted::Continued {
            let names = deltas.iter().map(|delta| delta.name.as_str());
            end_of(generation, self.head.merged_to(), names)?;
            if !deltas.is_empty() {
                // Without the base, nothing that is sent could be restored.
                let found = footer(&*self.bucket, &base.name);
                found.map_err(|e| self.head.of_base(e, base))?;
            }
        }
        let last = deltas.last().map_or(&base.name, |delta| &delta.name);
        let number = names::delta_number(generation, last).unwrap_or(base.n);
        let (footer, chain) = match footer(&*self.bucket, last) {
            Err(Error::Missing(_) | Error::Damaged { .. }) if wanted == Wanted::Ended => {
                self.at.n = number;
                return Ok(End::Unknown);
            }
            found => found.map_err(|e| self.head.of_base(e, base))?,
        };
        let merged = names::delta(generation, self.head.merged_to());
        let loose = deltas.iter().filter(|delta| delta.name > merged);
        let loose_bytes = loose.map(|delta| delta.len).sum();
        self.since_base = deltas.iter().map(|delta| delta.len).sum();
        self.loose_bytes = loose_bytes;
        self.at = Position {
            n: footer.last,
            mark: footer.to.unwrap_or(self.at.mark),
            image_len: footer.image_len,
            log: footer.log.map(LogShipped::of),
            chain,
            time_ms: footer.time_ms,
            state_ms: footer.time_ms,
            is_ended: footer.kind == Kind::End,
        };
        Ok(match (footer.kind, footer.to) {
            (Kind::End, _) | (_, None) => End::Ended,
            (_, Some(mark)) => End::At(mark),
        })
    }

    /// Ends the current generation and begins the next one, without a base yet.
    pub(super) fn new_generation(&mut self, newest: &CommitId, now_ms: u64) -> Result<()> {
        if self.head.newest_base().is_some() {
            self.end_any_chain(now_ms)?;
        }
        (self.head).begin_generation(&*self.bucket, newest, &self.options.owner)?;
        self.at = start(*newest, self.at.time_ms);
        self.unsure = None;
        self.is_behind = false;
        self.recent.clear();
        self.loose_bytes = 0;
        Ok(())
    }

    /// Ends a chain, which another writer can be continuing at this moment.
    fn end_any_chain(&mut self, now_ms: u64) -> Result<()> {
        loop {
            let object = match self.end_chain(now_ms) {
                // It has ended.
                Err(Error::TakenOver) => return Ok(()),
                Err(Error::AnotherWriter { object }) => object,
                done => return done,
            };
            let (footer, chain) = footer(&*self.bucket, &object)?;
            self.at = Position {
                n: footer.last,
                chain,
                time_ms: footer.time_ms,
                ..self.at
            };
        }
    }
}

/// How a chain ends.
pub(super) enum End {
    /// It has no base: the first upload was interrupted.
    NoBase,
    /// With an end: a base was to follow, or a takeover did not get further.
    Ended,
    /// Its last object is lost or damaged.
    Unknown,
    /// With this commit.
    At(CommitId),
}

/// Before the first base.
fn start(newest: CommitId, time_ms: u64) -> Position {
    Position {
        n: 0,
        mark: newest,
        image_len: 0,
        log: None,
        chain: NO_HASH,
        time_ms,
        state_ms: time_ms,
        is_ended: false,
    }
}

/// The footer and the chain value of an object.
fn footer(bucket: &dyn Bucket, name: &str) -> Result<(Footer, [u8; 16])> {
    let stored = bucket.get_end(name, FOOTER_LEN as u64)?;
    let stored = stored.ok_or_else(|| Error::Missing(name.to_owned()))?;
    Footer::decode(name, &stored.bytes)
}

/// Refuses a store that creates one object twice, or replaces any version.
fn must_be_atomic(bucket: &dyn Bucket) -> Result<()> {
    let name = names::probe()?;
    let first = bucket.create(&name, b"1")?;
    let second = bucket.create(&name, b"2")?;
    let stale = bucket.replace(&name, b"3", "\"d41d8cd98f00b204e9800998ecf8427e\"")?;
    bucket.remove(&name)?;
    match (first, second, stale) {
        (Some(_), None, None) => Ok(()),
        _ => Err(Error::NotAtomic),
    }
}
