//! Bytes as a message. Any bytes are a message, or an error that says whose fault it is.

use super::{Body, HEADER_LEN, LastTransaction, MAGIC, Message, ROW_BITS, VERSION};
use crate::member::unreadable::Unreadable;
use densite_disk::Fields;
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_log::{LogId, Record, Seq, unpack_records};

/// The longest body, bytes, once decoded: a server of NATS takes no longer message.
const BODY_MAX: u32 = 64 << 20;

impl Message {
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
        let last = LastTransaction {
            row: take.u64().ok_or(wrong)?,
            txn: take.u64().ok_or(wrong)?,
        };
        let check = take.u64().ok_or(wrong)?;
        let stored = take.rest();
        if xxh3_64_with_seed(stored, xxh3_64(head)) != check {
            return Err(Unreadable::Foreign("its checksum is wrong"));
        }
        if version != VERSION {
            return Err(Unreadable::Newer);
        }
        if raw_len > BODY_MAX || from > to || last.row > to {
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
            last,
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
