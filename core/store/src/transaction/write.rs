//! Turns writes of bytes into written pages, takes written pages, and hands those that are encoded
//! to the pool in batches.

use super::Transaction;
use super::written::Held;
use crate::bytes::copy_part;
use crate::codec::HURRY_LEVEL;
use crate::codec::family::Family;
use crate::connection::Connection;
use crate::encode::{
    DEFAULT_PAGE, EncodeSettings, Job, RESERVED_AT, ReadyFrame, encode_batch, raw_frames,
    whole_runs,
};
use crate::error::{Error, Result};
use crate::format::entry::Entry;
use crate::format::trailer::HEAD_LEN;
use crate::options::CodecChoice;
use crate::pages::page_at;
use crate::pool::{Pool, Task};
use crate::reader::Part;
use crate::space::Space;
use std::sync::Arc;

/// Raw bytes of a batch.
const BATCH_BYTES: usize = 128 << 10;
/// A batch with at most so many pages is encoded on this thread: the pool would not pay.
const INLINE_PAGES: usize = 4;
/// Raw bytes of a part of the last batch, which several threads encode.
const PART_BYTES: usize = BATCH_BYTES / 2;
/// A batch is placed when so many more were dispatched, however fast the pool is: what is stored
/// then depends on the pages alone. This is more than the pool's queue holds on most machines, so
/// this thread encodes too if the queue is full, and rarely waits for the others.
const PLACED_AFTER: usize = 16;

impl Transaction {
    /// Writes bytes of the database at `offset`.
    ///
    /// # Errors
    /// I/O, a full disk: earlier writes stay, and the call can be repeated.
    pub(crate) fn write_at(
        &mut self,
        connection: &mut Connection,
        buf: &[u8],
        offset: u64,
    ) -> Result<()> {
        let page_size = self.page_size;
        let (mut rest, mut at) = (buf, offset);
        while !rest.is_empty() {
            let page = page_at(at, page_size)?;
            let in_page = (at % u64::from(page_size)) as usize;
            let n = rest.len().min(page_size as usize - in_page);
            let (now, later) = rest.split_at(n);
            if n == page_size as usize {
                let noted = match connection.open.known() {
                    Some(shared) => shared.preencoded.take(page, now),
                    None => None,
                };
                let (bytes, found) = noted.map_or((None, None), |noted| (noted.bytes, noted.found));
                let bytes = bytes.unwrap_or_else(|| self.copy_of(now));
                self.put_page(connection, page, bytes, found)?;
            } else {
                let mut whole = vec![0; page_size as usize];
                self.read(connection, all_of(page, &mut whole))?;
                if let Some(part) = whole.get_mut(in_page..in_page + n) {
                    part.copy_from_slice(now);
                }
                self.put_page(connection, page, whole.into(), None)?;
            }
            rest = later;
            at += n as u64;
            // The length grows only by bytes that were written.
            self.logical_len = self.logical_len.max(at);
        }
        Ok(())
    }

    /// Sets the length of the database in bytes; new bytes read as zeros.
    ///
    /// # Errors
    /// As [`Transaction::write_at`].
    pub(crate) fn set_len(&mut self, connection: &mut Connection, len: u64) -> Result<()> {
        let page_size = u64::from(self.page_size);
        let pages = len.div_ceil(page_size);
        self.pages.cut(pages);
        self.visible = self.visible.min(pages);
        let cut = (len % page_size) as usize;
        let shrinks = len < self.logical_len;
        self.logical_len = len;
        if let Some(gone) = self
            .head
            .get_mut(usize::try_from(len).unwrap_or(HEAD_LEN).min(HEAD_LEN)..)
        {
            gone.fill(0);
        }
        if shrinks && cut != 0 {
            // The part of the page after the cut reads as zeros if the database grows again.
            let page = page_at(len, page_size as u32)?;
            let mut whole = vec![0; page_size as usize];
            let kept = whole.get_mut(..cut).unwrap_or_default();
            self.read(connection, all_of(page, kept))?;
            self.put_page(connection, page, whole.into(), None)?;
        }
        Ok(())
    }

    /// Drops the frame of a page: it reads as zeros from this commit on.
    pub(crate) fn drop_page(&mut self, page: u32) {
        self.pages.store(page, Entry::NONE);
    }

    /// Copies the first bytes of page 1.
    fn take_head(&mut self, page_1: &[u8]) {
        copy_part(page_1, 0, &mut self.head);
    }

    /// Adds a whole page, and its frame if it is pre-encoded.
    ///
    /// # Errors
    /// I/O, a full disk.
    pub(crate) fn put_page(
        &mut self,
        connection: &mut Connection,
        page: u32,
        bytes: Arc<[u8]>,
        preencoded: Option<ReadyFrame>,
    ) -> Result<()> {
        if page == 1 {
            self.take_head(&bytes);
        }
        if self.pressed && self.needs_no_frame(connection, page, &bytes) {
            return Ok(());
        }
        self.seq += 1;
        let held = Held {
            seq: self.seq,
            bytes,
            preencoded,
        };
        if let Some(buffer) = self.pages.hold(page, held) {
            self.keep_spare(buffer);
        }
        while self.pages.is_full() {
            if let Err(error) = self.dispatch(connection) {
                return self.without_space(connection, page, error);
            }
        }
        Ok(())
    }

    /// Hands a batch of pages to the pool, and places the frames of earlier batches.
    fn dispatch(&mut self, connection: &mut Connection) -> Result<()> {
        while self.inflight.len() >= PLACED_AFTER {
            self.collect(connection)?;
        }
        if self.part.bytes() >= connection.open.options().tuning.held_bytes {
            self.collect_all(connection)?;
            self.end_part_and_flush(connection)?;
        }
        let mut jobs = self.pages.next_batch(BATCH_BYTES);
        // The others wait for the pages that share a frame with them.
        let run_pages = connection.open.options().run_pages as usize;
        let waiting = jobs.split_off(whole_frames(&jobs, run_pages));
        self.pages.take_back(waiting);
        let (jobs, hurried) = self.split_hurried(connection, jobs);
        let settings = match self.prepare(connection, &jobs) {
            Ok(settings) => settings,
            Err(e) => {
                self.pages.take_back(jobs);
                self.pages.take_back(hurried);
                return Err(e);
            }
        };
        if !hurried.is_empty() {
            let settings = settings.clone();
            let task = Task::spawn(&None, move || raw_frames(&hurried, &settings));
            self.inflight.push_back(task);
        }
        let pool = connection.open.pool();
        if !jobs.is_empty() {
            let task = Task::spawn(&pool_for(&jobs, pool), move || {
                encode_batch(jobs, &settings)
            });
            self.inflight.push_back(task);
        }
        Ok(())
    }

    /// Separates pages that are stored raw, because they change often.
    fn split_hurried(&self, connection: &mut Connection, jobs: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
        let options = connection.open.options();
        let shared = connection.open.known();
        let Some(shared) = shared.filter(|_| {
            !self.keep_all && options.codec == CodecChoice::Auto && options.run_pages <= 1
        }) else {
            return (jobs, Vec::new());
        };
        let heat = &shared.preencoded.heat;
        let hurried = heat.hurried(jobs.iter().map(|job| job.page));
        let raw = |job: &Job, hurried: bool| {
            hurried && job.preencoded.is_none() && !self.settled.contains(&job.page)
        };
        let (mut rest, mut apart) = (Vec::with_capacity(jobs.len()), Vec::new());
        for (job, hurried) in jobs.into_iter().zip(hurried) {
            match raw(&job, hurried) {
                true => apart.push(job),
                false => rest.push(job),
            }
        }
        (rest, apart)
    }

    /// Shows pages that are about to be encoded to the learner, trains if it is due, and returns the
    /// settings for them.
    fn prepare(&mut self, connection: &mut Connection, jobs: &[Job]) -> Result<EncodeSettings> {
        self.name_preencoded(connection, jobs)?;
        self.observe(connection, jobs)?;
        self.train(connection)?;
        self.encode_settings(connection)
    }

    fn observe(&mut self, connection: &mut Connection, jobs: &[Job]) -> Result<()> {
        let shared = connection.open.shared()?;
        let learning = &mut shared.writer.lock().learning;
        for job in jobs {
            learning.learner().observe(job.family, &job.bytes);
        }
        Ok(())
    }

    /// Waits for the oldest batch and places its frames.
    fn collect(&mut self, connection: &mut Connection) -> Result<()> {
        self.void_attempt(connection)?;
        let shared = connection.open.shared()?;
        let Some(task) = self.inflight.pop_front() else {
            return Ok(());
        };
        let frames = task.wait().ok_or_else(Error::not_encoded)?;
        let mut writer = shared.writer.lock();
        let writer = &mut *writer;
        let mut none = Space::default();
        let space = writer.accounting.space_mut().unwrap_or(&mut none);
        let placed = self.append_frames(&frames, space);
        for frame in frames.iter().filter(|frame| !frame.hurried) {
            let (raw, len) = (
                frame.seqs.len() << frame.record.page_log2,
                frame.record_len(),
            );
            (writer.learning.learner()).coded(frame.family, raw, len);
            self.raw_bytes += raw as u64;
            self.part.encoded(len);
        }
        placed?;
        if self.holds_back {
            return Ok(());
        }
        self.flush(connection)
    }

    fn flush(&mut self, connection: &Connection) -> Result<()> {
        self.appender.flush_if_long(connection.open.file())
    }

    /// Waits for all batches.
    fn collect_all(&mut self, connection: &mut Connection) -> Result<()> {
        while !self.inflight.is_empty() {
            self.collect(connection)?;
        }
        Ok(())
    }

    fn end_part_and_flush(&mut self, connection: &mut Connection) -> Result<()> {
        self.end_part(connection)?;
        self.flush(connection)
    }

    /// Encodes and places all written pages.
    ///
    /// # Errors
    /// I/O, a full disk.
    pub(crate) fn finish_batches(&mut self, connection: &mut Connection) -> Result<()> {
        self.pages.choose_all();
        while self.pages.held_bytes() >= BATCH_BYTES {
            self.dispatch(connection)?;
        }
        let jobs = self.pages.next_batch(BATCH_BYTES);
        if !jobs.is_empty() {
            self.dispatch_last(connection, jobs)?;
        }
        self.collect_all(connection)?;
        if self.is_large(connection) {
            self.end_part(connection)?;
            if self.raw_bytes * 2 >= self.logical_len {
                self.learned.pages = self.page_count();
            }
        }
        self.flush(connection)
    }

    /// Hands the last pages of the commit to the pool, in parts of equal size.
    fn dispatch_last(&mut self, connection: &mut Connection, mut jobs: Vec<Job>) -> Result<()> {
        let named = self.name_preencoded(connection, &jobs);
        let observed = named.and_then(|()| self.observe(connection, &jobs));
        let settings = match observed.and_then(|()| self.encode_settings(connection)) {
            Ok(settings) => settings,
            Err(e) => {
                self.pages.take_back(jobs);
                return Err(e);
            }
        };
        let options = connection.open.options();
        let pool = connection.open.pool();
        // Space reclamation encodes in its own way, but the next pages in the WAL are SQLite's.
        if !self.keep_all {
            let next = EncodeSettings {
                level: options.level,
                ..settings.clone()
            };
            connection.open.shared()?.preencoded.renew(&next, pool);
        }
        let pool = pool_for(&jobs, pool);
        let run_pages = options.run_pages as usize;
        // Not as many parts as there are threads: pages of one part can share frames.
        let each = (PART_BYTES / self.page_size as usize)
            .max(1)
            .next_multiple_of(settings.run_pages.max(1) as usize);
        while !jobs.is_empty() {
            let now = jobs.get(..each);
            let now = now.map_or(jobs.len(), |now| whole_frames(now, run_pages));
            let rest = jobs.split_off(now);
            let now = std::mem::replace(&mut jobs, rest);
            let settings = settings.clone();
            self.inflight
                .push_back(Task::spawn(&pool, move || encode_batch(now, &settings)));
        }
        Ok(())
    }

    /// Encodes and appends one page of `page_size` bytes now, whatever the transaction's page size
    /// is.
    pub(super) fn append_page(
        &mut self,
        connection: &mut Connection,
        page: u32,
        page_size: u32,
        bytes: &[u8],
    ) -> Result<Entry> {
        let mut settings = self.encode_settings(connection)?;
        settings.run_pages = 1;
        settings.join = false;
        settings.chains = false;
        let jobs = vec![Job {
            page,
            seq: 0,
            bytes: bytes.into(),
            family: Family::of(bytes),
            preencoded: None,
        }];
        let frame = encode_batch(jobs, &settings)
            .into_iter()
            .next()
            .ok_or_else(Error::not_encoded)?;
        debug_assert_eq!(1 << frame.record.page_log2, page_size);
        let shared = connection.open.shared()?;
        let place = self.append_frame(connection, &shared, frame.record, &frame.payload)?;
        Ok(Entry {
            off: place.off,
            version: place.version,
            len: place.len,
            model: frame.record.model,
            codec: frame.record.codec,
            run_log2: 0,
            slot: 0,
        })
    }

    /// The settings to encode pages of this commit.
    ///
    /// # Errors
    /// I/O, damage of its dictionaries.
    pub(crate) fn encode_settings(&self, connection: &mut Connection) -> Result<EncodeSettings> {
        let dicts = self.dictionaries(connection)?;
        let options = connection.open.options();
        let run_pages = match options.run_pages {
            // Small pages compress badly alone, and frame headers are a large part of them: up to 4
            // KiB go into one frame.
            0 => (DEFAULT_PAGE / self.page_size).max(1),
            n => n,
        };
        let level = match self.is_quick(connection) {
            true => options.level.min(HURRY_LEVEL),
            false => options.level,
        };
        Ok(EncodeSettings {
            level,
            choice: options.codec,
            run_pages,
            join: options.run_pages == 0 && options.codec != CodecChoice::Archive,
            chains: options.run_pages == 0 && options.codec != CodecChoice::Raw,
            dicts,
            version: self.commit,
            // Nothing is scrubbed from a page that may begin with the number of another page.
            pages: if self.keep_all {
                u32::MAX
            } else {
                self.page_count()
            },
            reserved: usize::from(self.head[RESERVED_AT]),
            checked: true,
        })
    }
}

/// A page from its beginning.
pub(super) fn all_of(page: u32, out: &mut [u8]) -> Part<'_> {
    Part { page, at: 0, out }
}

/// The pool, if so many pages must still be encoded that it pays.
fn pool_for(jobs: &[Job], pool: Option<&Arc<Pool>>) -> Option<Arc<Pool>> {
    let ready = |job: &&Job| job.preencoded.as_ref().is_some_and(|found| found.compared);
    let to_encode = jobs.len() - jobs.iter().filter(ready).count();
    pool.filter(|_| to_encode > INLINE_PAGES).cloned()
}

/// How many of the first jobs can be encoded before the jobs behind them are known. If the number of
/// pages in a frame is set, that is a multiple of it.
fn whole_frames(jobs: &[Job], run_pages: usize) -> usize {
    match run_pages {
        0 | 1 => whole_runs(jobs),
        n if jobs.len() < n => jobs.len(),
        n => jobs.len() - jobs.len() % n,
    }
}
