//! Coding how a page's cells lie ([`Layout`]). docs/FORMAT.md (Layout) has the bits.

mod order;
mod rice;
#[cfg(test)]
mod tests;

pub use order::LastOrder;

use crate::bits::{BitReader, BitWriter, width_of};
use densite_sqlite_format::page::{BLOCK_MIN, Item, Layout, USABLE_MAX};
use std::iter;

/// Most cells that a page has room for: a pointer of two bytes and four bytes each.
const CELLS_MAX: usize = USABLE_MAX / 6;
/// Bits of the width of the number of items.
const COUNT_BITS: u32 = 5;
/// Most bytes of fragments that a header counts.
const FRAGMENTS_MAX: usize = 255;

const FRAGMENTS: u64 = 0;
const BLOCKS: u64 = 1;
const BOTH: u64 = 2;

/// Writes a layout. A canonical one takes one bit.
pub fn put(layout: &Layout, w: &mut BitWriter) {
    put_after(layout, &mut LastOrder::default(), w);
}

/// The same, for a writer of several layouts.
pub fn put_after(layout: &Layout, last: &mut LastOrder, w: &mut BitWriter) {
    w.put(u64::from(!layout.is_canonical()), 1);
    if layout.is_canonical() {
        return;
    }
    w.put(u64::from(!layout.order.is_empty()), 1);
    w.put(u64::from(!layout.items.is_empty()), 1);
    if !layout.order.is_empty() {
        last.put(&layout.order, w);
    }
    if !layout.items.is_empty() {
        put_items(&layout.items, w);
    }
}

fn put_items(items: &[Item], w: &mut BitWriter) {
    let count = items.len() as u64;
    w.put(u64::from(width_of(count)), COUNT_BITS);
    w.put(count, width_of(count));
    let blocks = items.iter().filter(|item| item.block).count() as u64;
    let kinds = match blocks {
        0 => FRAGMENTS,
        all if all == count => BLOCKS,
        _ => BOTH,
    };
    w.put(kinds, 2);
    if kinds == BOTH {
        for item in items {
            w.put(u64::from(item.block), 1);
        }
    }
    let above = items.iter().map(|item| u32::from(item.above));
    let before = iter::once(0).chain(above.clone());
    rice::put(above.zip(before).map(|(above, before)| above - before), w);
    let sizes = |block, least| {
        let items = items.iter().filter(move |item| item.block == block);
        items.map(move |item| u32::from(item.size) - least)
    };
    if kinds != BLOCKS {
        rice::put(sizes(false, 1), w);
    }
    if kinds != FRAGMENTS {
        rice::put(sizes(true, BLOCK_MIN as u32), w);
    }
}

/// Reads layouts. It keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct LayoutReader {
    work: order::Work,
}

impl LayoutReader {
    /// Reads the layout of a page of `cells` cells and `usable` usable bytes. `None` if there is no
    /// such layout; then `layout` is canonical. Memory is bounded by the page's size.
    pub fn take(
        &mut self,
        r: &mut BitReader<'_>,
        cells: usize,
        usable: usize,
        layout: &mut Layout,
    ) -> Option<()> {
        layout.reset(cells);
        let taken = self.take_from(r, usable, layout);
        if taken.is_none() {
            layout.reset(cells);
        }
        taken
    }

    fn take_from(
        &mut self,
        r: &mut BitReader<'_>,
        usable: usize,
        layout: &mut Layout,
    ) -> Option<()> {
        let cells = layout.count();
        if cells > CELLS_MAX || usable > USABLE_MAX {
            return None;
        }
        if r.get(1)? == 0 {
            return Some(());
        }
        let ordered = r.get(1)? == 1;
        let has_items = r.get(1)? == 1;
        if ordered {
            order::take(r, cells, &mut layout.order, &mut self.work)?;
        }
        if has_items {
            take_items(r, cells, usable, &mut layout.items)?;
        }
        Some(())
    }
}

fn take_items(
    r: &mut BitReader<'_>,
    cells: usize,
    usable: usize,
    items: &mut Vec<Item>,
) -> Option<()> {
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
        items.push(Item {
            above: 0,
            size: 0,
            block,
        });
    }
    let list = rice::Taker::new(r, cells as u32)?;
    let mut above = 0;
    for item in items.iter_mut() {
        above += list.next(r)? as usize;
        if above > cells {
            return None;
        }
        item.above = above as u16;
    }
    if kinds != BLOCKS {
        take_sizes(r, items, false, (1, FRAGMENTS_MAX))?;
    }
    if kinds != FRAGMENTS {
        take_sizes(
            r,
            items,
            true,
            (BLOCK_MIN, usable.min(usize::from(u16::MAX))),
        )?;
    }
    Some(())
}

/// Reads the sizes of freeblocks or fragments. Each is at least `least` bytes, their sum at
/// most `most`.
fn take_sizes(
    r: &mut BitReader<'_>,
    items: &mut [Item],
    block: bool,
    (least, most): (usize, usize),
) -> Option<()> {
    let list = rice::Taker::new(r, most as u32)?;
    let mut sum = 0;
    for item in items.iter_mut().filter(|item| item.block == block) {
        let size = list.next(r)? as usize + least;
        sum += size;
        if sum > most {
            return None;
        }
        item.size = size as u16;
    }
    Some(())
}
