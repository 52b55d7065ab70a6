//! The bytes of a group on their way into a segment, at consecutive offsets.
//!
//! A group of the usual size is one write. A larger one, which is a single transaction, takes
//! several, and large payloads are written from their own memory. So writing needs no memory that
//! grows with the transaction. However many writes there were, none of the group counts before the
//! sync.

use crate::Result;
use densite_disk::File;

/// In a large group, a payload is written directly from the size of the buffer divided by this on.
const DIRECT: usize = 64;
/// The least number of bytes that is written directly.
const LEAST: usize = 16;

/// See the module.
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
    pub(crate) fn room(&mut self, bytes: usize) -> Result<&mut Vec<u8>> {
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
