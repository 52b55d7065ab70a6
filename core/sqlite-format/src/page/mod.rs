//! A b-tree page taken apart: its cells, and how they lie, which is what does not follow from the
//! order of their keys, their sizes and the page's kind. See [`Page`] for the bytes of a page and
//! the rules of a well-formed one.

mod parse;
mod place;
mod pointers;

pub use parse::{Head, all_max, local_len};
pub use pointers::pointers;

use crate::{HEADER_LEN, be32};

/// Fewest usable bytes of a page: SQLite refuses fewer.
pub const USABLE_MIN: usize = 480;
/// Most usable bytes of a page.
pub const USABLE_MAX: usize = 65_536;
/// Bytes of a freeblock's header, and the fewest bytes of a cell or a freeblock.
pub const BLOCK_MIN: usize = 4;
/// The greatest depth of a b-tree in SQLite.
pub const DEPTH_MAX: usize = 20;

/// Where the b-tree header begins: on page 1 behind the database header.
#[inline]
pub fn header_at(first: bool) -> usize {
    if first { HEADER_LEN } else { 0 }
}

/// The page behind an overflow page, or 0 at the end of a chain: four bytes, and then the content.
#[inline]
pub fn next_overflow(page: &[u8]) -> Option<u32> {
    be32(page, 0)
}

/// Kinds of b-tree pages; the numbers are those of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Children and keys of an index or a WITHOUT ROWID table.
    IndexInterior = 2,
    /// Children and row ids of a table.
    TableInterior = 5,
    /// Keys of an index, or rows of a WITHOUT ROWID table.
    IndexLeaf = 10,
    /// Rows of a table.
    TableLeaf = 13,
}

impl Kind {
    /// All kinds, ascending.
    pub const ALL: [Kind; 4] = [
        Kind::IndexInterior,
        Kind::TableInterior,
        Kind::IndexLeaf,
        Kind::TableLeaf,
    ];

    /// The kind that a page says it is of. `first`: it is page 1.
    #[inline]
    pub fn of(page: &[u8], first: bool) -> Option<Kind> {
        Kind::from_byte(*page.get(header_at(first))?)
    }

    /// The kind that a page's first header byte names.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            2 => Some(Kind::IndexInterior),
            5 => Some(Kind::TableInterior),
            10 => Some(Kind::IndexLeaf),
            13 => Some(Kind::TableLeaf),
            _ => None,
        }
    }

    /// Whether cells begin with a child's page number, and the header ends with one.
    #[inline]
    pub fn has_child(self) -> bool {
        matches!(self, Kind::IndexInterior | Kind::TableInterior)
    }

    /// Whether cells have a row id.
    #[inline]
    pub fn is_table(self) -> bool {
        matches!(self, Kind::TableInterior | Kind::TableLeaf)
    }

    /// Bytes of the b-tree header: 8, or 12 with the rightmost child.
    #[inline]
    pub fn header_len(self) -> usize {
        if self.has_child() { 12 } else { 8 }
    }
}

/// A cell. Addresses and sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Its first byte's address in the page.
    pub start: u32,
    /// Bytes it takes in the page, with the overflow page number and the filling up to four bytes.
    pub size: u32,
    /// The child page; 0 in leaves.
    pub child: u32,
    /// The row id; 0 in indexes.
    pub rowid: i64,
    /// Bytes of the whole payload, with those on overflow pages; 0 in interior pages of tables.
    pub payload: u64,
    /// Address of the payload's first byte.
    pub local_at: u32,
    /// Bytes of the payload that lie in the page.
    pub local_len: u32,
    /// The first overflow page, or 0.
    pub overflow: u32,
}

impl Cell {
    /// The address behind the cell.
    #[inline]
    pub fn end(&self) -> u32 {
        self.start + self.size
    }

    /// The address behind its last byte that means something. The bytes up to [`Cell::end`] fill
    /// the cell up to four bytes.
    #[inline]
    pub fn meaning_end(&self) -> u32 {
        self.local_at + self.local_len + if self.overflow == 0 { 0 } else { 4 }
    }
}

/// A page taken apart by [`Page::parse`].
///
/// The bytes of a page (<https://sqlite.org/fileformat2.html#b_tree_pages>). Addresses count from
/// the page's first byte. The b-tree header begins at 100 on page 1, behind the database header,
/// and at 0 on all others:
///
/// | from | bytes | what |
/// |---|---|---|
/// | header | 1 | kind: 2, 5, 10 or 13 |
/// | + 1 | 2 | address of the first freeblock, or 0 |
/// | + 3 | 2 | number of cells |
/// | + 5 | 2 | content start: the lowest address that a cell or freeblock can have; 0 is 65536 |
/// | + 7 | 1 | fragments: bytes behind the content start that belong neither to a cell nor to a freeblock |
/// | + 8 | 4 | interior pages only: the rightmost child |
/// | behind it | 2 per cell | the cells' addresses, in order of their keys |
/// | behind it | | *unallocated*, up to the content start |
/// | content start | | cells, freeblocks (address of the next or 0, size; 2 bytes each) and fragments, up to the usable end |
/// | usable end | | reserved bytes, up to the page's end |
///
/// All numbers are big-endian. A page is *well-formed* here if and only if
///
/// 1. its kind is one of the four and the usable size is one that SQLite allows;
/// 2. every cell lies between content start and usable end, its numbers are written in the shortest
///    way, its payload has at most 2147483647 bytes, and its overflow page, if it must have one, is
///    not 0;
/// 3. freeblocks lie there too, with at least 4 bytes each, in ascending order and at least 4 bytes
///    apart;
/// 4. no two of these share a byte, and the number of other bytes is that of the header's
///    fragments.
///
/// So kind, rightmost child, cells and [`Layout`] say everything that the page says. The other
/// bytes (unallocated, fragments, freeblocks behind their first four bytes, and the filling of a
/// cell of fewer than four bytes) mean nothing to SQLite.
#[derive(Debug)]
pub struct Page {
    /// The kind of the page.
    pub kind: Kind,
    /// Where the b-tree header begins: 100 on page 1, else 0.
    pub header_at: usize,
    /// The rightmost child; 0 in leaves.
    pub right: u32,
    /// The cells in order of their keys.
    pub cells: Vec<Cell>,
    /// How they lie.
    pub layout: Layout,
    /// Address of the lowest cell, freeblock or fragment. The usable size if there is none; 0 if
    /// the page was not well-formed.
    content_start: usize,
    /// Whether some cell is filled up to four bytes.
    filled: bool,
    work: parse::Work,
}

impl Default for Page {
    fn default() -> Self {
        Page::new()
    }
}

impl Page {
    /// An empty page to parse into. It keeps its memory from page to page.
    pub fn new() -> Page {
        Page {
            kind: Kind::TableLeaf,
            header_at: 0,
            right: 0,
            cells: Vec::new(),
            layout: Layout::default(),
            content_start: 0,
            filled: false,
            work: parse::Work::default(),
        }
    }

    /// Number of cells.
    pub fn count(&self) -> usize {
        self.layout.count()
    }

    /// The children in order of their keys; none of a leaf.
    pub fn children(&self) -> impl Iterator<Item = u32> {
        let (cells, right) = match self.kind.has_child() {
            true => (&*self.cells, Some(self.right)),
            false => (&[][..], None),
        };
        cells.iter().map(|cell| cell.child).chain(right)
    }

    /// Calls `f(start, end)` for every region whose bytes mean nothing, in order of their
    /// addresses. Regions may touch.
    pub fn unallocated(&self, mut f: impl FnMut(usize, usize)) {
        let pointers_end = self.header_at + self.kind.header_len() + 2 * self.count();
        if pointers_end < self.content_start {
            f(pointers_end, self.content_start);
        }
        if self.layout.items.is_empty() && !self.filled {
            return;
        }
        let mut at = self.content_start;
        let mut items = self.layout.items.iter().rev().peekable();
        for rank in (0..=self.cells.len()).rev() {
            while let Some(item) = items.next_if(|i| usize::from(i.above) == rank) {
                let meant = if item.block { BLOCK_MIN } else { 0 };
                let end = at + usize::from(item.size);
                if at + meant < end {
                    f(at + meant, end);
                }
                at = end;
            }
            let Some(cell) = rank
                .checked_sub(1)
                .and_then(|rank| self.cells.get(self.layout.cell_at(rank)))
            else {
                return;
            };
            at = cell.end() as usize;
            if cell.meaning_end() < cell.end() {
                f(cell.meaning_end() as usize, at);
            }
        }
    }
}

/// A freeblock or a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// How many cells lie above it.
    pub above: u16,
    /// Its bytes.
    pub size: u16,
    /// Whether it is a freeblock. Otherwise it is a fragment.
    pub block: bool,
}

/// How a page's cells lie.
///
/// A layout is *canonical* if the cells lie back to back from the usable end downwards in the order
/// of their keys, and nothing else lies between content start and usable end. SQLite leaves such
/// pages when it rebuilds or appends. Any other layout has an order of the cells and *items*
/// (freeblocks and fragments) between them. Addresses and content start follow.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// Number of cells.
    cells: usize,
    /// The cells from the usable end downwards. Empty if that is the order of their keys.
    pub order: Vec<u16>,
    /// What lies between them, from the usable end downwards.
    pub items: Vec<Item>,
}

impl Layout {
    /// Whether the layout is canonical.
    #[inline]
    pub fn is_canonical(&self) -> bool {
        self.order.is_empty() && self.items.is_empty()
    }

    /// Becomes the canonical layout of `cells` cells.
    #[inline]
    pub fn reset(&mut self, cells: usize) {
        self.cells = cells;
        self.order.clear();
        self.items.clear();
    }

    /// Number of cells.
    #[inline]
    pub fn count(&self) -> usize {
        self.cells
    }

    /// The cell that lies at `rank` from the usable end downwards.
    #[inline]
    pub fn cell_at(&self, rank: usize) -> usize {
        match self.order.is_empty() {
            true => rank,
            false => self
                .order
                .get(rank)
                .map_or(usize::MAX, |&cell| usize::from(cell)),
        }
    }
}
