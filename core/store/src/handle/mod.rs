//! One connection's view of a stored file.

mod image;
mod pages;
mod reclaim;
mod report;

pub use image::{PREAMBLE_LEN, preamble};

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::format::slot;
use crate::format::slot::CLEAN;
use crate::format::tip::Tip;
use crate::open_file::OpenFile;
use crate::options::{DecodedCache, Options};
use crate::preencoded::PreEncoded;
use crate::reader::LockLevel;
use crate::shared::Shared;
use crate::transaction::Transaction;
use densite_disk::File;
use std::sync::Arc;

/// One connection's view of a stored file: reads and writes bytes of the database, publishes them,
/// and makes them durable.
///
/// Handles of one process with the same `identity` share what they know about the file and one
/// cache of decoded pages. The caller does the locking: it has the right to write while it writes
/// (rule S1: EXCLUSIVE on the file, or SHARED and the WAL checkpoint lock).
pub struct Handle {
    connection: Connection,
    /// Writes that are not published.
    transaction: Option<Transaction>,
}

impl Handle {
    /// Opens the store in `file`. An empty file is allowed: it becomes a store at the first write.
    ///
    /// # Errors
    /// I/O; [`Error::NotDensite`], [`Error::NewerFormat`], [`Error::Corrupt`]; [`Error::Setting`]
    /// for an option out of range.
    pub fn open(file: Box<dyn File>, identity: &str, options: Options) -> Result<Handle> {
        check_level(options.level)?;
        check_run(options.run_pages)?;
        let mut open = OpenFile::new(file, identity, options);
        open.attach()?;
        Ok(Handle {
            connection: Connection::new(open),
            transaction: None,
        })
    }

    /// The shared part, at the newest commit; `None` while the file is empty.
    fn newest(&mut self) -> Result<Option<Arc<Shared>>> {
        let Connection { open, reader, .. } = &mut self.connection;
        reader.newest(open)
    }

    fn between_transactions(&self) -> Result<()> {
        if self.transaction.is_some() {
            return Err(Error::Setting(
                "space can be reclaimed only between transactions: publish or discard first"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Sets which lock the caller holds. Under a lock that excludes all writers, freshness is
    /// checked once and not at every read.
    pub fn set_lock_level(&mut self, lock: LockLevel) {
        self.connection.reader.set_lock_level(lock);
    }

    /// The length of the database in bytes, as this handle sees it.
    ///
    /// # Errors
    /// I/O, damage; never 0 for a file that cannot be read (rule S7).
    pub fn len(&mut self) -> Result<u64> {
        self.connection.open.check_poison()?;
        if let Some(transaction) = &self.transaction {
            return Ok(transaction.logical_len());
        }
        let newest = self.newest()?;
        Ok(newest.map_or(0, |shared| shared.state.read().logical_len()))
    }

    /// Whether the database has no bytes.
    ///
    /// # Errors
    /// As [`Handle::len`].
    pub fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The page size in bytes; 0 before the first write.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn page_size(&mut self) -> Result<u32> {
        if let Some(transaction) = &self.transaction {
            return Ok(transaction.page_size());
        }
        let newest = self.newest()?;
        Ok(newest.map_or(0, |shared| shared.state.read().page_size()))
    }

    /// The number of the newest commit; 0 before the first one.
    ///
    /// # Errors
    /// I/O, damage; [`Error::NotDensite`] while the file is empty.
    pub fn newest_commit(&mut self) -> Result<u64> {
        let shared = self.newest()?.ok_or(Error::NotDensite)?;
        let commit = shared.state.read().tip().commit;
        Ok(commit)
    }

    /// The page size in bytes and the number of pages of the newest commit, without pending writes
    /// of this handle.
    ///
    /// # Errors
    /// I/O, damage; [`Error::NotDensite`] while the file is empty.
    pub fn committed_size(&mut self) -> Result<(u32, u32)> {
        let shared = self.newest()?.ok_or(Error::NotDensite)?;
        let state = shared.state.read();
        Ok((
            state.page_size(),
            u32::try_from(state.pages()).unwrap_or(u32::MAX),
        ))
    }

    /// The end of the newest known commit in the file, in bytes. Only the reserve is after it.
    pub fn end_bytes(&self) -> u64 {
        let shared = self.connection.open.known();
        shared.map_or(0, |s| s.state.read().tail_off())
    }

    /// Whether the newest known commit is not the one that the tip names. The file was not closed
    /// and lost later commits, or it is not complete yet.
    pub fn is_cut(&self) -> bool {
        let shared = self.connection.open.known();
        shared.is_some_and(|s| {
            let state = s.state.read();
            Tip::decode(&state.tip_raw(), s.salt) != Some(state.tip())
        })
    }

    /// How often this process could not prove that the newest commit follows the one it knew.
    /// Reasons are many commits by others, or other contents that were written over the file. A
    /// caller with its own cache of pages must drop it if this number changes.
    pub fn unproved(&self) -> u64 {
        let shared = self.connection.open.known();
        shared.map_or(0, |s| s.unproved())
    }

    /// Whether this process published anything in the file.
    pub fn has_written(&self) -> bool {
        let shared = self.connection.open.known();
        shared.is_some_and(|s| s.writer.lock().attempts.has_published())
    }

    /// Whether the last process that published has not closed the file: it was killed, or still has
    /// it open.
    pub fn is_unclosed(&self) -> bool {
        let Some(shared) = self.connection.open.known() else {
            return false;
        };
        let tip = shared.state.read().tip();
        let slot = slot::read_slot(self.connection.open.file());
        let slot = slot.ok().flatten();
        slot.is_some_and(|(_, slot)| slot.tip != tip || slot.flags & CLEAN == 0)
    }

    /// Whether this process published something that no slot names yet.
    pub fn unslotted(&self) -> bool {
        let Some(shared) = self.connection.open.known() else {
            return false;
        };
        let writer = shared.writer.lock();
        let slot = writer.durability.slot();
        writer.attempts.has_published()
            && !self.connection.open.is_poisoned()
            && (slot.tip != shared.state.read().tip() || slot.flags & CLEAN == 0)
    }

    /// Whether the database of the newest known commit is in a rollback mode: bytes 18 and 19 of
    /// page 1.
    pub fn in_rollback_mode(&self) -> bool {
        let shared = self.connection.open.known();
        shared.is_some_and(|s| s.state.read().is_in_rollback_mode())
    }

    /// Whether there are writes that are not published.
    pub fn has_pending(&self) -> bool {
        self.transaction.is_some()
    }

    /// The place to note pages that are being written to the WAL, so that they are encoded before
    /// the checkpoint. `None` while the file is empty.
    pub fn preencoded(&self) -> Option<Arc<PreEncoded>> {
        let shared = self.connection.open.known();
        shared.map(|shared| Arc::clone(&shared.preencoded))
    }

    /// Stores new frames quickly, at a low level. For a checkpoint that delays a committing
    /// connection.
    pub fn set_hurry(&mut self, on: bool) {
        self.connection.open.set_hurry(on);
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        self.connection.open.options()
    }

    /// Sets the level of new frames, -7 to 22.
    ///
    /// # Errors
    /// [`Error::Setting`] if it is out of range.
    pub fn set_level(&mut self, level: i32) -> Result<()> {
        check_level(level)?;
        self.connection.open.set_level(level);
        Ok(())
    }

    /// Sets the number of background threads. 0 runs everything on the calling thread.
    pub fn set_threads(&mut self, threads: usize) {
        self.connection.open.set_threads(threads);
    }

    /// Sets the size of the cache that all handles of this process on this file share.
    pub fn set_decoded_cache(&mut self, cache: DecodedCache) {
        self.connection.open.set_decoded_cache(cache);
    }
}

/// Access for tests.
#[cfg(test)]
impl Handle {
    pub(crate) fn parts(&mut self) -> (&mut Connection, &mut Option<Transaction>) {
        (&mut self.connection, &mut self.transaction)
    }

    pub(crate) fn shared(&self) -> Result<Arc<Shared>> {
        self.connection.open.shared()
    }

    pub(crate) fn encode_settings(&mut self) -> Result<crate::encode::EncodeSettings> {
        let transaction = self.transaction.as_ref().expect("a transaction is open");
        transaction.encode_settings(&mut self.connection)
    }
}

/// Checks that a level is one that Densite offers.
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
