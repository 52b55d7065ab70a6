//! Determines which page belongs to which b-tree, from interior pages alone.
//!
//! SQLite keeps all leaves of a b-tree at one depth. So the depth is measured once, along one edge
//! of the tree. Then only interior pages are read, and leaves are only counted. No page number is
//! trusted: one that is out of range or already has an owner is skipped. So every page is visited
//! at most once, and a cycle ends.

use crate::error::{Error, Result};
use crate::source::Pages;
use densite_sqlite_format::Header;
use densite_sqlite_format::page::{DEPTH_MAX, Kind, Page};

/// Number of pages whose owners are allocated together.
const CHUNK: usize = 4096;

/// The owner of each page: a number from 1, or 0 if it has none.
#[derive(Debug)]
pub(crate) struct Owners {
    chunks: Vec<Option<Box<[u32; CHUNK]>>>,
    count: u32,
}

impl Owners {
    /// For a database of `count` pages.
    pub(crate) fn new(count: u32) -> Owners {
        let mut chunks = Vec::new();
        chunks.resize_with(count as usize / CHUNK + 1, || None);
        Owners { chunks, count }
    }

    /// The owner of a page. Pages are numbered from 1.
    pub(crate) fn of(&self, page: u32) -> u32 {
        let chunk = self.chunks.get(page as usize / CHUNK);
        let chunk = chunk.and_then(Option::as_ref);
        chunk
            .and_then(|c| c.get(page as usize % CHUNK))
            .copied()
            .unwrap_or(0)
    }

    /// The pages with an owner, ascending, each with its owner. The work depends on the number of
    /// such pages, not on the number of pages that the database claims to have.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (u32, u32)> {
        let chunks = self.chunks.iter().zip(0u32..);
        chunks.flat_map(|(chunk, i)| {
            let owners = chunk.iter().flat_map(|c| c.iter()).zip(0u32..);
            let owned = owners.filter(|(owner, _)| **owner != 0);
            owned.map(move |(owner, at)| (i * CHUNK as u32 + at, *owner))
        })
    }

    /// Sets the owner of a page and returns true. Returns false if the page is out of range or
    /// already has an owner.
    pub(crate) fn give(&mut self, page: u32, owner: u32) -> bool {
        if page == 0 || page > self.count {
            return false;
        }
        let Some(chunk) = self.chunks.get_mut(page as usize / CHUNK) else {
            return false;
        };
        let chunk = chunk.get_or_insert_with(|| Box::new([0; CHUNK]));
        match chunk.get_mut(page as usize % CHUNK) {
            Some(place) if *place == 0 => {
                *place = owner;
                true
            }
            _ => false,
        }
    }
}

/// The result of reading a page.
enum Look {
    Leaf,
    /// An interior page. Its children are in `Walk::children`.
    Interior,
    /// The page cannot be read or is not a page of a b-tree.
    Broken,
}

/// The pages of a tree.
#[derive(Default)]
pub(crate) struct InOrder {
    /// The leaves, in the order of their keys.
    pub(crate) leaves: Vec<u32>,
    /// The interior pages, each with its level below the root.
    pub(crate) interior: Vec<(usize, u32)>,
}

/// Walks b-trees.
pub(crate) struct Walk<'a> {
    pages: &'a mut dyn Pages,
    header: &'a Header,
    page: Page,
    bytes: Vec<u8>,
    children: Vec<u32>,
    /// Number of interior pages and roots that could not be read.
    pub(crate) broken: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(pages: &'a mut dyn Pages, header: &'a Header) -> Walk<'a> {
        Walk {
            pages,
            header,
            page: Page::new(),
            bytes: vec![0; header.page_size as usize],
            children: Vec::new(),
            broken: 0,
        }
    }

    /// Assigns every page of the tree at `root` to `owner`. Returns the number of pages.
    ///
    /// # Errors
    /// I/O. Damage is only counted.
    pub(crate) fn tree(&mut self, root: u32, owner: u32, owners: &mut Owners) -> Result<u64> {
        if !owners.give(root, owner) {
            self.broken += 1;
            return Ok(0);
        }
        let mut given = 1;
        let leaves_at = self.leaves_at(root, owners.count)?;
        let mut todo = if leaves_at > 0 {
            vec![(root, 0)]
        } else {
            Vec::new()
        };
        while let Some((page, level)) = todo.pop() {
            match self.look(page)? {
                Look::Leaf => {}
                Look::Broken => self.broken += 1,
                Look::Interior => {
                    for &child in &self.children {
                        if owners.give(child, owner) {
                            given += 1;
                            if level + 1 < leaves_at {
                                todo.push((child, level + 1));
                            }
                        }
                    }
                }
            }
        }
        Ok(given)
    }

    /// The pages of the tree at `root` that had no owner, which `owner` now owns.
    ///
    /// # Errors
    /// As [`Walk::tree`].
    pub(crate) fn in_order(
        &mut self,
        root: u32,
        owner: u32,
        owners: &mut Owners,
    ) -> Result<InOrder> {
        let mut found = InOrder::default();
        if !owners.give(root, owner) {
            self.broken += 1;
            return Ok(found);
        }
        let leaves_at = self.leaves_at(root, owners.count)?;
        let mut todo = vec![(root, 0)];
        while let Some((page, level)) = todo.pop() {
            if level == leaves_at || !matches!(self.look(page)?, Look::Interior) {
                found.leaves.push(page);
                continue;
            }
            found.interior.push((level, page));
            for &child in self.children.iter().rev() {
                if owners.give(child, owner) {
                    todo.push((child, level + 1));
                }
            }
        }
        Ok(found)
    }

    /// The level of the leaves below the root. If both edges of the tree are damaged, all its pages
    /// are read.
    fn leaves_at(&mut self, root: u32, count: u32) -> Result<usize> {
        Ok(match self.depth(root, false, count)? {
            Some(depth) => depth,
            None => self.depth(root, true, count)?.unwrap_or(DEPTH_MAX),
        })
    }

    /// The number of interior levels along the left or right edge of the tree; `None` if that edge
    /// is damaged.
    fn depth(&mut self, root: u32, right: bool, count: u32) -> Result<Option<usize>> {
        let mut page = root;
        for depth in 0..DEPTH_MAX {
            match self.look(page)? {
                Look::Leaf => return Ok(Some(depth)),
                Look::Broken => return Ok(None),
                Look::Interior => {}
            }
            let edge = if right {
                self.children.last()
            } else {
                self.children.first()
            };
            match edge {
                Some(&child) if (1..=count).contains(&child) => page = child,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn look(&mut self, number: u32) -> Result<Look> {
        self.children.clear();
        let offset = self.header.offset_of(number);
        match self.pages.read(&mut self.bytes, offset) {
            Ok(()) => {}
            Err(Error::Damaged { .. }) => return Ok(Look::Broken),
            Err(e) => return Err(e),
        }
        let first = number == 1;
        match Kind::of(&self.bytes, first) {
            None => return Ok(Look::Broken),
            Some(kind) if !kind.has_child() => return Ok(Look::Leaf),
            Some(_) => {}
        }
        let usable = self.header.usable as usize;
        if !self.page.parse(&self.bytes, usable, first) {
            return Ok(Look::Broken);
        }
        self.children.extend(self.page.children());
        Ok(Look::Interior)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 512;
    const HEADER: Header = Header::new(SIZE as u32);

    /// A page of a table. With children it is an interior page.
    fn page(children: &[u32]) -> Vec<u8> {
        let mut page = vec![0; SIZE];
        let Some((right, cells)) = children.split_last() else {
            page[0] = 13;
            page[5..7].copy_from_slice(&(SIZE as u16).to_be_bytes());
            return page;
        };
        page[0] = 5;
        page[4] = cells.len() as u8;
        page[8..12].copy_from_slice(&right.to_be_bytes());
        let mut start = SIZE;
        for (i, child) in cells.iter().enumerate() {
            start -= 5;
            page[start..start + 4].copy_from_slice(&child.to_be_bytes());
            page[start + 4] = i as u8;
            page[12 + 2 * i..14 + 2 * i].copy_from_slice(&(start as u16).to_be_bytes());
        }
        page[5..7].copy_from_slice(&(start as u16).to_be_bytes());
        page
    }

    /// Walks the tree at page 2 of a database whose pages from 2 have these children. Page 1 is not
    /// read.
    fn walk(children: &[&[u32]]) -> (u64, u64, Vec<u32>) {
        let mut bytes = vec![0; SIZE];
        bytes.extend(children.iter().flat_map(|c| page(c)));
        let count = children.len() as u32 + 1;
        let mut owners = Owners::new(count);
        let mut walk = Walk::new(&mut bytes, &HEADER);
        let given = walk.tree(2, 7, &mut owners).expect("memory does not fail");
        let broken = walk.broken;
        let owned = (1..=count).filter(|p| owners.of(*p) == 7).collect();
        (given, broken, owned)
    }

    #[test]
    fn all_levels_are_visited() {
        let (given, broken, owned) = walk(&[&[3, 4], &[5, 6], &[7, 8], &[], &[], &[], &[], &[]]);
        assert_eq!((given, broken), (7, 0));
        assert_eq!(owned, [2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(walk(&[&[]]), (1, 0, vec![2]));
    }

    #[test]
    fn circles_and_wild_numbers_end() {
        assert_eq!(walk(&[&[2, 2]]).2, [2]);
        assert_eq!(walk(&[&[3, 2], &[2, 3]]).2, [2, 3]);
        assert_eq!(walk(&[&[3, 99, 0], &[]]).2, [2, 3]);
        assert_eq!(walk(&[&[99, 3], &[]]).2, [2, 3], "down the other edge");
    }

    #[test]
    fn leaves_come_in_the_order_of_keys() {
        let children: [&[u32]; 8] = [&[3, 4], &[6, 5], &[8, 7], &[], &[], &[], &[], &[]];
        let mut bytes = vec![0; SIZE];
        bytes.extend(children.iter().flat_map(|c| page(c)));
        let mut owners = Owners::new(9);
        let mut walk = Walk::new(&mut bytes, &HEADER);
        let found = walk.in_order(2, 1, &mut owners).expect("memory");
        assert_eq!(found.leaves, [6, 5, 8, 7]);
        assert_eq!(found.interior, [(0, 2), (1, 3), (1, 4)]);
    }

    #[test]
    fn leaves_are_not_read() {
        let mut bytes = vec![0; SIZE];
        for p in [page(&[3, 4]), page(&[]), vec![0xff; SIZE]] {
            bytes.extend(p);
        }
        let mut owners = Owners::new(4);
        let mut walk = Walk::new(&mut bytes, &HEADER);
        assert_eq!(
            walk.tree(2, 1, &mut owners).expect("memory does not fail"),
            3
        );
        assert_eq!(walk.broken, 0);
    }
}
