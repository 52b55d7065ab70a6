//! Reads the newest commit: from pages read ahead, the cache, or a frame.

mod ahead;
mod batches;

use crate::bytes::copy_part;
use crate::cache::Contents;
use crate::error::{Damage, Error, Result};
use crate::format::entry::Entry;
use crate::format::trailer::HEAD_LEN;
use crate::frame::{self, page_of};
use crate::map::tree::LeafMemo;
use crate::open_file::OpenFile;
use crate::shared::Shared;
use ahead::Ahead;
use batches::Batches;
use densite_disk::wait::pause;
use std::sync::Arc;

/// So many tries to read a page that is being moved or replaced, before it counts as damage (rule
/// S6).
const TRIES: u32 = 100;

/// The most bytes of the buffer for stored bytes that are kept without a lock.
const SCRATCH: usize = 64 << 10;

/// The lock that the caller holds on the file, as far as reading depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockLevel {
    /// No lock: others can publish at any time.
    #[default]
    Nothing,
    /// SHARED or more: no connection publishes while the database is in a rollback mode. In WAL
    /// mode, checkpoints do.
    Shared,
    /// EXCLUSIVE: no other connection publishes.
    Exclusive,
}

/// The state with which one connection reads.
#[derive(Default)]
pub(crate) struct Reader {
    lock: LockLevel,
    /// The state was refreshed since the lock was taken.
    fresh: bool,
    leaves: LeafMemo,
    ahead: Ahead,
    batches: Batches,
    /// Stored bytes of the last frame read; a reused buffer.
    scratch: Vec<u8>,
}

/// The part of a page to read.
pub(crate) struct Part<'a> {
    /// The page; 1 is the first.
    pub(crate) page: u32,
    /// Where the part begins in the page, in bytes.
    pub(crate) at: usize,
    pub(crate) out: &'a mut [u8],
}

impl Reader {
    /// Sets which lock the caller holds. Under a lock that excludes all writers, freshness is
    /// checked once and not at every read.
    pub(crate) fn set_lock_level(&mut self, lock: LockLevel) {
        if lock != self.lock {
            // With a WAL, another process can checkpoint between the last read under SHARED and the
            // stronger lock.
            self.fresh &= lock == LockLevel::Shared && self.lock == LockLevel::Exclusive;
            self.lock = lock;
            if lock == LockLevel::Nothing {
                self.batches.clear();
                // A frame needs little of it, and reading ahead much.
                self.scratch.clear();
                self.scratch.shrink_to(SCRATCH);
            }
        }
    }

    /// The shared part, at the newest commit; `None` while the file is empty.
    ///
    /// # Errors
    /// As [`Shared::refresh`].
    pub(crate) fn newest(&mut self, open: &mut OpenFile) -> Result<Option<Arc<Shared>>> {
        if !open.attach()? {
            return Ok(None);
        }
        let shared = open.shared()?;
        self.refresh(open, &shared)?;
        Ok(Some(shared))
    }

    /// Makes sure that the known commit is the newest one (rule S5).
    ///
    /// # Errors
    /// As [`Shared::refresh`].
    fn refresh(&mut self, open: &OpenFile, shared: &Shared) -> Result<()> {
        if self.fresh {
            let shielded = match self.lock {
                LockLevel::Exclusive => true,
                // Changing the mode needs EXCLUSIVE, so it cannot change under this SHARED lock.
                LockLevel::Shared => shared.state.read().is_in_rollback_mode(),
                LockLevel::Nothing => false,
            };
            if shielded {
                return Ok(());
            }
        }
        shared.refresh(open.file())?;
        self.fresh = true;
        Ok(())
    }

    /// Reads part of a page of the newest known commit. `ahead`: the pages after it can be read
    /// ahead.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] with page and offset.
    pub(crate) fn read(&mut self, open: &OpenFile, part: Part<'_>, ahead: bool) -> Result<()> {
        let shared = open.shared()?;
        let Part { page, at, out } = part;
        let mut problem = Error::NotDensite;
        for attempt in 0..TRIES {
            let tip;
            let found;
            let contents;
            {
                let state = shared.state.read();
                tip = state.tip();
                contents = shared.cache.contents();
                if page == 1 && at + out.len() <= HEAD_LEN {
                    copy_part(state.head(), at, out);
                    return Ok(());
                }
                // The same as `State::lookup`, with the leaves that this reader used last.
                let entry = match state.overlay().get(&page) {
                    Some(e) => Ok(*e),
                    None if state.root().node.is_none() || page == 0 => Ok(Entry::NONE),
                    None => self.leaves.lookup(
                        shared.source(open.file()),
                        state.root(),
                        u64::from(page) - 1,
                    ),
                };
                found = entry.map(|e| (e, state.page_size() as usize));
            }
            let read = match found {
                Ok((entry, _)) if entry.is_none() => {
                    out.fill(0);
                    return Ok(());
                }
                Ok((entry, page_size)) => {
                    let part = Part { page, at, out };
                    let known = (&entry, contents);
                    self.read_entry(open, &shared, known, page_size, part, ahead)
                }
                Err(e) => Err(e),
            };
            match read {
                Ok(()) => return Ok(()),
                // Whatever is damaged (a map node, a dictionary), the error names the page that
                // cannot be read.
                Err(Error::Corrupt(d)) => {
                    problem = Error::Corrupt(Damage {
                        page: Some(page),
                        ..d
                    })
                }
                Err(e) => return Err(e),
            }
            // If there is a newer commit, the frame was replaced and its place reused. If there is
            // none, it is damaged.
            if !shared.has_moved_on(open.file(), &tip)? {
                return Err(problem);
            }
            if attempt > 10 {
                pause(std::time::Duration::from_micros(u64::from(attempt) * 10));
            }
        }
        Err(problem)
    }

    fn read_entry(
        &mut self,
        open: &OpenFile,
        shared: &Shared,
        (entry, contents): (&Entry, Contents),
        page_size: usize,
        part: Part<'_>,
        ahead: bool,
    ) -> Result<()> {
        let Part { page, at, out } = part;
        let whole = at == 0 && out.len() == page_size;
        let is_ahead = whole && self.batches.has(page);
        if !is_ahead && shared.cache.get_into(page, entry.version, out, at) {
            if ahead && whole {
                self.ahead.note_cached(page);
            }
            return Ok(());
        }
        if ahead && whole {
            self.read_ahead(open, shared, (page, entry), page_size);
        }
        if is_ahead
            && (self.batches.get(page, entry.version, contents, out)
                || shared.cache.get_into(page, entry.version, out, at))
        {
            return Ok(());
        }
        let mut stored = std::mem::take(&mut self.scratch);
        stored.resize(entry.len as usize, 0);
        let file = open.file();
        let read = file.read_at(&mut stored, entry.off).map_err(Error::from);
        let result = read.and_then(|n| {
            stored.truncate(n);
            if whole && entry.run_log2 == 0 {
                frame::decode(shared, file, page, entry, page_size, &stored, out)?;
                shared.cache.insert_copy(page, entry.version, out, contents);
                return Ok(());
            }
            let raw = frame::decode_run(shared, file, page, entry, page_size, &stored)?;
            copy_part(page_of(&raw, entry, page_size), at, out);
            let first = page - u32::from(entry.slot);
            // A page of the run can have been written again within the same commit, and then has
            // the same version. So only pages whose newest frame this is are cached.
            let state = shared.state.read();
            for ((bytes, p), slot) in raw.chunks_exact(page_size).zip(first..).zip(0..) {
                if shared.lookup(file, &state, p)? == (Entry { slot, ..*entry }) {
                    shared.cache.insert_copy(p, entry.version, bytes, contents);
                }
            }
            Ok(())
        });
        self.scratch = stored;
        result
    }
}
