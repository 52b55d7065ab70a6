//! Bytes of a stream that are no message which this program reads.

use std::fmt;

/// Why. All members read the same bytes, and decide the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// No member wrote it, or it is damaged: members skip it.
    Foreign(&'static str),
    /// A newer Densite wrote it: older ones stop.
    Newer,
    /// Its checksum is right, but not its contents: members stop.
    Invalid(&'static str),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Newer => f.write_str("a newer Densite wrote it: use that one"),
            Unreadable::Foreign(why) => f.write_str(why),
            Unreadable::Invalid(why) => write!(f, "{why}, although its checksum is right"),
        }
    }
}
