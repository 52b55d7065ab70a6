//! The error of this program: a sentence for users.

use std::fmt;
use std::path::Path;

/// The error as a sentence.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

/// A result with this error.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(e: rusqlite::Error) -> Self {
        Failure(format!("SQLite: {e}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(e: serde_json::Error) -> Self {
        Failure(format!("unexpected JSON: {e}"))
    }
}

/// Adds the file or program to an error of the operating system or SQLite.
pub(crate) trait About<T> {
    /// `doing` completes the sentence "cannot ... PATH".
    fn about(self, doing: &str, path: &Path) -> Result<T>;
}

impl<T> About<T> for std::io::Result<T> {
    fn about(self, doing: &str, path: &Path) -> Result<T> {
        self.map_err(|e| Failure(format!("cannot {doing} {}: {e}", path.display())))
    }
}

impl<T> About<T> for rusqlite::Result<T> {
    fn about(self, doing: &str, path: &Path) -> Result<T> {
        self.map_err(|e| Failure(format!("cannot {doing} {}: {e}", path.display())))
    }
}
