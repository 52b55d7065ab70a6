//! Encodes pages that have raw frames because they were hot (`heat`).

use super::Transaction;
use super::written::Page;
use crate::codec::CodecId;
use crate::connection::Connection;
use crate::error::Result;
use crate::format::entry::Entry;
use crate::reader::Part;
use crate::shared::Shared;

/// A commit also encodes one quiet page for so many that it has anyway, unless it is small.
const PART: usize = 4;
const SMALL: usize = 64;

impl Transaction {
    /// Writes the commit's share of quiet pages again.
    ///
    /// # Errors
    /// I/O, a full disk, damage.
    pub(crate) fn settle_share(&mut self, connection: &mut Connection) -> Result<()> {
        if self.keep_all || self.pressed || self.pages.len() < SMALL {
            return Ok(());
        }
        let shared = connection.open.shared()?;
        let due = shared.preencoded.heat.due(self.pages.len() / PART, false);
        self.settle(connection, &due)
    }

    /// Writes these pages again if they still have the raw frames of these versions.
    ///
    /// # Errors
    /// I/O, a full disk, damage.
    pub(crate) fn settle(&mut self, connection: &mut Connection, due: &[(u32, u64)]) -> Result<()> {
        let shared = connection.open.shared()?;
        for (page, version) in due.iter().copied() {
            if self.pages.contains(page) {
                continue;
            }
            let entry = shared.lookup(connection.open.file(), &shared.state.read(), page)?;
            let visible = u64::from(page) <= self.visible;
            if !visible || entry.version != version || entry.codec != CodecId::RAW.0 {
                shared.preencoded.heat.forget(page);
                continue;
            }
            let mut bytes = vec![0; self.page_size as usize];
            let Connection { open, reader, .. } = &mut *connection;
            let out = &mut bytes;
            reader.read(open, Part { page, at: 0, out }, false)?;
            self.settled.insert(page);
            self.put_page(connection, page, bytes.into(), None)?;
        }
        Ok(())
    }

    /// Notes in the commit how many pages have raw frames.
    pub(crate) fn count_hot(&mut self, shared: &Shared) {
        if self.keep_all {
            return;
        }
        let before = shared.state.read().learned().hot;
        let settled = |page| self.settled.contains(&page);
        self.learned.hot = (shared.preencoded.heat).hot_after(before, self.frames(), settled);
    }

    /// Notes which pages the commit has written, now that it is published.
    pub(crate) fn note_heat(&self, shared: &Shared) {
        if self.keep_all {
            return;
        }
        let settled = |page| self.settled.contains(&page);
        let file_pages = shared.state.read().tail_off() / u64::from(self.page_size.max(1));
        (shared.preencoded.heat).committed(file_pages, self.frames(), settled);
    }

    /// The new frames, with their pages.
    fn frames(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.pages
            .iter()
            .filter_map(|(page, written)| match written {
                Page::Stored(entry) => Some((page, entry)),
                Page::Held(_) | Page::Sent { .. } => None,
            })
    }
}
