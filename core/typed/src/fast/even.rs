//! Leaves whose cells have one size, as most leaves of a few integers do.
//!
//! The cells lie back to back without gaps, in any order, so that the place of a cell follows from
//! its rank. All of them have as many bytes before the payload. So nothing has to be listed for
//! each cell, except its address and its row id. Everything else that [`Page::parse`] would find
//! is in [`Page`] and [`Common`].

use super::path::Path;
use densite_sqlite_format::page::{BLOCK_MIN, Page, all_max};

/// Most bytes of a row id.
const ROWID_MAX: usize = 4;

/// What the cells have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    /// Bytes of the payload, all of them in the page.
    pub(super) payload: usize,
    /// Where the payload begins, counted from the beginning of the cell.
    pub(super) payload_at: usize,
}

/// A leaf whose cells have one size. Its memory is kept from page to page.
#[derive(Debug, Default)]
pub(crate) struct EvenLeaf {
    /// `None` if the last page was no such leaf.
    pub(super) common: Option<Common>,
    /// The address of each cell, in order of the keys.
    pub(super) starts: Vec<u16>,
    /// The row ids of a table, in the same order.
    pub(super) rowids: Vec<i64>,
}

impl EvenLeaf {
    /// As [`Page::parse`], but only for such a leaf, and `page` lists no cells. False, and nothing
    /// in `page`, for any other page and for one that is not well-formed.
    pub(crate) fn parse(
        &mut self,
        page: &mut Page,
        bytes: &[u8],
        usable: usize,
        first: bool,
    ) -> bool {
        page.clear();
        self.common = match Path::Even.is_on() {
            true => self.take(page, bytes, usable, first),
            false => None,
        };
        match self.common {
            Some(_) => Path::Even.count(),
            None => page.clear(),
        }
        self.common.is_some()
    }

    fn take(
        &mut self,
        page: &mut Page,
        bytes: &[u8],
        usable: usize,
        first: bool,
    ) -> Option<Common> {
        let (body, head) = page.take_head(bytes, usable, first)?;
        let nothing_between = head.first_block == 0 && head.fragments == 0;
        if page.kind.has_child() || !nothing_between {
            return None;
        }
        let cells = head.pointers.len();
        let at = usize::from(u16::from_be_bytes(*head.pointers.first()?));
        let payload = *body.get(at)?;
        if payload >= 0x80 || usize::from(payload) > all_max(page.kind, usable) {
            return None;
        }
        let rowid_len = match page.kind.is_table() {
            true => 1 + body.get(at + 1..)?.iter().position(|byte| *byte < 0x80)?,
            false => 0,
        };
        let size = 1 + rowid_len + usize::from(payload);
        if size < BLOCK_MIN || head.content_start + cells * size != usable {
            return None;
        }

        self.starts.clear();
        let starts = head.pointers.iter().map(|two| u16::from_be_bytes(*two));
        self.starts.extend(starts);
        let (mut other, mut packed, mut below) = (0, true, usable);
        for start in &self.starts {
            let at = usize::from(*start);
            other |= *body.get(at)? ^ payload;
            packed &= at + size == below;
            below = at;
        }
        if other != 0 {
            return None;
        }
        if !packed {
            self.take_ranks(&mut page.layout.order, usable, size)?;
        }
        if rowid_len > 0 {
            self.take_rowids(body, rowid_len)?;
        }
        Some(Common {
            payload: usize::from(payload),
            payload_at: 1 + rowid_len,
        })
    }

    /// The order of cells of `size` bytes. `None` if two cells lie in one place, or one between two
    /// places.
    fn take_ranks(&self, order: &mut Vec<u16>, usable: usize, size: usize) -> Option<()> {
        const NONE: u16 = u16::MAX;
        order.resize(self.starts.len(), NONE);
        // A division for each cell would take longer than everything else.
        let reciprocal = (1u64 << 32) / size as u64 + 1;
        for (index, start) in self.starts.iter().enumerate() {
            let from_end = usable.checked_sub(usize::from(*start))?;
            let rank = ((from_end as u64 * reciprocal) >> 32) as usize;
            if rank * size != from_end {
                return None;
            }
            let place = order.get_mut(rank.checked_sub(1)?)?;
            if *place != NONE {
                return None;
            }
            *place = index as u16;
        }
        Some(())
    }

    /// The row ids. `None` unless each takes `len` bytes, and the smallest does not fit in fewer.
    fn take_rowids(&mut self, body: &[u8], len: usize) -> Option<()> {
        if len > ROWID_MAX {
            return None;
        }
        let unused = 8 * (ROWID_MAX - len) as u32;
        let tops = 0x8080_8080 >> unused;
        let (mut other, mut least) = (0, u32::MAX);
        let body = body.get(1..)?;
        self.rowids.resize(self.starts.len(), 0);
        for (to, start) in self.rowids.iter_mut().zip(&self.starts) {
            let at = usize::from(*start);
            let four = body.get(at..at + ROWID_MAX)?.first_chunk()?;
            let bytes = u32::from_be_bytes(*four) >> unused;
            other |= (bytes ^ (tops ^ 0x80)) & tops;
            let id = bytes & 0x7f
                | bytes >> 1 & 0x3f80
                | bytes >> 2 & 0x1f_c000
                | bytes >> 3 & 0xfe0_0000;
            least = least.min(id);
            *to = i64::from(id);
        }
        let shortest = len == 1 || least >> (7 * (len - 1)) != 0;
        (other == 0 && shortest).then_some(())
    }
}
