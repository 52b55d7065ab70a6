//! Walks b-trees and computes the digests of their content.

use crate::digest::{Digest, Key};
use crate::error::Result;
use crate::source::Pages;
use densite_disk::hash::{Xxh3_64, xxh3_64_with_seed};
use densite_sqlite_format::page::{Cell, DEPTH_MAX, Page, next_overflow};
use densite_sqlite_format::{Header, PageSet};

/// Why a tree has no digest.
#[derive(Debug)]
pub(crate) enum Odd {
    /// Reading failed.
    Error(crate::error::Error),
    /// A page is not a valid page of a b-tree at this place.
    NotATree,
}

impl From<crate::error::Error> for Odd {
    fn from(e: crate::error::Error) -> Odd {
        Odd::Error(e)
    }
}

/// A part of a tree, in key order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece {
    /// All records below this page. Its leaves are `depth` levels deep. In a table with row ids,
    /// all row ids are greater than `above` and at most `up_to`.
    Subtree {
        root: u32,
        depth: u32,
        above: Option<i64>,
        up_to: Option<i64>,
    },
    /// One record of an interior page.
    Record(Digest),
}

/// Walks trees and records every page that it visits.
pub(crate) struct Digester<'a> {
    pages: &'a mut dyn Pages,
    header: &'a Header,
    key: Key,
    /// The bytes and the parsed form of one page for each level.
    levels: Vec<(Vec<u8>, Page)>,
    overflow: Vec<u8>,
    /// Visited pages. Visiting a page twice is an error.
    pub(crate) seen: PageSet,
}

impl<'a> Digester<'a> {
    pub(crate) fn new(pages: &'a mut dyn Pages, header: &'a Header, key: Key) -> Digester<'a> {
        Digester {
            pages,
            header,
            key,
            levels: Vec::new(),
            overflow: Vec::new(),
            seen: PageSet::default(),
        }
    }

    /// Divides the tree at `root` into pieces of about one parent of leaves each. The pages above
    /// the pieces count as visited.
    pub(crate) fn pieces(&mut self, root: u32) -> std::result::Result<Vec<Piece>, Odd> {
        let depth = self.depth(root)?;
        let whole = Piece::Subtree {
            root,
            depth,
            above: None,
            up_to: None,
        };
        // Trees of few pages are not divided.
        let mut pieces = vec![whole];
        for _ in 2..depth {
            let mut finer = Vec::new();
            for piece in pieces {
                match piece {
                    Piece::Subtree {
                        root,
                        depth,
                        above,
                        up_to,
                    } => self.split(root, depth, above, up_to, &mut finer)?,
                    record => finer.push(record),
                }
            }
            pieces = finer;
        }
        Ok(pieces)
    }

    /// The digest of all records below a page.
    pub(crate) fn subtree(
        &mut self,
        root: u32,
        depth: u32,
        above: Option<i64>,
        up_to: Option<i64>,
    ) -> std::result::Result<Digest, Odd> {
        let mut digest = Digest::default();
        let mut last = above;
        self.visit(root, depth, 0, &mut last, up_to, &mut digest)?;
        Ok(digest)
    }

    fn visit(
        &mut self,
        number: u32,
        depth: u32,
        level: usize,
        last: &mut Option<i64>,
        up_to: Option<i64>,
        digest: &mut Digest,
    ) -> std::result::Result<(), Odd> {
        let (bytes, page) = self.take(number, level)?;
        let done = self.visit_page(depth, level, (&bytes, &page), last, up_to, digest);
        self.give(level, bytes, page);
        done
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "they are the state of a recursion over a page that is borrowed"
    )]
    fn visit_page(
        &mut self,
        depth: u32,
        level: usize,
        (bytes, page): (&[u8], &Page),
        last: &mut Option<i64>,
        up_to: Option<i64>,
        digest: &mut Digest,
    ) -> std::result::Result<(), Odd> {
        if page.kind.has_child() != (depth > 1) {
            return Err(Odd::NotATree);
        }
        for cell in &page.cells {
            if page.kind.has_child() {
                let end = if page.kind.is_table() {
                    Some(cell.rowid)
                } else {
                    None
                };
                self.visit(cell.child, depth - 1, level + 1, last, end, digest)?;
                if page.kind.is_table() {
                    if last.is_some_and(|last| last > cell.rowid) {
                        return Err(Odd::NotATree);
                    }
                    *last = Some(cell.rowid);
                    continue;
                }
            } else if page.kind.is_table() {
                if last.is_some_and(|last| last >= cell.rowid)
                    || up_to.is_some_and(|end| cell.rowid > end)
                {
                    return Err(Odd::NotATree);
                }
                *last = Some(cell.rowid);
            }
            let hash = self.hash(bytes, page, cell)?;
            digest.push(self.key, hash);
        }
        if page.kind.has_child() {
            self.visit(page.right, depth - 1, level + 1, last, up_to, digest)?;
        }
        Ok(())
    }

    /// Replaces a subtree by the pieces one level below it.
    fn split(
        &mut self,
        root: u32,
        depth: u32,
        above: Option<i64>,
        up_to: Option<i64>,
        out: &mut Vec<Piece>,
    ) -> std::result::Result<(), Odd> {
        let (bytes, page) = self.take(root, 0)?;
        if !page.kind.has_child() {
            return Err(Odd::NotATree);
        }
        let (mut above, depth) = (above, depth - 1);
        for cell in &page.cells {
            let table = page.kind.is_table();
            let end = table.then_some(cell.rowid);
            out.push(Piece::Subtree {
                root: cell.child,
                depth,
                above,
                up_to: end,
            });
            above = end;
            if !table {
                let mut record = Digest::default();
                let hash = self.hash(&bytes, &page, cell)?;
                record.push(self.key, hash);
                out.push(Piece::Record(record));
            }
        }
        out.push(Piece::Subtree {
            root: page.right,
            depth,
            above,
            up_to,
        });
        self.give(0, bytes, page);
        Ok(())
    }

    /// The depth of the tree along its left edge. Does not mark pages as visited.
    fn depth(&mut self, root: u32) -> std::result::Result<u32, Odd> {
        let mut number = root;
        for depth in 1..=DEPTH_MAX as u32 {
            let (bytes, page) = self.read(number, 0)?;
            let child = page.children().next();
            self.give(0, bytes, page);
            match child {
                None => return Ok(depth),
                Some(child) => number = child,
            }
        }
        Err(Odd::NotATree)
    }

    /// The hash of the payload and row id of a cell.
    fn hash(&mut self, bytes: &[u8], page: &Page, cell: &Cell) -> std::result::Result<u64, Odd> {
        let from = cell.local_at as usize;
        let local = bytes
            .get(from..from + cell.local_len as usize)
            .ok_or(Odd::NotATree)?;
        let mut seed = self.key.seed;
        if page.kind.is_table() {
            seed ^= cell
                .rowid
                .cast_unsigned()
                .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        if cell.overflow == 0 {
            return Ok(xxh3_64_with_seed(local, seed));
        }
        let mut hasher = Xxh3_64::with_seed(seed);
        hasher.update(local);
        let mut left = cell.payload - u64::from(cell.local_len);
        let mut next = cell.overflow;
        let room = self.header.usable as usize - 4;
        let mut buf = std::mem::take(&mut self.overflow);
        while left > 0 {
            self.meet(next)?;
            self.fill(next, &mut buf)?;
            let n = usize::try_from(left).unwrap_or(room).min(room);
            hasher.update(buf.get(4..4 + n).ok_or(Odd::NotATree)?);
            next = next_overflow(&buf).ok_or(Odd::NotATree)?;
            left -= n as u64;
        }
        self.overflow = buf;
        if next != 0 {
            return Err(Odd::NotATree);
        }
        Ok(hasher.digest())
    }

    fn fill(&mut self, number: u32, buf: &mut Vec<u8>) -> Result<()> {
        buf.resize(self.header.page_size as usize, 0);
        self.pages.read(buf, self.header.offset_of(number))
    }

    fn meet(&mut self, number: u32) -> std::result::Result<(), Odd> {
        let count = self.header.pages_in(self.pages.len());
        if number == 0 || number > count || !self.seen.insert(number) {
            return Err(Odd::NotATree);
        }
        Ok(())
    }

    fn take(&mut self, number: u32, level: usize) -> std::result::Result<(Vec<u8>, Page), Odd> {
        self.meet(number)?;
        self.read(number, level)
    }

    /// Reads and parses a page into the buffers of a level. [`Digester::give`] returns the buffers.
    fn read(&mut self, number: u32, level: usize) -> std::result::Result<(Vec<u8>, Page), Odd> {
        if self.levels.len() <= level {
            self.levels
                .resize_with(level + 1, || (Vec::new(), Page::new()));
        }
        let (mut bytes, mut page) = self
            .levels
            .get_mut(level)
            .map(std::mem::take)
            .unwrap_or_default();
        self.fill(number, &mut bytes)?;
        if !page.parse(&bytes, self.header.usable as usize, number == 1) {
            return Err(Odd::NotATree);
        }
        Ok((bytes, page))
    }

    fn give(&mut self, level: usize, bytes: Vec<u8>, page: Page) {
        if let Some(place) = self.levels.get_mut(level) {
            *place = (bytes, page);
        }
    }
}
