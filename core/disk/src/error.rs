//! Errors of a disk, classified by what the caller can do about them.

use rustix::io::Errno;
use std::fmt;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Opening or creating a file.
    Open,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Changing a file's length.
    Truncate,
    /// Making a file or directory durable.
    Sync,
    /// Asking for a file's length.
    Len,
    /// Removing a file.
    Remove,
    /// Renaming a file.
    Rename,
    /// Listing or probing a directory.
    List,
    /// Taking or giving up a lock.
    Lock,
}

/// What the caller can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The disk (or quota) is full: free space and try again.
    Full,
    /// There is no such file.
    NotFound,
    /// The file to be created exists already.
    Exists,
    /// Not permitted, or a read-only file or file system.
    Permission,
    /// The name belongs to a directory, a pipe, a device or a link, not to a regular file.
    NotAFile,
    /// The name belongs to a file or a link, not to a directory.
    NotADirectory,
    /// The process or the system has too many open files.
    TooManyFiles,
    /// The device failed (EIO) or anything not named above.
    Io,
}

/// What is wrong and what to do, if `errno` says that a file could not be opened because too many
/// are open.
pub fn too_many_files(errno: i32) -> Option<&'static str> {
    // A host that sets no errno leaves 0, which `Errno` cannot have.
    if errno == Errno::MFILE.raw_os_error() {
        Some("the process has too many open files; close some, or raise its limit with ulimit -n")
    } else if errno == Errno::NFILE.raw_os_error() {
        Some(
            "the system has too many open files; end programs that hold many, or raise the system's limit (Linux: sysctl fs.file-max)",
        )
    } else {
        None
    }
}

/// A failed call: which one, what the caller can do, and the host's own code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// The call that failed.
    pub op: Op,
    /// The host's code: an errno from the real disk, a SQLite result code from a host VFS.
    pub code: Option<i32>,
}

impl Error {
    /// An error without a host code.
    pub fn new(kind: ErrorKind, op: Op) -> Self {
        Error {
            kind,
            op,
            code: None,
        }
    }

    /// Classifies an error of the standard library.
    pub fn from_io(op: Op, e: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let kind = match e.kind() {
            K::NotFound => ErrorKind::NotFound,
            K::AlreadyExists => ErrorKind::Exists,
            K::PermissionDenied | K::ReadOnlyFilesystem => ErrorKind::Permission,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => ErrorKind::Full,
            _ if e.raw_os_error().and_then(too_many_files).is_some() => ErrorKind::TooManyFiles,
            _ => ErrorKind::Io,
        };
        Error {
            kind,
            op,
            code: e.raw_os_error(),
        }
    }
}

impl Error {
    /// What is wrong, for users: without the call and its code.
    #[must_use]
    pub fn problem(&self) -> &'static str {
        match self.kind {
            ErrorKind::Full => "the disk is full",
            ErrorKind::NotFound => "no such file",
            ErrorKind::Exists => "the file exists already",
            ErrorKind::Permission => "permission denied or read-only",
            ErrorKind::NotAFile => "not a regular file",
            ErrorKind::NotADirectory => {
                "a file or a link, not a directory of Densite's; if another program made it, move it away"
            }
            ErrorKind::TooManyFiles => {
                let known = self.code.and_then(too_many_files);
                known.unwrap_or("too many files are open; close some")
            }
            ErrorKind::Io => "input/output error",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.problem();
        if self.kind == ErrorKind::TooManyFiles {
            return f.write_str(what);
        }
        write!(f, "{what} ({:?}", self.op)?;
        if let Some(code) = self.code {
            write!(f, ", code {code}")?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Error {}
