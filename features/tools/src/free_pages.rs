//! The free pages of a database whose content a copy does not need.
//!
//! SQLite never reads the leaves of its freelist. But lost locks can leave a page there that a b-tree
//! uses, and SQLite reads its rows. So the freelist is compared with the trees before content is
//! dropped. Usually one pass over the pages that are not free is enough: none of them names a leaf
//! of the list. If one does, the trees are walked: bytes of a value can look like a number of a page.

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::source::{self, Pages, Source};
use crate::usage::{roots, usage};
use densite_sqlite::Api;
use densite_sqlite_format::page::{next_overflow, pointers};
use densite_sqlite_format::{Freelist, Header, PageSet};
use std::path::Path;

/// Bytes read at a time; a multiple of every page size.
const PIECE: u64 = 1 << 20;

/// The free pages of a database.
#[derive(Debug, Default)]
pub(crate) struct FreePages {
    /// The leaves of its freelist; empty if the list is malformed.
    pub(crate) leaves: PageSet,
    /// Those of them that a b-tree uses.
    pub(crate) in_use: PageSet,
}

impl FreePages {
    /// The error for free pages that b-trees use, if there are some.
    pub(crate) fn conflict(&self, path: &Path) -> Option<Error> {
        let first = self.in_use.pages().next()?;
        Some(Error::FreePagesInUse {
            path: path.to_path_buf(),
            pages: self.in_use.len(),
            first,
        })
    }
}

/// Finds the free pages of a source, and those of them that are in use.
///
/// # Errors
/// I/O; [`Error::Interrupted`].
pub(crate) fn free_pages(
    api: Api,
    source: &mut Source,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<FreePages> {
    let header = source.header();
    let Some(list) = source::freelist(source, &header)? else {
        return Ok(FreePages::default());
    };
    let mut found = FreePages::default();
    if !list.leaves.is_empty() {
        let named = named_leaves(source, &header, &list, path, progress)?;
        match roots(api, &source.state()) {
            Ok(roots) => {
                let is_root = roots.iter().any(|(_, root)| list.leaves.contains(*root));
                if is_root || !named.is_empty() {
                    let used = usage(source, &header, &roots, path, progress)?.used;
                    for page in list.leaves.pages().filter(|page| used.contains(*page)) {
                        found.in_use.insert(page);
                    }
                }
            }
            // Without the schema it is unknown which of them are in use.
            Err(_) => found.in_use = named,
        }
    }
    found.leaves = list.leaves;
    Ok(found)
}

/// The leaves of the freelist that a page outside of it seems to name.
fn named_leaves(
    pages: &mut dyn Pages,
    header: &Header,
    list: &Freelist,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<PageSet> {
    let mut named = PageSet::default();
    let len = pages.len();
    progress.phase("checking free pages", len);
    let mut buf = vec![0; usize::try_from(PIECE.min(len)).unwrap_or(0)];
    let size = header.page_size as usize;
    let mut offset = 0;
    while offset < len {
        if progress.cancelled() {
            return Err(Error::Interrupted {
                path: path.to_path_buf(),
            });
        }
        let n = usize::try_from(PIECE.min(len - offset)).unwrap_or(0);
        let Some(part) = buf.get_mut(..n) else { break };
        pages.read(part, offset)?;
        let first = u32::try_from(offset / size as u64 + 1).unwrap_or(u32::MAX);
        for (page, number) in part.chunks(size).zip(first..) {
            if list.all.contains(number) {
                continue;
            }
            let mut meet = |page: u32| {
                if list.leaves.contains(page) {
                    named.insert(page);
                }
            };
            meet(next_overflow(page).unwrap_or(0));
            let usable = header.usable as usize;
            pointers(page, usable, number == 1, |page, _| meet(page));
        }
        offset += n as u64;
        progress.done(offset);
    }
    Ok(named)
}
