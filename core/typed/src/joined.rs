//! Joined pages: the cells of adjacent leaf pages with much room left, coded as the cells of one
//! page (docs/decisions/sparse-pages.md; docs/FORMAT.md, Joined pages, has the bits).
//!
//! The cells of several pages are put into one, the *joint page*, which [`crate::encode()`] codes.
//! Numbers of cells and layouts come before it. The caller knows the number of pages. Pages have
//! one kind, no reserved bytes and no overflow pages. The joint page is no smaller, so a payload
//! that is whole in a page is whole in it.

use crate::bits::{BitReader, BitWriter, PADDING, width_of};
use crate::context::PageContext;
use crate::layout::{self, LayoutReader};
use crate::mismatch;
use crate::model::Model;
use crate::scrub::may_scrub;
use crate::{Undecodable, decode, encode};
use densite_sqlite_format::page::{Kind, Layout, Page, USABLE_MAX};
use densite_sqlite_format::{be16, put_be16};
use std::cell::RefCell;

/// log2 of the smallest page size.
const PAGE_LOG2_MIN: u32 = 9;
/// Bits of the two sizes.
const LOG2_BITS: u32 = 3;
/// The smallest size of a cell with its pointer.
const CELL_MIN: usize = 6;
/// Bytes of a leaf's b-tree header.
const HEADER: usize = 8;

/// The context of the joint page: a place where every page is what it looks like.
const CONTEXT: PageContext = PageContext {
    number: 3,
    pages: 0,
    reserved: 0,
};

/// Buffers of a thread.
#[derive(Default)]
struct Joiner {
    page: Page,
    /// Begin and end of each cell in the joined pages.
    cells: Vec<(usize, usize)>,
    bits: BitWriter,
    padded: Vec<u8>,
    layouts: Vec<Layout>,
    reader: LayoutReader,
    counts: Vec<usize>,
    sizes: Vec<u32>,
    /// The joint page. When decoding, it is behind as many bytes as a page has.
    joint: Vec<u8>,
    check: Vec<u8>,
}

thread_local! {
    static JOINER: RefCell<Joiner> = RefCell::default();
}

fn with<T>(mut job: impl FnMut(&mut Joiner) -> T) -> T {
    let here = JOINER.try_with(|cell| cell.try_borrow_mut().ok().map(|mut j| job(&mut j)));
    match here {
        Ok(Some(done)) => done,
        _ => job(&mut Joiner::default()),
    }
}

/// Bytes of a leaf page that are in use: its header, cells and their pointers, and reserved bytes.
/// `None` if it is not a leaf, or its header is not valid. Reads the header and the freeblocks, not
/// the cells.
pub fn used_bytes(page: &[u8]) -> Option<usize> {
    Kind::of(page, false).filter(|kind| !kind.has_child())?;
    let first_block = be16(page, 1)?;
    let pointers_end = HEADER + 2 * be16(page, 3)?;
    let content = match be16(page, 5)? {
        0 => USABLE_MAX,
        start => start,
    };
    let mut free = content.checked_sub(pointers_end)? + usize::from(*page.get(7)?);
    let mut at = first_block;
    while at != 0 {
        free += be16(page, at + 2)?;
        let next = be16(page, at)?;
        if next != 0 && next <= at {
            return None;
        }
        at = next;
    }
    page.len().checked_sub(free)
}

/// Encodes adjacent sparse pages, each of `page_size` bytes and the first of them at `context`, and
/// appends the payload to `out`. The payload is decoded into `decoded` and compared. Only
/// unallocated bytes that need not be kept can differ. Returns false, and appends nothing, if the
/// pages cannot be joined.
pub fn encode_joined(
    pages: &[u8],
    page_size: usize,
    context: &PageContext,
    model: &Model,
    decoded: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> bool {
    let before = out.len();
    let done = with(|joiner| joiner.encode(pages, page_size, context, model, decoded, out));
    if done.is_none() {
        out.truncate(before);
    }
    done.is_some()
}

/// Decodes a payload of [`encode_joined`] into `out`, which has the size of all its pages. The
/// model is the one that it was encoded with.
///
/// # Errors
/// An error if the payload does not have these pages, or needs another model. The content of `out`
/// is then undefined.
pub fn decode_joined(payload: &[u8], model: &Model, out: &mut [u8]) -> Result<(), Undecodable> {
    with(|joiner| joiner.decode(payload, model, out)).ok_or(Undecodable)
}

/// Bits of a number of cells.
fn count_bits(page_size: usize) -> u32 {
    width_of((page_size / CELL_MIN) as u64)
}

impl Joiner {
    fn encode(
        &mut self,
        pages: &[u8],
        page_size: usize,
        context: &PageContext,
        model: &Model,
        decoded: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let fits = page_size.is_power_of_two()
            && (1 << PAGE_LOG2_MIN..=USABLE_MAX).contains(&page_size)
            && pages.len() > page_size
            && pages.len().is_multiple_of(page_size)
            && context.reserved == 0;
        if !fits {
            return None;
        }
        let kind = Kind::from_byte(*pages.first()?).filter(|kind| !kind.has_child())?;
        decoded.clear();
        self.cells.clear();
        self.bits.clear();
        let log2 = page_size.trailing_zeros();
        self.bits.put(u64::from(log2 - PAGE_LOG2_MIN), LOG2_BITS);
        for (page, number) in pages.chunks(page_size).zip(context.number..) {
            let context = PageContext { number, ..*context };
            self.add_page(page, kind, &context, decoded)?;
        }
        let content: usize = self.cells.iter().map(|(from, to)| to - from + 2).sum();
        let size = (HEADER + content).max(page_size).next_power_of_two();
        if size > USABLE_MAX.min(pages.len()) {
            return None;
        }
        self.bits
            .put(u64::from(size.trailing_zeros() - log2), LOG2_BITS);
        self.join(pages, kind, size)?;

        let before = out.len();
        self.bits.finish(out);
        if !encode(&self.joint, &CONTEXT, model, &mut self.check, out) {
            return None;
        }
        let mut check = std::mem::take(&mut self.check);
        check.resize(pages.len(), 0);
        let done = self.decode(out.get(before..)?, model, &mut check);
        let right = done.is_some() && check == *decoded;
        self.check = check;
        mismatch::check(right).then_some(())
    }

    /// Adds a page: its cells, its stored layout, and its content after decoding.
    fn add_page(
        &mut self,
        page: &[u8],
        kind: Kind,
        context: &PageContext,
        decoded: &mut Vec<u8>,
    ) -> Option<()> {
        let parsed = &mut self.page;
        let joins = parsed.parse(page, page.len(), false)
            && parsed.kind == kind
            && parsed.cells.iter().all(|cell| cell.overflow == 0);
        if !joins {
            return None;
        }
        let base = decoded.len();
        decoded.extend_from_slice(page);
        parsed.unallocated(|from, to| {
            if let Some(rubbish) = decoded.get_mut(base + from..base + to) {
                rubbish.fill(0);
            }
        });
        // If bytes must be kept, the page is coded alone, which keeps them.
        if !may_scrub(context, page, parsed) && decoded.get(base..)? != page {
            return None;
        }
        let cells = parsed.cells.iter();
        self.cells
            .extend(cells.map(|c| (base + c.start as usize, base + c.end() as usize)));
        let count = parsed.cells.len();
        self.bits.put(count as u64, count_bits(page.len()));
        layout::put(&parsed.layout, &mut self.bits);
        Some(())
    }

    /// Builds the joint page.
    fn join(&mut self, pages: &[u8], kind: Kind, size: usize) -> Option<()> {
        let joint = &mut self.joint;
        joint.clear();
        joint.resize(size, 0);
        let mut at = size;
        for (i, (from, to)) in self.cells.iter().enumerate() {
            let end = at;
            at = at.checked_sub(to - from)?;
            joint
                .get_mut(at..end)?
                .copy_from_slice(pages.get(*from..*to)?);
            put_be16(joint, HEADER + 2 * i, at)?;
        }
        *joint.first_mut()? = kind as u8;
        put_be16(joint, 3, self.cells.len())?;
        put_be16(joint, 5, at)
    }

    fn decode(&mut self, payload: &[u8], model: &Model, out: &mut [u8]) -> Option<()> {
        self.padded.clear();
        self.padded.extend_from_slice(payload);
        self.padded.extend_from_slice(&[0; PADDING]);
        let mut r = BitReader::new(&self.padded);
        let log2 = r.get(LOG2_BITS)? as u32 + PAGE_LOG2_MIN;
        let page_size = 1usize << log2;
        let pages = out.len() / page_size;
        if pages < 2 || !out.len().is_multiple_of(page_size) {
            return None;
        }
        self.layouts.resize_with(pages, Layout::default);
        self.counts.clear();
        let mut cells = 0;
        for layout in &mut self.layouts {
            let count = r.get(count_bits(page_size))? as usize;
            self.reader.take(&mut r, count, page_size, layout)?;
            self.counts.push(count);
            cells += count;
        }
        let size = page_size << r.get(LOG2_BITS)?;
        if size > USABLE_MAX.min(out.len()) {
            return None;
        }
        let section = (payload.len() * 8 - r.left()).div_ceil(8);
        self.joint.clear();
        self.joint.resize(page_size + size, 0);
        let (_, joint) = self.joint.split_at_mut_checked(page_size)?;
        decode(payload.get(section..)?, model, joint).ok()?;

        let kind = Kind::from_byte(*joint.first()?).filter(|kind| !kind.has_child())?;
        let pointers = joint.get(HEADER..HEADER + 2 * cells)?;
        if be16(joint, 3)? != cells {
            return None;
        }
        self.sizes.clear();
        let mut at = size as u32;
        for pointer in pointers.as_chunks::<2>().0 {
            let start = u32::from(u16::from_be_bytes(*pointer));
            self.sizes.push(at.checked_sub(start)?);
            at = start;
        }
        let mut sizes = self.sizes.as_slice();
        let mut end = size;
        let each = self.layouts.iter().zip(&self.counts);
        for (page, (layout, count)) in out.chunks_mut(page_size).zip(each) {
            let (now, later) = sizes.split_at_checked(*count)?;
            sizes = later;
            // As many bytes as a page has, up to the end of its first cell.
            let packed = self.joint.get(end..end + page_size)?;
            layout.scatter(packed, now, 0, HEADER, page_size, page)?;
            *page.first_mut()? = kind as u8;
            end -= now.iter().sum::<u32>() as usize;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
