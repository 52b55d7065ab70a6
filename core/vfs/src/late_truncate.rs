//! A database that is truncated after its journal is gone (docs/decisions/sqlite-calls.md).
//!
//! With auto-vacuum, and after VACUUM, SQLite truncates the database behind the end of the journal.
//! Plain SQLite relies on the file system to keep that order. Here the truncation is a commit of
//! the store, which can reach the disk first. So the end of the journal is made durable before the
//! truncation is published. If that sync fails, SQLite gets the error and the truncation is
//! forgotten: the next such transaction truncates the file.

use crate::codes::Done;
use crate::named_file::NamedFile;
use densite_sqlite::{Code, ffi};

/// Makes the end of a database's journal durable: its new contents if it still exists, its deletion
/// if it does not.
///
/// # Errors
/// The host's.
pub(crate) fn sync_journal(database: &NamedFile) -> Done {
    let vfs = database.vfs();
    let journal = database.journal().ok_or(Code::IOERR_FSYNC)?;
    // Not ACCESS_EXISTS: for that call an empty file does not exist, and in mode TRUNCATE the
    // journal is empty now. With locking_mode=EXCLUSIVE SQLite still has it open and writes it
    // again, so it must keep its name.
    let there = vfs.access(journal.path(), ffi::ACCESS_READWRITE)?;
    let flags =
        ffi::OPEN_READWRITE | ffi::OPEN_MAIN_JOURNAL | if there { 0 } else { ffi::OPEN_CREATE };
    // SAFETY: the name is part of the database's name, and this file is closed at the end of this
    // function.
    let (file, _) = unsafe { vfs.open(Some(journal), flags) }?;
    if there {
        return file.sync_with(ffi::SYNC_NORMAL);
    }
    // No VFS call syncs a directory, but a deletion can be asked to. So an empty journal, which is
    // never hot, is created and deleted. EXCLUSIVE is still held, so no other connection looks for
    // it.
    drop(file);
    vfs.delete(journal.path(), true)
}
