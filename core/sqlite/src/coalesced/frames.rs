//! Frames of a WAL that are not written yet: one contiguous range of the file.

use densite_sqlite_format::wal::{self, FRAME_HEADER_LEN, Frame, HEADER_LEN};
use std::ops::Range;

/// The most that is collected, in bytes. SQLite's unix VFS uses only the low 17 bits of a length,
/// and SQLite itself never writes more at once.
const MOST: usize = 1 << 16;

/// Collected frames; see the parent module. At most [`MOST`] bytes: whole frames, or whole frames
/// and a header whose page follows.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// Their offset in the file.
    at: u64,
    /// The page size in bytes; 0 if unknown.
    page: usize,
    /// The last item is a header without its page.
    wants_page: bool,
}

/// What to do with a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Nothing: it is collected.
    Collected,
    /// Write it to the file.
    Through,
    /// Write the collected frames to the file first, then ask again.
    FlushFirst,
}

/// What to do with a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Nothing: it is answered.
    Answered,
    /// Read it from the file.
    File,
    /// Write the collected frames to the file first, then read from the file.
    FlushFirst,
}

impl Frames {
    /// Whether the page size is known.
    pub(super) fn knows_pages(&self) -> bool {
        self.page != 0
    }

    /// Takes the page size from the WAL's own header.
    pub(super) fn learn(&mut self, header: &[u8]) {
        self.page = wal::page_size(header).unwrap_or(0);
    }

    /// The collected bytes and their offset; `None` if there are none.
    pub(super) fn pending(&self) -> Option<(&[u8], u64)> {
        (!self.bytes.is_empty()).then_some((self.bytes.as_slice(), self.at))
    }

    /// Drops the collected bytes: they are in the file, or no longer needed.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.wants_page = false;
    }

    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn meets(&self, offset: u64, len: usize) -> bool {
        offset < self.end() && self.at < offset.saturating_add(len as u64)
    }

    /// The range of these bytes within the collected ones, if all of them are collected.
    fn place(&self, offset: u64, len: usize) -> Option<Range<usize>> {
        let from = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.bytes.len()).then_some(from..to)
    }

    /// Whether a write is the header of a frame; if so, whether that frame commits.
    fn header(&self, buf: &[u8], offset: u64) -> Option<bool> {
        let frame = (FRAME_HEADER_LEN + self.page) as u64;
        let behind = offset.checked_sub(HEADER_LEN as u64)?;
        if self.page == 0 || buf.len() != FRAME_HEADER_LEN || behind % frame != 0 {
            return None;
        }
        Frame::parse(buf).map(|frame| frame.commit != 0)
    }

    /// Decides about a write to the WAL and collects it if possible.
    pub(super) fn write(&mut self, buf: &[u8], offset: u64) -> Write {
        let through = |this: &Self| match this.bytes.is_empty() {
            true => Write::Through,
            false => Write::FlushFirst,
        };
        let header = self.header(buf, offset);
        if header == Some(true) || offset < HEADER_LEN as u64 {
            return through(self);
        }
        // A frame that SQLite writes again before it is in the file.
        if let Some(place) = self.place(offset, buf.len()) {
            if let Some(old) = self.bytes.get_mut(place) {
                old.copy_from_slice(buf);
            }
            return Write::Collected;
        }
        let follows = !self.bytes.is_empty() && offset == self.end();
        if follows && self.wants_page && buf.len() == self.page {
            self.bytes.extend_from_slice(buf);
            self.wants_page = false;
            return Write::Collected;
        }
        let fits = |len: usize| len + FRAME_HEADER_LEN + self.page <= MOST;
        if header.is_some() && !self.wants_page && fits(self.bytes.len()) {
            if self.bytes.is_empty() {
                self.at = offset;
            }
            if self.bytes.is_empty() || follows {
                self.bytes.extend_from_slice(buf);
                self.wants_page = true;
                return Write::Collected;
            }
        }
        match header.is_none() && !self.meets(offset, buf.len()) {
            true => Write::Through,
            false => through(self),
        }
    }

    /// Decides about a read of the WAL and answers it if possible.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> Read {
        if self.bytes.is_empty() || !self.meets(offset, buf.len()) {
            return Read::File;
        }
        match self
            .place(offset, buf.len())
            .and_then(|p| self.bytes.get(p))
        {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Read::Answered
            }
            None => Read::FlushFirst,
        }
    }
}
