//! How a page's cells lie: everything that does not follow from the order of their keys, their
//! sizes and the page's kind.

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
