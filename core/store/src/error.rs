//! The errors of the store, divided by what the caller can do.

use densite_disk as disk;
use std::fmt;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What is damaged, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What was expected there ("frame of page 7", "slot A", "map node").
    pub what: String,
    /// Byte offset in the stored file.
    pub offset: u64,
    /// The page it belongs to, if there is one (1 is the first).
    pub page: Option<u32>,
    /// What is wrong with it ("checksum mismatch", "length 9000 past the end").
    pub problem: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.what, self.offset)?;
        if let Some(p) = self.page {
            write!(f, " (page {p})")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// A failure of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk is full: free space and try again. The handle stays usable.
    #[error("the disk is full")]
    Full(disk::Error),
    /// A read or write failed. The handle stays usable.
    #[error("{0}")]
    Io(disk::Error),
    /// A sync failed. The handle cannot be used until the file is opened again.
    #[error("an earlier sync failed; close and reopen the database")]
    Poisoned,
    /// Another writer published while this commit was made, which locks must prevent. Nothing of
    /// this commit was published.
    #[error(
        "another writer published at the same time: locks do not work on this file (nolock=1, or a file system without them); nothing was written"
    )]
    Overtaken,
    /// Other contents were written over the file while it was open. Nothing of the new contents is
    /// used in place of the old ones.
    #[error(
        "other contents were written over the file while it was in use; end the transaction and begin again, or close the database and open it again"
    )]
    Overwritten,
    /// The file is damaged: restore it from a backup.
    #[error("damaged: {0}; run densite check and restore it from a backup")]
    Corrupt(Damage),
    /// The file has a newer format than this program can read.
    #[error(
        "format version {found} is newer than {supported}, the newest this program reads; use a newer Densite"
    )]
    NewerFormat {
        /// The version in the file.
        found: u32,
        /// The newest version supported.
        supported: u32,
    },
    /// Not a Densite file.
    #[error("not a Densite file")]
    NotDensite,
    /// A write through a read-only handle.
    #[error("the file is open for reading only; open it for writing")]
    ReadOnly,
    /// A setting that cannot be met.
    #[error("{0}")]
    Setting(String),
}

impl Error {
    /// Whether a read or a write failed, perhaps because the disk was full.
    pub(crate) fn is_of_disk(&self) -> bool {
        matches!(self, Error::Full(_) | Error::Io(_))
    }

    /// A page was not encoded, although every page can be stored without compression.
    pub(crate) fn not_encoded() -> Error {
        Error::Setting("encoding a page failed; this is a bug, please report it".to_owned())
    }
}

impl From<disk::Error> for Error {
    fn from(e: disk::Error) -> Self {
        match e.kind {
            disk::ErrorKind::Full => Error::Full(e),
            _ => Error::Io(e),
        }
    }
}
