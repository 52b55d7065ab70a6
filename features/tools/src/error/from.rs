//! Converts errors of the standard library, the disk, the log and the store into errors of a verb.

use super::Error;
use densite_disk as disk;
use densite_store as store;
use std::path::{Path, PathBuf};

impl Error {
    /// Converts an error of the standard library on `path`; `doing` completes "cannot ...".
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

    /// Converts an error of the disk crate on `path`; `doing` completes "cannot ...".
    pub(crate) fn from_disk(path: &Path, doing: &str, e: &disk::Error) -> Error {
        let said = is_remote(path).then(densite_vfs::take_last_error).flatten();
        let path = path.to_path_buf();
        if let Some(message) = said {
            return Error::Remote { path, message };
        }
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
            disk::ErrorKind::NotAFile
            | disk::ErrorKind::NotADirectory
            | disk::ErrorKind::TooManyFiles
            | disk::ErrorKind::Io => Error::Io {
                path,
                doing: doing.to_string(),
                message: e.to_string(),
            },
        }
    }

    /// Converts an error of the log in the directory `path`.
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
                ", although the database names one; put it back, or give up the rows that are not applied yet with DROP TABLE densite_applied and start a new log",
            ),
            _ => ("log", ""),
        };
        Error::Log {
            path: path.to_path_buf(),
            kind,
            message: format!("{e}{advice}"),
        }
    }

    /// The error for a thread that panicked while it worked on `path`.
    pub(crate) fn panicked(path: &Path) -> Error {
        Error::Io {
            path: path.to_path_buf(),
            doing: "work on".into(),
            message: "a thread panicked; please report this internal error".into(),
        }
    }

    /// Converts an error of the store on `path`; `doing` completes "cannot ...".
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

/// Whether a path for messages is the URL of a remote file.
pub(crate) fn is_remote(path: &Path) -> bool {
    url_in(path).is_some()
}

/// The URL in a path, if it is one.
pub(crate) fn url_in(path: &Path) -> Option<&str> {
    path.to_str().filter(|name| densite_vfs::is_url(name))
}

/// The directory of a path, or "." for a bare file name.
pub fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// The system's message without the suffix "(os error 5)" that Rust adds.
fn os_words(e: &std::io::Error) -> String {
    if let Some(known) = e.raw_os_error().and_then(disk::too_many_files) {
        return known.to_owned();
    }
    let s = e.to_string();
    match s.find(" (os error") {
        Some(at) => s[..at].to_lowercase(),
        None => s,
    }
}
