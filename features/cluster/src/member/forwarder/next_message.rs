//! The next message with rows: whole transactions of the log, as many as fit.

use super::Forwarder;
use super::settled::Settled;
use crate::member::SCHEMA;
use crate::member::largest::largest_transaction;
use crate::member::message::{Body, LastTransaction, ROW_BITS};
use densite_ingest::parts::OpenLog;
use densite_log::{Reader, Record, Seq};
use densite_stream::{Error, Result};

/// A message is sent when its rows take this many bytes, before compression. One transaction can
/// take more.
const GOAL: usize = 512 << 10;

/// Rows that were read and not sent.
#[derive(Default)]
pub(super) struct Rows {
    reader: Option<Reader>,
    /// The next transaction.
    next: Vec<Record>,
}

/// What comes next.
pub(super) enum Found {
    Message(Vec<u8>, Seq, LastTransaction),
    /// There are no rows.
    Nothing,
    /// The log is closed.
    Closed,
}

impl Forwarder {
    /// The next message with rows.
    pub(super) fn next(&self, at: &Settled) -> Result<Found> {
        let Some(open) = self.open.upgrade() else {
            return Ok(Found::Closed);
        };
        let mut rows = self.rows.lock();
        let (mut records, mut bytes, mut count) = (Vec::new(), 0, 0);
        let most = largest_transaction(at.max_payload);
        let mut to = at.to;
        loop {
            if rows.next.is_empty() {
                rows.next = self.of_log(read(&mut rows.reader, &open, to))?;
            }
            if rows.next.is_empty() {
                // Numbers that no row has may follow.
                to = to.max(rows.reader.as_ref().map_or(0, Reader::position));
                break;
            }
            let size: usize = rows.next.iter().map(Record::packed_max).sum();
            let more: usize = rows.next.iter().map(|record| record.rows.len()).sum();
            if size > most || more > 1 << ROW_BITS {
                return Err(Error::TooLarge {
                    bytes: size,
                    max: most,
                });
            }
            let is_schema = rows.next.iter().any(|record| record.table.name() == SCHEMA);
            let is_full = bytes + size > GOAL.min(most) || count + more > 1 << ROW_BITS;
            if !records.is_empty() && (is_full || is_schema) {
                break;
            }
            (bytes, count) = (bytes + size, count + more);
            to = rows.next.last().map_or(to, Record::last);
            records.append(&mut rows.next);
            if is_schema {
                break;
            }
        }
        drop(rows);
        drop(open);
        if to == at.to {
            return Ok(Found::Nothing);
        }
        let last = LastTransaction::of(&records).unwrap_or(at.last);
        let bytes = self.message(at.to, to, last, Body::Rows(records))?;
        Ok(Found::Message(bytes, to, last))
    }
}

/// The next transaction behind a row; empty at the end of the log.
fn read(
    reader: &mut Option<Reader>,
    open: &OpenLog,
    after: Seq,
) -> densite_log::Result<Vec<Record>> {
    if reader
        .as_ref()
        .is_none_or(|reader| reader.position() < after)
    {
        *reader = Some(open.log().read_after(after)?);
    }
    let mut records = Vec::new();
    let Some(reader) = reader else {
        return Ok(records);
    };
    while let Some(record) = reader.next()? {
        let is_end = record.ends_transaction;
        records.push(record);
        if is_end {
            break;
        }
    }
    Ok(records)
}
