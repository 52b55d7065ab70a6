//! Classes of errors by what a caller can do.

use super::Error;

/// What a caller can do about an error. More classes can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// Another connection or process holds a lock: try again later.
    Locked,
    /// There is too little disk space: free some.
    NoSpace,
    /// The file is damaged or of another kind: restore it, or name another file.
    Damaged,
    /// The caller cancelled the work. Its changes were undone.
    Interrupted,
    /// Anything else: the message says what to do.
    Other,
}

impl Error {
    /// What a caller can do about this error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Locked { .. } => ErrorClass::Locked,
            Error::NoSpace { .. } => ErrorClass::NoSpace,
            Error::IsDirectory { .. }
            | Error::NotADatabase { .. }
            | Error::OtherFormat { .. }
            | Error::Damaged { .. }
            | Error::FreePagesInUse { .. }
            | Error::Replica { .. } => ErrorClass::Damaged,
            #[cfg(feature = "chroma")]
            Error::NotChroma { .. } => ErrorClass::Damaged,
            Error::Interrupted { .. } => ErrorClass::Interrupted,
            Error::Log { kind, .. } => match *kind {
                "locked" => ErrorClass::Locked,
                "no_space" => ErrorClass::NoSpace,
                "damaged" => ErrorClass::Damaged,
                _ => ErrorClass::Other,
            },
            Error::NotFound { .. }
            | Error::Permission { .. }
            | Error::AlreadyCompressed { .. }
            | Error::AlreadyPlain { .. }
            | Error::Exists { .. }
            | Error::SeveralLinks { .. }
            | Error::KnownProgram { .. }
            | Error::Larger { .. }
            | Error::NewerFormat { .. }
            | Error::Unsupported(_)
            | Error::Setting(_)
            | Error::Io { .. }
            | Error::Remote { .. }
            | Error::NoLog { .. }
            | Error::Sqlite { .. } => ErrorClass::Other,
        }
    }
}
