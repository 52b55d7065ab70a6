//! The pages that queries read first: the schema, and the upper part of each b-tree.

use crate::schema;
use densite_replica::{Error, Result};
use densite_sqlite::{Code, Connection};
use densite_sqlite_format::page::{DEPTH_MAX, Kind, Page};
use densite_sqlite_format::{HEADER_LEN, Header};
use densite_store::Handle;

/// The most pages.
const MOST: usize = 1_000;

/// The first page, and the roots and interior pages of all b-trees, upper ones first. Others can
/// write meanwhile: then some of them are other pages, which does no harm.
///
/// # Errors
/// Those of reading the database.
pub(super) fn first_pages(connection: &Connection, handle: &mut Handle) -> Result<Vec<u32>> {
    let mut start = [0; HEADER_LEN];
    handle.read_at(&mut start, 0)?;
    let Some(header) = Header::parse(&start) else {
        return Ok(vec![1]);
    };
    let mut trees = Trees {
        bytes: vec![0; header.page_size as usize],
        handle,
        header,
        page: Page::new(),
    };
    let mut level = Vec::new();
    let mut found = vec![1];
    let failed =
        |e: densite_sqlite::Error| Error::source(e.message, e.code.primary() == Code::FULL);
    let roots = schema::roots(connection).map_err(failed)?;
    for root in roots.into_iter().take(MOST) {
        found.push(root);
        // All leaves of a b-tree have one depth.
        let depth = trees.depth(root)?;
        level.push((root, depth));
    }
    while !level.is_empty() && found.len() < MOST {
        let mut below = Vec::new();
        for (page, depth) in level {
            if depth == 0 || found.len() >= MOST {
                continue;
            }
            let children = trees.children(page)?;
            if depth > 1 {
                found.extend(&children);
                below.extend(children.into_iter().map(|child| (child, depth - 1)));
            }
        }
        level = below;
    }
    found.truncate(MOST);
    Ok(found)
}

struct Trees<'a> {
    handle: &'a mut Handle,
    header: Header,
    bytes: Vec<u8>,
    page: Page,
}

impl Trees<'_> {
    /// How many levels are below a page, along the first children.
    fn depth(&mut self, root: u32) -> Result<usize> {
        let mut page = root;
        for depth in 0..DEPTH_MAX {
            match self.children(page)?.first() {
                Some(child) => page = *child,
                None => return Ok(depth),
            }
        }
        Ok(0)
    }

    /// The children of an interior page; none of any other page.
    fn children(&mut self, number: u32) -> Result<Vec<u32>> {
        let offset = self.header.offset_of(number);
        let is_first = number == 1;
        let n = self.handle.read_at(&mut self.bytes, offset)?;
        let usable = self.header.usable as usize;
        let is_interior = n == self.bytes.len()
            && Kind::of(&self.bytes, is_first).is_some_and(Kind::has_child)
            && self.page.parse(&self.bytes, usable, is_first);
        match is_interior {
            true => Ok(self.page.children().collect()),
            false => Ok(Vec::new()),
        }
    }
}
