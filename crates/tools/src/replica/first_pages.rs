//! The pages that queries read first: the schema, and the upper part of each b-tree.

use crate::header::{HEADER_LEN, Header};
use densite_replica::{Error, Result};
use densite_sqlite::{Code, Connection};
use densite_store::Handle;
use densite_typed::page::{Kind, Page};

/// The most pages.
const MOST: usize = 1_000;
/// The greatest depth of a b-tree in SQLite.
const DEPTH_MAX: usize = 20;

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
    let roots =
        roots(connection).map_err(|e| Error::source(e.message, e.code.primary() == Code::FULL))?;
    for root in roots {
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

fn roots(connection: &Connection) -> densite_sqlite::Result<Vec<u32>> {
    let mut roots = vec![1];
    let sql = "SELECT rootpage FROM main.sqlite_master WHERE rootpage > 0 ORDER BY rootpage";
    let mut found = connection.prepare(sql)?;
    while roots.len() < MOST && found.step()? {
        let root = found.column(0).as_i64();
        roots.extend(root.and_then(|root| u32::try_from(root).ok()));
    }
    Ok(roots)
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
        let offset = u64::from(number.saturating_sub(1)) * u64::from(self.header.page_size);
        let is_first = number == 1;
        let n = self.handle.read_at(&mut self.bytes, offset)?;
        let kind = self.bytes.get(if is_first { 100 } else { 0 });
        let kind = kind.copied().and_then(Kind::from_byte);
        let usable = self.header.usable as usize;
        let is_interior = n == self.bytes.len()
            && kind.is_some_and(Kind::has_child)
            && self.page.parse(&self.bytes, usable, is_first);
        if !is_interior {
            return Ok(Vec::new());
        }
        let children = self.page.cells.iter().map(|cell| cell.child);
        Ok(children.chain([self.page.right]).collect())
    }
}
