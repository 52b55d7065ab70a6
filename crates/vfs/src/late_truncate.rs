//! A database that is cut after its journal is gone.
//!
//! With auto-vacuum, and after VACUUM, SQLite ends a transaction so: write and sync the database, delete (or truncate,
//! or zero) the journal, and only then cut the database (`pager_end_transaction`), then COMMIT_PHASETWO. Plain SQLite
//! relies on the file system there: deletion and cut are both metadata, and a journalled file system keeps their order. Our cut
//! is a commit of the store, that is data, and may reach the disk first. After a power cut in between the journal
//! would be hot again and the pages beyond the cut, which no journal holds, would be gone: the simulated disk found this
//! (TRUNCATE with synchronous=NORMAL, a VACUUM).
//!
//! So what ended the journal is made durable before the cut is published. That costs a sync in transactions that
//! give pages back, and only where SQLite synced the database at all. If it fails, the error is
//! told and the cut forgotten: a file that is longer than its header says is no error to SQLite, and the next such transaction
//! cuts it.

use crate::main_file::{Done, MainFile, State};
use densite_sqlite::{Code, ffi};
use densite_store::Handle;

impl MainFile {
    /// COMMIT_PHASETWO: the transaction is over, and only a late cut may be left to publish.
    pub(crate) fn phase_two(&mut self) -> Done {
        let cut = matches!(&self.state, State::Store(handle) if handle.has_pending());
        if cut
            && self.synced
            && let Err(code) = self.sync_journal()
        {
            self.in_store(|handle| {
                Handle::discard(handle);
                Ok(())
            });
            return Err(code);
        }
        self.publish()?;
        self.committed_without_wal();
        // In WAL mode the lock on the file is not the writer's right.
        if self.level == ffi::LOCK_EXCLUSIVE || self.settings.unlocked {
            self.maintain_a_little();
        }
        Ok(())
    }

    /// Makes the end of the journal durable: its new contents if it is still there, its deletion if it is not.
    pub(crate) fn sync_journal(&self) -> Done {
        let (Some(vfs), Some(journal)) = (self.host_vfs, self.name().and_then(|n| n.journal()))
        else {
            return Err(Code::IOERR_FSYNC);
        };
        // Not ACCESS_EXISTS: to that an empty file is none, and TRUNCATE's journal is empty now. With
        // locking_mode=EXCLUSIVE SQLite still has it open and writes it again, so it must keep its name.
        let there = vfs.access(journal.path(), ffi::ACCESS_READWRITE)?;
        let flags =
            ffi::OPEN_READWRITE | ffi::OPEN_MAIN_JOURNAL | if there { 0 } else { ffi::OPEN_CREATE };
        // SAFETY: the name lives in the database's name, and this file is closed at the end of this function.
        let (file, _) = unsafe { vfs.open(Some(journal), flags) }?;
        if there {
            return file.sync_with(ffi::SYNC_NORMAL);
        }
        // There is no call that syncs a directory, but a deletion can be asked to: so an empty journal, which is never
        // hot, is made for that. EXCLUSIVE is still held, nobody looks.
        drop(file);
        vfs.delete(journal.path(), true)
    }
}
