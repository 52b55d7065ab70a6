//! Scrub: which pages are allowed to lose their unallocated bytes. A page that only looks like a
//! b-tree page must keep every byte; `may_scrub` has the rules.

use crate::context::PageContext;
use densite_sqlite_format::be32;
use densite_sqlite_format::fixed::{is_pointer_map, lock_page};
use densite_sqlite_format::page::Page;

/// Pages that may have been allocated and not written yet: 64 GiB of pages of 4 KiB.
const MARGIN: u32 = 1 << 24;

/// Whether a page, which was parsed into `parsed`, is allowed to lose its unallocated bytes.
///
/// Other kinds of pages are recognized so:
///
/// - An overflow page or a freelist trunk begins with the number of a page, or with 0. A b-tree
///   page begins with 2, 5, 10 or 13, which as the first byte of a page number means page 2^25 or
///   later. [`PageContext::pages`] bounds the page numbers of the database, so a page whose first
///   four bytes are not above it is kept. The bound must hold when the page is written. Its
///   transaction possibly had not said then how long the database is, so [`MARGIN`] is added, more
///   pages than a page cache can hold back.
/// - A pointer map can begin with any byte from 1 to 5. Pointer maps have fixed page numbers, and
///   exist only with auto_vacuum. A page with such a number is always kept, because page 1, which
///   has that setting, can be of another moment.
/// - The page of the lock bytes is never used.
/// - An extension that reserves bytes at the end of pages can use pages in other ways: with
///   reserved bytes nothing is scrubbed.
/// - A page whose cells, freeblocks and fragments do not account for every byte is not a b-tree
///   page ([`Page::parse`]). An interior page without cells is in transit.
///
/// These rules look only at the page, not at a state of the file. So they also hold for pages of a
/// checkpoint that is not complete.
pub(crate) fn may_scrub(context: &PageContext, page: &[u8], parsed: &Page) -> bool {
    let number = context.number;
    if context.reserved > 0 || number == 0 || parsed.kind.has_child() && parsed.cells.is_empty() {
        return false;
    }
    if number == 1 {
        return true;
    }
    let size = u32::try_from(page.len()).unwrap_or(u32::MAX);
    let is_fixed = number == lock_page(size) || is_pointer_map(number, size, size);
    !is_fixed && be32(page, 0) > Some(context.pages.saturating_add(MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf with one cell of three bytes' content and rubbish between.
    fn leaf() -> Vec<u8> {
        let mut page = vec![0xEE; 4096];
        page[..10].copy_from_slice(&[13, 0, 0, 0, 1, 0x0f, 0xfb, 0, 0x0f, 0xfb]);
        page[4091..].copy_from_slice(&[3, 1, 2, 1, 7]);
        page
    }

    fn may(number: u32, pages: u32, reserved: usize, page: &[u8]) -> bool {
        let mut parsed = Page::new();
        assert!(parsed.parse(page, page.len() - reserved, false), "a page");
        let context = PageContext {
            number,
            pages,
            reserved,
        };
        may_scrub(&context, page, &parsed)
    }

    #[test]
    fn pages_that_can_be_of_another_kind_are_kept() {
        let page = leaf();
        assert!(may(3, 100, 0, &page));
        assert!(!may(2, 100, 0, &page), "a pointer map's place");
        assert!(!may(2 + 820, 1000, 0, &page), "the next one");
        assert!(may(3 + 820, 1000, 0, &page));
        assert!(!may(262_145, 300_000, 0, &page), "the lock page");
        let first = u32::from_be_bytes(*page.first_chunk().expect("long"));
        assert!(may(3, first - MARGIN - 1, 0, &page));
        assert!(
            !may(3, first - MARGIN, 0, &page),
            "an overflow page's next one"
        );
    }

    #[test]
    fn reserved_bytes_and_pages_in_transit_are_kept() {
        let mut page = vec![0; 512];
        page[0] = 13;
        page[5..7].copy_from_slice(&500u16.to_be_bytes());
        assert!(!may(3, 10, 12, &page));
        page[0] = 5;
        page[5..7].copy_from_slice(&512u16.to_be_bytes());
        assert!(!may(3, 10, 0, &page));
        page[0] = 13;
        assert!(may(3, 10, 0, &page));
    }
}
