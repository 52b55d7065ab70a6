//! Trim: drops the frames of pages that are leaves of SQLite's freelist, because SQLite never reads
//! these. A page can be dropped when it is a leaf of the freelist in a state of the file that is
//! *committed* and that no rollback can take back (docs/decisions/maintenance.md, Free pages).
//!
//! A commit walks the list only when enough pages were written and freed since the last walk: a
//! [`SHARE`]-th of the list. It drops only in proportion to that, so a small transaction does not
//! pay for a large one. A malformed list is not used (`densite_sqlite_format::freelist`).

use densite_sqlite_format::{HEADER_LEN, Header, freelist};
use densite_store::{Error, Handle};

/// A walk needs changes to one page in this many of the list.
const SHARE: u64 = 16;
/// The pages dropped for each page written or freed.
const EACH: u64 = 4;
/// The pages dropped in any case.
const LEAST: u64 = 1024;
/// The pages dropped in a slice.
const SLICE_PAGES: usize = 4096;

/// What a connection knows for trimming.
#[derive(Debug, Default)]
pub(crate) struct Trim {
    /// A commit of the store that is a committed state of SQLite.
    committed: Option<u64>,
    /// The pages written since the last walk.
    written: u64,
    /// The pages on the freelist at the last walk; `None` before the first.
    free: Option<u32>,
    /// The last walk left pages to drop.
    left: bool,
    /// The part of the list that a slice has not dropped yet, and the commit that it belongs to.
    rest: Option<(u64, Vec<u32>)>,
}

/// The result of a step.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trimmed {
    pub(crate) pages: u64,
    /// More pages are left to drop.
    pub(crate) left: bool,
    /// The pages come from an earlier walk's list.
    pub(crate) again: bool,
}

/// How much a step drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In proportion to what was written.
    Due,
    /// All pages.
    All,
    /// All pages, but per step only as many as a slice has time for.
    Slice,
}

impl Trim {
    /// Notes that a page was written.
    pub(crate) fn wrote(&mut self) {
        self.written += 1;
    }

    /// Notes that the newest commit is a committed state of SQLite. The caller knows why.
    pub(crate) fn is_committed(&mut self, handle: &mut Handle) {
        self.committed = handle.newest_commit().ok();
    }

    /// The same, if the database is in a rollback mode. In WAL mode the caller's reasons do not
    /// apply to the file.
    pub(crate) fn committed_without_wal(&mut self, handle: &mut Handle) {
        let newest = handle.newest_commit().ok();
        // The mode is read after the newest commit, so it is that commit's mode.
        if handle.in_rollback_mode() {
            self.committed = newest;
        }
    }

    /// The last step's drops were discarded: those pages are still to be dropped.
    pub(crate) fn forget(&mut self) {
        self.left = true;
        self.rest = None;
    }

    /// A slice is over. The commits since it took its list are its own, and they change nothing in
    /// the rest of the list.
    pub(crate) fn goes_on(&mut self, handle: &mut Handle) {
        if let Some((commit, _)) = &mut self.rest
            && let Ok(newest) = handle.newest_commit()
        {
            *commit = newest;
        }
    }

    /// Drops the pages that can be dropped; the next publish includes that.
    ///
    /// # Errors
    /// The store's. The frames stay, and nothing is lost.
    pub(crate) fn step(&mut self, handle: &mut Handle, reach: Reach) -> Result<Trimmed, Error> {
        step(handle, self, reach)
    }
}

fn step(handle: &mut Handle, trim: &mut Trim, reach: Reach) -> Result<Trimmed, Error> {
    let Some(committed) = trim.committed else {
        return Ok(Trimmed::default());
    };
    if handle.newest_commit().ok() != Some(committed) {
        return Ok(Trimmed::default());
    }
    // No other connection has committed since a slice took this list.
    if reach == Reach::Slice
        && let Some((_, rest)) = trim.rest.take().filter(|(left, _)| *left == committed)
    {
        return drop_some(handle, trim, rest, committed, true);
    }
    let (page_size, pages) = handle.committed_size()?;
    let mut head = [0; HEADER_LEN];
    handle.read_committed(1, &mut head)?;
    let Some(header) = Header::parse(&head).filter(|h| h.page_size == page_size) else {
        return Ok(Trimmed::default());
    };
    let looked = trim.free.is_some();
    let before = *trim.free.get_or_insert(header.free_pages);
    let changed = trim.written + u64::from(header.free_pages.abs_diff(before));
    let most = match reach {
        Reach::Due if changed * SHARE < u64::from(header.free_pages) => {
            return Ok(Trimmed::default());
        }
        Reach::Due => LEAST + EACH * changed,
        _ if reach != Reach::Due && looked && changed == 0 && !trim.left => {
            return Ok(Trimmed::default());
        }
        Reach::All | Reach::Slice => u64::MAX,
    };
    trim.free = Some(header.free_pages);
    trim.written = 0;
    if header.free_trunk == 0 {
        return Ok(Trimmed::default());
    }
    let list = freelist::list(pages, &header, |page, buf| handle.read_committed(page, buf))?;
    let Some(list) = list else {
        return Ok(Trimmed::default());
    };
    if reach == Reach::Slice {
        return drop_some(
            handle,
            trim,
            list.leaves.pages().collect(),
            committed,
            false,
        );
    }
    let pages = handle.drop_pages(&mut list.leaves.pages(), most)?;
    trim.left = pages == most;
    Ok(Trimmed {
        pages,
        left: trim.left,
        again: false,
    })
}

/// Drops as many pages as a slice has time for and keeps the rest of the list.
fn drop_some(
    handle: &mut Handle,
    trim: &mut Trim,
    mut rest: Vec<u32>,
    commit: u64,
    again: bool,
) -> Result<Trimmed, Error> {
    let now = rest.split_off(rest.len().saturating_sub(SLICE_PAGES));
    let pages = handle.drop_pages(&mut now.into_iter(), u64::MAX)?;
    trim.left = !rest.is_empty();
    trim.rest = trim.left.then_some((commit, rest));
    Ok(Trimmed {
        pages,
        left: trim.left,
        again,
    })
}
