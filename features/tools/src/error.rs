//! Errors of the verbs, grouped by what the caller can do.
//!
//! Every message is one sentence: what is wrong, with which file or value, and, after a semicolon,
//! what to do. [`Error::class`] says what a caller can do.

mod class;
mod from;
mod text;

use crate::holder::Holder;
use std::path::{Path, PathBuf};

pub use class::ErrorClass;
pub use from::parent_of;
pub(crate) use from::{is_remote, url_in};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a verb.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The file does not exist.
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is a directory, but a file is needed.
    IsDirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system denies access, or the file system is read-only.
    Permission {
        /// The file or directory.
        path: PathBuf,
        /// The action that failed ("read it", "create a file in it").
        doing: String,
    },
    /// Neither a SQLite database nor a Densite file.
    NotADatabase {
        /// The path as given.
        path: PathBuf,
        /// Whether the file has no bytes.
        empty: bool,
    },
    /// A program that extends SQLite's format wrote it.
    OtherFormat {
        /// The path as given.
        path: PathBuf,
        /// The read version in its header; SQLite reads 1 and 2.
        version: u8,
    },
    /// The `chroma.sqlite3` in the directory does not have Chroma's tables.
    #[cfg(feature = "chroma")]
    NotChroma {
        /// That `chroma.sqlite3`.
        path: PathBuf,
    },
    /// The database is compressed already.
    AlreadyCompressed {
        /// The path as given.
        path: PathBuf,
    },
    /// The database is a plain SQLite file already.
    AlreadyPlain {
        /// The path as given.
        path: PathBuf,
    },
    /// The destination exists, or a file beside it that SQLite would use with it.
    Exists {
        /// The file that exists.
        path: PathBuf,
    },
    /// The file has several names (hard links). Replacing one would separate it from the others.
    SeveralLinks {
        /// The path as given.
        path: PathBuf,
        /// The number of names.
        links: u64,
    },
    /// Another connection holds a lock on the database. Try again later.
    Locked {
        /// The database.
        path: PathBuf,
        /// The processes that hold locks on it, as far as known.
        by: Vec<Holder>,
    },
    /// There is not enough disk space.
    NoSpace {
        /// The directory whose file system is full.
        dir: PathBuf,
        /// Bytes needed at most, if known.
        needed: Option<u64>,
        /// Free bytes, if known.
        available: Option<u64>,
    },
    /// The database is damaged. Restore it from a backup.
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong and where.
        what: String,
    },
    /// A replica is damaged, or a database that is shipped.
    Replica {
        /// The replica, without secrets.
        path: PathBuf,
        /// What is wrong and where, and what to do.
        what: String,
    },
    /// It is the database of a program that opens it with a SQLite of its own, and could not open it
    /// compressed.
    KnownProgram {
        /// The database.
        path: PathBuf,
        /// The program.
        program: &'static str,
    },
    /// Compressed, it would be much larger. It was not changed.
    Larger {
        /// The database.
        path: PathBuf,
        /// Its bytes.
        plain: u64,
        /// Its bytes if it were compressed.
        compressed: u64,
    },
    /// Its freelist names pages that b-trees use: without their content, rows would be lost.
    FreePagesInUse {
        /// The database.
        path: PathBuf,
        /// How many of them there are.
        pages: u64,
        /// The first one.
        first: u32,
    },
    /// A newer version of this program wrote the file.
    NewerFormat {
        /// The database.
        path: PathBuf,
        /// The format version found.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// The caller cancelled the work. Its changes were undone.
    Interrupted {
        /// The database.
        path: PathBuf,
    },
    /// This version does not support the request.
    Unsupported(String),
    /// A setting is invalid.
    Setting(String),
    /// A file operation failed.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The action that failed ("read", "rename").
        doing: String,
        /// The message of the operating system.
        message: String,
    },
    /// A remote file could not be read.
    Remote {
        /// The URL, without secrets.
        path: PathBuf,
        /// What is wrong, with the URL, and what to do.
        message: String,
    },
    /// There is no log beside the database.
    NoLog {
        /// The database.
        path: PathBuf,
    },
    /// The log beside a database reported an error.
    Log {
        /// Its directory.
        path: PathBuf,
        /// The same as [`Error::kind`].
        kind: &'static str,
        /// The message of the log, and what to do.
        message: String,
    },
    /// SQLite reported an error that none of the other variants describes.
    Sqlite {
        /// The database.
        path: PathBuf,
        /// SQLite's extended result code.
        code: i32,
        /// SQLite's message.
        message: String,
    },
}

impl Error {
    /// A stable name for programs (`error.kind` of the JSON output).
    pub fn kind(&self) -> &'static str {
        match self {
            Error::NotFound { .. } => "not_found",
            Error::IsDirectory { .. } => "is_directory",
            Error::Permission { .. } => "permission",
            Error::NotADatabase { .. } | Error::OtherFormat { .. } => "not_a_database",
            #[cfg(feature = "chroma")]
            Error::NotChroma { .. } => "not_chroma",
            Error::AlreadyCompressed { .. } => "already_compressed",
            Error::AlreadyPlain { .. } => "already_plain",
            Error::Exists { .. } => "exists",
            Error::SeveralLinks { .. } => "several_links",
            Error::Locked { .. } => "locked",
            Error::NoSpace { .. } => "no_space",
            Error::Damaged { .. } | Error::Replica { .. } | Error::FreePagesInUse { .. } => {
                "damaged"
            }
            Error::KnownProgram { .. } => "known_program",
            Error::Larger { .. } => "larger",
            Error::NewerFormat { .. } => "newer_format",
            Error::Interrupted { .. } => "interrupted",
            Error::Unsupported(_) => "unsupported",
            Error::Setting(_) => "setting",
            Error::Io { .. } => "io",
            Error::Remote { .. } => "remote",
            Error::NoLog { .. } => "no_log",
            Error::Log { kind, .. } => kind,
            Error::Sqlite { .. } => "sqlite",
        }
    }

    /// The file or directory of the error, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::NotFound { path }
            | Error::IsDirectory { path }
            | Error::Permission { path, .. }
            | Error::NotADatabase { path, .. }
            | Error::OtherFormat { path, .. }
            | Error::AlreadyCompressed { path }
            | Error::AlreadyPlain { path }
            | Error::Exists { path }
            | Error::SeveralLinks { path, .. }
            | Error::Locked { path, .. }
            | Error::NoSpace { dir: path, .. }
            | Error::Damaged { path, .. }
            | Error::Replica { path, .. }
            | Error::FreePagesInUse { path, .. }
            | Error::KnownProgram { path, .. }
            | Error::Larger { path, .. }
            | Error::NewerFormat { path, .. }
            | Error::Interrupted { path }
            | Error::Io { path, .. }
            | Error::Remote { path, .. }
            | Error::NoLog { path }
            | Error::Log { path, .. }
            | Error::Sqlite { path, .. } => Some(path),
            #[cfg(feature = "chroma")]
            Error::NotChroma { path } => Some(path),
            Error::Unsupported(_) | Error::Setting(_) => None,
        }
    }
}

impl std::error::Error for Error {}
