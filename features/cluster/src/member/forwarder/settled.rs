//! Where an origin is in the stream, as its forwarder knows it.

use crate::member::message::LastTransaction;
use densite_log::Seq;
use densite_stream::Seen;
use std::time::{Duration, Instant};

/// How often an origin without rows to send asks whether the stream still has its last message. Its
/// reader notices nearly every loss before.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

/// See the module.
pub(super) struct Settled {
    /// The sequence of its last message; 0: there is none.
    pub(super) sequence: u64,
    /// Rows up to this one are in the stream.
    pub(super) to: Seq,
    /// The last transaction up to `to`.
    pub(super) last: LastTransaction,
    /// When its last message with rows began, if this process sent one.
    pub(super) begun: Option<Instant>,
    /// The largest message of the stream, bytes.
    pub(super) max_payload: usize,
    /// When this was found out.
    pub(super) at: Instant,
    /// What the reader had seen then.
    pub(super) seen: Seen,
}

impl Settled {
    /// Whether the stream can have lost the last message since: the reader had to begin again, or
    /// saw an earlier end.
    pub(super) fn is_doubtful(&mut self, seen: Seen) -> bool {
        let before = std::mem::replace(&mut self.seen, seen);
        let is_shorter = seen.asked != before.asked && seen.last < self.sequence;
        seen.begun != before.begun || is_shorter || self.at.elapsed() >= CHECK_EVERY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_asks_again_when_its_reader_has_seen_a_loss() {
        let mut settled = Settled {
            sequence: 7,
            to: 1,
            last: LastTransaction::default(),
            begun: None,
            max_payload: 1,
            at: Instant::now(),
            seen: Seen::default(),
        };
        let seen = |begun, asked, last| Seen { begun, asked, last };
        assert!(!settled.is_doubtful(seen(0, 0, 0)), "nothing was asked");
        assert!(!settled.is_doubtful(seen(0, 1, 7)));
        assert!(!settled.is_doubtful(seen(0, 2, 9)), "others appended");
        assert!(settled.is_doubtful(seen(0, 3, 6)), "it is shorter");
        assert!(!settled.is_doubtful(seen(0, 3, 6)), "known");
        assert!(settled.is_doubtful(seen(1, 3, 6)), "another connection");
    }
}
