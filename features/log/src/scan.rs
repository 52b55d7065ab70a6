//! Walks over the records of a segment.

use crate::Result;
use crate::encoded::room;
use crate::files::Segment;
use crate::format::record_header::{MAX_PAYLOAD, RECORD_LEN, RecordHeader};
use crate::format::{DATA_OFF, SEGMENT_MAX, record_header};
use densite_disk::File;
use densite_disk::hash::xxh3_64;

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// A larger buffer is freed once its record is passed.
const KEPT: usize = 4 << 20;

/// A place between two records of a segment.
pub(crate) struct Walk {
    file: Box<dyn File>,
    salt: u64,
    /// Where the next record begins.
    at: u64,
    /// Check of the record or header before it.
    prev: u64,
    buf: Vec<u8>,
    buf_at: u64,
}

/// The result of a look at the place.
pub(crate) enum Peek {
    /// A valid record.
    Record(RecordHeader),
    /// There is no valid record; the text says why.
    Nothing(&'static str),
}

impl Walk {
    /// Begins at the first record.
    pub(crate) fn new(segment: Segment) -> Walk {
        let prev = segment.header.check();
        Walk::from(segment, DATA_OFF, prev)
    }

    /// Begins at a known record boundary.
    pub(crate) fn from(segment: Segment, at: u64, prev: u64) -> Walk {
        Walk {
            file: segment.file,
            salt: segment.header.salt,
            at,
            prev,
            buf: Vec::new(),
            buf_at: at,
        }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn prev(&self) -> u64 {
        self.prev
    }

    pub(crate) fn file(&self) -> &dyn File {
        self.file.as_ref()
    }

    /// The header of the record here, if it is valid. Does not check the payload and `prev`.
    pub(crate) fn header(&mut self, limit: u64) -> Result<Option<RecordHeader>> {
        let (salt, at) = (self.salt, self.at);
        let head = self.bytes(0, RECORD_LEN, limit)?;
        Ok(head.and_then(|head| RecordHeader::decode(head, salt, at)))
    }

    /// The record here. Bytes from `limit` on are not read, because they may still be written.
    pub(crate) fn peek(&mut self, limit: u64) -> Result<Peek> {
        let (salt, at) = (self.salt, self.at);
        let Some(head) = self.bytes(0, RECORD_LEN, limit)? else {
            return Ok(Peek::Nothing("no room for a record"));
        };
        let Some(header) = RecordHeader::decode(head, salt, at) else {
            return Ok(Peek::Nothing("no valid record header"));
        };
        if header.prev != self.prev {
            return Ok(Peek::Nothing(
                "a record that does not follow the one before it",
            ));
        }
        let Some(payload) = self.bytes(RECORD_LEN, header.stored_len as usize, limit)? else {
            return Ok(Peek::Nothing("a record that ends too late"));
        };
        if xxh3_64(payload) != header.payload_check {
            return Ok(Peek::Nothing("checksum mismatch"));
        }
        Ok(Peek::Record(header))
    }

    /// The payload of the record that [`Walk::header`] found here.
    pub(crate) fn payload(&self, header: &RecordHeader) -> &[u8] {
        let from = (self.at - self.buf_at) as usize + RECORD_LEN;
        self.buf
            .get(from..from + header.stored_len as usize)
            .unwrap_or_default()
    }

    /// Passes the record that [`Walk::header`] found here.
    pub(crate) fn pass(&mut self, header: &RecordHeader) {
        self.at += header.padded_len();
        self.prev = header.check;
        // The memory of one large record is not kept while the reader exists.
        if self.buf.len() > KEPT {
            self.buf = Vec::new();
            self.buf_at = self.at;
        }
    }

    /// Bytes relative to the place, from the buffer or the file; `None` if they do not end before
    /// `limit`.
    fn bytes(&mut self, skip: usize, len: usize, limit: u64) -> Result<Option<&[u8]>> {
        let from = self.at + skip as u64;
        let to = from + len as u64;
        if to > limit {
            return Ok(None);
        }
        if from < self.buf_at || to > self.buf_at + self.buf.len() as u64 {
            // Read from the record's beginning, so that the buffer has header and payload together.
            let want = (skip + len)
                .max(CHUNK)
                .min(usize::try_from(limit - self.at).unwrap_or(CHUNK));
            debug_assert!(want <= MAX_PAYLOAD as usize + RECORD_LEN + CHUNK);
            if self.buf.capacity() < want {
                self.buf = room(want)?;
            }
            self.buf.resize(want, 0);
            self.buf_at = self.at;
            let got = match self.file.read_at(&mut self.buf, self.at) {
                Ok(got) => got,
                Err(e) => {
                    self.buf.clear();
                    return Err(e.into());
                }
            };
            self.buf.truncate(got);
        }
        let from = (from - self.buf_at) as usize;
        Ok(self.buf.get(from..from + len))
    }

    /// Whether the log is damaged here, where [`Walk::header`] found no record. It is if a record
    /// behind this place was written when more than this place was known to be synced: what lies
    /// here was durable once, so it is not a torn tail.
    ///
    /// A concurrent writer can have written both since the place was read. So it is read again once
    /// there is proof.
    pub(crate) fn is_damaged(&mut self) -> Result<bool> {
        if !self.synced_later()? {
            return Ok(false);
        }
        (self.buf, self.buf_at) = (Vec::new(), self.at);
        let len = self.file.len()?.min(SEGMENT_MAX);
        Ok(matches!(self.peek(len)?, Peek::Nothing(_)))
    }

    fn synced_later(&self) -> Result<bool> {
        let mut at = self.at;
        let mut buf = vec![0; CHUNK];
        while at < SEGMENT_MAX {
            let got = self.file.read_at(&mut buf, at)?;
            let Some(bytes) = buf.get(..got).filter(|b| b.len() >= RECORD_LEN) else {
                return Ok(false);
            };
            for (i, window) in bytes.windows(RECORD_LEN).enumerate().step_by(8) {
                if !window.starts_with(record_header::MAGIC) {
                    continue;
                }
                let header = RecordHeader::decode(window, self.salt, at + i as u64);
                if header.is_some_and(|h| u64::from(h.synced) > self.at) {
                    return Ok(true);
                }
            }
            // The next window begins behind the last whole one.
            at += ((got - RECORD_LEN) / 8 * 8 + 8) as u64;
        }
        Ok(false)
    }
}
