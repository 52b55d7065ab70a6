//! Counts unallocated bytes in the pages of each b-tree: bytes that hold nothing and that a rewrite
//! removes.
//!
//! In small databases every page is read; in larger ones a sample of each b-tree, so the time is
//! bounded for any size.

use crate::error::{Error, Result};
use crate::source::Pages;
use crate::trees::Owners;
use densite_sqlite_format::Header;
use densite_sqlite_format::page::Page;

/// The number of sampled pages. Databases with at most this many pages are read completely.
const SAMPLE: u64 = 4096;
/// At least this many pages are sampled in each b-tree, unless there are too many b-trees.
const EACH: u64 = 32;

/// The counts of one b-tree. In a sample they are scaled to all of its pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Slack {
    /// Bytes that hold nothing.
    pub(crate) unallocated: u64,
    /// Cells.
    pub(crate) cells: u64,
    /// Whether every page was read.
    pub(crate) exact: bool,
}

impl Slack {
    /// The number of pages after a rewrite of `pages` pages with `usable` usable bytes each.
    pub(crate) fn packed_pages(&self, pages: u64, usable: u64) -> u64 {
        let used = (pages * usable).saturating_sub(self.unallocated);
        // A page is full when the next cell does not fit, so on average half a cell stays free.
        let left = used / self.cells.max(1) / 2;
        let packed = used.div_ceil(usable.saturating_sub(left).max(usable / 2).max(1));
        packed.clamp(pages.min(1), pages)
    }
}

/// Counts of one owner.
#[derive(Clone, Copy, Default)]
struct Tally {
    met: u64,
    read: u64,
    unallocated: u64,
    cells: u64,
}

/// Counts in the pages of the tree owners 1 to `trees`. `pages` has the number of pages of each
/// owner.
pub(crate) fn slack(
    from: &mut dyn Pages,
    header: &Header,
    owners: &Owners,
    pages: &[u64],
    trees: u32,
) -> Result<Vec<Slack>> {
    let size = u64::from(header.page_size);
    let count = from.len() / size;
    let each = (SAMPLE / u64::from(trees.max(1))).clamp(1, EACH);
    let step = |n: u64| {
        let wanted = if count <= SAMPLE {
            n
        } else {
            (SAMPLE * n / count).max(each)
        };
        n.div_ceil(wanted.max(1)).max(1)
    };
    let mut tallies = vec![Tally::default(); pages.len()];
    let mut page = Page::new();
    let mut bytes = vec![0; header.page_size as usize];
    for (number, owner) in owners.owned().filter(|(_, owner)| *owner <= trees) {
        let n = pages.get(owner as usize).copied().unwrap_or(0);
        let Some(tally) = tallies.get_mut(owner as usize) else {
            continue;
        };
        tally.met += 1;
        // The sample starts in the middle of a step. So the root, the first page of a tree, does
        // not represent other pages.
        let step = step(n);
        if (tally.met + step / 2) % step != 0 {
            continue;
        }
        match from.read(&mut bytes, header.offset_of(number)) {
            Ok(()) => {}
            Err(Error::Damaged { .. }) => continue,
            Err(e) => return Err(e),
        }
        tally.read += 1;
        if page.parse(&bytes, header.usable as usize, number == 1) {
            tally.cells += page.cells.len() as u64;
            page.unallocated(|start, end| tally.unallocated += (end - start) as u64);
        }
    }
    let scaled = |tally: &Tally| Slack {
        unallocated: tally.unallocated * tally.met / tally.read.max(1),
        cells: tally.cells * tally.met / tally.read.max(1),
        exact: tally.read == tally.met,
    };
    Ok(tallies.iter().map(scaled).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_empty_pages_become_half_as_many() {
        let half = Slack {
            unallocated: 50 * 4096,
            cells: 100 * 40,
            exact: true,
        };
        let packed = half.packed_pages(100, 4096);
        assert!((50..=52).contains(&packed), "{packed}");
        assert_eq!(Slack::default().packed_pages(0, 4096), 0);
        assert_eq!(Slack::default().packed_pages(7, 4096), 7);
        let empty = Slack {
            unallocated: 4096,
            cells: 0,
            exact: true,
        };
        assert_eq!(empty.packed_pages(1, 4096), 1, "a tree keeps its root");
    }
}
