//! The messages that members send each other.
//!
//! ```text
//! offset  size  field
//!      0     4  magic    "DMSG"
//!      4     1  version  format version, 1
//!      5     1  kind     1 rows, 2 joined, 3 left, 4 digests wanted, 5 digests
//!      6     1  codec    of the body: 0 raw, 1 zstd
//!      7     1  zeros
//!      8     4  raw_len  bytes of the body once decoded
//!     12     4  zeros
//!     16    16  log      id of the origin's log
//!     32     8  from     number of the last row of that log in earlier messages
//!     40     8  to       number of the last row up to this message; not of kind rows: from
//!     48     8  last_row  number of the last row that this log has up to `to`; 0: none is known
//!     56     8  last_txn  id of its transaction
//!     64     8  check    xxh3 of the body as stored, seeded with the xxh3 of the 64 bytes above
//! ```
//!
//! docs/FORMAT.md, Message of a stream, has the bodies.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use densite_log::{LogId, Record, Seq};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"DMSG";
const VERSION: u8 = 1;
/// Bytes before the body.
pub(crate) const HEADER_LEN: usize = 72;
/// The most rows of a message, as a power of two: a row's number in the stream is the sequence of
/// its message, and its place in these bits.
pub(crate) const ROW_BITS: u32 = 20;

/// The log of a message that names none: earlier versions sent some while the log was being closed.
/// Such a message is of the log that its origin named before. No message is sent so any more.
pub(crate) const NO_LOG: LogId = LogId([0; 16]);

/// What a message is about.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Rows of the origin's log: whole transactions.
    Rows(Vec<Record>),
    /// The origin became a member.
    Joined(Joined),
    /// The origin is no member any more.
    Left,
    /// Each member computes the digests of its tables at this message, and sends them.
    DigestsWanted,
    /// The digests of the origin's tables.
    Digests(Digests),
}

/// See [`Body::Joined`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Joined {
    /// The database had no tables.
    pub(crate) is_empty: bool,
    /// It begins behind this message: it needs none below.
    #[serde(default)]
    pub(crate) applied: u64,
}

/// See [`Body::Digests`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digests {
    /// The sequence of the message that wanted them.
    pub(crate) message: u64,
    /// For each table its digest.
    pub(crate) tables: BTreeMap<String, String>,
}

/// The last transaction of a log up to a row. Ids of transactions are random, so a log that has this
/// one has all before it, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LastTransaction {
    /// Its last row; 0: none is known.
    pub(crate) row: Seq,
    /// Its id.
    pub(crate) txn: u64,
}

impl LastTransaction {
    /// The transaction of the last one of these records; `None`: there are none.
    pub(crate) fn of(records: &[Record]) -> Option<LastTransaction> {
        records.last().map(|record| LastTransaction {
            row: record.last(),
            txn: record.txn.0,
        })
    }
}

/// A message, as a member reads it.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The origin's log.
    pub(crate) log: LogId,
    /// The last row of that log in earlier messages.
    pub(crate) from: Seq,
    /// The last row up to this message.
    pub(crate) to: Seq,
    /// The last transaction of that log up to `to`.
    pub(crate) last: LastTransaction,
    pub(crate) body: Body,
}
