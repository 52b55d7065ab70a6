//! A marker for other programs that a Densite file takes part in a commit of several databases.
//!
//! Such a commit has a super-journal, which lists the journals of all its databases by SQLite's
//! names. A program that rolls back another one of these databases removes the super-journal once
//! no journal that it lists names it. Without its super-journal, the journal of the Densite file
//! counts as that of a finished commit, and half of the transaction would stay. So while the file is
//! changed, a file with SQLite's name for its journal names the super-journal.
//!
//! The marker is four zeros and the end of such a journal ([`densite_sqlite_format::journal`]). By
//! SQLite's rule, a journal whose first byte is zero is not hot.

use crate::codes::Done;
use crate::companions::Which;
use crate::named_file::NamedFile;
use densite_sqlite::ffi;
use densite_sqlite_format::journal;
use std::ffi::CStr;

/// Puts the marker beside the database, durably.
///
/// # Errors
/// The host's.
pub(crate) fn put(database: &NamedFile, super_journal: &CStr) -> Done {
    let Some(name) = database.plain(Which::Journal) else {
        return Ok(());
    };
    let vfs = database.vfs();
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_MAIN_JOURNAL;
    // SAFETY: the name is part of the database's name, and this file is closed at the end of this
    // function.
    let (file, _) = unsafe { vfs.open(Some(name), flags) }?;
    let bytes = [&[0; 4], &*journal::super_journal(super_journal.to_bytes())].concat();
    file.write(&bytes, 0)?;
    file.truncate(bytes.len() as u64)?;
    // The host syncs the directory of a new journal, too.
    file.sync_with(ffi::SYNC_NORMAL)
}

/// Removes the marker, if it is there. A failure does no harm: a marker is never hot.
pub(crate) fn remove(database: &NamedFile) {
    if let Some(name) = database.plain(Which::Journal) {
        let _ = database.vfs().delete(name.path(), false);
    }
}
