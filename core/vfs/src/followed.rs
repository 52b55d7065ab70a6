//! What a connection that follows a replica reads.

use std::time::Duration;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Followed {
    /// The URL of the replica, without secrets.
    pub url: String,
    /// The name of the generation that the newest transaction read.
    pub generation: String,
    /// The number of its restore point.
    pub n: u64,
    /// When that was taken, in milliseconds since 1970.
    pub time_ms: u64,
    /// The age of the bucket's last answer.
    pub age: Duration,
    /// How many newer restore points the process knows; `None` if there is a newer generation.
    pub behind: Option<u64>,
}
