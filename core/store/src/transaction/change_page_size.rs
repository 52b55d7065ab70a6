//! Changing the page size.

use super::Transaction;
use crate::connection::Connection;
use crate::error::Result;
use densite_sqlite_format::header::page_size;
use std::collections::HashMap;

impl Transaction {
    /// Writes all pages again within this commit if page 1 has another page size than the store.
    /// That happens after VACUUM with a new page size, or if the first write was not a page.
    ///
    /// # Errors
    /// I/O, a full disk, damage.
    pub(crate) fn regrain(&mut self, connection: &mut Connection) -> Result<()> {
        let new = page_size(&self.head).unwrap_or(self.page_size);
        if new == self.page_size || self.logical_len == 0 {
            return Ok(());
        }
        let old_size = u64::from(self.page_size);
        let len = self.logical_len;
        let mut fresh = HashMap::new();
        // Memory is bounded: pages are encoded and appended one by one, and only the new entries
        // are collected.
        let mut buf = vec![0; new as usize];
        for page in 1..=len.div_ceil(u64::from(new)) {
            let start = (page - 1) * u64::from(new);
            let n = usize::try_from((len - start).min(u64::from(new))).unwrap_or(0);
            self.read_at(connection, buf.get_mut(..n).unwrap_or_default(), start)?;
            buf.get_mut(n..).unwrap_or_default().fill(0);
            let is_zero = buf.iter().all(|b| *b == 0);
            if start > 0 && is_zero && !self.has_frame(connection, start / old_size + 1)? {
                continue;
            }
            let entry = self.append_page(connection, page as u32, new, &buf)?;
            fresh.insert(page as u32, entry);
        }
        self.pages.replace(fresh);
        self.page_size = new;
        // Published pages have the old size, so none of them is visible any more.
        self.visible = 0;
        Ok(())
    }

    fn has_frame(&self, connection: &Connection, page: u64) -> Result<bool> {
        let Ok(page) = u32::try_from(page) else {
            return Ok(false);
        };
        if self.pages.contains(page) {
            return Ok(true);
        }
        let shared = connection.open.shared()?;
        let state = shared.state.read();
        let file = connection.open.file();
        Ok(u64::from(page) <= self.visible && !shared.lookup(file, &state, page)?.is_none())
    }
}
