//! The number of a row, and the id of a log.

use std::fmt;

/// Number of a row in the log. The first row has number 1. A position is the number of the last row
/// that was processed, so 0 is before the first row.
pub type Seq = u64;

/// Ties a log to its database. It is random, and both store it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
