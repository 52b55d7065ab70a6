//! Reading and writing pages, and publishing them in one atomic commit.

use super::Handle;
use crate::attempt;
use crate::connection::{Connection, SyncFailed};
use crate::error::{Error, Result};
use crate::format::slot::CLEAN;
use crate::pages::read_pages;
use crate::publish::{self, CommitOptions};
use crate::reader::Part;
use crate::transaction::Transaction;
use densite_disk::SyncKind;

impl Handle {
    /// Reads bytes of the database at `offset`. Returns how many of them are before its end, and
    /// fills the rest of `buf` with zeros.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] with page and offset.
    pub fn read_at(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.connection.open.check_poison()?;
        if let Some(transaction) = &self.transaction {
            return transaction.read_at(&mut self.connection, buf, offset);
        }
        let Connection { open, reader, .. } = &mut self.connection;
        let Some(shared) = reader.newest(open)? else {
            buf.fill(0);
            return Ok(0);
        };
        let size = {
            let state = shared.state.read();
            (state.logical_len(), state.page_size())
        };
        read_pages(buf, offset, size, |part| reader.read(open, part, true))
    }

    /// Reads one page of the newest commit, without pending writes of this handle. `out` has the
    /// size of a page.
    ///
    /// # Errors
    /// As [`Handle::read_at`].
    pub fn read_committed(&mut self, page: u32, out: &mut [u8]) -> Result<()> {
        self.connection.open.check_poison()?;
        let ahead = self.transaction.is_none();
        let Connection { open, reader, .. } = &mut self.connection;
        reader.newest(open)?;
        reader.read(open, Part { page, at: 0, out }, ahead)
    }

    /// Writes bytes of the database at `offset`. This handle sees them at once, others after they
    /// are published.
    ///
    /// # Errors
    /// I/O, a full disk: earlier writes stay, and the call can be repeated. [`Error::ReadOnly`].
    pub fn write_at(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        let (connection, transaction) = self.writing(buf.len() as u32)?;
        transaction.write_at(connection, buf, offset)
    }

    /// Sets the length of the database in bytes; new bytes read as zeros.
    ///
    /// # Errors
    /// As [`Handle::write_at`].
    pub fn set_len(&mut self, len: u64) -> Result<()> {
        if len == self.len()? {
            return Ok(());
        }
        let (connection, transaction) = self.writing(0)?;
        transaction.set_len(connection, len)
    }

    /// Drops the frames of up to `most` published pages whose content is not needed: they read as
    /// zeros from the next commit on. Pages with pending writes of this handle are skipped. Returns
    /// how many were dropped.
    ///
    /// # Errors
    /// As [`Handle::write_at`]; damage in the page map.
    pub fn drop_pages(&mut self, pages: &mut dyn Iterator<Item = u32>, most: u64) -> Result<u64> {
        let mut dropped = 0;
        let shared = self.connection.open.shared()?;
        for page in pages {
            if dropped >= most {
                break;
            }
            let open = self.transaction.as_ref();
            if open.is_some_and(|open| !open.is_untouched(page)) {
                continue;
            }
            let entry = {
                let state = shared.state.read();
                shared.lookup(self.connection.open.file(), &state, page)?
            };
            if entry.is_none() {
                continue;
            }
            self.writing(0)?.1.drop_page(page);
            dropped += 1;
        }
        Ok(dropped)
    }

    /// Trains dictionaries and models from sample pages, drawn evenly from a database of `database`
    /// bytes that is about to be written.
    ///
    /// # Errors
    /// I/O.
    pub fn learn(&mut self, samples: &[Vec<u8>], database: u64) -> Result<()> {
        let (connection, transaction) = self.writing(samples.first().map_or(0, Vec::len) as u32)?;
        transaction.learn(connection, samples, database)
    }

    /// The connection, and the open transaction, which begins now if there is none.
    fn writing(&mut self, hint: u32) -> Result<(&mut Connection, &mut Transaction)> {
        self.connection.open.check_writable()?;
        let transaction = match self.transaction.take() {
            Some(open) => open,
            None => Transaction::begin(&mut self.connection, hint)?,
        };
        let transaction = self.transaction.insert(transaction);
        Ok((&mut self.connection, transaction))
    }

    /// Drops all writes that are not published.
    pub fn discard(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            transaction.discard(&mut self.connection);
        }
    }

    /// Publishes all pending writes: all connections see them, at once and together.
    ///
    /// # Errors
    /// I/O, a full disk: nothing was published. The call can be repeated, or the writes
    /// [discarded](Handle::discard).
    pub fn publish(&mut self) -> Result<()> {
        self.publish_with(&CommitOptions::default())
    }

    /// Publishes all pending writes of a transaction that SQLite can still undo, because its journal
    /// exists. The file keeps enough room for that, also on a full disk (rule S11).
    ///
    /// # Errors
    /// As [`Handle::publish`].
    pub fn publish_undoable(&mut self) -> Result<()> {
        self.publish_with(&CommitOptions {
            undoable: true,
            ..CommitOptions::default()
        })
    }

    /// Syncs if much was published without a sync. SQLite cannot undo the newest commit any more.
    ///
    /// # Errors
    /// As [`Handle::sync`].
    pub fn sync_if_due(&mut self) -> Result<()> {
        match self.connection.open.known() {
            Some(_) => publish::sync_if_due(&mut self.connection),
            None => Ok(()),
        }
    }

    /// Publishes a commit that changes nothing, so that connections that watch the newest commit
    /// check the files beside it again.
    ///
    /// # Errors
    /// As [`Handle::publish`]; pending writes are then discarded.
    pub fn publish_nothing(&mut self) -> Result<()> {
        self.writing(0)?;
        let done = self.publish_with(&CommitOptions {
            even_empty: true,
            ..CommitOptions::default()
        });
        if done.is_err() {
            self.discard();
        }
        done
    }

    /// Publishes all pending writes, and writes the page map and all dictionaries again. They then
    /// lie together, behind the pages that were pending: a reader on a slow line needs few
    /// requests.
    ///
    /// # Errors
    /// As [`Handle::publish`]; [`Error::Corrupt`].
    pub fn publish_gathered(&mut self) -> Result<()> {
        self.writing(0)?;
        let shared = self.connection.open.shared()?;
        let everything = publish::everything(&shared, self.connection.open.file())?;
        shared.writer.lock().reclaiming.fold_later(&everything);
        self.publish_with(&CommitOptions {
            fold: true,
            ..CommitOptions::default()
        })
    }

    fn publish_with(&mut self, besides: &CommitOptions) -> Result<()> {
        publish::publish(&mut self.connection, &mut self.transaction, besides).map(drop)
    }

    /// Publishes, then makes everything published durable.
    ///
    /// # Errors
    /// As [`Handle::publish`]. If the sync fails, the handle returns [`Error::Poisoned`] until the
    /// file is opened again.
    pub fn sync(&mut self, kind: SyncKind) -> Result<()> {
        self.publish()?;
        self.connection.sync(kind)
    }

    /// Makes durable what any connection has published, without writing. For a caller that does not
    /// have the right to write.
    ///
    /// # Errors
    /// As [`Handle::sync`]; [`Error::Poisoned`] while a rewrite is needed after a failed sync of
    /// another handle of this process.
    pub fn sync_seen(&mut self, kind: SyncKind) -> Result<()> {
        self.connection.sync_seen(kind)
    }

    /// Makes everything published durable. Needs no right to write, and does not block writers.
    ///
    /// # Errors
    /// The disk's. The caller then calls [`Handle::after_failed_sync`].
    pub fn sync_published(&mut self) -> std::result::Result<(), SyncFailed> {
        self.connection.sync_published()
    }

    /// Handles a failed sync without the right to write: the next writer rewrites what the disk may
    /// have dropped. This handle returns [`Error::Poisoned`] from now on. Returns the sync's error.
    pub fn leave_failed_sync(&mut self, failed: SyncFailed) -> Error {
        self.connection.leave_failed_sync(failed)
    }

    /// Handles a failed sync with the right to write: rewrites what the disk may have dropped. This
    /// handle returns [`Error::Poisoned`] from now on. Returns the sync's error.
    pub fn after_failed_sync(&mut self, failed: SyncFailed) -> Error {
        self.connection.after_failed_sync(failed)
    }

    /// Names the newest commit in a slot, and cuts the reserve off the end of the file (rule S10).
    /// The caller has the right to write. If the commit is durable already, this needs no sync: if
    /// a power cut loses the slot, recovery finds the commit from the previous slot.
    ///
    /// # Errors
    /// As [`Handle::sync`]. Pending writes are then [discarded](Handle::discard), because closing
    /// gives up the right to write.
    pub fn close_clean(&mut self) -> Result<()> {
        let done = self.try_close_clean();
        if done.is_err() {
            self.discard();
        }
        done
    }

    fn try_close_clean(&mut self) -> Result<()> {
        self.publish()?;
        if self.options().read_only || !self.connection.open.attach()? {
            return Ok(());
        }
        let shared = self.connection.open.shared()?;
        shared.refresh(self.connection.open.file())?;
        let (tip, trailers) = {
            let state = shared.state.read();
            (state.tip(), state.unfolded_bytes())
        };
        if tip.commit == 0 {
            return Ok(());
        }
        // After a power cut, a file that was cut can have its old end again, and an attempt in it.
        attempt::void_left(&mut self.connection, &shared)?;
        let mut durable = shared.writer.lock().durability.is_durable(&tip);
        if !durable && trailers > self.options().tuning.fold_trailer_bytes / 16 {
            self.writing(0)?;
            self.publish_with(&CommitOptions {
                fold: true,
                ..CommitOptions::default()
            })?;
        }
        let connection = &mut self.connection;
        let mut writer = shared.writer.lock();
        let tip = shared.state.read().tip();
        let durability = &mut writer.durability;
        durability.rewrite_if_needed(connection.open.file(), shared.salt, &tip)?;
        durability.reread_slot(connection.open.file())?;
        if durability.slot().tip == tip && durability.slot().flags & CLEAN != 0 {
            return Ok(());
        }
        durable &= durability.is_slot_durable();
        if !durable {
            drop(writer);
            writer = connection.sync_rewritten(&shared, tip, SyncKind::Data)?;
        }
        let (file, durability) = (connection.open.file(), &mut writer.durability);
        durability.write_slot(file, tip, CLEAN)?;
        let end = shared.state.read().tail_off();
        if file.len()? > end {
            file.set_len(end)?;
            durability.file_was_cut(end);
        }
        Ok(())
    }
}
