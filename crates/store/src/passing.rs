//! Pages of long scans, which pass the cache by.
//!
//! Once a scan has read more than the whole cache holds, keeping its pages is of no use: each would be thrown out before anybody comes
//! back to it, and until then it would have been 64 MiB of memory to write through, zeroed, allocated and freed page by page, and the
//! pages of the scan's beginning would be lost as well. So what such a scan reads ahead belongs to its handle alone: the pool
//! decodes it, a batch of pages in one job, into a few buffers that are used again and again and so stay in the processor's cache.
//!
//! Invariants:
//! - a page is handed out only for the number and version that it was decoded and verified as, so nothing here is ever out of date;
//! - what did not decode is not here: whoever wants it decodes it for itself and sees why;
//! - at most two windows of reading ahead are held, and nothing without a lock on the file (where there are locks).

use crate::codec::Dictionary;
use crate::map::Entry;
use crate::pool::{Pool, Task};
use crate::read::decode_frame_with;
use std::collections::HashMap;
use std::sync::Arc;

/// A batch that was not begun to be used up within so many reads of its handle belongs to a scan that ended.
const STALE: u32 = 1 << 14;

/// Frames to be decoded, and the pages once they are. Its buffers are used again.
#[derive(Default)]
pub(crate) struct Load {
    /// Pages and where they are, ascending; [`Entry::NONE`] for one that did not decode.
    pub(crate) wanted: Vec<(u32, Entry)>,
    /// Stored bytes, from the first frame to the end of the last one.
    pub(crate) stored: Vec<u8>,
    /// Decoded pages in the order of `wanted`.
    raw: Vec<u8>,
    /// A decoded run of which not every page may be wanted.
    run: Vec<u8>,
}

impl Load {
    /// Makes room for the stored bytes of all frames in `wanted`, which lie one behind the other in the file. Returns the offset of the first.
    pub(crate) fn prepare(&mut self) -> u64 {
        let begin = self.wanted.first().map_or(0, |(_, e)| e.off);
        let end = (self.wanted.last()).map_or(begin, |(_, e)| e.off + u64::from(e.len));
        self.stored.resize((end - begin) as usize, 0);
        begin
    }

    /// Verifies and decodes all frames.
    fn decode(
        &mut self,
        salt: u64,
        dicts: &HashMap<u32, Arc<Dictionary>>,
        page_size: usize,
    ) {
        let begin = self.wanted.first().map_or(0, |(_, e)| e.off);
        self.raw.resize(self.wanted.len() * page_size, 0);
        let mut raw = self.raw.chunks_exact_mut(page_size);
        for frame in self.wanted.chunk_by_mut(|a, b| a.1.off == b.1.off) {
            let Some(&(page, entry)) = frame.first() else {
                continue;
            };
            let stored = (self.stored.get((entry.off - begin) as usize..)).unwrap_or_default();
            let stored = stored.get(..entry.len as usize).unwrap_or(stored);
            let dict = dicts.get(&entry.model).map(|d| &**d);
            let decode = |out: &mut [u8]| {
                decode_frame_with(salt, dict, page, &entry, page_size, stored, out).is_ok()
            };
            if entry.run_log2 == 0 {
                if !raw.next().is_some_and(decode) {
                    frame.iter_mut().for_each(|(_, e)| *e = Entry::NONE);
                }
                continue;
            }
            self.run.resize(page_size << entry.run_log2, 0);
            let good = decode(&mut self.run);
            for ((_, e), out) in frame.iter_mut().zip(&mut raw) {
                let at = page_size * usize::from(e.slot);
                match self.run.get(at..at + page_size) {
                    Some(bytes) if good => out.copy_from_slice(bytes),
                    _ => *e = Entry::NONE,
                }
            }
        }
    }

    /// The page, if it is here in that version.
    fn page(&self, page: u32, version: u64, page_size: usize) -> Option<&[u8]> {
        let at = (self.wanted.binary_search_by_key(&page, |(p, _)| *p)).ok()?;
        let (_, entry) = self.wanted.get(at)?;
        if entry.is_none() || entry.version != version {
            return None;
        }
        self.raw.get(at * page_size..(at + 1) * page_size)
    }
}

/// A batch of pages: on its way, or here.
enum Body {
    Coming(Task<Load>),
    Here(Load),
    /// It was lost: its job panicked, or a thread that did not come along through a fork had it.
    Lost,
}

struct Batch {
    first: u32,
    last: u32,
    pages: usize,
    /// When it was asked for, by the handle's count of reads.
    asked: u32,
    body: Body,
}

/// What one handle has read ahead of its long scans.
#[derive(Default)]
pub(crate) struct Passing {
    batches: Vec<Batch>,
    spare: Vec<Load>,
}

impl Passing {
    /// Drops batches that the scan at `page` has behind itself and those of scans that ended; whether `pages` more may be held then.
    pub(crate) fn room(&mut self, page: u32, pages: u32, window: u32, clock: u32) -> bool {
        let mut at = 0;
        while let Some(b) = self.batches.get(at) {
            let behind = b.last < page && page - b.last <= window;
            if behind || clock.wrapping_sub(b.asked) > STALE {
                self.retire(at);
            } else {
                at += 1;
            }
        }
        let held: usize = self.batches.iter().map(|b| b.pages).sum();
        held + pages as usize <= 2 * window as usize
    }

    /// Buffers for another batch.
    pub(crate) fn load(&mut self) -> Load {
        let mut load = self.spare.pop().unwrap_or_default();
        load.wanted.clear();
        load
    }

    /// Has the pool decode a batch whose stored bytes have been read; a pool that is busy leaves it to the reader.
    pub(crate) fn send(
        &mut self,
        mut load: Load,
        salt: u64,
        dicts: &Arc<HashMap<u32, Arc<Dictionary>>>,
        page_size: usize,
        pool: &Pool,
        clock: u32,
    ) {
        let (Some((first, _)), Some((last, _))) = (load.wanted.first(), load.wanted.last()) else {
            return;
        };
        let (first, last, pages) = (*first, *last, load.wanted.len());
        let dicts = Arc::clone(dicts);
        let task = Task::lazy(move || {
            load.decode(salt, &dicts, page_size);
            load
        });
        task.offer(pool);
        self.batches.push(Batch {
            first,
            last,
            pages,
            asked: clock,
            body: Body::Coming(task),
        });
    }

    /// Copies a page into `out` if it is here in that version. Waits for it if it is on its way; decodes its batch if nobody has begun to.
    pub(crate) fn get(&mut self, page: u32, version: u64, out: &mut [u8]) -> bool {
        let holds = |b: &Batch| b.first <= page && page <= b.last;
        let Some(at) = self.batches.iter().position(holds) else {
            return false;
        };
        let Some(batch) = self.batches.get_mut(at) else {
            return false;
        };
        if let Body::Coming(_) = batch.body
            && let Body::Coming(task) = std::mem::replace(&mut batch.body, Body::Lost)
            && let Some(load) = task.wait()
        {
            batch.body = Body::Here(load);
        }
        let bytes = match &batch.body {
            Body::Here(load) => load.page(page, version, out.len()),
            _ => None,
        };
        let found = bytes.is_some();
        if let Some(bytes) = bytes {
            out.copy_from_slice(bytes);
        }
        if page == batch.last {
            self.retire(at);
        }
        found
    }

    /// Drops a batch and keeps its buffers.
    fn retire(&mut self, at: usize) {
        if let Body::Here(load) = self.batches.remove(at).body {
            self.spare.push(load);
        }
    }

    /// Drops everything, buffers too.
    pub(crate) fn clear(&mut self) {
        *self = Passing::default();
    }

    /// Pages that are here or on their way.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.batches.iter().map(|b| b.pages).sum()
    }
}
