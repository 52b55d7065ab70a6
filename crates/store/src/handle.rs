//! One connection's view of a stored file.

use crate::batches::Batches;
use crate::error::{Error, Result};
use crate::format::slot::CLEAN;
use crate::format::tip::Tip;
use crate::map::tree::LeafMemo;
use crate::options::Options;
use crate::pending::Pending;
use crate::pool::Pool;
use crate::preencoded::PreEncoded;
use crate::readahead::Ahead;
use crate::recover;
use crate::shared::Shared;
use crate::train::Training;
use densite_disk::File;
use std::sync::Arc;

/// The lock that the caller holds on the file, as far as it matters to reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockLevel {
    /// None: anybody may publish at any time.
    #[default]
    Nothing,
    /// SHARED or more: nobody publishes while the database is in a rollback mode; in WAL mode checkpoints do.
    Shared,
    /// EXCLUSIVE: nobody else publishes.
    Exclusive,
}

/// Bytes 18 and 19 of page 1 in a rollback mode; 2 in WAL mode.
const ROLLBACK_MODE: [u8; 2] = [1, 1];

/// One connection's view of a stored file: logical bytes in and out, published and made durable when the connection says so.
///
/// Handles of one process with the same `identity` share what they know of the file and one cache of decoded pages.
/// Locking is the caller's: whoever writes has the writer's right (rule 1: EXCLUSIVE on the file, or SHARED and the WAL
/// checkpoint lock).
pub struct Handle {
    pub(crate) file: Box<dyn File>,
    identity: String,
    pub(crate) options: Options,
    pub(crate) pool: Option<Arc<Pool>>,
    pub(crate) shared: Option<Arc<Shared>>,
    pub(crate) pending: Option<Pending>,
    pub(crate) poisoned: bool,
    pub(crate) hurry: bool,
    held: LockLevel,
    /// The state was refreshed since the lock was taken.
    fresh: bool,
    pub(crate) leaves: LeafMemo,
    pub(crate) ahead: Ahead,
    pub(crate) batches: Batches,
    pub(crate) training: Training,
    /// Stored bytes of the frame that was read last; kept to be used again.
    pub(crate) scratch: Vec<u8>,
}

impl Handle {
    /// Opens the store in `file`. An empty file is fine: it becomes a store at the first write.
    ///
    /// # Errors
    /// I/O; [`Error::NotDensite`], [`Error::NewerFormat`], [`Error::Corrupt`]; [`Error::Setting`] for an option out of range.
    pub fn open(file: Box<dyn File>, identity: &str, options: Options) -> Result<Handle> {
        check_level(options.level)?;
        check_run(options.run_pages)?;
        let pool = Pool::get(options.threads);
        let mut handle = Handle {
            file,
            identity: identity.to_owned(),
            options,
            pool,
            shared: None,
            pending: None,
            poisoned: false,
            hurry: false,
            held: LockLevel::Nothing,
            fresh: false,
            leaves: LeafMemo::default(),
            ahead: Ahead::default(),
            batches: Batches::default(),
            training: Training::default(),
            scratch: Vec::new(),
        };
        handle.attach()?;
        Ok(handle)
    }

    /// Finds the shared part once the file is no longer empty. Returns whether there is one.
    pub(crate) fn attach(&mut self) -> Result<bool> {
        if self.shared.is_none() {
            self.shared = Shared::attach(
                &*self.file,
                &self.identity,
                self.options.decoded_cache_bytes,
            )?;
        }
        Ok(self.shared.is_some())
    }

    /// The shared part; an error if the file is empty.
    pub(crate) fn shared(&self) -> Result<Arc<Shared>> {
        self.shared.clone().ok_or(Error::NotDensite)
    }

    pub(crate) fn check_poison(&self) -> Result<()> {
        if self.poisoned {
            Err(Error::Poisoned)
        } else {
            Ok(())
        }
    }

    /// Tells which lock the caller holds. Under a lock that keeps every writer out, freshness is checked once and not at every read.
    pub fn set_lock_level(&mut self, held: LockLevel) {
        if held != self.held {
            // A stronger lock keeps what a weaker one kept.
            self.fresh &= held != LockLevel::Nothing && self.held != LockLevel::Nothing;
            self.held = held;
            if held == LockLevel::Nothing {
                self.batches.clear();
            }
        }
    }

    /// Makes sure that what is known is the newest commit (rule 5).
    pub(crate) fn refresh(&mut self, shared: &Shared) -> Result<()> {
        if self.fresh && self.held != LockLevel::Nothing {
            let shielded = match self.held {
                LockLevel::Exclusive => true,
                // Whoever wants to change the mode needs EXCLUSIVE, so it cannot change under our SHARED.
                LockLevel::Shared => self.in_rollback_mode(),
                LockLevel::Nothing => false,
            };
            if shielded {
                return Ok(());
            }
        }
        shared.refresh(&*self.file)?;
        self.fresh = true;
        Ok(())
    }

    /// The length of the database in bytes, as this handle sees it.
    ///
    /// # Errors
    /// I/O, damage; never 0 for a file that cannot be read (rule 7).
    pub fn len(&mut self) -> Result<u64> {
        self.check_poison()?;
        if let Some(p) = &self.pending {
            return Ok(p.logical_len);
        }
        if !self.attach()? {
            return Ok(0);
        }
        let shared = self.shared()?;
        self.refresh(&shared)?;
        let len = shared.state.read().logical_len;
        Ok(len)
    }

    /// Whether the database has no bytes.
    ///
    /// # Errors
    /// As [`Handle::len`].
    pub fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The page size in bytes; 0 while nothing was ever written.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn page_size(&mut self) -> Result<u32> {
        if let Some(p) = &self.pending {
            return Ok(p.page_size);
        }
        if !self.attach()? {
            return Ok(0);
        }
        let shared = self.shared()?;
        self.refresh(&shared)?;
        let size = shared.state.read().page_size;
        Ok(size)
    }

    /// The number of the newest commit; 0 while nothing was published.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn newest_commit(&mut self) -> Result<u64> {
        let shared = self.shared()?;
        self.refresh(&shared)?;
        let commit = shared.state.read().tip.commit;
        Ok(commit)
    }

    /// The page size in bytes and the number of pages of the newest commit, whatever this handle has written since.
    ///
    /// # Errors
    /// I/O, damage; [`Error::NotDensite`] while the file is empty.
    pub fn committed_size(&mut self) -> Result<(u32, u32)> {
        let shared = self.shared()?;
        self.refresh(&shared)?;
        let state = shared.state.read();
        Ok((
            state.page_size,
            u32::try_from(state.pages()).unwrap_or(u32::MAX),
        ))
    }

    /// Where the newest known commit ends in the file, in bytes; behind it is only the reserve.
    pub fn end_bytes(&self) -> u64 {
        let shared = self.shared.as_ref();
        shared.map_or(0, |s| s.state.read().tail_off)
    }

    /// Whether the newest known commit is not the one that the tip names: the file was not closed and lost what came after, or it is not whole yet.
    pub fn is_cut(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|s| {
            let state = s.state.read();
            Tip::decode(&state.tip_raw, s.salt) != Some(state.tip)
        })
    }

    /// Whether this process published anything in the file.
    pub fn has_written(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|s| s.writer.lock().wrote)
    }

    /// Whether the last who published, in whatever process, has not closed the file: it was killed, or has it open still.
    pub fn is_unclosed(&self) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        let tip = shared.state.read().tip;
        let slot = recover::read_slot(&*self.file).ok().flatten();
        slot.is_some_and(|(_, slot)| slot.tip != tip || slot.flags & CLEAN == 0)
    }

    /// Whether the newest known commit is of a database in a rollback mode: bytes 18 and 19 of page 1.
    pub fn in_rollback_mode(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|s| s.state.read().head.get(18..20) == Some(&ROLLBACK_MODE))
    }

    /// Whether there are writes that nobody else sees yet.
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Where pages that are being written to the WAL may be noted, to be encoded before the checkpoint; `None` while the file is empty.
    pub fn preencoded(&self) -> Option<Arc<PreEncoded>> {
        self.shared
            .as_ref()
            .map(|shared| Arc::clone(&shared.preencoded))
    }

    /// Store new frames cheaply: a checkpoint on a committing connection's path.
    pub fn set_hurry(&mut self, on: bool) {
        self.hurry = on;
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets the level of new frames, -7 to 22.
    ///
    /// # Errors
    /// [`Error::Setting`] if it is out of range.
    pub fn set_level(&mut self, level: i32) -> Result<()> {
        check_level(level)?;
        self.options.level = level;
        Ok(())
    }

    /// Sets the number of background threads; 0 = all in line.
    pub fn set_threads(&mut self, threads: usize) {
        self.options.threads = threads;
        self.pool = Pool::get(threads);
    }

    /// Sets the budget, in bytes, of the cache that all handles of this process on this file share.
    pub fn set_decoded_cache(&mut self, bytes: usize) {
        self.options.decoded_cache_bytes = bytes;
        if let Some(s) = &self.shared {
            s.cache.set_budget(bytes);
        }
    }
}

/// zstd's levels that are offered.
fn check_level(level: i32) -> Result<()> {
    if (-7..=22).contains(&level) {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "level {level} is out of range: use -7 (fastest) to 22 (smallest)"
    )))
}

fn check_run(run_pages: u32) -> Result<()> {
    if run_pages == 0 || (run_pages.is_power_of_two() && run_pages <= 64) {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "run_pages {run_pages} is not possible: use auto, or a power of two up to 64"
    )))
}
