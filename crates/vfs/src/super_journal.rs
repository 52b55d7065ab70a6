//! A marker for other programs that a Densite file takes part in a commit of several databases.
//!
//! Such a commit has a super-journal, which lists the journals of all its databases by SQLite's
//! names. A program that rolls back another one of these databases removes the super-journal once
//! no journal that it lists names it. Without its super-journal, the journal of the Densite file
//! counts as that of a finished commit, and half of the transaction would stay. So while the file is
//! changed, a file with SQLite's name for its journal names the super-journal.
//!
//! ```text
//! offset  size  marker (pager.c: readSuperJournal)
//!      0     4  zeros: by SQLite's rule a journal whose first byte is zero is not hot
//!      4     n  the path of the super-journal
//!    4+n     4  n, big-endian
//!    8+n     4  the sum of the path's bytes, big-endian
//!   12+n     8  the magic number of a journal
//! ```

use crate::codes::Done;
use crate::companions::Which;
use crate::named_file::NamedFile;
use densite_sqlite::ffi;
use std::ffi::CStr;

const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The bytes of a marker.
fn marker(super_journal: &CStr) -> Vec<u8> {
    let path = super_journal.to_bytes();
    // SQLite adds `char`s, which are signed.
    let sum = path.iter().fold(0u32, |sum, byte| {
        sum.wrapping_add(i32::from(byte.cast_signed()).cast_unsigned())
    });
    let len = u32::try_from(path.len()).unwrap_or(0);
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(path);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes
}

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
    let bytes = marker(super_journal);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_has_the_bytes_that_sqlite_reads() {
        let bytes = marker(c"/a/b-mj1");
        assert_eq!(bytes.first(), Some(&0), "it is not hot");
        let sum = b"/a/b-mj1".iter().map(|b| u32::from(*b)).sum::<u32>();
        assert_eq!(bytes.get(4..12), Some(&b"/a/b-mj1"[..]));
        assert_eq!(bytes.get(12..16), Some(&8u32.to_be_bytes()[..]));
        assert_eq!(bytes.get(16..20), Some(&sum.to_be_bytes()[..]));
        assert_eq!(bytes.get(20..), Some(&MAGIC[..]));
    }
}
