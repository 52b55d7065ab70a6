//! Walking over the records of a segment.

use crate::Result;
use crate::encoded::room;
use crate::files::Segment;
use crate::format::record::{MAX_PAYLOAD, RECORD_LEN, RecordHeader};
use crate::format::{DATA_OFF, SEGMENT_MAX, record};
use densite_disk::File;
use densite_disk::hash::xxh3_64;

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// More bytes are not kept once their record is passed.
const KEPT: usize = 4 << 20;

/// A place between two records of a segment.
pub(crate) struct Walk {
    file: Box<dyn File>,
    salt: u64,
    /// Where the next record begins.
    at: u64,
    /// Check of what lies before it.
    prev: u64,
    buf: Vec<u8>,
    buf_at: u64,
}

/// What lies at the place.
pub(crate) enum Peek {
    /// A valid record.
    Record(RecordHeader),
    /// None, and why.
    Nothing(&'static str),
}

impl Walk {
    /// At the first record.
    pub(crate) fn new(segment: Segment) -> Walk {
        let prev = segment.header.check();
        Walk::from(segment, DATA_OFF, prev)
    }

    /// At a place that is known.
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

    /// The header of the record here, if there is one; what it says of its payload is not looked at.
    pub(crate) fn header(&mut self, limit: u64) -> Result<Option<RecordHeader>> {
        let (salt, at) = (self.salt, self.at);
        let head = self.bytes(0, RECORD_LEN, limit)?;
        Ok(head.and_then(|head| RecordHeader::decode(head, salt, at)))
    }

    /// What lies here; nothing from `limit` on is looked at, since it may still be written.
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
        // One large record does not keep its memory for as long as somebody reads.
        if self.buf.len() > KEPT {
            self.buf = Vec::new();
            self.buf_at = self.at;
        }
    }

    /// Bytes relative to the place, read if they are not at hand; `None` if they are not all before `limit`.
    fn bytes(&mut self, skip: usize, len: usize, limit: u64) -> Result<Option<&[u8]>> {
        let from = self.at + skip as u64;
        let to = from + len as u64;
        if to > limit {
            return Ok(None);
        }
        if from < self.buf_at || to > self.buf_at + self.buf.len() as u64 {
            // From the record's beginning, so that header and payload are at hand together.
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

    /// Whether the log is damaged here, where [`Walk::header`] found nothing: a record behind this place was written when more than this place was known to be
    /// synced. Such a record proves that what lies here was durable once: it is no torn tail.
    ///
    /// If a writer is at work, both can have been written since the look. So this place is read again once there is proof.
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
                if !window.starts_with(record::MAGIC) {
                    continue;
                }
                let header = RecordHeader::decode(window, self.salt, at + i as u64);
                if header.is_some_and(|h| u64::from(h.synced) > self.at) {
                    return Ok(true);
                }
            }
            // The next window begins behind the last one that was whole.
            at += ((got - RECORD_LEN) / 8 * 8 + 8) as u64;
        }
        Ok(false)
    }
}
