//! Rolling back without space (rule S11).
//!
//! SQLite rolls back by writing pages as its journal has them. The newest commit still has such a
//! page. If the transaction was published before its journal was gone, the commit before the newest
//! one has it: no place that this commit reaches is written again before a durable slot names a
//! later one (rule S9). So once a write has failed, each page that SQLite writes is compared with
//! both, and its entry is that of the frame which is there already. A good transaction compares
//! nothing.

use super::Transaction;
use super::write::all_of;
use super::written::Page;
use crate::chain;
use crate::connection::Connection;
use crate::encode::RESERVED_AT;
use crate::error::{Error, Result};
use crate::format::entry::Entry;
use crate::format::slot;
use crate::format::tip::read_tip;
use crate::format::trailer::DictInfo;
use crate::frame::{self, page_of};
use crate::recover;
use crate::shared::Shared;
use crate::state::State;
use densite_disk::File;
use densite_typed::PageContext;

/// Where the content of a written page already is.
enum Kept {
    /// In the newest commit, which the transaction sees.
    Visible,
    /// In a frame, or nowhere because it is zeros.
    At(Entry),
}

impl Transaction {
    /// A write failed when `page` was written. Succeeds if that page needs no frame.
    ///
    /// # Errors
    /// The failure, if the page needs one.
    pub(super) fn without_space(
        &mut self,
        connection: &mut Connection,
        page: u32,
        error: Error,
    ) -> Result<()> {
        self.failed(&error);
        let mut bytes = vec![0; self.page_size as usize];
        let read = self.read(connection, all_of(page, &mut bytes));
        if self.pressed && read.is_ok() && self.needs_no_frame(connection, page, &bytes) {
            return Ok(());
        }
        Err(error)
    }

    /// Whether a page that SQLite writes is stored already. Then it gets no frame.
    pub(super) fn needs_no_frame(
        &mut self,
        connection: &mut Connection,
        page: u32,
        bytes: &[u8],
    ) -> bool {
        // If the comparison fails, the page gets a frame.
        match self.kept(connection, page, bytes) {
            Ok(Some(Kept::Visible)) => self.pages.forget(page),
            Ok(Some(Kept::At(entry))) => self.pages.store(page, entry),
            Ok(None) | Err(_) => return false,
        }
        true
    }

    /// Replaces a transaction that could not be published by one without frames, if all its pages
    /// are stored already. Returns whether it did.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn needs_no_frames(
        connection: &mut Connection,
        open: &mut Option<Transaction>,
    ) -> Result<bool> {
        // A commit of space reclamation changes no page, and can be given up.
        let Some(full) = open.as_mut().filter(|open| open.pressed && !open.keep_all) else {
            return Ok(false);
        };
        let mut pages: Vec<u32> = full.pages.iter().map(|(page, _)| page).collect();
        // Page 1 tells a rollback from other transactions, which count their changes there.
        pages.sort_unstable();
        let mut bytes = vec![0; full.page_size as usize];
        for page in pages {
            let is_kept = full.pages.get(page).is_some_and(|written| match written {
                Page::Stored(entry) => entry.version != full.commit,
                Page::Held(_) | Page::Sent { .. } => false,
            });
            if is_kept {
                continue;
            }
            full.read(connection, all_of(page, &mut bytes))?;
            if !full.needs_no_frame(connection, page, &bytes) {
                return Ok(false);
            }
        }
        full.void_attempt(connection)?;
        Transaction::cut_file(connection, full.file_len);
        let fresh = full.again_without_frames(connection)?;
        if let Some(full) = open.replace(fresh) {
            full.drop_writes(connection);
        }
        Ok(true)
    }

    /// A transaction with the same changes and nothing appended.
    fn again_without_frames(&mut self, connection: &mut Connection) -> Result<Transaction> {
        let mut fresh = Transaction::begin(connection, self.page_size)?;
        let shared = connection.open.shared()?;
        fresh.page_size = self.page_size;
        fresh.logical_len = self.logical_len;
        fresh.visible = self.visible;
        fresh.head = self.head;
        fresh.file_len = self.file_len;
        fresh.pressed = true;
        fresh.keep_all = true;
        for (page, written) in self.pages.iter() {
            if let Page::Stored(entry) = written {
                fresh.pages.store(page, *entry);
            }
        }
        fresh.before = self.before.take();
        fresh.new_dicts = fresh.missing_dictionaries(&shared);
        Ok(fresh)
    }

    /// Dictionaries that frames of the commit before the newest one need, and the newest one has
    /// dropped.
    fn missing_dictionaries(&self, shared: &Shared) -> Vec<DictInfo> {
        let newest = shared.state.read();
        let before = self.before.iter().flatten();
        let dropped = before.flat_map(|before| before.dicts()).filter(|info| {
            let is_used = |written: &Page| matches!(written, Page::Stored(e) if e.model == info.id);
            newest.dicts().iter().all(|now| now.id != info.id)
                && self.pages.iter().any(|(_, written)| is_used(written))
        });
        // The uses are counted by the pages.
        dropped.map(|info| DictInfo { uses: 0, ..*info }).collect()
    }

    fn kept(
        &mut self,
        connection: &mut Connection,
        page: u32,
        bytes: &[u8],
    ) -> Result<Option<Kept>> {
        let shared = connection.open.shared()?;
        let same_size = shared.state.read().page_size() == self.page_size;
        if same_size && u64::from(page) <= self.visible {
            let mut stored = vec![0; bytes.len()];
            let Connection { open, reader, .. } = &mut *connection;
            reader.read(open, all_of(page, &mut stored), false)?;
            if self.is_same(page, bytes, &stored) {
                return Ok(Some(Kept::Visible));
            }
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Some(Kept::At(Entry::NONE)));
        }
        // The transaction has cut off a page of the newest commit.
        let cut = match same_size && u64::from(page) > self.visible {
            true => shared.lookup(connection.open.file(), &shared.state.read(), page)?,
            false => Entry::NONE,
        };
        if self.has_content(connection, page, &cut, bytes)? {
            return Ok(Some(Kept::At(cut)));
        }
        let before = self.entry_before(connection, &shared, page)?;
        let same = self.has_content(connection, page, &before, bytes)?;
        Ok(same.then_some(Kept::At(before)))
    }

    /// Whether the frame of an entry has the content of a written page.
    fn has_content(
        &self,
        connection: &Connection,
        page: u32,
        entry: &Entry,
        bytes: &[u8],
    ) -> Result<bool> {
        if entry.is_none() {
            return Ok(false);
        }
        let shared = connection.open.shared()?;
        let file = connection.open.file();
        let mut record = vec![0; entry.len as usize];
        let n = file.read_at(&mut record, entry.off)?;
        let record = record.get(..n).unwrap_or_default();
        let run = frame::decode_run(&shared, file, page, entry, bytes.len(), record)?;
        let stored = page_of(&run, entry, bytes.len()).get(..bytes.len());
        Ok(stored.is_some_and(|stored| self.is_same(page, bytes, stored)))
    }

    /// The entry that a page had in the commit before the newest one; [`Entry::NONE`] if that is not
    /// known.
    fn entry_before(
        &mut self,
        connection: &Connection,
        shared: &Shared,
        page: u32,
    ) -> Result<Entry> {
        let file = connection.open.file();
        let page_size = self.page_size;
        let before = self.before.get_or_insert_with(|| {
            let found = before_newest(file, shared).ok().flatten();
            found.filter(|b| b.page_size() == page_size).map(Box::new)
        });
        let Some(before) = before.as_deref().filter(|b| u64::from(page) <= b.pages()) else {
            return Ok(Entry::NONE);
        };
        let entry = shared.lookup(file, before, page)?;
        if entry.model != 0 {
            // The newest commit may have dropped it.
            shared.dictionary(file, before, entry.model)?;
        }
        Ok(entry)
    }

    /// Whether two pages are the same to SQLite. A stored page lacks unallocated bytes, which a page
    /// from SQLite's cache can still have.
    fn is_same(&self, page: u32, bytes: &[u8], stored: &[u8]) -> bool {
        if bytes == stored {
            return true;
        }
        let context = PageContext {
            number: page,
            pages: self.page_count(),
            reserved: usize::from(self.head[RESERVED_AT]),
        };
        let (mut kept, mut old) = (Vec::new(), Vec::new());
        densite_typed::scrub(bytes, &context, &mut kept);
        densite_typed::scrub(stored, &context, &mut old);
        kept == stored || kept == old
    }

    /// Cuts off what a transaction appended that found no space, if it is not published: others need
    /// that space. `len`: the length of the file before.
    pub(super) fn cut_file(connection: &Connection, len: u64) {
        let Some(shared) = connection.open.known() else {
            return;
        };
        let file = connection.open.file();
        let mut writer = shared.writer.lock();
        let (known, end) = {
            let state = shared.state.read();
            (state.tip_raw(), state.tail_off().max(len))
        };
        // If locks do not work, another process can have published behind that.
        if !read_tip(file).is_ok_and(|now| now == known) {
            return;
        }
        // If that fails, the next writer uses the space, or the last close cuts it off.
        if file.len().is_ok_and(|now| now > end) && file.set_len(end).is_ok() {
            writer.durability.file_was_cut(end);
        }
    }
}

/// The commit before the newest one, if its frames cannot have been given away: the database is in
/// a rollback mode, and no slot names the newest commit.
fn before_newest(file: &dyn File, shared: &Shared) -> Result<Option<State>> {
    let newest = shared.state.read().tip();
    let trailer = chain::read_trailer(file, shared.salt, &newest)?;
    let before = recover::load_back(file, shared.salt, &trailer.prev)?;
    let slot = slot::read_slot(file)?;
    let is_named = slot.is_none_or(|(_, slot)| slot.tip.commit >= newest.commit);
    Ok((before.is_in_rollback_mode() && !is_named).then_some(before))
}
