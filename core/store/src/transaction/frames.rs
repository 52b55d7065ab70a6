//! The frames of a transaction: placed in order, and a large part of them encoded again before it is
//! published, so that a database has almost the same size however it was written
//! (docs/decisions/same-size.md). With them, pages are encoded that have raw frames because they were
//! hot (`heat`).
//!
//! All of this depends on the pages and the settings alone. No failure leaves a part half done:
//! nothing calls the file between taking its frames and placing them again.

use super::Transaction;
use super::train::train_all;
use super::written::Page;
use crate::again::{Again, Encoded, EvenSample, Held, Outdated, Quick, encode_all};
use crate::append::AppendState;
use crate::codec::family::Family;
use crate::codec::learn::TrainingResult;
use crate::codec::{CodecId, Dictionary};
use crate::connection::Connection;
use crate::encode::{EncodeSettings, Frame};
use crate::error::Result;
use crate::format::MAX_OFF;
use crate::format::entry::{Entry, NodeRef};
use crate::format::record::{Kind, RECORD_LEN, Record};
use crate::options::Tuning;
use crate::reader::Part;
use crate::shared::Shared;
use crate::space::Space;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most bytes of buffers kept for reuse.
const SPARE_BYTES: usize = 256 << 10;

/// The part of `Tuning::large_bytes` that is enough for the first pages of a database.
const FIRST_PART: u64 = 8;
/// Overwritten frames are dropped if they are at least one byte in so many.
const DEAD: u64 = 16;
/// New models must make the pages of their family smaller by this part.
const BETTER: f64 = 0.01;
/// Room for records besides those that were there: new dictionaries, and jumps.
const SPARE_ROOM: u64 = 1 << 30;

/// A commit also encodes one quiet page for so many that it has anyway, unless it is small.
const PART: usize = 4;
const SMALL: usize = 64;

/// The frames that are held back.
#[derive(Default)]
pub(super) struct HeldBack {
    /// Where the first one begins.
    mark: Option<AppendState>,
    /// Bytes of the frames that were encoded.
    frame_bytes: u64,
}

impl HeldBack {
    /// Notes that a frame is about to be appended.
    fn begins(&mut self, mark: impl FnOnce() -> AppendState) {
        self.mark.get_or_insert_with(mark);
    }

    /// Notes a frame that was encoded.
    pub(super) fn encoded(&mut self, len: usize) {
        self.frame_bytes += len as u64;
    }

    /// Bytes of the frames that were encoded.
    pub(super) fn bytes(&self) -> u64 {
        self.frame_bytes
    }
}

impl Transaction {
    /// A copy of a page, in a spare buffer if there is one.
    pub(super) fn copy_of(&mut self, page: &[u8]) -> Arc<[u8]> {
        if let Some(mut spare) = self.spare.pop()
            && let Some(bytes) = Arc::get_mut(&mut spare)
            && bytes.len() == page.len()
        {
            bytes.copy_from_slice(page);
            return spare;
        }
        page.into()
    }

    /// Keeps a buffer for reuse.
    pub(super) fn keep_spare(&mut self, buffer: Arc<[u8]>) {
        if self.spare.len() * buffer.len() < SPARE_BYTES {
            self.spare.push(buffer);
        }
    }

    /// Appends encoded frames. Frames whose pages were all overwritten or cut off meanwhile are
    /// dropped.
    pub(super) fn append_frames(&mut self, frames: &[Frame], space: &mut Space) -> Result<()> {
        for frame in frames {
            let first = frame.record.number;
            // The page numbers are the second iterator, which must not run further than the first:
            // there is no number after the highest page.
            let current = |(seq, page): (&u64, u32)| self.pages.is_sent(page, *seq);
            if !frame.seqs.iter().zip(first..).any(current) {
                continue;
            }
            let len = (RECORD_LEN + frame.payload.len()) as u64;
            self.appender.make_room(space, len, self.commit)?;
            if self.holds_back {
                self.part.begins(|| self.appender.mark());
            }
            let place = self.appender.push(frame.record, &frame.payload);
            let (model, codec, run_log2) = (
                frame.record.model,
                frame.record.codec,
                frame.record.run_log2,
            );
            if model != 0 {
                *self.dict_uses.entry(model).or_default() += frame.seqs.len() as i64;
            }
            for ((seq, page), slot) in frame.seqs.iter().zip(first..).zip(0..) {
                let entry = Entry {
                    off: place.off,
                    version: place.version,
                    len: place.len,
                    model,
                    codec,
                    run_log2,
                    slot,
                };
                if let Some(buffer) = self.pages.encoded(page, *seq, entry) {
                    self.keep_spare(buffer);
                }
            }
        }
        Ok(())
    }

    /// Notes where a frame was placed, for those of its pages whose bit is set in `live`.
    pub(super) fn note_run(&mut self, record: &Record, place: NodeRef, live: u64) {
        for (page, slot) in (record.number..).take(1 << record.run_log2).zip(0u8..) {
            if live >> slot & 1 == 1 {
                let entry = Entry {
                    off: place.off,
                    version: place.version,
                    len: place.len,
                    model: record.model,
                    codec: record.codec,
                    run_log2: record.run_log2,
                    slot,
                };
                self.pages.store(page, entry);
            }
        }
    }

    /// Appends one frame and returns its place.
    ///
    /// # Errors
    /// I/O, a full disk.
    pub(super) fn append_frame(
        &mut self,
        connection: &Connection,
        shared: &Shared,
        record: Record,
        payload: &[u8],
    ) -> Result<NodeRef> {
        let mut writer = shared.writer.lock();
        let mut none = Space::default();
        let space = writer.accounting.space_mut().unwrap_or(&mut none);
        let len = (RECORD_LEN + payload.len()) as u64;
        self.appender.make_room(space, len, self.commit)?;
        let place = self.appender.push(record, payload);
        drop(writer);
        self.appender.flush_if_long(connection.open.file())?;
        Ok(place)
    }

    /// Whether so much was written that it is worth encoding again.
    pub(super) fn is_large(&self, connection: &Connection) -> bool {
        let large = connection.open.options().tuning.large_bytes;
        let part = if self.is_first_part { FIRST_PART } else { 1 };
        self.holds_back && self.raw_bytes * part >= large
    }

    /// Whether pages that zstd codes get a low level now: they will be encoded again. In the first
    /// part of a database almost all of them would be anyway, with dictionaries of all its pages.
    pub(super) fn is_quick(&self, connection: &Connection) -> bool {
        if !self.is_large(connection) {
            return connection.open.is_in_hurry();
        }
        let together = |mark: &AppendState| self.appender.since(mark).is_some();
        self.is_first_part && self.part.mark.as_ref().is_none_or(together)
    }

    /// Ends the part: encodes again what becomes smaller. All batches were collected.
    ///
    /// Pages are encoded as they come, with what was learned from the pages before them. So the
    /// first pages of a table are larger than necessary, and its models know only its beginning.
    /// The frames of a part stay in memory (`Tuning::held_bytes`). Now models are trained on pages
    /// drawn evenly from it, as `Handle::learn` does with a whole database. Pages whose family has a
    /// better model now are encoded again, and frames that were overwritten meanwhile are dropped.
    ///
    /// # Errors
    /// I/O, damage: every page stays as it is.
    pub(super) fn end_part(&mut self, connection: &mut Connection) -> Result<()> {
        let part = std::mem::take(&mut self.part);
        let Some(mark) = part.mark else { return Ok(()) };
        let len = self.appender.pos().saturating_sub(mark.pos());
        let Some(records) = self.appender.since(&mark) else {
            return Ok(());
        };
        if mark.pos() + 2 * len + SPARE_ROOM > MAX_OFF {
            return Ok(());
        }
        let shared = connection.open.shared()?;
        let held = self.held_frames(records, mark.pos());
        let live: u64 = held.iter().map(|held| held.record_len() as u64).sum();
        let has_dead = (len - live) * DEAD > live;
        let dicts = shared.dictionaries_of(connection.open.file(), &held)?;
        let better = self.train_again(connection, &shared, &held, (records, &dicts))?;
        let better_families: HashSet<Family> = better.iter().map(|better| better.family).collect();
        let old = self.new_dicts.iter();
        let old = old.filter(|info| better_families.contains(&Family(info.family)));
        self.superseded.extend(old.map(|info| info.id));
        for trained in better {
            self.install_one(&shared, trained);
        }
        let fresh = self.new_dicts.iter().map(|info| Family(info.family));
        let quick = match connection.open.is_in_hurry() || self.is_first_part {
            true => Quick::Zstd,
            false => Quick::None,
        };
        self.is_first_part = false;
        let outdated = Outdated::new(&*self.dictionaries(connection)?, fresh.collect(), quick);
        if !has_dead
            && !held
                .iter()
                .any(|held| outdated.may_be(held.record.codec, held.record.model))
        {
            return Ok(());
        }
        let settings = EncodeSettings {
            level: connection.open.options().level,
            ..self.encode_settings(connection)?
        };
        // From here on nothing can fail.
        let again = Again {
            records: self.appender.go_back(&mark),
            dicts,
            outdated: Arc::new(outdated),
            settings,
        };
        let again = Arc::new(again);
        let used = self.place_again(connection, &shared, &again, &held);
        let is_needed = |id: u32| used.contains(&id) || again.outdated.is_current(id);
        self.place_dictionaries(&shared, &mark, again.records.len() as u64, is_needed);
        connection.training.forget();
        if !self.keep_all {
            let pool = connection.open.pool();
            shared.preencoded.renew(&again.settings, pool);
        }
        Ok(())
    }

    /// Trains on pages drawn evenly from these frames, for families that have grown since they were
    /// trained last. Returns what makes them smaller than they are.
    fn train_again(
        &self,
        connection: &mut Connection,
        shared: &Shared,
        held: &[Held],
        (records, dicts): (&[u8], &HashMap<u32, Arc<Dictionary>>),
    ) -> Result<Vec<TrainingResult>> {
        let raw: u64 = held.iter().map(|held| held.raw_len() as u64).sum();
        let settings = self.encode_settings(connection)?;
        let mut sample = EvenSample::new(settings, connection.open.options().level, raw);
        let mut owed = 0u128;
        for held in held {
            owed += held.raw_len() as u128 * u128::from(sample.wanted());
            let price = u128::from(raw) << held.record.page_log2;
            if owed < price {
                continue;
            }
            let pages = held.pages(records, dicts).unwrap_or_default();
            let dict = dicts.get(&held.record.model);
            for (_, page) in &pages {
                if owed < price {
                    break;
                }
                owed -= price;
                sample.add(page, &held.record, dict);
            }
        }
        // What was learned from a part of these pages is not better.
        connection.training.cancel();
        let mut jobs = sample.training_jobs();
        jobs.retain(|job| (shared.writer.lock().learning.learner()).trains_again(job.family));
        let results = train_all(jobs, connection.open.pool()).into_iter();
        let better = results.filter(|results| sample.is_better(results, BETTER));
        Ok(better.flatten().collect())
    }

    /// The frames among the records at `base` that a page still needs, in order.
    fn held_frames(&self, records: &[u8], base: u64) -> Vec<Held> {
        let mut held = Vec::new();
        let mut at = 0;
        while let Some((record, _)) = records.get(at..).and_then(Record::parse) {
            if record.kind == Kind::Frame {
                let is_live = |page: u32| match self.pages.get(page) {
                    Some(Page::Stored(entry)) => entry.off == base + at as u64,
                    _ => false,
                };
                let pages = (record.number..).take(1 << record.run_log2);
                let live = (pages.zip(0u32..))
                    .filter(|(page, _)| is_live(*page))
                    .fold(0u64, |live, (_, slot)| live | 1 << slot);
                if live != 0 {
                    held.push(Held { at, record, live });
                }
            }
            at += record.total_len() as usize;
        }
        held
    }

    /// Encodes the frames again that are outdated, and appends all of them. Returns the numbers of
    /// the dictionaries that they use.
    fn place_again(
        &mut self,
        connection: &Connection,
        shared: &Shared,
        again: &Arc<Again>,
        held: &[Held],
    ) -> HashSet<u32> {
        let mut used = HashSet::new();
        let pool = connection.open.pool();
        // Placing cannot fail.
        let _ = encode_all(again, held, pool, |encoded| {
            used.insert(self.place_one(shared, &again.records, encoded));
            Ok(())
        });
        used
    }

    /// Appends one frame. Returns the number of its dictionary.
    fn place_one(&mut self, shared: &Shared, records: &[u8], encoded: Encoded) -> u32 {
        let (record, payload, live) = match &encoded {
            Encoded::Kept(held) => (held.record, held.payload(records), held.live),
            Encoded::New(frame) => (frame.record, frame.payload.as_slice(), u64::MAX),
        };
        let place = self.append_held(shared, record, payload);
        self.note_run(&record, place, live);
        record.model
    }

    /// Appends the dictionaries of the part that are needed, and drops the others. `len`: bytes of
    /// the part before.
    fn place_dictionaries(
        &mut self,
        shared: &Shared,
        mark: &AppendState,
        len: u64,
        is_needed: impl Fn(u32) -> bool,
    ) {
        let part = mark.pos()..mark.pos() + len;
        for mut info in std::mem::take(&mut self.new_dicts) {
            if part.contains(&info.place.off) {
                let dict = shared.dictionaries.known(info.id);
                let Some(dict) = dict.filter(|_| is_needed(info.id)) else {
                    shared.dictionaries.forget(info.id);
                    continue;
                };
                let (codec, payload) = dict.to_stored();
                let record = Record {
                    codec: codec.0,
                    ..Record::plain(Kind::Dictionary, info.id, self.commit)
                };
                info.place = self.append_held(shared, record, &payload);
            }
            self.new_dicts.push(info);
        }
    }

    /// Appends a record where there is room.
    fn append_held(&mut self, shared: &Shared, record: Record, payload: &[u8]) -> NodeRef {
        let mut writer = shared.writer.lock();
        let mut none = Space::default();
        let space = writer.accounting.space_mut().unwrap_or(&mut none);
        let len = (RECORD_LEN + payload.len()) as u64;
        // It fails only at the end of the largest file: see `SPARE_ROOM`.
        let _ = self.appender.make_room(space, len, self.commit);
        self.appender.push(record, payload)
    }

    /// Writes the commit's share of quiet pages again.
    ///
    /// # Errors
    /// I/O, a full disk, damage.
    pub(crate) fn settle_share(&mut self, connection: &mut Connection) -> Result<()> {
        if self.keep_all || self.pressed || self.pages.len() < SMALL {
            return Ok(());
        }
        let shared = connection.open.shared()?;
        let due = shared.preencoded.heat.due(self.pages.len() / PART, false);
        self.settle(connection, &due)
    }

    /// Writes these pages again if they still have the raw frames of these versions.
    ///
    /// # Errors
    /// I/O, a full disk, damage.
    pub(crate) fn settle(&mut self, connection: &mut Connection, due: &[(u32, u64)]) -> Result<()> {
        let shared = connection.open.shared()?;
        for (page, version) in due.iter().copied() {
            if self.pages.contains(page) {
                continue;
            }
            let entry = shared.lookup(connection.open.file(), &shared.state.read(), page)?;
            let visible = u64::from(page) <= self.visible;
            if !visible || entry.version != version || entry.codec != CodecId::RAW.0 {
                shared.preencoded.heat.forget(page);
                continue;
            }
            let mut bytes = vec![0; self.page_size as usize];
            let Connection { open, reader, .. } = &mut *connection;
            let out = &mut bytes;
            reader.read(open, Part { page, at: 0, out }, false)?;
            self.settled.insert(page);
            self.put_page(connection, page, bytes.into(), None)?;
        }
        Ok(())
    }

    /// Notes in the commit how many pages have raw frames.
    pub(crate) fn count_hot(&mut self, shared: &Shared) {
        if self.keep_all {
            return;
        }
        let before = shared.state.read().learned().hot;
        let settled = |page| self.settled.contains(&page);
        self.learned.hot = (shared.preencoded.heat).hot_after(before, self.frames(), settled);
    }

    /// Notes which pages the commit has written, now that it is published.
    pub(crate) fn note_heat(&self, shared: &Shared) {
        if self.keep_all {
            return;
        }
        let settled = |page| self.settled.contains(&page);
        let file_pages = shared.state.read().tail_off() / u64::from(self.page_size.max(1));
        (shared.preencoded.heat).committed(file_pages, self.frames(), settled);
    }

    /// The new frames, with their pages.
    fn frames(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.pages
            .iter()
            .filter_map(|(page, written)| match written {
                Page::Stored(entry) => Some((page, entry)),
                Page::Held(_) | Page::Sent { .. } => None,
            })
    }
}

/// Whether a database of `bytes` bytes is so small that a large transaction makes all of it.
pub(super) fn is_new(bytes: u64, tuning: &Tuning) -> bool {
    bytes * FIRST_PART <= tuning.large_bytes
}
