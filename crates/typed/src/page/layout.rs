//! How a page's cells lie: everything that does not follow from the order of their keys, their
//! sizes and the page's kind. docs/FORMAT.md (Layout) has the bits.
//!
//! A layout is *canonical* if the cells lie back to back from the usable end downwards in the order
//! of their keys, and nothing else lies between content start and usable end. SQLite leaves such
//! pages when it rebuilds or appends. Any other layout has an order of the cells ([`super::order`])
//! and *items* (freeblocks and fragments) between them. Addresses and content start follow.

use std::iter;

use super::{BLOCK_MIN, LastOrder, USABLE_MAX, order, rice};
use crate::bits::{BitReader, BitWriter, width_of};

/// Most cells that a page has room for: a pointer of two bytes and four bytes each.
pub(super) const CELLS_MAX: usize = USABLE_MAX / 6;
/// Bits of the width of the number of items.
const COUNT_BITS: u32 = 5;
/// Most bytes of fragments that a header counts.
const FRAGMENTS_MAX: usize = 255;

const FRAGMENTS: u64 = 0;
const BLOCKS: u64 = 1;
const BOTH: u64 = 2;

/// A freeblock or a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    /// How many cells lie above it.
    pub(super) above: u16,
    /// Its bytes.
    pub(super) size: u16,
    /// Whether it is a freeblock. Otherwise it is a fragment.
    pub(super) block: bool,
}

/// How a page's cells lie.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// Number of cells.
    pub(super) cells: usize,
    /// The cells from the usable end downwards. Empty if that is the order of their keys.
    pub(crate) order: Vec<u16>,
    /// What lies between them, from the usable end downwards.
    pub(super) items: Vec<Item>,
    /// Memory for reading.
    work: order::Work,
}

impl Layout {
    /// Whether the layout is canonical.
    #[inline]
    pub fn is_canonical(&self) -> bool {
        self.order.is_empty() && self.items.is_empty()
    }

    /// Becomes the canonical layout of `cells` cells.
    #[inline]
    pub(super) fn reset(&mut self, cells: usize) {
        self.cells = cells;
        self.order.clear();
        self.items.clear();
    }

    /// The cell that lies at `rank` from the usable end downwards.
    #[inline]
    pub(super) fn cell_at(&self, rank: usize) -> usize {
        match self.order.is_empty() {
            true => rank,
            false => self
                .order
                .get(rank)
                .map_or(usize::MAX, |&cell| usize::from(cell)),
        }
    }

    /// Writes the layout. A canonical one takes one bit.
    pub fn put(&self, w: &mut BitWriter) {
        self.put_after(&mut LastOrder::default(), w);
    }

    /// The same, for a writer of several layouts.
    pub fn put_after(&self, last: &mut LastOrder, w: &mut BitWriter) {
        w.put(u64::from(!self.is_canonical()), 1);
        if self.is_canonical() {
            return;
        }
        w.put(u64::from(!self.order.is_empty()), 1);
        w.put(u64::from(!self.items.is_empty()), 1);
        if !self.order.is_empty() {
            last.put(&self.order, w);
        }
        if !self.items.is_empty() {
            self.put_items(w);
        }
    }

    fn put_items(&self, w: &mut BitWriter) {
        let count = self.items.len() as u64;
        w.put(u64::from(width_of(count)), COUNT_BITS);
        w.put(count, width_of(count));
        let blocks = self.items.iter().filter(|item| item.block).count() as u64;
        let kinds = match blocks {
            0 => FRAGMENTS,
            all if all == count => BLOCKS,
            _ => BOTH,
        };
        w.put(kinds, 2);
        if kinds == BOTH {
            for item in &self.items {
                w.put(u64::from(item.block), 1);
            }
        }
        let above = self.items.iter().map(|item| u32::from(item.above));
        let before = iter::once(0).chain(above.clone());
        rice::put(above.zip(before).map(|(above, before)| above - before), w);
        let sizes = |block, least| {
            let items = self.items.iter().filter(move |item| item.block == block);
            items.map(move |item| u32::from(item.size) - least)
        };
        if kinds != BLOCKS {
            rice::put(sizes(false, 1), w);
        }
        if kinds != FRAGMENTS {
            rice::put(sizes(true, BLOCK_MIN as u32), w);
        }
    }

    /// Reads the layout of a page of `cells` cells and `usable` usable bytes. `None` if there is no
    /// such layout; then `self` is canonical. Memory is reused and bounded by the page's size.
    pub fn take(&mut self, r: &mut BitReader<'_>, cells: usize, usable: usize) -> Option<()> {
        self.reset(cells);
        if cells > CELLS_MAX || usable > USABLE_MAX {
            return None;
        }
        if r.get(1)? == 0 {
            return Some(());
        }
        let taken = self.take_irregular(r, usable);
        if taken.is_none() {
            self.reset(cells);
        }
        taken
    }

    fn take_irregular(&mut self, r: &mut BitReader<'_>, usable: usize) -> Option<()> {
        let ordered = r.get(1)? == 1;
        let has_items = r.get(1)? == 1;
        if ordered {
            order::take(r, self.cells, &mut self.order, &mut self.work)?;
        }
        if has_items {
            self.take_items(r, usable)?;
        }
        Some(())
    }

    fn take_items(&mut self, r: &mut BitReader<'_>, usable: usize) -> Option<()> {
        let width = r.get(COUNT_BITS)? as u32;
        let count = r.get(width)? as usize;
        if count == 0 || count > FRAGMENTS_MAX + usable / BLOCK_MIN {
            return None;
        }
        let kinds = r.get(2)?;
        if kinds > BOTH {
            return None;
        }
        for _ in 0..count {
            let block = if kinds == BOTH {
                r.get(1)? == 1
            } else {
                kinds == BLOCKS
            };
            self.items.push(Item {
                above: 0,
                size: 0,
                block,
            });
        }
        let list = rice::Taker::new(r, self.cells as u32)?;
        let mut above = 0;
        for item in &mut self.items {
            above += list.next(r)? as usize;
            if above > self.cells {
                return None;
            }
            item.above = above as u16;
        }
        if kinds != BLOCKS {
            self.take_sizes(r, false, 1, FRAGMENTS_MAX)?;
        }
        if kinds != FRAGMENTS {
            self.take_sizes(r, true, BLOCK_MIN, usable.min(usize::from(u16::MAX)))?;
        }
        Some(())
    }

    /// Reads the sizes of freeblocks or fragments. Each is at least `least` bytes, their sum at
    /// most `most`.
    fn take_sizes(
        &mut self,
        r: &mut BitReader<'_>,
        block: bool,
        least: usize,
        most: usize,
    ) -> Option<()> {
        let list = rice::Taker::new(r, most as u32)?;
        let mut sum = 0;
        for item in self.items.iter_mut().filter(|item| item.block == block) {
            let size = list.next(r)? as usize + least;
            sum += size;
            if sum > most {
                return None;
            }
            item.size = size as u16;
        }
        Some(())
    }
}
