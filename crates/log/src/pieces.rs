//! The bytes of a group on their way into a segment, at consecutive offsets.
//!
//! A group of the usual size is one write. A larger one, which is a single transaction, takes several, and large payloads
//! are written from where they are: writing needs no memory that grows with the transaction. None of it counts before the
//! sync, however many writes there were.

use crate::Result;
use densite_disk::File;

/// In a large group, payloads of this part of the buffer or more are written by themselves.
const DIRECT: usize = 64;
/// Less is never written by itself.
const LEAST: usize = 16;

/// See the module.
pub(crate) struct Pieces<'a> {
    file: &'a dyn File,
    /// What is collected, and where it goes.
    buf: &'a mut Vec<u8>,
    at: u64,
    /// Bytes that are collected at most.
    most: usize,
    /// As many bytes or more are written by themselves.
    direct: usize,
}

impl<'a> Pieces<'a> {
    /// For a group of at most `bytes`, of which `most` are collected in `buf`.
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

    /// Where the next byte goes. Nothing was written from there on.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.buf.len() as u64
    }

    /// For so many bytes that are made in place.
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

    /// Writes what is collected.
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
