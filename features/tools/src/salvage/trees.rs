//! Walks b-trees, gives the records of all pages that can be read, and notes what is missing.
//!
//! Nothing is trusted: a page that was met already is not visited again, so a cycle ends.

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::source::Pages;
use densite_sqlite_format::page::{Cell, Page, next_overflow};
use densite_sqlite_format::{Header, PageSet};
use std::path::Path;

/// Pages between two reports of progress.
const REPORT_EVERY: u64 = 256;

/// A part of a b-tree that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The page that cannot be read, from 1.
    pub page: u32,
    /// Why not.
    pub why: String,
    /// The first and the last row id that can be there; `None` in a table without row ids.
    pub ids: Option<(i64, i64)>,
}

/// A record, and where it is.
pub(super) struct Record<'a> {
    pub(super) page: u32,
    /// The row id; `None` in an index.
    pub(super) id: Option<i64>,
    pub(super) bytes: &'a [u8],
}

/// What gets the records.
pub(super) type Each<'a> = &'a mut dyn FnMut(Record<'_>) -> Result<()>;

/// The b-trees of a database.
pub(super) struct Trees<'a> {
    pages: &'a mut dyn Pages,
    header: Header,
    path: &'a Path,
    progress: &'a mut dyn Progress,
    count: u32,
    met: PageSet,
    reads: u64,
    page: Page,
    overflow: Vec<u8>,
    record: Vec<u8>,
}

/// A page to visit. Its row ids are in `above + 1 ..= up_to`.
struct Visit {
    page: u32,
    above: Option<i64>,
    up_to: Option<i64>,
}

impl<'a> Trees<'a> {
    pub(super) fn new(
        pages: &'a mut dyn Pages,
        header: Header,
        path: &'a Path,
        progress: &'a mut dyn Progress,
    ) -> Trees<'a> {
        progress.phase("reading", pages.len());
        let size = header.page_size as usize;
        Trees {
            count: header.pages_in(pages.len()),
            pages,
            header,
            path,
            progress,
            met: PageSet::default(),
            reads: 0,
            page: Page::new(),
            overflow: vec![0; size],
            record: Vec::new(),
        }
    }

    /// Gives the records of the tree at `root`. Returns what is missing.
    ///
    /// # Errors
    /// I/O; [`Error::Interrupted`]; those of `each`.
    pub(super) fn walk(&mut self, root: u32, each: Each<'_>) -> Result<Vec<Missing>> {
        let mut missing = Vec::new();
        let mut is_table = None;
        let mut todo = vec![Visit {
            page: root,
            above: None,
            up_to: None,
        }];
        let mut bytes = vec![0; self.header.page_size as usize];
        while let Some(visit) = todo.pop() {
            let number = visit.page;
            let mut lost = |why: String, is_table: Option<bool>| {
                let first = visit
                    .above
                    .map_or(i64::MIN, |above| above.saturating_add(1));
                let ids = (first, visit.up_to.unwrap_or(i64::MAX));
                missing.push(Missing {
                    page: number,
                    why,
                    ids: (is_table != Some(false)).then_some(ids),
                });
            };
            if let Err(why) = self.visit(number, &mut bytes)? {
                lost(why, is_table);
                continue;
            }
            let usable = self.header.usable as usize;
            let mut page = std::mem::take(&mut self.page);
            let fits = page.parse(&bytes, usable, number == 1)
                && *is_table.get_or_insert(page.kind.is_table()) == page.kind.is_table();
            if !fits {
                self.page = page;
                lost("it is no whole page of this b-tree".to_owned(), is_table);
                continue;
            }
            if page.kind.has_child() {
                let key = |cell: &Cell| page.kind.is_table().then_some(cell.rowid);
                let last = page.cells.last().and_then(key);
                todo.push(Visit {
                    page: page.right,
                    above: last.or(visit.above),
                    up_to: visit.up_to,
                });
                for (i, cell) in page.cells.iter().enumerate().rev() {
                    let before = i.checked_sub(1).and_then(|i| page.cells.get(i));
                    todo.push(Visit {
                        page: cell.child,
                        above: before.and_then(key).or(visit.above),
                        up_to: key(cell),
                    });
                }
            }
            if !(page.kind.has_child() && page.kind.is_table()) {
                let lost = self.records(number, &page, &bytes, each)?;
                missing.extend(lost);
            }
            self.page = page;
        }
        Ok(missing)
    }

    /// Gives the records of leaves that no tree reached. `begins` gets the first and the last row id
    /// of a leaf before its records; `None` for one of an index or of a table without row ids.
    /// Returns what is missing of these, and pages that belong to nothing that is known and cannot be
    /// read.
    ///
    /// # Errors
    /// As [`Trees::walk`].
    pub(super) fn rest(
        &mut self,
        free: &PageSet,
        begins: &mut dyn FnMut(Option<(i64, i64)>),
        each: Each<'_>,
    ) -> Result<(Vec<Missing>, Vec<Missing>)> {
        let (mut missing, mut unread) = (Vec::new(), Vec::new());
        let mut bytes = vec![0; self.header.page_size as usize];
        for number in 2..=self.count {
            if free.contains(number) || self.met.contains(number) {
                continue;
            }
            if let Err(why) = self.read(number, &mut bytes)? {
                unread.push(Missing {
                    page: number,
                    why,
                    ids: None,
                });
                continue;
            }
            let mut page = std::mem::take(&mut self.page);
            let is_leaf =
                page.parse(&bytes, self.header.usable as usize, false) && !page.kind.has_child();
            if let (true, [first, ..], [.., last]) = (is_leaf, &*page.cells, &*page.cells) {
                // Other pages stay free to be met: they can be the rest of a value.
                self.met.insert(number);
                begins(page.kind.is_table().then_some((first.rowid, last.rowid)));
                missing.extend(self.records(number, &page, &bytes, each)?);
            }
            self.page = page;
        }
        Ok((missing, unread))
    }

    /// Gives the records of a page. Returns those whose values are missing.
    fn records(
        &mut self,
        number: u32,
        page: &Page,
        bytes: &[u8],
        each: Each<'_>,
    ) -> Result<Vec<Missing>> {
        let mut missing = Vec::new();
        for cell in &page.cells {
            let id = page.kind.is_table().then_some(cell.rowid);
            let mut record = std::mem::take(&mut self.record);
            record.clear();
            let start = cell.local_at as usize;
            let local = bytes.get(start..start + cell.local_len as usize);
            record.extend_from_slice(local.unwrap_or_default());
            let read = self.chain(cell, &mut record)?;
            match read {
                Ok(()) => each(Record {
                    page: number,
                    id,
                    bytes: &record,
                })?,
                Err((page, why)) => missing.push(Missing {
                    page,
                    why: format!("a value continues there: {why}"),
                    ids: id.map(|id| (id, id)),
                }),
            }
            self.record = record;
        }
        Ok(missing)
    }

    /// Appends what a cell has on overflow pages. The inner error names the page that is missing.
    fn chain(
        &mut self,
        cell: &Cell,
        record: &mut Vec<u8>,
    ) -> Result<std::result::Result<(), (u32, String)>> {
        let mut next = cell.overflow;
        let mut bytes = std::mem::take(&mut self.overflow);
        let mut found = Ok(());
        while (record.len() as u64) < cell.payload {
            if let Err(why) = self.visit(next, &mut bytes)? {
                found = Err((next, why));
                break;
            }
            let left = usize::try_from(cell.payload).unwrap_or(usize::MAX) - record.len();
            let end = (self.header.usable as usize).min(left.saturating_add(4));
            record.extend_from_slice(bytes.get(4..end).unwrap_or_default());
            next = next_overflow(&bytes).unwrap_or(0);
        }
        self.overflow = bytes;
        Ok(found)
    }

    /// Reads a page that was not met before. The inner error says why there is none.
    fn visit(&mut self, number: u32, bytes: &mut [u8]) -> Result<std::result::Result<(), String>> {
        if number == 0 || number > self.count {
            return Ok(Err("there is no such page".to_owned()));
        }
        if !self.met.insert(number) {
            return Ok(Err("it is used twice".to_owned()));
        }
        self.read(number, bytes)
    }

    fn read(&mut self, number: u32, bytes: &mut [u8]) -> Result<std::result::Result<(), String>> {
        let (met, size) = (self.met.len(), u64::from(self.header.page_size));
        self.reads += 1;
        if self.reads.is_multiple_of(REPORT_EVERY) {
            self.progress.done(met * size);
            if self.progress.cancelled() {
                return Err(Error::Interrupted {
                    path: self.path.to_path_buf(),
                });
            }
        }
        match self.pages.read(bytes, self.header.offset_of(number)) {
            Ok(()) => Ok(Ok(())),
            Err(Error::Damaged { what, .. }) => Ok(Err(what)),
            Err(e) => Err(e),
        }
    }
}
