//! Errors of the rooms below, as errors of a verb.

use super::Error;
use densite_disk as disk;
use densite_store as store;
use std::path::{Path, PathBuf};

impl Error {
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
            disk::ErrorKind::NotAFile | disk::ErrorKind::NotADirectory | disk::ErrorKind::Io => {
                Error::Io {
                    path,
                    doing: doing.to_string(),
                    message: e.to_string(),
                }
            }
        }
    }

    /// From a log in the directory `path`.
    pub(crate) fn from_log(path: &Path, e: &densite_log::Error) -> Error {
        use densite_log::Error as E;
        let (kind, advice) = match e {
            E::Damaged { .. } => (
                "damaged",
                "; densite log check lists all places, and --repair keeps what can be read",
            ),
            E::Full(_) => ("no_space", "; free some disk space and try again"),
            E::InUse => ("locked", ""),
            E::NewerFormat { .. } => ("newer_format", ""),
            E::Missing => (
                "no_log",
                ", though the database names one; put it back, or give up what was not applied yet with DROP TABLE densite_applied and begin a new one",
            ),
            _ => ("log", ""),
        };
        Error::Log {
            path: path.to_path_buf(),
            kind,
            message: format!("{e}{advice}"),
        }
    }

    /// A thread that worked on `path` ended by a panic.
    pub(crate) fn panicked(path: &Path) -> Error {
        Error::Io {
            path: path.to_path_buf(),
            doing: "work on".into(),
            message: "an internal error ended a thread".into(),
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
            store::Error::Poisoned | store::Error::Overtaken | store::Error::Overwritten => {
                Error::Io {
                    path: p,
                    doing: doing.to_string(),
                    message: e.to_string(),
                }
            }
        }
    }
}

/// The directory of a path; "." for a bare name.
pub fn parent_of(path: &Path) -> PathBuf {
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
