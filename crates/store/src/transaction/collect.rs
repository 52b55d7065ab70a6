//! Collects written pages in batches, which the pool encodes.

use super::{Page, Transaction};
use crate::codec::HURRY_LEVEL;
use crate::codec::family::Family;
use crate::connection::Connection;
use crate::encode::{DEFAULT_PAGE, EncodeSettings, Job, RESERVED_AT, ReadyFrame, encode_batch};
use crate::error::{Error, Result};
use crate::map::Entry;
use crate::options::CodecChoice;
use crate::pool::{Pool, Task};
use crate::space::Space;
use std::sync::Arc;

/// Raw bytes of a batch.
const BATCH_BYTES: usize = 128 << 10;
/// A batch with at most so many pages is encoded on this thread: the pool would not pay.
const INLINE_PAGES: usize = 4;

impl Transaction {
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
        if self.pressed && self.is_as_published(connection, page, &bytes)? {
            self.pages.remove(&page);
            if page == 1 {
                self.take_head(&bytes);
            }
            return Ok(());
        }
        let shared = connection.open.shared()?;
        let family = preencoded
            .as_ref()
            .map_or_else(|| Family::of(&bytes), |preencoded| preencoded.frame.family);
        if let Some(mut writer) = shared.writer.try_lock() {
            writer.learning.learner().observe(family, &bytes);
        }
        if page == 1 {
            self.take_head(&bytes);
        }
        self.seq += 1;
        self.batch_bytes += bytes.len();
        self.batch.push(Job {
            page,
            seq: self.seq,
            bytes: Arc::clone(&bytes),
            family,
            preencoded,
        });
        let seq = self.seq;
        self.pages.insert(page, Page::Raw { seq, bytes });
        if self.batch_bytes >= BATCH_BYTES {
            self.dispatch(connection)
        } else {
            Ok(())
        }
    }

    /// Hands the batch to the pool, and places finished batches.
    fn dispatch(&mut self, connection: &mut Connection) -> Result<()> {
        self.name_preencoded(connection)?;
        self.train(connection)?;
        let settings = self.encode_settings(connection)?;
        let jobs = self.take_batch();
        let pool = connection.open.pool();
        let task = Task::spawn(&pool_for(&jobs, pool), move || {
            encode_batch(jobs, &settings)
        });
        self.inflight.push_back(task);
        // This is more than the pool's queue holds. So this thread encodes too when the queue is
        // full, and waits for others only in `finish_batches`.
        let limit = pool.map_or(0, |_| 4 * connection.open.options().threads + 4);
        while self.inflight.len() > limit || self.inflight.front().is_some_and(Task::is_done) {
            self.collect(connection)?;
        }
        Ok(())
    }

    fn take_batch(&mut self) -> Vec<Job> {
        self.batch_bytes = 0;
        std::mem::take(&mut self.batch)
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
        for frame in &frames {
            let raw = frame.seqs.len() << frame.record.page_log2;
            (writer.learning.learner()).coded(frame.family, raw, frame.record_len());
        }
        placed?;
        let flushed = self.appender.flush_if_long(connection.open.file());
        self.pressed |= flushed.is_err();
        flushed
    }

    /// Encodes and places all written pages.
    ///
    /// # Errors
    /// I/O, a full disk.
    pub(crate) fn finish_batches(&mut self, connection: &mut Connection) -> Result<()> {
        self.name_preencoded(connection)?;
        let mut jobs = self.take_batch();
        if !jobs.is_empty() {
            // SQLite writes in page order. Other pages are sorted here, which makes later reads
            // faster.
            jobs.sort_by_key(|j| j.page);
            let settings = self.encode_settings(connection)?;
            let options = connection.open.options();
            let next = EncodeSettings {
                level: options.level,
                ..settings.clone()
            };
            let pool = connection.open.pool();
            // Space reclamation encodes in its own way, but the next pages in the WAL are SQLite's.
            if !self.keep_all {
                connection.open.shared()?.preencoded.renew(&next, pool);
            }
            let pool = pool_for(&jobs, pool);
            let parts = pool.as_ref().map_or(1, |_| options.threads + 1);
            let each = jobs
                .len()
                .div_ceil(parts)
                .next_multiple_of(settings.run_pages.max(1) as usize);
            while !jobs.is_empty() {
                let rest = jobs.split_off(each.min(jobs.len()));
                let now = std::mem::replace(&mut jobs, rest);
                let settings = settings.clone();
                self.inflight
                    .push_back(Task::spawn(&pool, move || encode_batch(now, &settings)));
            }
        }
        while !self.inflight.is_empty() {
            self.collect(connection)?;
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
        let level = if connection.open.is_in_hurry() {
            options.level.min(HURRY_LEVEL)
        } else {
            options.level
        };
        Ok(EncodeSettings {
            level,
            choice: options.codec,
            run_pages,
            join: options.run_pages == 0 && options.codec != CodecChoice::Archive,
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

/// The pool, if so many pages must still be encoded that it pays.
fn pool_for(jobs: &[Job], pool: Option<&Arc<Pool>>) -> Option<Arc<Pool>> {
    let ready = |job: &&Job| job.preencoded.as_ref().is_some_and(|found| found.compared);
    let to_encode = jobs.len() - jobs.iter().filter(ready).count();
    pool.filter(|_| to_encode > INLINE_PAGES).cloned()
}
