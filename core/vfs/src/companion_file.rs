//! A journal or WAL that the VFS opens itself: the host's file. Every call goes to the host
//! unchanged. The written pages of a Densite database's WAL are noted, so that the store's pool can
//! encode them before the next checkpoint (`densite_store::PreEncoded`). Correctness does not depend
//! on that.
//!
//! SQLite (`walWriteOneFrame`) writes a frame's header, and then the page behind it. Coalesced writes
//! (`densite_sqlite::coalesced_vfs`) hold several frames. Pages written in any other way are not
//! noted.

use crate::codes::Done;
use densite_sqlite::{Above, HostFile};
use densite_sqlite_format::wal::{FRAME_HEADER_LEN, Frame, page_size};
use densite_store::PreEncoded;
use std::sync::Arc;

/// An open journal or WAL.
pub(crate) struct CompanionFile {
    host: HostFile,
    /// Where the pages of a WAL are noted.
    preencoded: Option<Arc<PreEncoded>>,
    /// Where the page of the last header will be written, and its number.
    expected: Option<(u64, u32)>,
    /// The page size in bytes, from the WAL's header or the newest page; 0 if unknown.
    page: usize,
}

impl CompanionFile {
    pub(crate) fn new(host: HostFile, preencoded: Option<Arc<PreEncoded>>) -> CompanionFile {
        CompanionFile {
            host,
            preencoded,
            expected: None,
            page: 0,
        }
    }

    /// Notes the pages in what was written.
    fn watch(&mut self, preencoded: &Arc<PreEncoded>, buf: &[u8], offset: u64) {
        let expected = self.expected.take();
        match (expected, Frame::parse(buf)) {
            // The WAL's own header: SQLite restarts the WAL, because all of it was checkpointed.
            _ if offset == 0 => {
                preencoded.forget();
                self.page = page_size(buf).unwrap_or(self.page);
            }
            (None, Some(frame)) if buf.len() == FRAME_HEADER_LEN => {
                self.expected = Some((offset + FRAME_HEADER_LEN as u64, frame.page));
            }
            (Some((at, number)), _) if at == offset && buf.len().is_power_of_two() => {
                self.page = buf.len();
                preencoded.note(number, buf);
            }
            (None, Some(_)) if self.page > 0 && buf.len() >= FRAME_HEADER_LEN + self.page => {
                self.watch_frames(preencoded, buf, offset);
            }
            _ => {}
        }
    }

    /// Notes frames that were written together. The last one can be a header alone.
    fn watch_frames(&mut self, preencoded: &Arc<PreEncoded>, buf: &[u8], offset: u64) {
        let frame = FRAME_HEADER_LEN + self.page;
        if !matches!(buf.len() % frame, 0 | FRAME_HEADER_LEN) {
            return;
        }
        for bytes in buf.chunks(frame) {
            let (Some(frame), Some(page)) = (Frame::parse(bytes), bytes.get(FRAME_HEADER_LEN..))
            else {
                return;
            };
            match page.is_empty() {
                true => self.expected = Some((offset + buf.len() as u64, frame.page)),
                false => preencoded.note(frame.page, page),
            }
        }
    }
}

impl Above for CompanionFile {
    fn host(&self) -> &HostFile {
        &self.host
    }

    /// It has no shared memory of its own.
    fn has_shm(&mut self) -> bool {
        false
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        self.host.write(buf, offset)?;
        if let Some(preencoded) = self.preencoded.clone() {
            self.watch(&preencoded, buf, offset);
        }
        Ok(())
    }
}
