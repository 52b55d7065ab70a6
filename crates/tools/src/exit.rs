//! The exit codes of the command, which are also the codes that the C API answers.

use crate::Error;

/// The exit code for an error: 1 error, 3 locked, 4 no space, 5 damaged or not a database. (0 is
/// success; 2, usage, and 6, an answer "no", are the command's own.) An interrupted run is 130, as
/// in shells.
pub fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Locked { .. } => 3,
        Error::NoSpace { .. } => 4,
        Error::IsDirectory { .. } | Error::NotADatabase { .. } | Error::Damaged { .. } => 5,
        #[cfg(feature = "chroma")]
        Error::NotChroma { .. } => 5,
        Error::Interrupted { .. } => 130,
        Error::Log { kind, .. } => match *kind {
            "locked" => 3,
            "no_space" => 4,
            "damaged" => 5,
            _ => 1,
        },
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
