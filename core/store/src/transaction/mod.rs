//! The writes of a handle that are not published yet.
//!
//! Pages are held while they can change again (`written`, `window`). Then the pool encodes them in
//! batches (`collect`), and their frames are appended in order (`place`). So a bulk load takes
//! bounded memory, however large it is: only the entry of each page stays.

mod again;
mod begin;
mod change_page_size;
mod collect;
mod moved;
mod place;
mod settle;
mod supersede;
mod train;
mod undo;
mod window;
mod write;
mod written;

use crate::append::Appender;
use crate::attempt;
use crate::bytes::copy_part;
use crate::connection::Connection;
use crate::encode::Frame;
use crate::error::{Error, Result};
use crate::format::entry::Entry;
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::trailer::{DictInfo, HEAD_LEN, Learned};
use crate::frame::{self, page_of};
use crate::pages::read_pages;
use crate::pool::Task;
use crate::reader::Part;
use crate::shared::Shared;
use crate::state::State;
use again::HeldBack;
use densite_disk::File;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use written::{Held, Page, Written};

/// The writes of one handle since it last published.
pub(crate) struct Transaction {
    pages: Written,
    /// The tip block at the begin.
    tip_before: [u8; TIP_LEN],
    /// The last attempt to publish this, if it was not published and may be whole in the file: see
    /// `attempt`.
    tried: Option<Tip>,
    page_size: u32,
    logical_len: u64,
    /// Only published pages up to this number are still visible, because the database was cut to
    /// this length.
    visible: u64,
    head: [u8; HEAD_LEN],
    learned: Learned,
    inflight: VecDeque<Task<Vec<Frame>>>,
    appender: Appender,
    /// The number that the commit will have, and the version of its frames.
    commit: u64,
    seq: u64,
    new_dicts: Vec<DictInfo>,
    /// Those of them that pages are not encoded with any more.
    superseded: HashSet<u32>,
    /// How many pages were appended with each dictionary or model.
    dict_uses: HashMap<u32, i64>,
    /// Every byte of a page is kept, because it was stored before and may differ from a page that
    /// SQLite has just written.
    keep_all: bool,
    /// A write failed, perhaps because the disk was full. Pages that SQLite then writes back as they
    /// were get no frames: see `undo`.
    pressed: bool,
    /// The commit before the newest one, once it was read; `Some(None)` if that is not possible.
    before: Option<Option<Box<State>>>,
    /// The length of the file at the begin.
    file_len: u64,
    /// Pages that are unchanged, and were written only because their frames were raw.
    settled: HashSet<u32>,
    /// Frames are held back and perhaps encoded again: see `again`.
    holds_back: bool,
    part: HeldBack,
    /// The database was almost empty, and its first part is not complete.
    is_first_part: bool,
    /// Bytes of the pages that were encoded.
    raw_bytes: u64,
    /// Buffers of pages that are encoded, to be reused.
    spare: Vec<Arc<[u8]>>,
}

impl Transaction {
    /// Whether this transaction rolls back and has no frames.
    pub(crate) fn has_no_frames(&self) -> bool {
        self.pressed && self.keep_all && self.appender.written() == 0
    }

    /// The number that the commit will have, and the version of its frames.
    pub(crate) fn number(&self) -> u64 {
        self.commit
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// The length of the database in bytes, with the pending writes.
    pub(crate) fn logical_len(&self) -> u64 {
        self.logical_len
    }

    /// The first bytes of page 1.
    pub(crate) fn head(&self) -> &[u8; HEAD_LEN] {
        &self.head
    }

    /// What the models and dictionaries know of the database.
    pub(crate) fn learned(&self) -> Learned {
        self.learned
    }

    /// Dictionaries that the commit adds.
    pub(crate) fn new_dicts(&self) -> &[DictInfo] {
        &self.new_dicts
    }

    /// The appender of the commit's records.
    pub(crate) fn appender(&mut self) -> &mut Appender {
        &mut self.appender
    }

    /// The tip block at the begin.
    pub(crate) fn tip_before(&self) -> &[u8; TIP_LEN] {
        &self.tip_before
    }

    /// Notes that an attempt to publish this is about to be written, and may then be whole in the
    /// file.
    pub(crate) fn tries(&mut self, tip: Tip) {
        self.tried = Some(tip);
    }

    /// Notes that a write or an attempt failed, perhaps because the disk was full.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.pressed |= error.is_of_disk();
    }

    /// The number of pages of the database, with the pending writes.
    fn page_count(&self) -> u32 {
        u32::try_from(self.logical_len.div_ceil(u64::from(self.page_size))).unwrap_or(u32::MAX)
    }

    /// Whether the page is the same as in the newest commit.
    pub(crate) fn is_untouched(&self, page: u32) -> bool {
        u64::from(page) <= self.visible && !self.pages.contains(page)
    }

    /// Reads part of a page, with the pending writes.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn read(&self, connection: &mut Connection, part: Part<'_>) -> Result<()> {
        let Part { page, at, out } = part;
        match self.pages.get(page) {
            Some(Page::Held(Held { bytes, .. }) | Page::Sent { bytes, .. }) => {
                copy_part(bytes, at, out);
                Ok(())
            }
            Some(Page::Stored(entry)) if entry.is_none() => {
                out.fill(0);
                Ok(())
            }
            Some(Page::Stored(entry)) => {
                let file = connection.open.file();
                let stored = self.appender.read(file, entry.off, entry.len)?;
                let page_size = self.page_size as usize;
                let shared = connection.open.shared()?;
                let raw = frame::decode_run(&shared, file, page, entry, page_size, &stored)?;
                copy_part(page_of(&raw, entry, page_size), at, out);
                Ok(())
            }
            None if u64::from(page) > self.visible => {
                out.fill(0);
                Ok(())
            }
            None => {
                let Connection { open, reader, .. } = connection;
                reader.read(open, Part { page, at, out }, false)
            }
        }
    }

    /// Reads bytes of the database at `offset`, with the pending writes. Returns how many of them
    /// are before its end, and fills the rest of `buf` with zeros.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn read_at(
        &self,
        connection: &mut Connection,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize> {
        let size = (self.logical_len, self.page_size);
        read_pages(buf, offset, size, |part| self.read(connection, part))
    }

    /// The changes of the page map, in order: written pages, and pages that were cut off.
    ///
    /// # Errors
    /// I/O, damage; [`Error::Setting`] for a page that was not stored.
    pub(crate) fn deltas(
        &self,
        shared: &Shared,
        file: &dyn File,
        newest: &State,
    ) -> Result<Vec<(u32, Entry)>> {
        let stored = |(page, written): (u32, &Page)| match written {
            Page::Stored(entry) => Ok((page, *entry)),
            // All pages are stored by now, unless encoding or placing some of them failed. A commit
            // without those would not be what was written.
            Page::Held(_) | Page::Sent { .. } => Err(Error::Setting(format!(
                "page {page} was not stored by an earlier attempt; write it again or roll back the transaction"
            ))),
        };
        let mut deltas: Vec<(u32, Entry)> = self.pages.iter().map(stored).collect::<Result<_>>()?;
        for page in self.visible + 1..=newest.pages() {
            let Ok(page) = u32::try_from(page) else { break };
            if !self.pages.contains(page) && !shared.lookup(file, newest, page)?.is_none() {
                deltas.push((page, Entry::NONE));
            }
        }
        deltas.sort_unstable_by_key(|d| d.0);
        Ok(deltas)
    }

    /// Makes the last attempt void, durably, if its trailer was written. Call it before anything
    /// more is written.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn void_attempt(&mut self, connection: &mut Connection) -> Result<()> {
        if let Some(tried) = &self.tried {
            attempt::void_own(connection, tried, &self.tip_before)?;
            self.tried = None;
        }
        Ok(())
    }

    /// Drops the writes that are not published.
    pub(crate) fn discard(mut self, connection: &mut Connection) {
        // If this fails, the next writer makes the attempt void.
        let is_void = self.void_attempt(connection).is_ok();
        let grown = (self.pressed && is_void).then_some(self.file_len);
        self.drop_writes(connection);
        if let Some(len) = grown {
            Transaction::cut_file(connection, len);
        }
    }

    /// Drops the writes. An attempt to publish them is void already.
    fn drop_writes(self, connection: &Connection) {
        let Some(shared) = connection.open.known() else {
            return;
        };
        for dict in &self.new_dicts {
            shared.dictionaries.forget(dict.id);
        }
        let mut writer = shared.writer.lock();
        writer.attempts.failed();
        if let Some(space) = writer.accounting.space_mut() {
            space.give_back_extents(self.appender.taken(), self.commit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Page;
    use crate::{Handle, Options};
    use densite_disk::{OpenMode, RealFile};

    /// A page as it would be if encoding it had failed.
    #[test]
    fn publishing_fails_if_a_page_has_no_frame() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = RealFile::open(dir.path().join("x.db"), OpenMode::Create).expect("opens");
        let mut handle = Handle::open(Box::new(file), "x", Options::default()).expect("a store");
        handle.write_at(&[1; 4096], 0).expect("writes");
        let lost = Page::Sent {
            seq: 0,
            bytes: [2; 4096].into(),
        };
        let open = handle.parts().1.as_mut().expect("just written");
        open.pages.insert(2, lost);
        let refused = handle.publish().expect_err("a page is missing");
        assert!(refused.to_string().starts_with("page 2 "), "{refused}");
        // After it is written again, publishing succeeds.
        handle.write_at(&[2; 4096], 4096).expect("writes");
        handle.publish().expect("publishes");
        let mut read = [0; 4096];
        handle.read_at(&mut read, 4096).expect("reads");
        assert_eq!(read, [2; 4096]);
    }
}
