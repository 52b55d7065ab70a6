//! The records of a group of transactions, as they are written to a segment at consecutive offsets.

use crate::Result;
use crate::batch::{Appended, Txn};
use crate::format::record_header::{ENDS, Kind, RECORD_LEN, RecordHeader};
use crate::format::word::EndWord;
use densite_disk::File;
use densite_disk::hash::xxh3_64;
use std::collections::HashMap;
use std::sync::Arc;

/// Offsets of tables in a segment, by their bytes.
pub(crate) type Tables = HashMap<Arc<[u8]>, u32>;

/// In a large group, a payload is written directly from the size of the buffer divided by this on.
const DIRECT: usize = 64;
/// The least number of bytes that is written directly.
const LEAST: usize = 16;

/// A group whose records are written.
pub(crate) struct Records {
    /// The end of the log behind the group so far.
    pub(crate) next: EndWord,
    /// How far the segment is synced.
    synced: u32,
    /// Tables that the group writes to the segment.
    pub(crate) tables: Tables,
    /// The rows of each transaction.
    pub(crate) appended: Vec<Appended>,
}

impl Records {
    /// A group of this many transactions behind this end of the log.
    pub(crate) fn behind(next: EndWord, synced: u32, txns: usize) -> Records {
        Records {
            next,
            synced,
            tables: Tables::new(),
            appended: Vec::with_capacity(txns),
        }
    }

    /// Adds the records of a transaction. `known` has the tables that are in the segment already.
    ///
    /// # Errors
    /// Those of writing pieces.
    pub(crate) fn put(
        &mut self,
        txn: &Txn,
        salt: u64,
        known: &Tables,
        pieces: &mut Pieces<'_>,
    ) -> Result<()> {
        let first = self.next.next_seq;
        let mut parts = txn.parts().iter().peekable();
        while let Some(part) = parts.next() {
            let mut header = RecordHeader {
                kind: Kind::Table,
                op: 0,
                codec: 0,
                flags: 0,
                stored_len: 0,
                raw_len: 0,
                count: 0,
                table: 0,
                synced: self.synced,
                first_seq: self.next.next_seq,
                txn: txn.id().0,
                payload_check: 0,
                prev: self.next.check,
                check: 0,
            };
            let bytes = part.table().encoded();
            let table = match known.get(bytes).or_else(|| self.tables.get(bytes)) {
                Some(at) => *at,
                None => {
                    let at = self.next.off as u32;
                    self.tables.insert(bytes.clone(), at);
                    header.payload_check = xxh3_64(bytes);
                    put_record(&mut header, bytes, salt, &mut self.next, pieces)?;
                    at
                }
            };
            header = RecordHeader {
                kind: Kind::Batch,
                op: part.op() as u8,
                codec: part.codec(),
                flags: if parts.peek().is_none() { ENDS } else { 0 },
                raw_len: part.bytes() as u32,
                count: part.len() as u32,
                table,
                payload_check: part.payload_check(),
                prev: self.next.check,
                ..header
            };
            put_record(&mut header, part.payload(), salt, &mut self.next, pieces)?;
            self.next.next_seq += part.len() as u64;
        }
        self.appended.push(Appended {
            first,
            last: self.next.last_seq(),
        });
        Ok(())
    }
}

fn put_record(
    header: &mut RecordHeader,
    payload: &[u8],
    salt: u64,
    next: &mut EndWord,
    pieces: &mut Pieces<'_>,
) -> Result<()> {
    header.stored_len = payload.len() as u32;
    if header.kind == Kind::Table {
        header.raw_len = header.stored_len;
    }
    header.put(salt, next.off, pieces.room(RECORD_LEN)?);
    pieces.put(payload)?;
    next.off += header.padded_len();
    next.check = header.check;
    let padding = next.off - pieces.end();
    pieces.put([0; 8].get(..padding as usize).unwrap_or_default())
}

/// The bytes of a group on their way into a segment, at consecutive offsets.
///
/// A group of the usual size is one write. A larger one, which is a single transaction, takes
/// several, and large payloads are written from their own memory. So writing needs no memory that
/// grows with the transaction. However many writes there were, none of the group counts before the
/// sync.
pub(crate) struct Pieces<'a> {
    file: &'a dyn File,
    /// Collected bytes, and the offset of their write.
    buf: &'a mut Vec<u8>,
    at: u64,
    /// The most bytes to collect.
    most: usize,
    /// At least this many bytes are written directly.
    direct: usize,
}

impl<'a> Pieces<'a> {
    /// For a group of at most `bytes`; `buf` collects up to `most` of them.
    pub(crate) fn new(
        file: &'a dyn File,
        at: u64,
        buf: &'a mut Vec<u8>,
        bytes: u64,
        most: usize,
    ) -> Pieces<'a> {
        buf.clear();
        let is_large = bytes > most as u64;
        Pieces {
            file,
            buf,
            at,
            most,
            direct: match is_large {
                true => (most / DIRECT).max(LEAST),
                false => usize::MAX,
            },
        }
    }

    /// Offset of the next byte. Nothing is written from there on yet.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.buf.len() as u64
    }

    /// Room for this many bytes, which the caller appends in place.
    fn room(&mut self, bytes: usize) -> Result<&mut Vec<u8>> {
        if self.buf.len() + bytes > self.most {
            self.write()?;
        }
        Ok(self.buf)
    }

    /// Adds bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() >= self.direct {
            self.write()?;
            let at = self.at;
            self.at += bytes.len() as u64;
            return Ok(self.file.write_at(bytes, at)?);
        }
        self.room(bytes.len())?.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the collected bytes.
    pub(crate) fn write(&mut self) -> Result<()> {
        let at = self.at;
        self.at += self.buf.len() as u64;
        let written = match self.buf.is_empty() {
            true => Ok(()),
            false => self.file.write_at(self.buf, at),
        };
        self.buf.clear();
        Ok(written?)
    }
}
