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
//!     48     8  check    xxh3 of the body as stored, seeded with the xxh3 of the 48 bytes above
//! ```
//!
//! docs/FORMAT.md, Message of a stream, has the bodies.

use super::unreadable::Unreadable;
use densite_disk::Fields;
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_log::{LogId, Record, Seq, pack_records, unpack_records};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"DMSG";
const VERSION: u8 = 1;
/// Bytes before the body.
pub(crate) const HEADER_LEN: usize = 56;
/// The longest body, bytes, once decoded: a server of NATS takes no longer message.
const BODY_MAX: u32 = 64 << 20;
/// Shorter bodies are not compressed.
const COMPRESSED_FROM: usize = 256;
/// The most rows of a message, as a power of two: a row's number in the stream is the sequence of
/// its message, and its place in these bits.
pub(crate) const ROW_BITS: u32 = 20;

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

/// A message, as a member reads it.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The origin's log.
    pub(crate) log: LogId,
    /// The last row of that log in earlier messages.
    pub(crate) from: Seq,
    /// The last row up to this message.
    pub(crate) to: Seq,
    pub(crate) body: Body,
}

impl Message {
    fn kind(&self) -> u8 {
        match &self.body {
            Body::Rows(_) => 1,
            Body::Joined(_) => 2,
            Body::Left => 3,
            Body::DigestsWanted => 4,
            Body::Digests(_) => 5,
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// As [`pack_records`].
    pub(crate) fn encode(&self) -> densite_log::Result<Vec<u8>> {
        let body = match &self.body {
            Body::Rows(records) => pack_records(records)?,
            Body::Joined(joined) => serde_json::json!(joined).to_string().into_bytes(),
            Body::Digests(digests) => serde_json::json!(digests).to_string().into_bytes(),
            Body::Left | Body::DigestsWanted => b"{}".to_vec(),
        };
        let smaller = match body.len() >= COMPRESSED_FROM {
            true => zstd::bulk::compress(&body, 1).ok(),
            false => None,
        };
        let smaller = smaller.filter(|smaller| smaller.len() < body.len() - body.len() / 8);
        let (codec, stored) = match &smaller {
            Some(smaller) => (1, smaller),
            None => (0, &body),
        };
        let mut out = Vec::with_capacity(HEADER_LEN + stored.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, self.kind(), codec, 0]);
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.log.0);
        out.extend_from_slice(&self.from.to_le_bytes());
        out.extend_from_slice(&self.to.to_le_bytes());
        let check = xxh3_64_with_seed(stored, xxh3_64(&out));
        out.extend_from_slice(&check.to_le_bytes());
        out.extend_from_slice(stored);
        Ok(out)
    }

    /// Reads a message. The header of every version has `magic`, `version` and `check` at these
    /// places, so what is no message of Densite is told from one of a newer Densite.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, Unreadable> {
        let mut take = Fields::new(bytes);
        if !bytes.starts_with(MAGIC) {
            return Err(Unreadable::Foreign("it is no message of Densite"));
        }
        let wrong = Unreadable::Foreign("it is too short");
        let head = bytes.get(..HEADER_LEN - 8).ok_or(wrong)?;
        take.bytes(4);
        let (version, kind) = (take.u8().ok_or(wrong)?, take.u8().ok_or(wrong)?);
        let (codec, _) = (take.u8().ok_or(wrong)?, take.u8().ok_or(wrong)?);
        let (raw_len, _) = (take.u32().ok_or(wrong)?, take.u32().ok_or(wrong)?);
        let log = take
            .bytes(16)
            .and_then(|b| b.try_into().ok())
            .ok_or(wrong)?;
        let (from, to) = (take.u64().ok_or(wrong)?, take.u64().ok_or(wrong)?);
        let check = take.u64().ok_or(wrong)?;
        let stored = take.rest();
        if xxh3_64_with_seed(stored, xxh3_64(head)) != check {
            return Err(Unreadable::Foreign("its checksum is wrong"));
        }
        if version != VERSION {
            return Err(Unreadable::Newer);
        }
        if raw_len > BODY_MAX || from > to {
            return Err(Unreadable::Invalid("its header is not valid"));
        }
        let raw = match codec {
            0 => stored.to_vec(),
            1 => unpacked(stored, raw_len)?,
            _ => return Err(Unreadable::Newer),
        };
        if raw.len() != raw_len as usize {
            return Err(Unreadable::Invalid(
                "its body has another length than it says",
            ));
        }
        let json = Unreadable::Invalid("its body is not valid");
        let no_rows = Unreadable::Invalid("its rows are not valid");
        let body = match kind {
            1 => Body::Rows(rows(&raw, from, to).ok_or(no_rows)?),
            2 => Body::Joined(serde_json::from_slice(&raw).map_err(|_| json)?),
            3 => Body::Left,
            4 => Body::DigestsWanted,
            5 => Body::Digests(serde_json::from_slice(&raw).map_err(|_| json)?),
            _ => return Err(Unreadable::Newer),
        };
        Ok(Message {
            log: LogId(log),
            from,
            to,
            body,
        })
    }
}

fn unpacked(stored: &[u8], raw_len: u32) -> Result<Vec<u8>, Unreadable> {
    let wrong = Unreadable::Invalid("its body cannot be decoded");
    // Comparing bounds the memory by what the bytes decode to.
    match zstd::zstd_safe::get_frame_content_size(stored) {
        Ok(Some(len)) if len == u64::from(raw_len) => {}
        _ => return Err(wrong),
    }
    zstd::bulk::decompress(stored, raw_len as usize).map_err(|_| wrong)
}

/// The records of a body, which are whole transactions with numbers in this range. There are none if
/// the numbers are those of transactions that were rolled back.
fn rows(raw: &[u8], from: Seq, to: Seq) -> Option<Vec<Record>> {
    let records = unpack_records(raw)?;
    if records.is_empty() {
        return Some(records);
    }
    let in_range = records.first()?.first > from && records.last()?.last() <= to;
    let rows: usize = records.iter().map(|record| record.rows.len()).sum();
    let is_whole = records.last()?.ends_transaction && rows <= 1 << ROW_BITS;
    (in_range && is_whole).then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_format_doc::{Tables, le4, le8};
    use densite_log::{Batch, Op, Table, TxnId, Value};

    fn record(first: Seq, rows: usize, ends_transaction: bool) -> Record {
        let table = Table::new("vote", ["id", "name"], 1, []).expect("a table");
        let mut batch = Batch::new(&table, Op::Insert);
        for i in 0..rows {
            let text = Value::Text(b"the same text for each row");
            batch.push(&[Value::Int(i as i64), text]).expect("a row");
        }
        Record {
            first,
            skip: 0,
            txn: TxnId(1),
            ends_transaction,
            rows: batch.rows().expect("rows"),
            table,
            op: Op::Insert,
        }
    }

    fn message(body: Body) -> Message {
        Message {
            log: LogId([7; 16]),
            from: 4,
            to: 40,
            body,
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let bytes = message(Body::Left).encode().expect("it is encoded");
        let (header, body) = bytes.split_at(HEADER_LEN);
        assert_eq!(body, b"{}");
        let tables = Tables::of("ingest table");
        tables.check_module("message", include_str!("message.rs"));
        tables.check(
            "message",
            header,
            &[
                ("magic", MAGIC.to_vec()),
                ("version", vec![1]),
                ("kind", vec![3]),
                ("codec", vec![0]),
                ("zeros", vec![0]),
                ("raw_len", le4(2)),
                ("zeros", vec![0; 4]),
                ("log", vec![7; 16]),
                ("from", le8(4)),
                ("to", le8(40)),
                (
                    "check",
                    le8(xxh3_64_with_seed(body, xxh3_64(&header[..48]))),
                ),
            ],
        );
    }

    #[test]
    fn messages_come_back() {
        let bodies = [
            Body::Rows(vec![record(5, 2, false), record(7, 30, true)]),
            Body::Rows(vec![]),
            Body::Joined(Joined {
                is_empty: true,
                applied: 7,
            }),
            Body::Left,
            Body::DigestsWanted,
            Body::Digests(Digests {
                message: 9,
                tables: [("vote".to_owned(), "ab".to_owned())].into(),
            }),
        ];
        for body in bodies {
            let sent = message(body);
            let bytes = sent.encode().expect("it is encoded");
            let found = Message::decode(&bytes).expect("a message");
            assert_eq!((found.log, found.from, found.to), (sent.log, 4, 40));
            match (&sent.body, &found.body) {
                (Body::Rows(sent), Body::Rows(found)) => {
                    let packed = pack_records(sent).expect("packed").len();
                    assert!(sent.is_empty() || bytes.len() < packed);
                    let numbers = |r: &[Record]| -> Vec<_> {
                        r.iter()
                            .map(|r| (r.first, r.rows.len(), r.ends_transaction))
                            .collect()
                    };
                    assert_eq!(numbers(sent), numbers(found));
                }
                (sent, found) => assert_eq!(format!("{sent:?}"), format!("{found:?}")),
            }
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 4;
                assert!(Message::decode(&other).is_err(), "byte {at}");
                assert!(Message::decode(&bytes[..at]).is_err(), "{at} bytes");
            }
        }
    }

    #[test]
    fn a_newer_message_is_told_from_one_that_is_not_densites() {
        let bytes = message(Body::Left).encode().expect("it is encoded");
        let changed = |at: usize, value: u8, is_whole: bool| {
            let mut other = bytes.clone();
            other[at] = value;
            if is_whole {
                let (head, body) = other.split_at(HEADER_LEN);
                let check = xxh3_64_with_seed(body, xxh3_64(&head[..48]));
                other[48..56].copy_from_slice(&check.to_le_bytes());
            }
            Message::decode(&other).map(drop)
        };
        for (at, value) in [(4, 2), (5, 6), (6, 2)] {
            assert_eq!(
                changed(at, value, true),
                Err(Unreadable::Newer),
                "byte {at}"
            );
            let found = changed(at, value, false);
            assert!(matches!(found, Err(Unreadable::Foreign(_))), "byte {at}");
        }
        let found = changed(39, 1, true);
        assert!(matches!(found, Err(Unreadable::Invalid(_))), "{found:?}");
        for other in [&b""[..], b"hello", b"DMSG\x02"] {
            let found = Message::decode(other).map(drop);
            assert!(matches!(found, Err(Unreadable::Foreign(_))), "{found:?}");
        }
    }

    #[test]
    fn rows_outside_of_the_range_and_parts_of_transactions_are_refused() {
        for records in [
            vec![record(4, 1, true)],
            vec![record(40, 2, true)],
            vec![record(5, 1, false)],
        ] {
            let bytes = message(Body::Rows(records)).encode().expect("encoded");
            assert!(Message::decode(&bytes).is_err());
        }
    }
}
