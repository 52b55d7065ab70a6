//! How large a transaction of a member can be: it is in one message.

use super::message::HEADER_LEN;

/// Bytes of the stream's largest message that are left to its headers.
const MARGIN: usize = HEADER_LEN + 1024;

/// The largest transaction of a member whose stream takes messages of this many bytes.
pub(crate) fn largest_transaction(max_payload: usize) -> usize {
    max_payload.saturating_sub(MARGIN)
}
