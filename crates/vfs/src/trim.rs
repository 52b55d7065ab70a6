//! Trim: leaf pages of SQLite's freelist are never read, so their frames are dropped.
//!
//! A page can be dropped when it is a leaf of the freelist in a state of the file that is
//! *committed* and that no rollback can take back. What that means, clause by clause:
//!
//! - **Committed.** The newest commit of the store is not always one of SQLite's. A checkpoint that
//!   stopped half-way, a commit that failed after its publish, a writer that was killed leave
//!   others, whose freelist can name live pages. So the number of a commit is kept that is known to
//!   be SQLite's ([`Trim::committed`]), and trimming looks at no other. It is known
//!   - when RESERVED was taken in a rollback mode: SQLite had SHARED before and looked for a hot
//!     journal under it (or `absent` made up for it);
//!   - at COMMIT_PHASETWO, when the journal is gone;
//!   - at the xTruncate that follows CKPT_DONE: SQLite sends it only when the WAL's end was
//!     reached, under the checkpoint lock;
//!   - under an EXCLUSIVE lock of our own, when no journal is hot (`main_file/rest.rs`).
//! - **For good**, in a WAL: its frames are durable before a checkpoint begins, and readers of
//!   older snapshots keep a checkpoint from reaching the end.
//! - **For good**, in a rollback mode: the pages that a transaction frees are not in its journal,
//!   and a journal that was unlinked without a sync of its directory can come back. So a commit
//!   trims what was free *before* it. By then its own journal has taken the place of the one
//!   before, durably. Rolling that back needs no page that was free before and was not written
//!   since. At rest the directory is synced first.
//! - **Leaves only.** Trunks are read. A list that is not well formed is left alone
//!   (`densite_sqlite::image::freelist`).
//!
//! To look is to walk the whole list. So that a small transaction does not pay for a large one, a
//! commit looks only when enough pages were written and freed since the last look: a
//! [`SHARE`]-th of the list. It drops only in proportion to that.

use densite_sqlite::image::{Header, freelist, header::HEADER_LEN};
use densite_store::{Error, Handle};

/// A walk is paid for by changes to one page in so many of the list.
const SHARE: u64 = 16;
/// Pages dropped for each page written or freed.
const EACH: u64 = 4;
/// Pages dropped in any case.
const LEAST: u64 = 1024;
/// Pages dropped in a slice.
const SLICE_PAGES: usize = 4096;

/// What a connection knows for trimming.
#[derive(Debug, Default)]
pub(crate) struct Trim {
    /// A commit of the store that is a committed state of SQLite's.
    committed: Option<u64>,
    /// Pages written since the last look.
    written: u64,
    /// Pages that the freelist had at the last look; `None` before the first.
    free: Option<u32>,
    /// The last look left some.
    left: bool,
    /// What a slice left of the list, and the commit that it left.
    rest: Option<(u64, Vec<u32>)>,
}

/// What a step dropped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trimmed {
    pub(crate) pages: u64,
    /// There are more.
    pub(crate) left: bool,
    /// The list was not walked: it is the rest of one that was.
    pub(crate) again: bool,
}

/// How far a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In proportion to what was written.
    Due,
    /// All there is.
    All,
    /// All there is, so many at a time that a slice has time for them.
    Slice,
}

impl Trim {
    /// Notes that a page was written.
    pub(crate) fn wrote(&mut self) {
        self.written += 1;
    }

    /// Notes that the newest commit is a committed state of SQLite's; the caller says why.
    pub(crate) fn is_committed(&mut self, handle: &mut Handle) {
        self.committed = handle.newest_commit().ok();
    }

    /// The same, if the database is in a rollback mode: in WAL mode the caller's reasons say
    /// nothing of the file.
    pub(crate) fn committed_without_wal(&mut self, handle: &mut Handle) {
        let newest = handle.newest_commit().ok();
        // Asked after the newest commit was, so it is that one's mode.
        if handle.in_rollback_mode() {
            self.committed = newest;
        }
    }

    /// What the last step dropped is not to be dropped: it is still there at the next look.
    pub(crate) fn forget(&mut self) {
        self.left = true;
        self.rest = None;
    }

    /// A slice is over, and what was published since its list was taken is its own: that changed
    /// nothing that the rest of the list says.
    pub(crate) fn goes_on(&mut self, handle: &mut Handle) {
        if let Some((commit, _)) = &mut self.rest
            && let Ok(newest) = handle.newest_commit()
        {
            *commit = newest;
        }
    }

    /// Drops what can be dropped, to be published with what else is pending.
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
    // Nobody else has made a commit since a slice took this list.
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

/// Drops what a slice has time for, and keeps the rest.
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
