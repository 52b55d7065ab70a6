//! Writing: pages collect, are encoded on the pool, and become frames; nobody else sees them before they are published.

use crate::codec::HURRY_LEVEL;
use crate::codec::family::Family;
use crate::encode::{EncodeSettings, Job, ReadyFrame, encode_batch};
use crate::error::{Error, Result};
use crate::format::record::RECORD_LEN;
use crate::format::trailer::HEAD_LEN;
use crate::handle::Handle;
use crate::map::Entry;
use crate::options::CodecChoice;
use crate::pending::{BATCH_BYTES, PendingPage};
use crate::pool::{Pool, Task};
use crate::read::{copy_part, page_at};
use crate::space::Space;
use densite_typed::PageContext;
use std::sync::Arc;

/// Where page 1 says how many bytes are reserved at the end of each page.
pub(crate) const RESERVED_AT: usize = 20;

/// A batch of fewer pages is not worth a trip through the pool.
const INLINE_PAGES: usize = 4;

/// What a database's page size is taken to be while nothing tells.
pub(crate) const DEFAULT_PAGE: u32 = 4096;

impl Handle {
    /// Writes logical bytes at `offset`. This handle sees them at once, others once they are published.
    ///
    /// # Errors
    /// I/O, a full disk: what was written before stays, and the call may be made again. [`Error::ReadOnly`].
    pub fn write_at(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.begin_write(buf.len() as u32)?;
        let page_size = self.pending.as_ref().map_or(DEFAULT_PAGE, |p| p.page_size);
        let (mut rest, mut at) = (buf, offset);
        while !rest.is_empty() {
            let page = page_at(at, page_size)?;
            let in_page = (at % u64::from(page_size)) as usize;
            let n = rest.len().min(page_size as usize - in_page);
            let (now, later) = rest.split_at(n);
            if n == page_size as usize {
                let noted = match &self.shared {
                    Some(shared) => shared.preencoded.take(page, now),
                    None => None,
                };
                let (bytes, found) = noted.map_or((None, None), |noted| (noted.bytes, noted.found));
                let bytes = match (bytes, &mut self.pending) {
                    (Some(bytes), _) => bytes,
                    (None, Some(p)) => p.copy_of(now),
                    (None, None) => now.into(),
                };
                self.put_page(page, bytes, found)?;
            } else {
                let mut whole = vec![0; page_size as usize];
                self.read_page(page, 0, &mut whole)?;
                if let Some(part) = whole.get_mut(in_page..in_page + n) {
                    part.copy_from_slice(now);
                }
                self.put_page(page, whole.into(), None)?;
            }
            rest = later;
            at += n as u64;
            // Only what was taken counts towards the length.
            if let Some(p) = &mut self.pending {
                p.logical_len = p.logical_len.max(at);
            }
        }
        Ok(())
    }

    /// Sets the length of the database in bytes; new bytes read as zeros.
    ///
    /// # Errors
    /// As [`Handle::write_at`].
    pub fn set_len(&mut self, len: u64) -> Result<()> {
        if len == self.len()? {
            return Ok(());
        }
        self.begin_write(0)?;
        let Some(p) = &mut self.pending else {
            return Ok(());
        };
        let page_size = u64::from(p.page_size);
        let pages = len.div_ceil(page_size);
        p.pages.retain(|page, _| u64::from(*page) <= pages);
        p.visible = p.visible.min(pages);
        let cut = (len % page_size) as usize;
        let shrinks = len < p.logical_len;
        p.logical_len = len;
        if let Some(gone) = p
            .head
            .get_mut(usize::try_from(len).unwrap_or(HEAD_LEN).min(HEAD_LEN)..)
        {
            gone.fill(0);
        }
        if shrinks && cut != 0 {
            // What is cut off inside a page reads as zeros if the database grows again.
            let page = page_at(len, page_size as u32)?;
            let mut whole = vec![0; page_size as usize];
            self.read_page(page, 0, whole.get_mut(..cut).unwrap_or_default())?;
            self.put_page(page, whole.into(), None)?;
        }
        Ok(())
    }

    /// Drops the frames of up to `most` published pages whose content nobody will ask for: they read as zeros from the next commit on. Pages that
    /// this handle has written since it last published stay. Returns how many were dropped.
    ///
    /// # Errors
    /// As [`Handle::write_at`]; damage in the page map.
    pub fn drop_pages(&mut self, pages: &mut dyn Iterator<Item = u32>, most: u64) -> Result<u64> {
        let mut dropped = 0;
        let shared = self.shared()?;
        for page in pages {
            if dropped >= most {
                break;
            }
            let visible = self
                .pending
                .as_ref()
                .is_none_or(|p| u64::from(page) <= p.visible && !p.pages.contains_key(&page));
            if !visible {
                continue;
            }
            let entry = {
                let state = shared.state.read();
                shared.lookup(&*self.file, &state, page)?
            };
            if entry.is_none() {
                continue;
            }
            self.begin_write(0)?;
            if let Some(p) = &mut self.pending {
                p.pages.insert(page, PendingPage::Stored(Entry::NONE));
            }
            dropped += 1;
        }
        Ok(dropped)
    }

    /// Forgets what was written and not published.
    pub fn discard(&mut self) {
        // Who writes next looks again.
        let _ = self.void_own_attempt();
        let Some(p) = self.pending.take() else { return };
        if let Some(shared) = &self.shared {
            for dict in &p.new_dicts {
                shared.forget_dictionary(dict.id);
            }
            let mut writer = shared.writer.lock();
            // What lies in those places may look like a commit of this writer.
            writer.epoch = densite_disk::random::random_u64()
                .unwrap_or(writer.epoch.wrapping_add(0x9E37_79B9_7F4A_7C15));
            if let Some((_, space)) = &mut writer.space {
                space.give_back_extents(p.appender.taken(), p.commit);
            }
        }
    }

    /// Takes a whole page, and its frame if it is pre-encoded.
    pub(crate) fn put_page(
        &mut self,
        page: u32,
        bytes: Arc<[u8]>,
        preencoded: Option<ReadyFrame>,
    ) -> Result<()> {
        if self.pending.as_ref().is_some_and(|p| p.pressed) && self.is_as_published(page, &bytes)? {
            if let Some(p) = &mut self.pending {
                p.pages.remove(&page);
                if page == 1 {
                    copy_part(&bytes, 0, &mut p.head);
                }
            }
            return Ok(());
        }
        let shared = self.shared()?;
        let family = preencoded
            .as_ref()
            .map_or_else(|| Family::of(&bytes), |preencoded| preencoded.frame.family);
        if let Some(mut writer) = shared.writer.try_lock() {
            writer.learner.observe(family, &bytes);
        }
        let Some(p) = &mut self.pending else {
            return Err(Error::ReadOnly);
        };
        if page == 1 {
            copy_part(&bytes, 0, &mut p.head);
        }
        p.seq += 1;
        p.batch_bytes += bytes.len();
        p.batch.push(Job {
            page,
            seq: p.seq,
            bytes: Arc::clone(&bytes),
            family,
            preencoded,
        });
        p.pages.insert(page, PendingPage::Raw { seq: p.seq, bytes });
        if p.batch_bytes >= BATCH_BYTES {
            self.dispatch()
        } else {
            Ok(())
        }
    }

    /// Whether a page that is being written is the same as the published one: then nothing needs to be stored. Asked for only after
    /// the disk was full, when SQLite is rolling back: so a rollback needs no space.
    fn is_as_published(&mut self, page: u32, bytes: &[u8]) -> Result<bool> {
        let Some(p) = &self.pending else {
            return Ok(false);
        };
        let same_grain = self.shared()?.state.read().page_size == p.page_size;
        if !same_grain || u64::from(page) > p.visible {
            return Ok(false);
        }
        // What is stored lacks unallocated bytes; what SQLite writes back may still have them, from its cache.
        let context = PageContext {
            number: page,
            pages: p.page_count(),
            reserved: usize::from(p.head[RESERVED_AT]),
        };
        let (mut old, mut kept) = (vec![0; bytes.len()], Vec::new());
        densite_typed::scrub(bytes, &context, &mut kept);
        Ok(self.read_published(page, 0, &mut old).is_ok() && old == kept)
    }

    /// Hands the batch to the pool, and places what came back.
    fn dispatch(&mut self) -> Result<()> {
        self.name_preencoded()?;
        self.train()?;
        let settings = self.encode_settings()?;
        let Some(p) = &mut self.pending else {
            return Ok(());
        };
        let jobs = std::mem::take(&mut p.batch);
        p.batch_bytes = 0;
        let pool = pool_for(&jobs, &self.pool);
        p.inflight
            .push_back(Task::spawn(&pool, move || encode_batch(jobs, &settings)));
        // More than the pool's queue holds: so this thread encodes, too, when the queue is full, and waits for others only in `finish_batches`.
        let limit = if self.pool.is_none() {
            0
        } else {
            4 * self.options.threads + 4
        };
        while let Some(p) = &self.pending
            && (p.inflight.len() > limit || p.inflight.front().is_some_and(Task::is_done))
        {
            self.collect()?;
        }
        Ok(())
    }

    /// Waits for the oldest batch and places its frames.
    fn collect(&mut self) -> Result<()> {
        self.void_own_attempt()?;
        let shared = self.shared()?;
        let Some(p) = &mut self.pending else {
            return Ok(());
        };
        let Some(task) = p.inflight.pop_front() else {
            return Ok(());
        };
        let frames = task.wait().ok_or_else(|| {
            Error::Setting("encoding a page failed; this is a bug, please report it".to_owned())
        })?;
        let mut writer = shared.writer.lock();
        let mut none = Space::default();
        let space = writer.space.as_mut().map_or(&mut none, |(_, s)| s);
        let placed = p.append_frames(&frames, space);
        for frame in &frames {
            let raw = frame.seqs.len() << frame.record.page_log2;
            writer.learner.coded(frame.family, raw, frame.record_len());
        }
        placed?;
        let flushed = p.appender.flush_if_long(&*self.file);
        p.pressed |= flushed.is_err();
        flushed
    }

    /// Encodes and places everything that was written.
    pub(crate) fn finish_batches(&mut self) -> Result<()> {
        self.name_preencoded()?;
        let Some(p) = &mut self.pending else {
            return Ok(());
        };
        let mut jobs = std::mem::take(&mut p.batch);
        p.batch_bytes = 0;
        if !jobs.is_empty() {
            // SQLite writes in order of pages; what it did not, is put in order here, for the sake of later reads.
            jobs.sort_by_key(|j| j.page);
            let settings = self.encode_settings()?;
            let next = EncodeSettings {
                level: self.options.level,
                ..settings.clone()
            };
            // Giving space back codes in its own way; what comes to the WAL next is SQLite's again.
            if !self.pending.as_ref().is_some_and(|p| p.keep_all) {
                self.shared()?.preencoded.renew(&next, self.pool.as_ref());
            }
            let pool = pool_for(&jobs, &self.pool);
            let parts = if pool.is_some() {
                self.options.threads + 1
            } else {
                1
            };
            let each = jobs
                .len()
                .div_ceil(parts)
                .next_multiple_of(settings.run_pages.max(1) as usize);
            let Some(p) = &mut self.pending else {
                return Ok(());
            };
            while !jobs.is_empty() {
                let rest = jobs.split_off(each.min(jobs.len()));
                let now = std::mem::replace(&mut jobs, rest);
                let settings = settings.clone();
                p.inflight
                    .push_back(Task::spawn(&pool, move || encode_batch(now, &settings)));
            }
        }
        while self
            .pending
            .as_ref()
            .is_some_and(|p| !p.inflight.is_empty())
        {
            self.collect()?;
        }
        Ok(())
    }

    /// Encodes and appends one page of `page_size` bytes now, whatever the pending page size is.
    pub(crate) fn append_page(&mut self, page: u32, page_size: u32, bytes: &[u8]) -> Result<Entry> {
        let mut settings = self.encode_settings()?;
        settings.run_pages = 1;
        settings.join = false;
        let shared = self.shared()?;
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
            .ok_or(Error::ReadOnly)?;
        debug_assert_eq!(1 << frame.record.page_log2, page_size);
        let Some(p) = &mut self.pending else {
            return Err(Error::ReadOnly);
        };
        let mut writer = shared.writer.lock();
        let mut none = Space::default();
        let space = writer.space.as_mut().map_or(&mut none, |(_, s)| s);
        p.appender
            .make_room(space, (RECORD_LEN + frame.payload.len()) as u64, p.commit)?;
        let place = p.appender.push(frame.record, &frame.payload);
        p.appender.flush_if_long(&*self.file)?;
        let (model, codec) = (frame.record.model, frame.record.codec);
        Ok(Entry {
            off: place.off,
            version: place.version,
            len: place.len,
            model,
            codec,
            run_log2: 0,
            slot: 0,
        })
    }

    pub(crate) fn encode_settings(&mut self) -> Result<EncodeSettings> {
        let dicts = self.dictionaries()?;
        let Some(p) = &self.pending else {
            return Err(Error::ReadOnly);
        };
        let run_pages = match self.options.run_pages {
            // Small pages compress badly alone, and a frame's header weighs on them: up to 4 KiB together.
            0 => (DEFAULT_PAGE / p.page_size).max(1),
            n => n,
        };
        let level = if self.hurry {
            self.options.level.min(HURRY_LEVEL)
        } else {
            self.options.level
        };
        Ok(EncodeSettings {
            level,
            choice: self.options.codec,
            run_pages,
            join: self.options.run_pages == 0 && self.options.codec != CodecChoice::Archive,
            dicts,
            version: p.commit,
            // Nothing is scrubbed of a page that may begin with the number of another one.
            pages: if p.keep_all { u32::MAX } else { p.page_count() },
            reserved: usize::from(p.head[RESERVED_AT]),
            checked: true,
        })
    }
}

/// The pool, if so many pages are still to be encoded that a trip through it pays.
fn pool_for(jobs: &[Job], pool: &Option<Arc<Pool>>) -> Option<Arc<Pool>> {
    let ready = |job: &&Job| job.preencoded.as_ref().is_some_and(|found| found.compared);
    let to_encode = jobs.len() - jobs.iter().filter(ready).count();
    pool.clone().filter(|_| to_encode > INLINE_PAGES)
}
