//! The number of a row, and the id of a log.

use std::fmt;

/// Number of a row in the log. The first is 1; a position names the last row that was dealt with,
/// so 0 is before the first.
pub type Seq = u64;

/// What ties a log to its database: random, and the same in both.
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
