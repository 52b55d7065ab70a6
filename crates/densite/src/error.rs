//! What can go wrong in the library's verbs, shaped by what the caller can do.
//!
//! Every message is one sentence (a semicolon joins what is wrong and what to do) and names the
//! file or value it is about. [`Error::exit_code`] is the one table of exit codes.

use crate::holders::Holder;
use densite_disk as disk;
use densite_store as store;
use std::fmt;
use std::path::{Path, PathBuf};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a verb.
#[derive(Debug, Clone)]
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
    /// A directory whose `chroma.sqlite3` has not Chroma's tables.
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
        /// As [`Error::exit_code`].
        exit_code: u8,
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
    /// The exit code of the command for this error: 1 error, 3 locked, 4 no space, 5 damaged or
    /// not a database. (0 is success, 2 usage and 6 "the person said no" never come from here.)
    /// An interrupted run is 130, as shells have it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Locked { .. } => 3,
            Error::NoSpace { .. } => 4,
            Error::IsDirectory { .. }
            | Error::NotADatabase { .. }
            | Error::NotChroma { .. }
            | Error::Damaged { .. } => 5,
            Error::Interrupted { .. } => 130,
            Error::Log { exit_code, .. } => *exit_code,
            Error::NotFound { .. }
            | Error::Permission { .. }
            | Error::AlreadyCompressed { .. }
            | Error::AlreadyPlain { .. }
            | Error::Exists { .. }
            | Error::SeveralLinks { .. }
            | Error::NewerFormat { .. }
            | Error::Unsupported(_)
            | Error::Setting(_)
            | Error::Io { .. }
            | Error::NoLog { .. }
            | Error::Sqlite { .. } => 1,
        }
    }

    /// A stable name for programs (`error.kind` of the JSON output).
    pub fn kind(&self) -> &'static str {
        match self {
            Error::NotFound { .. } => "not_found",
            Error::IsDirectory { .. } => "is_directory",
            Error::Permission { .. } => "permission",
            Error::NotADatabase { .. } => "not_a_database",
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
            | Error::NotChroma { path }
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
            Error::Unsupported(_) | Error::Setting(_) => None,
        }
    }

    /// From a call of the standard library on `path`; `doing` completes "cannot ...".
    pub(crate) fn from_std(path: &Path, doing: &str, e: &std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        let path = path.to_path_buf();
        match e.kind() {
            K::NotFound => Error::NotFound { path },
            K::AlreadyExists => Error::Exists { path },
            K::IsADirectory => Error::IsDirectory { path },
            K::PermissionDenied | K::ReadOnlyFilesystem => Error::Permission {
                path,
                doing: doing.to_string(),
            },
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Error::NoSpace {
                dir: parent_of(&path),
                needed: None,
                available: None,
            },
            _ => Error::Io {
                path,
                doing: doing.to_string(),
                message: os_words(e),
            },
        }
    }

    /// From a call of the disk crate on `path`.
    pub(crate) fn from_disk(path: &Path, doing: &str, e: &disk::Error) -> Error {
        let path = path.to_path_buf();
        match e.kind {
            disk::ErrorKind::Full => Error::NoSpace {
                dir: parent_of(&path),
                needed: None,
                available: None,
            },
            disk::ErrorKind::NotFound => Error::NotFound { path },
            disk::ErrorKind::Exists => Error::Exists { path },
            disk::ErrorKind::Permission => Error::Permission {
                path,
                doing: doing.to_string(),
            },
            disk::ErrorKind::Io => Error::Io {
                path,
                doing: doing.to_string(),
                message: e.to_string(),
            },
        }
    }

    /// From a log in the directory `path`.
    pub(crate) fn from_log(path: &Path, e: &densite_log::Error) -> Error {
        use densite_log::Error as E;
        let (kind, exit_code, advice) = match e {
            E::Damaged { .. } => (
                "damaged",
                5,
                "; densite log check lists all places, and --repair keeps what can be read",
            ),
            E::Full(_) => ("no_space", 4, "; free some disk space and try again"),
            E::InUse => ("locked", 3, ""),
            E::NewerFormat { .. } => ("newer_format", 1, ""),
            E::Missing => ("no_log", 1, ""),
            _ => ("log", 1, ""),
        };
        Error::Log {
            path: path.to_path_buf(),
            kind,
            exit_code,
            message: format!("{e}{advice}"),
        }
    }

    /// From a call of the store on `path`.
    pub(crate) fn from_store(path: &Path, doing: &str, e: store::Error) -> Error {
        let p = path.to_path_buf();
        match e {
            store::Error::Full(e) | store::Error::Io(e) => Error::from_disk(path, doing, &e),
            store::Error::Corrupt(d) => Error::Damaged {
                path: p,
                what: d.to_string(),
            },
            store::Error::NewerFormat { found, supported } => Error::NewerFormat {
                path: p,
                found,
                supported,
            },
            store::Error::NotDensite => Error::NotADatabase {
                path: p,
                empty: false,
            },
            store::Error::ReadOnly => Error::Permission {
                path: p,
                doing: doing.to_string(),
            },
            store::Error::Setting(s) => Error::Setting(s),
            store::Error::Poisoned | store::Error::Overtaken => Error::Io {
                path: p,
                doing: doing.to_string(),
                message: e.to_string(),
            },
        }
    }
}

/// The directory of a path; "." for a bare name.
pub(crate) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// The system's words without Rust's "(os error 5)".
fn os_words(e: &std::io::Error) -> String {
    let s = e.to_string();
    match s.find(" (os error") {
        Some(at) => s[..at].to_lowercase(),
        None => s,
    }
}

/// Bytes as a person reads them, with the exact number where it was rounded.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} bytes");
    }
    let mut value = n as f64;
    let mut unit = "";
    for u in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = u;
    }
    format!("{value:.1} {unit}")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound { path } => write!(
                f,
                "{}: there is no such file or directory; check the path",
                path.display()
            ),
            Error::IsDirectory { path } => {
                write!(
                    f,
                    "{} is a directory, not a database; name the database file in it",
                    path.display()
                )
            }
            Error::Permission { path, doing } => write!(
                f,
                "{}: no permission to {doing}, or its file system is read-only; check its owner and mode",
                path.display()
            ),
            Error::NotADatabase { path, empty: true } => {
                write!(
                    f,
                    "{} is empty and holds no database; check the path",
                    path.display()
                )
            }
            Error::NotADatabase { path, empty: false } => {
                write!(
                    f,
                    "{} is not a SQLite database or is encrypted; check the path",
                    path.display()
                )
            }
            Error::NotChroma { path } => {
                write!(
                    f,
                    "{} has not the tables of Chroma, so that its directory is none of Chroma's; check the path, or name the file to have it treated as any database",
                    path.display()
                )
            }
            Error::AlreadyCompressed { path } => {
                write!(
                    f,
                    "{} is compressed already; there is nothing to do",
                    path.display()
                )
            }
            Error::AlreadyPlain { path } => {
                write!(
                    f,
                    "{} is a plain SQLite database already; there is nothing to do",
                    path.display()
                )
            }
            Error::Exists { path } => write!(
                f,
                "{} exists already and was left as it is; choose another destination or remove it first",
                path.display()
            ),
            Error::SeveralLinks { path, links } => write!(
                f,
                "{} has {links} names (hard links) and replacing one would part them; remove the other names first, or (compress, decompress) give a destination",
                path.display()
            ),
            Error::NoLog { path } => write!(
                f,
                "{} has no log; SELECT densite_subscribe() or a table of densite_ingest makes one",
                path.display()
            ),
            Error::Log { path, message, .. } => write!(f, "{}: {message}", path.display()),
            Error::Locked { path, by } => {
                write!(f, "{} is locked", path.display())?;
                if by.is_empty() {
                    f.write_str(" by another connection")?;
                }
                for (i, holder) in by.iter().enumerate() {
                    f.write_str(if i == 0 { " by " } else { " and " })?;
                    write!(f, "{holder}")?;
                }
                f.write_str("; close it there or try again later")
            }
            Error::NoSpace {
                dir,
                needed,
                available,
            } => {
                write!(f, "there is not enough disk space in {}", dir.display())?;
                if let (Some(needed), Some(available)) = (needed, available) {
                    write!(
                        f,
                        ": up to {} needed, {} available",
                        bytes(*needed),
                        bytes(*available)
                    )?;
                }
                f.write_str("; free some and try again")
            }
            Error::Damaged { path, what } => {
                write!(
                    f,
                    "{} is damaged: {what}; restore it from a backup",
                    path.display()
                )
            }
            Error::NewerFormat {
                path,
                found,
                supported,
            } => write!(
                f,
                "{} has format version {found} and this program reads up to {supported}; use a newer Densite",
                path.display()
            ),
            Error::Interrupted { path } => {
                write!(f, "interrupted; {} is as it was", path.display())
            }
            Error::Unsupported(what) | Error::Setting(what) => f.write_str(what),
            Error::Io {
                path,
                doing,
                message,
            } => {
                write!(f, "cannot {doing} {}: {message}", path.display())
            }
            Error::Sqlite {
                path,
                code,
                message,
            } => {
                write!(
                    f,
                    "{}: SQLite says: {message} (code {code})",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn locked_names_every_holder() {
        let by = vec![
            Holder {
                pid: 7,
                name: Some("python3".into()),
            },
            Holder { pid: 9, name: None },
        ];
        let e = Error::Locked {
            path: "a.db".into(),
            by,
        };
        assert_eq!(
            e.to_string(),
            "a.db is locked by process 7 (python3) and process 9; close it there or try again later"
        );
        assert_eq!(e.exit_code(), 3);
    }
}
