//! A new page size.

use crate::error::Result;
use crate::handle::Handle;
use crate::pending::PendingPage;
use std::collections::BTreeMap;

impl Handle {
    /// If page 1 says that pages have another size than the store's (VACUUM with a new page size, or a first write that was no page), all
    /// pages are written again in that size, within the same commit.
    pub(super) fn regrain(&mut self) -> Result<()> {
        let Some(p) = &self.pending else {
            return Ok(());
        };
        let new = sqlite_page_size(&p.head);
        if new == 0 || new == p.page_size || p.logical_len == 0 {
            return Ok(());
        }
        let old_size = u64::from(p.page_size);
        let len = p.logical_len;
        let mut fresh = BTreeMap::new();
        // Bounded: pages are encoded and appended as they come, the new entries collect in a second set.
        let mut buf = vec![0; new as usize];
        for page in 1..=len.div_ceil(u64::from(new)) {
            let start = (page - 1) * u64::from(new);
            let n = usize::try_from((len - start).min(u64::from(new))).unwrap_or(0);
            self.read_at(buf.get_mut(..n).unwrap_or_default(), start)?;
            buf.get_mut(n..).unwrap_or_default().fill(0);
            if start > 0 && buf.iter().all(|b| *b == 0) && !self.has_frame(start / old_size + 1)? {
                continue;
            }
            let entry = self.append_page(page as u32, new, &buf)?;
            fresh.insert(page as u32, PendingPage::Stored(entry));
        }
        let Some(p) = &mut self.pending else {
            return Ok(());
        };
        p.pages = fresh.into_iter().collect();
        p.page_size = new;
        // Of the published pages, which had another size, nothing is to be seen any more.
        p.visible = 0;
        Ok(())
    }

    fn has_frame(&self, page: u64) -> Result<bool> {
        let (Some(p), Ok(page)) = (&self.pending, u32::try_from(page)) else {
            return Ok(false);
        };
        if p.pages.contains_key(&page) {
            return Ok(true);
        }
        let shared = self.shared()?;
        let state = shared.state.read();
        Ok(u64::from(page) <= p.visible && !shared.lookup(&*self.file, &state, page)?.is_none())
    }
}

/// The page size that the first bytes of a SQLite database give; 0 if they do not.
fn sqlite_page_size(head: &[u8]) -> u32 {
    let magic = head.starts_with(b"SQLite format 3\0");
    match head.get(16..18) {
        Some([0, 1]) if magic => 65536,
        Some([hi, lo]) if magic => {
            let n = u32::from(*hi) << 8 | u32::from(*lo);
            if n.is_power_of_two() && n >= 512 {
                n
            } else {
                0
            }
        }
        _ => 0,
    }
}
