//! What can go wrong in the library's verbs, shaped by what the caller can do.
//!
//! Every message is one sentence (a semicolon joins what is wrong and what to do) and names the
//! file or value it is about. [`Error::class`] says what a caller can do.

mod class;
mod from;
mod text;

use crate::holder::Holder;
use std::path::{Path, PathBuf};

pub use class::ErrorClass;
pub use from::parent_of;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a verb.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// There is no such file.
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// A directory where a file was wanted.
    IsDirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system does not permit it, or the file system is read-only.
    Permission {
        /// The file or directory.
        path: PathBuf,
        /// What was to be done with it ("read it", "create a file in it").
        doing: String,
    },
    /// Neither a SQLite database nor a Densite file.
    NotADatabase {
        /// The path as given.
        path: PathBuf,
        /// Whether that is because it holds no bytes at all.
        empty: bool,
    },
    /// A directory whose `chroma.sqlite3` does not have Chroma's tables.
    #[cfg(feature = "chroma")]
    NotChroma {
        /// That file.
        path: PathBuf,
    },
    /// Stored compressed already.
    AlreadyCompressed {
        /// The path as given.
        path: PathBuf,
    },
    /// A plain SQLite file already.
    AlreadyPlain {
        /// The path as given.
        path: PathBuf,
    },
    /// The destination, or a file that would belong to it, exists.
    Exists {
        /// The file that exists.
        path: PathBuf,
    },
    /// The file has several names (hard links), and replacing one would part them.
    SeveralLinks {
        /// The path as given.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// Another connection has the database locked: try again when it is done.
    Locked {
        /// The database.
        path: PathBuf,
        /// Who holds locks on it, where that can be known.
        by: Vec<Holder>,
    },
    /// Not enough disk space.
    NoSpace {
        /// The directory whose file system is short of space.
        dir: PathBuf,
        /// Bytes needed at most, if known.
        needed: Option<u64>,
        /// Bytes there are, if known.
        available: Option<u64>,
    },
    /// The database is damaged: restore it from a backup.
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong and where.
        what: String,
    },
    /// Written by a newer version of this program.
    NewerFormat {
        /// The database.
        path: PathBuf,
        /// The format version found.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// The caller asked to stop; what had been begun was undone.
    Interrupted {
        /// The database.
        path: PathBuf,
    },
    /// Asked for something this version cannot do.
    Unsupported(String),
    /// A setting that cannot be met.
    Setting(String),
    /// A file operation failed.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was to be done with it ("read", "rename").
        doing: String,
        /// What the operating system said.
        message: String,
    },
    /// There is no log beside the database.
    NoLog {
        /// The database.
        path: PathBuf,
    },
    /// The log beside a database said something.
    Log {
        /// Its directory.
        path: PathBuf,
        /// As [`Error::kind`].
        kind: &'static str,
        /// What it said, and what to do.
        message: String,
    },
    /// SQLite said something that fits none of the above.
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
            Error::NotADatabase { .. } => "not_a_database",
            #[cfg(feature = "chroma")]
            Error::NotChroma { .. } => "not_chroma",
            Error::AlreadyCompressed { .. } => "already_compressed",
            Error::AlreadyPlain { .. } => "already_plain",
            Error::Exists { .. } => "exists",
            Error::SeveralLinks { .. } => "several_links",
            Error::Locked { .. } => "locked",
            Error::NoSpace { .. } => "no_space",
            Error::Damaged { .. } => "damaged",
            Error::NewerFormat { .. } => "newer_format",
            Error::Interrupted { .. } => "interrupted",
            Error::Unsupported(_) => "unsupported",
            Error::Setting(_) => "setting",
            Error::Io { .. } => "io",
            Error::NoLog { .. } => "no_log",
            Error::Log { kind, .. } => kind,
            Error::Sqlite { .. } => "sqlite",
        }
    }

    /// The file or directory it is about, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::NotFound { path }
            | Error::IsDirectory { path }
            | Error::Permission { path, .. }
            | Error::NotADatabase { path, .. }
            | Error::AlreadyCompressed { path }
            | Error::AlreadyPlain { path }
            | Error::Exists { path }
            | Error::SeveralLinks { path, .. }
            | Error::Locked { path, .. }
            | Error::NoSpace { dir: path, .. }
            | Error::Damaged { path, .. }
            | Error::NewerFormat { path, .. }
            | Error::Interrupted { path }
            | Error::Io { path, .. }
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
