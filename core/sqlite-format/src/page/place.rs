//! Putting cells in their places: from a layout back to a page.

use super::Layout;
use crate::put_be16;

/// Bytes of a leaf's b-tree header. An interior page has a longer one.
const HEADER_MIN: usize = 8;

/// Writes the fields of the b-tree header that depend on the layout. Numbers of 65536 become 0, as
/// in the file format.
#[inline]
fn put_header(
    out: &mut [u8],
    header_at: usize,
    first_block: usize,
    cells: usize,
    content_start: usize,
    fragments: usize,
) -> Option<()> {
    let header = out.get_mut(header_at + 1..)?.first_chunk_mut::<7>()?;
    let [b1, b0] = (first_block as u16).to_be_bytes();
    let [n1, n0] = u16::try_from(cells).ok()?.to_be_bytes();
    let [c1, c0] = (content_start as u16).to_be_bytes();
    *header = [b1, b0, n1, n0, c1, c0, u8::try_from(fragments).ok()?];
    Some(())
}

/// Copies between slices of one length. Most cells are short, and a call for each would take longer
/// than the copy.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) -> Option<()> {
    match from.len() {
        0..8 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        8..=16 => copy_ends::<8>(to, from)?,
        17..=32 => copy_ends::<16>(to, from)?,
        33..=64 => copy_ends::<32>(to, from)?,
        _ => to.get_mut(..from.len())?.copy_from_slice(from),
    }
    Some(())
}

/// Copies `N` to `2 * N` bytes: the first and the last `N`.
#[inline]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> Option<()> {
    *to.first_chunk_mut::<N>()? = *from.first_chunk::<N>()?;
    *to.last_chunk_mut::<N>()? = *from.last_chunk::<N>()?;
    Some(())
}

impl Layout {
    /// Puts cells in their places.
    ///
    /// `packed` holds them in the canonical layout: the cell with the lowest key ends at `usable`,
    /// the others follow downwards. `sizes` are their bytes in order of their keys. The cells, the
    /// pointer array, the header's freeblock, cell count, content start and fragments, and the
    /// freeblocks' headers go to `out`, the page. Unallocated bytes become zero, except the filling
    /// of a small cell, which comes from `packed`. The caller writes the bytes before the b-tree
    /// header, its first byte and the rightmost child. `None` if it does not fit; `out` then holds
    /// anything.
    pub fn scatter(
        &self,
        packed: &[u8],
        sizes: &[u32],
        header_at: usize,
        header_len: usize,
        usable: usize,
        out: &mut [u8],
    ) -> Option<()> {
        let packed = packed.get(..usable)?;
        self.finish(sizes, header_at, header_len, usable, out)?;
        let pointers_at = header_at + header_len;
        let (head, content) = out.split_at_mut_checked(pointers_at + 2 * sizes.len())?;
        let pointers_end = head.len();
        let mut pointers = head
            .get(pointers_at..)?
            .as_chunks::<2>()
            .0
            .iter()
            .zip(sizes)
            .peekable();
        // Cells that are adjacent in both are copied together.
        let mut from = usable;
        while let Some((&pointer, &size)) = pointers.next() {
            let end = from;
            from = from.checked_sub(size as usize)?;
            let mut to = usize::from(u16::from_be_bytes(pointer));
            let to_end = to + size as usize;
            while let Some((_, &size)) = pointers.next_if(|&(&next, &size)| {
                usize::from(u16::from_be_bytes(next)) + size as usize == to
            }) {
                from = from.checked_sub(size as usize)?;
                to -= size as usize;
            }
            let place = content.get_mut(to - pointers_end..to_end - pointers_end)?;
            copy(place, packed.get(from..end)?)?;
        }
        Some(())
    }

    /// Writes what [`Layout::scatter`] writes, except the cells, whose places are then in the
    /// pointer array. Their bytes stay the same.
    pub fn finish(
        &self,
        sizes: &[u32],
        header_at: usize,
        header_len: usize,
        usable: usize,
        out: &mut [u8],
    ) -> Option<()> {
        let cells = sizes.len();
        let pointers_at = header_at.checked_add(header_len)?;
        let pointers_end = pointers_at.checked_add(2 * cells)?;
        let body = out.get_mut(..usable)?;
        if cells != self.count() || header_len < HEADER_MIN || pointers_end > usable {
            return None;
        }
        if self.items.is_empty() && !self.order.is_empty() {
            let at = self.put_pointers(sizes, usable, body.get_mut(pointers_at..pointers_end)?)?;
            put_header(body, header_at, 0, cells, at, 0)?;
            body.get_mut(pointers_end..at)?.fill(0);
            return Some(());
        }

        // The places, from the usable end downwards.
        let mut at = usable;
        let mut next_block = 0;
        let mut fragments = 0;
        let mut items = self.items.iter().peekable();
        for rank in 0..=cells {
            while let Some(item) = items.next_if(|item| usize::from(item.above) == rank) {
                let end = at;
                at = at.checked_sub(usize::from(item.size))?;
                if at < pointers_end {
                    return None;
                }
                body.get_mut(at..end)?.fill(0);
                if item.block {
                    put_be16(body, at, next_block)?;
                    put_be16(body, at + 2, usize::from(item.size))?;
                    next_block = at;
                } else {
                    fragments += usize::from(item.size);
                }
            }
            if rank == cells {
                break;
            }
            let cell = self.cell_at(rank);
            at = at.checked_sub(*sizes.get(cell)? as usize)?;
            if at < pointers_end || at > usize::from(u16::MAX) {
                return None;
            }
            put_be16(body, pointers_at + 2 * cell, at)?;
        }
        if items.next().is_some() {
            return None;
        }
        put_header(body, header_at, next_block, cells, at, fragments)?;
        body.get_mut(pointers_end..at)?.fill(0);
        Some(())
    }

    /// Writes the pointers of cells that lie in some order with nothing between them. Returns where
    /// the last of them begins. `None` if a cell lies before the page or the order is not one.
    fn put_pointers(&self, sizes: &[u32], usable: usize, pointers: &mut [u8]) -> Option<usize> {
        let pointers = pointers.as_chunks_mut::<2>().0;
        let mut at = usable;
        for cell in &self.order {
            let cell = usize::from(*cell);
            at = at.wrapping_sub(*sizes.get(cell)? as usize);
            *pointers.get_mut(cell)? = (at as u16).to_be_bytes();
        }
        // Sizes only add up, so the last place is the lowest. A place below zero has wrapped.
        (at < usable && at <= usize::from(u16::MAX)).then_some(at)
    }

    /// Writes only the header and the pointer array, as [`Layout::scatter`] does, for the canonical
    /// layout. The cells must already lie in `out`.
    #[inline]
    pub fn finish_canonical(
        sizes: &[u32],
        header_at: usize,
        header_len: usize,
        usable: usize,
        out: &mut [u8],
    ) -> Option<()> {
        let pointers_at = header_at.checked_add(header_len)?;
        let pointers_end = pointers_at.checked_add(2 * sizes.len())?;
        if header_len < HEADER_MIN {
            return None;
        }
        let body = out.get_mut(..usable)?;
        let pointers = body.get_mut(pointers_at..pointers_end)?;
        let mut at = usable as u64;
        let mut sum = 0;
        for (pointer, &size) in pointers.as_chunks_mut::<2>().0.iter_mut().zip(sizes) {
            sum += u64::from(size);
            at = (usable as u64).wrapping_sub(sum);
            *pointer = (at as u16).to_be_bytes();
        }
        // Sizes only add up, so the last place is the lowest. A place below zero has wrapped and is
        // above `usable`.
        if at > usable as u64 || at < pointers_end as u64 {
            return None;
        }
        put_header(body, header_at, 0, sizes.len(), at as usize, 0)
    }
}
