//! Taking a page apart. The module `page` says what is well-formed.

use super::{BLOCK_MIN, Cell, Item, Kind, Page, USABLE_MAX, USABLE_MIN, header_at};
use crate::{be16, be32, varint};

/// Most bytes of a payload: SQLite's own limit for a row.
const PAYLOAD_MAX: u64 = i32::MAX as u64;

/// Memory that is used only while a page is parsed.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// One bit per four bytes of the page: a cell begins there.
    begins: Vec<u64>,
    /// Which cell, if the bit is set.
    owner: Vec<u16>,
    /// Freeblocks, in ascending order.
    blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    start: usize,
    end: usize,
}

/// How many bytes of a payload stay in the page: all of them up to `all_max`, at least `part_min`
/// of a longer one.
#[derive(Clone, Copy)]
struct Rule {
    /// Most bytes of a payload that stays in the page as a whole.
    all_max: usize,
    part_min: usize,
    overflow_page: usize,
}

impl Rule {
    #[inline]
    fn of(kind: Kind, usable: usize) -> Rule {
        let share = |part: usize| (usable.saturating_sub(12) * part / 255).saturating_sub(23);
        Rule {
            all_max: match kind {
                Kind::TableLeaf => usable.saturating_sub(35),
                Kind::TableInterior => 0,
                Kind::IndexInterior | Kind::IndexLeaf => share(64),
            },
            part_min: share(32),
            overflow_page: usable.saturating_sub(4).max(1),
        }
    }

    #[inline]
    fn local(self, payload: u64) -> usize {
        if payload <= self.all_max as u64 {
            return payload as usize;
        }
        let behind = payload.saturating_sub(self.part_min as u64) % self.overflow_page as u64;
        let fits = self.part_min + behind as usize;
        if fits <= self.all_max {
            fits
        } else {
            self.part_min
        }
    }
}

/// How many of the `payload` bytes of a payload lie in the page itself. The others lie on overflow
/// pages: SQLite fills the last overflow page if the page has room for the rest, otherwise it
/// leaves as few bytes as allowed. 0 for interior pages of tables.
#[inline]
pub fn local_len(kind: Kind, usable: usize, payload: u64) -> usize {
    if kind == Kind::TableInterior {
        return 0;
    }
    Rule::of(kind, usable).local(payload)
}

/// Most bytes of a payload that has no overflow page.
#[inline]
pub fn all_max(kind: Kind, usable: usize) -> usize {
    Rule::of(kind, usable).all_max
}

/// The cell that begins at `start` and ends within `body`.
#[inline(always)]
fn cell<const CHILD: bool, const TABLE: bool>(
    body: &[u8],
    start: usize,
    rule: Rule,
) -> Option<Cell> {
    let mut cell = Cell {
        start: start as u32,
        ..Cell::default()
    };
    let mut at = start;
    if CHILD {
        cell.child = be32(body, at)?;
        at += 4;
    }
    if !(CHILD && TABLE) {
        let (payload, len) = varint(body.get(at..)?)?;
        if payload > PAYLOAD_MAX {
            return None;
        }
        cell.payload = payload;
        at += len;
    }
    if TABLE {
        let (rowid, len) = varint(body.get(at..)?)?;
        cell.rowid = rowid.cast_signed();
        at += len;
    }
    cell.local_at = at as u32;
    let local = rule.local(cell.payload);
    cell.local_len = local as u32;
    at += local;
    if local as u64 != cell.payload {
        cell.overflow = be32(body, at)?;
        if cell.overflow == 0 {
            return None;
        }
        at += 4;
    }
    let size = (at - start).max(BLOCK_MIN);
    cell.size = size as u32;
    (start + size <= body.len()).then_some(cell)
}

/// What a b-tree header says about the cells and what lies between them.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Address of the first freeblock, or 0.
    pub first_block: usize,
    /// The lowest address that a cell or freeblock can have.
    pub content_start: usize,
    /// Bytes of fragments.
    pub fragments: usize,
    /// The cells' addresses, big-endian, in order of their keys.
    pub pointers: &'a [[u8; 2]],
}

/// How cells lie.
struct Lie {
    /// Back to back, downwards from the usable end.
    packed: bool,
    /// Downwards.
    descending: bool,
    /// Some cells are filled up to four bytes.
    filled: bool,
    /// Where the last cell begins, or the usable end if there is none.
    below: u32,
}

/// Appends the cells of the pointers. Each kind of page has its own loop, so the loop does not test
/// the kind.
fn take_cells<const CHILD: bool, const TABLE: bool>(
    body: &[u8],
    pointers: &[[u8; 2]],
    rule: Rule,
    to: &mut Vec<Cell>,
) -> Option<Lie> {
    let (mut packed, mut descending) = (true, true);
    let mut below = body.len() as u32;
    let mut meant = 0;
    for pointer in pointers {
        let start = usize::from(u16::from_be_bytes(*pointer));
        let cell = cell::<CHILD, TABLE>(body, start, rule)?;
        packed &= cell.end() == below;
        descending &= cell.end() <= below;
        below = cell.start;
        meant |= cell.end() - cell.meaning_end();
        to.push(cell);
    }
    Some(Lie {
        packed,
        descending,
        filled: meant != 0,
        below,
    })
}

impl Page {
    /// Takes `page` apart, whose first `usable` bytes are not reserved. `first` says that it is
    /// page 1, whose database header is skipped. False, and no cells, if it is not a well-formed
    /// b-tree page. Memory is reused.
    pub fn parse(&mut self, page: &[u8], usable: usize, first: bool) -> bool {
        self.clear();
        if self.take_apart(page, usable, first).is_some() {
            return true;
        }
        self.clear();
        false
    }

    /// Becomes a page without cells.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.layout.reset(0);
        self.content_start = 0;
        self.filled = false;
    }

    /// Reads the b-tree header, and no cells: sets kind, rightmost child, content start and number
    /// of cells. Also returns the bytes that are not reserved. For callers that read the cells in a
    /// faster way.
    pub fn take_head<'a>(
        &mut self,
        page: &'a [u8],
        usable: usize,
        first: bool,
    ) -> Option<(&'a [u8], Head<'a>)> {
        let body = page.get(..usable)?;
        if !(USABLE_MIN..=USABLE_MAX).contains(&usable) {
            return None;
        }
        let header_at = header_at(first);
        self.header_at = header_at;
        self.kind = Kind::from_byte(*body.get(header_at)?)?;
        let first_block = be16(body, header_at + 1)?;
        let cells = be16(body, header_at + 3)?;
        let content_start = match be16(body, header_at + 5)? {
            0 => USABLE_MAX,
            start => start,
        };
        let fragments = usize::from(*body.get(header_at + 7)?);
        self.right = match self.kind.has_child() {
            true => be32(body, header_at + 8)?,
            false => 0,
        };
        let pointers_at = header_at + self.kind.header_len();
        let pointers_end = pointers_at + 2 * cells;
        let pointers = body.get(pointers_at..pointers_end)?.as_chunks().0;
        if content_start < pointers_end || content_start > usable {
            return None;
        }
        self.content_start = content_start;
        self.layout.reset(cells);
        let head = Head {
            first_block,
            content_start,
            fragments,
            pointers,
        };
        Some((body, head))
    }

    fn take_apart(&mut self, page: &[u8], usable: usize, first: bool) -> Option<()> {
        let (body, head) = self.take_head(page, usable, first)?;
        let (cells, content_start) = (head.pointers.len(), head.content_start);
        let (first_block, fragments) = (head.first_block, head.fragments);

        // If the cells lie back to back, downwards from the usable end, only the content start is
        // left to check.
        let rule = Rule::of(self.kind, usable);
        self.cells.reserve(cells);
        let (pointers, to) = (head.pointers, &mut self.cells);
        let lie = match self.kind {
            Kind::TableLeaf => take_cells::<false, true>(body, pointers, rule, to),
            Kind::IndexLeaf => take_cells::<false, false>(body, pointers, rule, to),
            Kind::TableInterior => take_cells::<true, true>(body, pointers, rule, to),
            Kind::IndexInterior => take_cells::<true, false>(body, pointers, rule, to),
        };
        let Lie {
            packed,
            descending,
            filled,
            below,
        } = lie?;
        self.filled = filled;
        if packed && below as usize == content_start && first_block == 0 && fragments == 0 {
            return Some(());
        }

        self.find_blocks(body, first_block)?;
        let mut account = Account {
            at: usable,
            fragments: 0,
            above: 0,
            blocks: &mut self.work.blocks,
            items: &mut self.layout.items,
        };
        if descending {
            for cell in &self.cells {
                account.cell(cell)?;
            }
        } else {
            let order = &mut self.layout.order;
            self.work.begins.clear();
            self.work.begins.resize(usable.div_ceil(BLOCK_MIN * 64), 0);
            self.work.owner.resize(usable.div_ceil(BLOCK_MIN), 0);
            for (index, cell) in self.cells.iter().enumerate() {
                let place = cell.start as usize / BLOCK_MIN;
                let word = self.work.begins.get_mut(place / 64)?;
                // A cell has at least four bytes, so two cells that begin in the same four overlap.
                if *word >> (place % 64) & 1 == 1 {
                    return None;
                }
                *word |= 1 << (place % 64);
                *self.work.owner.get_mut(place)? = index as u16;
            }
            for (at, &word) in self.work.begins.iter().enumerate().rev() {
                let mut word = word;
                while word != 0 {
                    let bit = 63 - word.leading_zeros() as usize;
                    word ^= 1 << bit;
                    let index = *self.work.owner.get(at * 64 + bit)?;
                    account.cell(self.cells.get(usize::from(index))?)?;
                    order.push(index);
                }
            }
        }
        account.end(content_start, fragments)
    }

    /// Follows the chain of freeblocks.
    fn find_blocks(&mut self, body: &[u8], first: usize) -> Option<()> {
        let blocks = &mut self.work.blocks;
        blocks.clear();
        let mut start = first;
        let mut lowest = self.content_start;
        while start != 0 {
            let end = start + be16(body, start + 2)?;
            if start < lowest || end < start + BLOCK_MIN || end > body.len() {
                return None;
            }
            blocks.push(Block { start, end });
            start = be16(body, start)?;
            lowest = end + BLOCK_MIN;
        }
        Some(())
    }
}

/// Goes through a page's content from the usable end downwards, so that each byte is counted once.
struct Account<'a> {
    /// Every byte from here on is accounted for.
    at: usize,
    /// Bytes of fragments so far.
    fragments: usize,
    /// Cells so far.
    above: u16,
    /// Freeblocks that were not reached yet.
    blocks: &'a mut Vec<Block>,
    items: &'a mut Vec<Item>,
}

impl Account<'_> {
    #[inline]
    fn cell(&mut self, cell: &Cell) -> Option<()> {
        let end = cell.end() as usize;
        if end != self.at {
            self.gap(end)?;
        }
        self.at = cell.start as usize;
        self.above += 1;
        Some(())
    }

    /// Accounts for freeblocks and fragments from `from` up to `at`.
    fn gap(&mut self, from: usize) -> Option<()> {
        if from > self.at {
            return None;
        }
        while let Some(block) = self.blocks.pop_if(|block| block.start >= from) {
            self.fragment(block.end)?;
            self.items.push(Item {
                above: self.above,
                size: (block.end - block.start) as u16,
                block: true,
            });
            self.at = block.start;
        }
        self.fragment(from)
    }

    fn fragment(&mut self, from: usize) -> Option<()> {
        let size = self.at.checked_sub(from)?;
        if size != 0 {
            self.fragments += size;
            self.items.push(Item {
                above: self.above,
                // A fragment that is too long fails at the end: a header counts at most 255.
                size: size.min(usize::from(u16::MAX)) as u16,
                block: false,
            });
            self.at = from;
        }
        Some(())
    }

    fn end(mut self, content_start: usize, fragments: usize) -> Option<()> {
        self.gap(content_start)?;
        (self.blocks.is_empty() && self.fragments == fragments).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_bytes_are_those_of_the_file_format() {
        // Usable 4096: X is 4061 for table leaves and 1002 for indexes, M is 489.
        for (kind, payload, local) in [
            (Kind::TableLeaf, 0, 0),
            (Kind::TableLeaf, 4061, 4061),
            (Kind::TableLeaf, 4062, 489),
            (Kind::TableLeaf, 4581, 489),
            (Kind::TableLeaf, 4582, 490),
            (Kind::TableLeaf, 489 + 4092 + 3572, 4061),
            (Kind::TableLeaf, 489 + 4092 + 3573, 489),
            (Kind::IndexLeaf, 1002, 1002),
            (Kind::IndexLeaf, 1003, 489),
            (Kind::IndexInterior, 489 + 4092 + 513, 1002),
            (Kind::IndexInterior, 489 + 4092 + 514, 489),
            (Kind::TableInterior, 100, 0),
        ] {
            assert_eq!(local_len(kind, 4096, payload), local, "{kind:?} {payload}");
        }
        assert_eq!(local_len(Kind::TableLeaf, 0, u64::MAX), 0);
    }
}
