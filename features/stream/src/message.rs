//! What a stream consists of, and what is known of it.

use crate::Name;
use densite_disk::hash::Xxh3_64;
use std::time::Duration;

/// One message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its place in the total order: 1 is the first message of the stream. There are no gaps.
    pub sequence: u64,
    /// The member that appended it.
    pub origin: Name,
    /// When the stream took it, in nanoseconds since 1970, by the clock of the stream.
    pub time_ns: u64,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl Message {
    /// The position behind this message.
    #[must_use]
    pub fn position(&self) -> Position {
        let mut hash = Xxh3_64::with_seed(self.sequence);
        hash.update(&self.time_ns.to_le_bytes());
        hash.update(self.origin.as_str().as_bytes());
        hash.update(&[0]);
        hash.update(&self.bytes);
        Position {
            sequence: self.sequence,
            mark: hash.digest(),
        }
    }
}

/// How far a reader has read.
///
/// A server that lost acknowledged messages assigns their sequences again. The mark shows that the
/// message at a sequence is no longer the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The sequence of the last message that was read; 0 before the first one.
    pub sequence: u64,
    /// A hash of that message, with its time and origin; 0 before the first one.
    pub mark: u64,
}

impl Position {
    /// Before the first message.
    pub const START: Position = Position {
        sequence: 0,
        mark: 0,
    };
}

/// Which messages a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The sequence of the first message that it still has; `last` + 1 if it has none.
    pub first: u64,
    /// The sequence of the last message; 0 if there was none yet.
    pub last: u64,
}

/// What reading has shown of a stream. An origin that has nothing to append compares this with what
/// it was before: so it need not ask by itself whether the stream still has its last message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// How often reading began, with a check of its position: also after the stream was away or was
    /// replaced.
    pub begun: u64,
    /// How often it asked for the end of the stream.
    pub asked: u64,
    /// The last sequence of the stream when it asked last.
    pub last: u64,
}

/// How much one read returns at most, and how long it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// The number of messages.
    pub messages: usize,
    /// The bytes of their contents together. The first message is returned even if it is larger.
    pub bytes: usize,
    /// How long to wait for the first message.
    pub wait: Duration,
}

/// What an acknowledgement of a stream is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durability {
    /// How many copies of a message there are.
    pub replicas: usize,
    /// When they are synced.
    pub sync: SyncInterval,
}

impl Durability {
    /// Whether an acknowledged message survives a power cut of one machine: it is synced before its
    /// acknowledgement, or two of three machines have it.
    #[must_use]
    pub fn survives_a_power_cut(&self) -> bool {
        self.sync == SyncInterval::Always || self.replicas >= 3
    }
}

/// When a stream syncs what it acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncInterval {
    /// Before the acknowledgement.
    Always,
    /// At this interval: a power cut can lose messages that were acknowledged since.
    Every(Duration),
    /// The stream does not say.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_message_changes_its_mark() {
        let message = Message {
            sequence: 7,
            origin: "a".parse().expect("a name"),
            time_ns: 1,
            bytes: b"rows".to_vec(),
        };
        let change: [fn(&mut Message); 4] = [
            |m| m.sequence = 8,
            |m| m.origin = "b".parse().expect("a name"),
            |m| m.time_ns = 2,
            |m| m.bytes.push(0),
        ];
        for change in change {
            let mut other = message.clone();
            change(&mut other);
            assert_ne!(message.position().mark, other.position().mark, "{other:?}");
        }
    }

    #[test]
    fn one_copy_must_be_synced_before_its_acknowledgement() {
        let minute = SyncInterval::Every(Duration::from_secs(60));
        let survives = |replicas, sync| Durability { replicas, sync }.survives_a_power_cut();
        assert!(survives(1, SyncInterval::Always));
        assert!(!survives(1, minute));
        assert!(!survives(1, SyncInterval::Unknown));
        assert!(survives(3, minute));
    }
}
