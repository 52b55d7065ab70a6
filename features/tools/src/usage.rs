//! Which pages the b-trees of a database use, found by following every pointer from their roots.
//!
//! No page is trusted: a page that is used already is not visited again, so a cycle ends. What does
//! not fit is noted, and the walk goes on: a page that is damaged is in use all the same, and so are
//! the pages that it still names ([`pointers`]).

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::source::{Pages, State};
use crate::view;
use densite_sqlite::{self as sqlite, Api};
use densite_sqlite_format::page::{Cell, DEPTH_MAX, Page, next_overflow, pointers};
use densite_sqlite_format::{Header, PageSet};
use std::path::Path;
use std::sync::Arc;

/// The most problems that are noted.
const MOST: usize = 10;
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
        count: header.pages_in(pages.len()),
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
                pointers(
                    &bytes,
                    self.header.usable as usize,
                    first,
                    |page, is_child| {
                        named.push((page, is_child));
                    },
                );
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
            next = next_overflow(&bytes).unwrap_or(0);
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
        match self.pages.read(bytes, self.header.offset_of(number)) {
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
