//! Turns writes of bytes into written pages.

use super::Transaction;
use crate::bytes::copy_part;
use crate::connection::Connection;
use crate::error::Result;
use crate::format::entry::Entry;
use crate::format::trailer::HEAD_LEN;
use crate::pages::page_at;
use crate::reader::Part;

impl Transaction {
    /// Writes bytes of the database at `offset`.
    ///
    /// # Errors
    /// I/O, a full disk: earlier writes stay, and the call can be repeated.
    pub(crate) fn write_at(
        &mut self,
        connection: &mut Connection,
        buf: &[u8],
        offset: u64,
    ) -> Result<()> {
        let page_size = self.page_size;
        let (mut rest, mut at) = (buf, offset);
        while !rest.is_empty() {
            let page = page_at(at, page_size)?;
            let in_page = (at % u64::from(page_size)) as usize;
            let n = rest.len().min(page_size as usize - in_page);
            let (now, later) = rest.split_at(n);
            if n == page_size as usize {
                let noted = match connection.open.known() {
                    Some(shared) => shared.preencoded.take(page, now),
                    None => None,
                };
                let (bytes, found) = noted.map_or((None, None), |noted| (noted.bytes, noted.found));
                let bytes = bytes.unwrap_or_else(|| self.copy_of(now));
                self.put_page(connection, page, bytes, found)?;
            } else {
                let mut whole = vec![0; page_size as usize];
                self.read(connection, all_of(page, &mut whole))?;
                if let Some(part) = whole.get_mut(in_page..in_page + n) {
                    part.copy_from_slice(now);
                }
                self.put_page(connection, page, whole.into(), None)?;
            }
            rest = later;
            at += n as u64;
            // The length grows only by bytes that were written.
            self.logical_len = self.logical_len.max(at);
        }
        Ok(())
    }

    /// Sets the length of the database in bytes; new bytes read as zeros.
    ///
    /// # Errors
    /// As [`Transaction::write_at`].
    pub(crate) fn set_len(&mut self, connection: &mut Connection, len: u64) -> Result<()> {
        let page_size = u64::from(self.page_size);
        let pages = len.div_ceil(page_size);
        self.pages.cut(pages);
        self.visible = self.visible.min(pages);
        let cut = (len % page_size) as usize;
        let shrinks = len < self.logical_len;
        self.logical_len = len;
        if let Some(gone) = self
            .head
            .get_mut(usize::try_from(len).unwrap_or(HEAD_LEN).min(HEAD_LEN)..)
        {
            gone.fill(0);
        }
        if shrinks && cut != 0 {
            // The part of the page after the cut reads as zeros if the database grows again.
            let page = page_at(len, page_size as u32)?;
            let mut whole = vec![0; page_size as usize];
            let kept = whole.get_mut(..cut).unwrap_or_default();
            self.read(connection, all_of(page, kept))?;
            self.put_page(connection, page, whole.into(), None)?;
        }
        Ok(())
    }

    /// Drops the frame of a page: it reads as zeros from this commit on.
    pub(crate) fn drop_page(&mut self, page: u32) {
        self.pages.store(page, Entry::NONE);
    }

    /// Copies the first bytes of page 1.
    pub(super) fn take_head(&mut self, page_1: &[u8]) {
        copy_part(page_1, 0, &mut self.head);
    }
}

/// A page from its beginning.
pub(super) fn all_of(page: u32, out: &mut [u8]) -> Part<'_> {
    Part { page, at: 0, out }
}
