//! Pages of one handle that were read ahead, in batches, until their scan reaches them
//! (docs/decisions/reading-ahead.md).
//!
//! Invariants:
//! - A page is returned only for the number, version and contents that it was decoded and verified
//!   as, so it is never out of date.
//! - A frame that fails to decode is not kept: the reader decodes it again and gets the error.
//! - At most [`WINDOWS`] windows are held, and of each window the rest of its last frame; nothing
//!   after the lock on the file is released.

use crate::cache::{Cache, Contents};
use crate::codec::Dictionary;
use crate::format::entry::Entry;
use crate::frame;
use crate::pool::{Pool, Task};
use std::collections::HashMap;
use std::sync::Arc;

/// A batch that was requested so many reads of its handle ago belongs to a scan that ended.
const STALE: u32 = 1 << 14;
/// The most windows held: so many scans of one handle are read ahead at once.
pub(crate) const WINDOWS: usize = 4;

/// Reading ahead goes on if scans read this part of the pages, here 3 of 4. Decoding those in vain
/// costs more than a second thread saves.
const USED: (u32, u32) = (3, 4);
/// So many pages tell it, and after twice as many the older ones count half.
const TELLING: u32 = 128;
/// If they do not, so many requests are left out for one that is tried.
const TRIED: u32 = 8;

/// The most buffers kept for reuse.
const SPARE: usize = 32;

/// Frames to be decoded, and then their pages. Its buffers are reused.
#[derive(Default)]
pub(crate) struct Load {
    /// Pages and their entries, ascending; [`Entry::NONE`] for a page that failed to decode.
    wanted: Vec<(u32, Entry)>,
    /// Stored bytes, from the first frame to the end of the last one.
    stored: Vec<u8>,
    /// Decoded pages in the order of `wanted`.
    raw: Vec<u8>,
    /// A decoded run, of which some pages may not be needed.
    run: Vec<u8>,
}

impl Load {
    /// Sets the frames to decode, which are in file order, and copies their stored bytes from
    /// `stored`, which begins at the offset `from` of the file.
    pub(crate) fn fill(&mut self, wanted: &[(u32, Entry)], from: u64, stored: &[u8]) {
        self.wanted.clear();
        self.wanted.extend_from_slice(wanted);
        let begin = wanted.first().map_or(from, |(_, e)| e.off);
        let end = wanted
            .last()
            .map_or(begin, |(_, e)| e.off + u64::from(e.len));
        let end = ((end - from) as usize).min(stored.len());
        self.stored.clear();
        let bytes = stored.get((begin - from) as usize..end).unwrap_or_default();
        // Without memory for them, the reader reads these pages itself.
        if self.stored.try_reserve(bytes.len()).is_ok() {
            self.stored.extend_from_slice(bytes);
        }
    }

    /// Verifies and decodes all frames.
    fn decode(&mut self, salt: u64, dicts: &HashMap<u32, Arc<Dictionary>>, page_size: usize) {
        let begin = self.wanted.first().map_or(0, |(_, e)| e.off);
        if !resize(&mut self.raw, self.wanted.len() * page_size) {
            self.wanted.iter_mut().for_each(|(_, e)| *e = Entry::NONE);
            return;
        }
        let mut raw = self.raw.chunks_exact_mut(page_size);
        for of_frame in self.wanted.chunk_by_mut(|a, b| a.1.off == b.1.off) {
            let Some(&(page, entry)) = of_frame.first() else {
                continue;
            };
            let stored = (self.stored.get((entry.off - begin) as usize..)).unwrap_or_default();
            let stored = stored.get(..entry.len as usize).unwrap_or(stored);
            let dict = dicts.get(&entry.model).map(|d| &**d);
            let decode = |out: &mut [u8]| {
                frame::decode_with(salt, dict, page, &entry, page_size, stored, out).is_ok()
            };
            if entry.run_log2 == 0 {
                // Only a damaged map has several pages in such a frame; the reader reports it.
                for (n, ((_, e), out)) in of_frame.iter_mut().zip(&mut raw).enumerate() {
                    if n > 0 || !decode(out) {
                        *e = Entry::NONE;
                    }
                }
                continue;
            }
            let good = resize(&mut self.run, page_size << entry.run_log2) && decode(&mut self.run);
            let begin = page.wrapping_sub(u32::from(entry.slot));
            for ((page, e), out) in of_frame.iter_mut().zip(&mut raw) {
                let at = page_size * usize::from(e.slot);
                // Entries of one frame differ in their slot alone.
                let fits =
                    *e == Entry {
                        slot: e.slot,
                        ..entry
                    } && page.wrapping_sub(u32::from(e.slot)) == begin;
                match self.run.get(at..at + page_size) {
                    Some(bytes) if good && fits => out.copy_from_slice(bytes),
                    _ => *e = Entry::NONE,
                }
            }
        }
    }

    /// Puts copies of the decoded pages into the cache.
    fn put_into(&self, cache: &Cache, of: Contents, page_size: usize) {
        for ((page, entry), bytes) in self.wanted.iter().zip(self.raw.chunks_exact(page_size)) {
            if !entry.is_none() {
                cache.insert_copy(*page, entry.version, bytes, of);
            }
        }
    }

    /// The page, if it is decoded in that version.
    fn page(&self, page: u32, version: u64, page_size: usize) -> Option<&[u8]> {
        let at = (self.wanted.binary_search_by_key(&page, |(p, _)| *p)).ok()?;
        let (_, entry) = self.wanted.get(at)?;
        if entry.is_none() || entry.version != version {
            return None;
        }
        self.raw.get(at * page_size..(at + 1) * page_size)
    }
}

/// Resizes a buffer. Returns false, and leaves it as it is, if there is no memory: a program that
/// SQLite would tell so must not be aborted because of pages that it may not need.
pub(super) fn resize(buffer: &mut Vec<u8>, len: usize) -> bool {
    let more = len.saturating_sub(buffer.len());
    let has_room = buffer.try_reserve(more).is_ok();
    if has_room {
        buffer.resize(len, 0);
    }
    has_room
}

/// A batch of pages, requested or decoded.
enum Body {
    Coming(Task<Load>),
    Here(Load),
    /// It is lost: its job panicked, or was on a thread that does not exist after a fork.
    Lost,
}

struct Batch {
    first: u32,
    last: u32,
    pages: usize,
    /// How many of them were read.
    read: u32,
    /// When it was requested, by the handle's count of reads.
    asked: u32,
    /// The contents that its pages are of.
    of: Contents,
    body: Body,
}

impl Batch {
    fn holds(&self, page: u32) -> bool {
        self.first <= page && page <= self.last
    }
}

/// What one handle has read ahead.
#[derive(Default)]
pub(crate) struct Batches {
    batches: Vec<Batch>,
    spare: Vec<Load>,
    /// Pages of late that scans have passed, and how many of them they read.
    passed: u32,
    read: u32,
    /// Requests that did not pay.
    left_out: u32,
}

impl Batches {
    /// Drops batches that the scan at `page` has passed, and those of scans that ended. Returns
    /// whether `pages` more can be held then.
    pub(crate) fn room(&mut self, page: u32, pages: u32, window: u32, clock: u32) -> bool {
        let mut at = 0;
        while let Some(b) = self.batches.get(at) {
            let behind = b.last < page && page - b.last <= window;
            if behind || clock.wrapping_sub(b.asked) > STALE {
                self.recycle(at);
            } else {
                at += 1;
            }
        }
        let held: usize = self.batches.iter().map(|b| b.pages).sum();
        held + pages as usize <= WINDOWS * window as usize
    }

    /// Whether scans read most of the pages that were decoded ahead of late. If they do not, most
    /// requests are left out, but not all: another scan can be different.
    pub(crate) fn pay(&mut self) -> bool {
        let (some, all) = USED;
        if self.passed < TELLING || self.read * all >= self.passed * some {
            return true;
        }
        self.left_out = self.left_out.wrapping_add(1);
        self.left_out.is_multiple_of(TRIED)
    }

    /// Whether a batch has this page, or a page on either side of it.
    pub(crate) fn has(&self, page: u32) -> bool {
        self.batches.iter().any(|batch| batch.holds(page))
    }

    /// Buffers for another batch.
    pub(crate) fn load(&mut self) -> Load {
        self.spare.pop().unwrap_or_default()
    }

    /// Adds a batch of the contents `of` whose stored bytes were read, requested at this `clock`.
    /// Its pages go to the cache, if there is one.
    pub(crate) fn add(
        &mut self,
        mut load: Load,
        salt: u64,
        dicts: &Arc<HashMap<u32, Arc<Dictionary>>>,
        page_size: usize,
        (clock, cache, of): (u32, Option<&Arc<Cache>>, Contents),
    ) {
        let (Some((first, _)), Some((last, _))) = (load.wanted.first(), load.wanted.last()) else {
            return;
        };
        let (first, last, pages) = (*first, *last, load.wanted.len());
        let dicts = Arc::clone(dicts);
        let cache = cache.map(Arc::clone);
        let task = Task::lazy(move || {
            load.decode(salt, &dicts, page_size);
            if let Some(cache) = cache {
                load.put_into(&cache, of, page_size);
            }
            load
        });
        self.batches.push(Batch {
            first,
            last,
            pages,
            read: 0,
            asked: clock,
            of,
            body: Body::Coming(task),
        });
    }

    /// Hands the batches that no thread has begun to a pool. If it is busy, the reader decodes
    /// them.
    pub(crate) fn offer(&self, pool: &Pool) {
        let coming = self.batches.iter().filter_map(|batch| match &batch.body {
            Body::Coming(task) => Some(task),
            _ => None,
        });
        Task::offer_all(coming, pool);
    }

    /// Decodes the first batch that no thread has begun. Returns false if there is none.
    fn help(&self) -> bool {
        let mut bodies = self.batches.iter().map(|batch| &batch.body);
        bodies.any(|body| matches!(body, Body::Coming(task) if task.run()))
    }

    /// Copies a page into `out` if it was read ahead in that version of these contents. If its
    /// batch is not decoded, decodes it here, or other batches while a thread decodes this one.
    pub(crate) fn get(
        &mut self,
        page: u32,
        version: u64,
        contents: Contents,
        out: &mut [u8],
    ) -> bool {
        let Some(at) = self.batches.iter().position(|batch| batch.holds(page)) else {
            return false;
        };
        if let Some(Body::Coming(task)) = self.batches.get(at).map(|batch| &batch.body) {
            while !task.run() && !task.is_done() && self.help() {}
        }
        let Some(batch) = self.batches.get_mut(at) else {
            return false;
        };
        if matches!(batch.body, Body::Coming(_))
            && let Body::Coming(task) = std::mem::replace(&mut batch.body, Body::Lost)
            && let Some(load) = task.wait()
        {
            batch.body = Body::Here(load);
        }
        let bytes = match &batch.body {
            Body::Here(load) if batch.of == contents => load.page(page, version, out.len()),
            _ => None,
        };
        let found = bytes.map(|bytes| out.copy_from_slice(bytes)).is_some();
        batch.read += u32::from(found);
        if page == batch.last {
            self.recycle(at);
        }
        found
    }

    /// Drops a batch and keeps its buffers.
    fn recycle(&mut self, at: usize) {
        let batch = self.batches.remove(at);
        if self.passed >= 2 * TELLING {
            self.passed /= 2;
            self.read /= 2;
        }
        self.passed += batch.pages as u32;
        self.read += batch.read;
        if let Body::Here(load) = batch.body
            && self.spare.len() < SPARE
        {
            self.spare.push(load);
        }
    }

    /// Drops everything, including buffers.
    pub(crate) fn clear(&mut self) {
        *self = Batches::default();
    }
}

#[cfg(test)]
mod tests;
