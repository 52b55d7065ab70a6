//! A database that is cut after its journal is gone.
//!
//! With auto-vacuum, and after VACUUM, SQLite ends a transaction in this order
//! (`pager_end_transaction`): write and sync the database; delete, truncate or zero the journal;
//! only then cut the database; then COMMIT_PHASETWO. Plain SQLite relies on the file system there:
//! deletion and cut are both metadata, and a journalled file system keeps their order.
//!
//! Our cut is a commit of the store, that is data, and can reach the disk first. After a power cut
//! in between, the journal would be hot again, and the pages beyond the cut would be gone: no
//! journal holds them. The simulated disk found this (TRUNCATE with synchronous=NORMAL, a VACUUM).
//!
//! So the end of the journal is made durable before the cut is published. That costs a sync in
//! transactions that give pages back, and only where SQLite synced the database at all. If the
//! sync fails, SQLite gets the error and the cut is forgotten. A file that is longer than its
//! header says is no error to SQLite, and the next such transaction cuts it.

use crate::codes::Done;
use crate::named_file::NamedFile;
use densite_sqlite::{Code, ffi};

/// Makes the end of a database's journal durable: its new contents if it is still there, its
/// deletion if it is not.
///
/// # Errors
/// The host's.
pub(crate) fn sync_journal(database: &NamedFile) -> Done {
    let vfs = database.vfs();
    let journal = database.journal().ok_or(Code::IOERR_FSYNC)?;
    // Not ACCESS_EXISTS: for that call an empty file does not exist, and TRUNCATE's journal is
    // empty now. With locking_mode=EXCLUSIVE SQLite still has it open and writes it again, so it
    // must keep its name.
    let there = vfs.access(journal.path(), ffi::ACCESS_READWRITE)?;
    let flags =
        ffi::OPEN_READWRITE | ffi::OPEN_MAIN_JOURNAL | if there { 0 } else { ffi::OPEN_CREATE };
    // SAFETY: the name lives in the database's name, and this file is closed at the end of this
    // function.
    let (file, _) = unsafe { vfs.open(Some(journal), flags) }?;
    if there {
        return file.sync_with(ffi::SYNC_NORMAL);
    }
    // No call syncs a directory, but a deletion can be asked to. So an empty journal, which is
    // never hot, is made for that. EXCLUSIVE is still held: no one looks.
    drop(file);
    vfs.delete(journal.path(), true)
}
