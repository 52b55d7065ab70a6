//! Which pages the b-trees of a database use, found by following every pointer from their roots.
//!
//! No page is trusted: a page that is used already is not visited again, so a cycle ends. What does
//! not fit is noted, and the walk goes on: a page that is damaged is in use all the same, and so are
//! the pages that it still names ([`pointers`]).

use crate::error::{Error, Result};
use crate::freelist::PageSet;
use crate::header::{Header, u32_at};
use crate::page_source::Pages;
use crate::progress::Progress;
use crate::source::State;
use crate::view;
use densite_sqlite::{self as sqlite, Api};
use densite_typed::page::{Cell, Kind, Page, local_len, varint};
use std::path::Path;
use std::sync::Arc;

/// The greatest depth of a b-tree in SQLite.
const DEPTH_MAX: usize = 20;
/// The most problems that are noted.
const MOST: usize = 10;
/// Where the b-tree header of page 1 begins.
const FIRST_HEADER_AT: usize = 100;
/// Pages between two reports of progress.
const REPORT_EVERY: u64 = 256;

/// A b-tree: its name and its root page.
pub(crate) type Root = (String, u32);

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// The pages that b-trees use, with overflow pages.
    pub(crate) used: PageSet,
    /// What is wrong with them: the first few problems.
    pub(crate) problems: Vec<String>,
}

/// Walks the b-trees at `roots`. `path` is the database, for messages.
///
/// # Errors
/// I/O; [`Error::Interrupted`]. Damage is among the problems.
pub(crate) fn usage(
    pages: &mut dyn Pages,
    header: &Header,
    roots: &[Root],
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<Usage> {
    progress.phase("checking trees", pages.len());
    let mut walk = Walk {
        count: u32::try_from(pages.len() / u64::from(header.page_size)).unwrap_or(u32::MAX),
        pages,
        header,
        path,
        progress,
        overflow: vec![0; header.page_size as usize],
        bytes: vec![0; header.page_size as usize],
        found: Usage::default(),
    };
    for (name, root) in roots {
        walk.tree(*root, name)?;
    }
    Ok(walk.found)
}

/// The b-trees of a state of a database.
///
/// # Errors
/// SQLite's, if it cannot read the schema.
pub(crate) fn roots(api: Api, state: &Arc<State>) -> sqlite::Result<Vec<Root>> {
    view::reading(api, state, |db| {
        // Then SQLite passes over statements of the schema that it cannot parse: another dialect's.
        db.exec("PRAGMA writable_schema = ON")?;
        let mut found = db.prepare(
            "SELECT type || ' ' || name, rootpage FROM main.sqlite_master WHERE rootpage > 0",
        )?;
        let mut roots = vec![("the schema".to_owned(), 1)];
        while found.step()? {
            let name = String::from_utf8_lossy(found.column(0).as_bytes().unwrap_or_default());
            let root = found.column(1).as_i64().and_then(|n| u32::try_from(n).ok());
            roots.push((name.into_owned(), root.unwrap_or(u32::MAX)));
        }
        Ok(roots)
    })
}

struct Walk<'a> {
    pages: &'a mut dyn Pages,
    header: &'a Header,
    count: u32,
    path: &'a Path,
    progress: &'a mut dyn Progress,
    bytes: Vec<u8>,
    overflow: Vec<u8>,
    found: Usage,
}

/// What all pages of a tree must agree on.
#[derive(Default)]
struct Shape {
    is_table: Option<bool>,
    leaves_at: Option<usize>,
    /// The row id before.
    last: Option<i64>,
}

impl Walk<'_> {
    fn tree(&mut self, root: u32, name: &str) -> Result<()> {
        let mut shape = Shape::default();
        let mut page = Page::new();
        // Page, level, and the largest row id in it.
        let mut todo = vec![(root, 0, None)];
        while let Some((number, level, up_to)) = todo.pop() {
            if !self.meet(number, name)? {
                continue;
            }
            let mut bytes = std::mem::take(&mut self.bytes);
            let is_read = self.read(number, &mut bytes)?;
            let first = number == 1;
            let is_well = is_read && page.parse(&bytes, self.header.usable as usize, first);
            if !is_well {
                self.problem(format!(
                    "page {number} of {name} is not a whole page of a b-tree"
                ));
                let mut named = Vec::new();
                pointers(&bytes, self.header, first, &mut |page, is_child| {
                    named.push((page, is_child));
                });
                self.bytes = bytes;
                for (page, is_child) in named {
                    match is_child {
                        true if level < DEPTH_MAX => todo.push((page, level + 1, None)),
                        true => {}
                        false => self.chain(page, None, name)?,
                    }
                }
                continue;
            }
            self.bytes = bytes;
            self.fits(&mut shape, &page, (number, level), name);
            for cell in &page.cells {
                if cell.overflow != 0 {
                    let left = cell.payload.saturating_sub(u64::from(cell.local_len));
                    self.chain(cell.overflow, Some(left), name)?;
                }
            }
            match page.kind.has_child() {
                true if level >= DEPTH_MAX => {
                    self.problem(format!("{name} is too deep at page {number}"));
                }
                true => {
                    todo.push((page.right, level + 1, up_to));
                    let end = |cell: &Cell| page.kind.is_table().then_some(cell.rowid);
                    let children = page.cells.iter().rev();
                    todo.extend(children.map(|cell| (cell.child, level + 1, end(cell))));
                }
                false => self.in_order(&mut shape, &page, (number, up_to), name),
            }
        }
        Ok(())
    }

    /// Notes a page of another kind than the tree's, and a leaf at another depth.
    fn fits(&mut self, shape: &mut Shape, page: &Page, (number, level): (u32, usize), name: &str) {
        let is_table = *shape.is_table.get_or_insert(page.kind.is_table());
        let is_leaf = !page.kind.has_child();
        let leaves_at = match is_leaf {
            true => *shape.leaves_at.get_or_insert(level),
            false => level,
        };
        if is_table != page.kind.is_table() || leaves_at != level {
            self.problem(format!("page {number} does not fit into {name}"));
        }
    }

    /// Notes row ids of a leaf that are not in order.
    fn in_order(
        &mut self,
        shape: &mut Shape,
        page: &Page,
        (number, up_to): (u32, Option<i64>),
        name: &str,
    ) {
        if !page.kind.is_table() {
            return;
        }
        let mut is_well = true;
        for cell in &page.cells {
            is_well &= shape.last.is_none_or(|last| last < cell.rowid);
            is_well &= up_to.is_none_or(|end| cell.rowid <= end);
            shape.last = Some(cell.rowid);
        }
        if !is_well {
            self.problem(format!(
                "row ids in page {number} of {name} are not in order"
            ));
        }
    }

    /// Follows a chain of overflow pages with `left` bytes, if that is known.
    fn chain(&mut self, first: u32, mut left: Option<u64>, name: &str) -> Result<()> {
        let room = u64::from(self.header.usable).saturating_sub(4);
        let mut next = first;
        let mut bytes = std::mem::take(&mut self.overflow);
        while next != 0 && left != Some(0) {
            let number = next;
            if !self.meet(number, name)? {
                break;
            }
            if !self.read(number, &mut bytes)? {
                break;
            }
            next = u32_at(&bytes, 0).unwrap_or(0);
            left = left.map(|left| left.saturating_sub(room));
            if next == 0 && left.is_some_and(|left| left > 0) {
                self.problem(format!("a value of {name} ends early at page {number}"));
            }
        }
        self.overflow = bytes;
        Ok(())
    }

    /// Notes that a page is used. False if it cannot be visited.
    fn meet(&mut self, number: u32, name: &str) -> Result<bool> {
        if number == 0 || number > self.count {
            self.problem(format!("{name} names page {number}, which does not exist"));
            return Ok(false);
        }
        if !self.found.used.insert(number) {
            self.problem(format!("page {number} of {name} is used twice"));
            return Ok(false);
        }
        let met = self.found.used.len();
        if met.is_multiple_of(REPORT_EVERY) {
            self.progress.done(met * u64::from(self.header.page_size));
            if self.progress.cancelled() {
                return Err(Error::Interrupted {
                    path: self.path.to_path_buf(),
                });
            }
        }
        Ok(true)
    }

    fn read(&mut self, number: u32, bytes: &mut Vec<u8>) -> Result<bool> {
        bytes.resize(self.header.page_size as usize, 0);
        let at = u64::from(number.saturating_sub(1)) * u64::from(self.header.page_size);
        match self.pages.read(bytes, at) {
            Ok(()) => Ok(true),
            Err(Error::Damaged { what, .. }) => {
                self.problem(format!("page {number}: {what}"));
                bytes.fill(0);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    fn problem(&mut self, what: String) {
        if self.found.problems.len() < MOST {
            self.found.problems.push(what);
        }
    }
}

/// Calls `each` with every page that a page names if it is one of a b-tree, whatever else is wrong
/// with it. The flag is true for a child, and false for an overflow page.
pub(crate) fn pointers(
    bytes: &[u8],
    header: &Header,
    first: bool,
    each: &mut dyn FnMut(u32, bool),
) {
    let at = if first { FIRST_HEADER_AT } else { 0 };
    let Some(kind) = bytes.get(at).copied().and_then(Kind::from_byte) else {
        return;
    };
    let usable = header.usable as usize;
    let u16_at = |at: usize| {
        let two = bytes.get(at..)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes(*two)))
    };
    if kind.has_child()
        && let Some(right) = u32_at(bytes, at + 8)
    {
        each(right, true);
    }
    let cells = u16_at(at + 3).unwrap_or(0).min(usable / 2);
    for cell in 0..cells {
        let Some(mut at) = u16_at(at + kind.header_len() + 2 * cell) else {
            return;
        };
        if kind.has_child() {
            if let Some(child) = u32_at(bytes, at) {
                each(child, true);
            }
            at += 4;
        }
        if kind == Kind::TableInterior {
            continue;
        }
        let Some((payload, len)) = bytes.get(at..).and_then(varint) else {
            continue;
        };
        let local = local_len(kind, usable, payload);
        if payload <= local as u64 {
            continue;
        }
        at += len;
        if kind == Kind::TableLeaf {
            let Some((_, len)) = bytes.get(at..).and_then(varint) else {
                continue;
            };
            at += len;
        }
        if let Some(overflow) = u32_at(bytes, at + local) {
            each(overflow, false);
        }
    }
}
