//! Chooses the pages that share a frame because they have much room left
//! (docs/decisions/sparse-pages.md).
//!
//! Adjacent leaf pages of one family that are written together, and together hold little more than
//! one page ([`SLACK`]), are stored as one run, whose cells are coded as those of one page. They
//! are encoded both ways, and the smaller result is taken. At most [`JOINED`] times as many pages
//! are joined as a frame holds otherwise. None are joined if the user sets the pages of a frame, in
//! archives, or if zstd with a dictionary was found to be smaller.

use super::encode_settings::EncodeSettings;
use super::job::Job;
use super::runs::RUN_MAX;
use densite_typed::used_bytes;

/// The most pages that are joined, for each page that a frame holds otherwise.
const JOINED: usize = 8;
/// Pages are joined if their bytes in use are at most this many quarters of what a frame holds
/// otherwise. Of pages that lost half of their rows, nine pairs in ten qualify. Of pages filled in
/// random order, which are two thirds full, no pair does.
const SLACK: usize = 5;
/// The most bytes in use in joined pages: they must fit into one page of any size.
const USED_MAX: usize = 65_536;

/// Bytes in use in each job's page. `None` if that does not matter: the page is not a leaf, or no
/// adjacent page is among the jobs.
pub(crate) fn used(jobs: &[Job], set: &EncodeSettings) -> Vec<Option<usize>> {
    if !set.join {
        return Vec::new();
    }
    let follows = |a: Option<&Job>, b: Option<&Job>| {
        a.zip(b)
            .is_some_and(|(a, b)| a.page.checked_add(1) == Some(b.page))
    };
    let each = jobs.iter().enumerate().map(|(i, job)| {
        let before = i.checked_sub(1).and_then(|i| jobs.get(i));
        let near = follows(before, Some(job)) || follows(Some(job), jobs.get(i + 1));
        near.then(|| used_bytes(&job.bytes)).flatten()
    });
    each.collect()
}

/// Whether pages with so many bytes in use are small enough to share a frame.
fn shares(used: usize, page_size: usize, run_pages: usize) -> bool {
    used <= (run_pages * page_size / 4 * SLACK).min(USED_MAX)
}

/// Whether the checkpoint may join a page and an adjacent one if both come together. Then encoding
/// one of them alone in advance is not worthwhile.
pub(crate) fn may_join(set: &EncodeSettings, page: &[u8], neighbour: &[u8]) -> bool {
    let sum = || Some(used_bytes(page)? + used_bytes(neighbour)?);
    set.join
        && page.len() == neighbour.len()
        && page.first() == neighbour.first()
        && sum().is_some_and(|used| shares(used, page.len(), set.run_pages.max(1) as usize))
}

/// How many of the first jobs, with `used` bytes in use, are joined: a power of two, or 1. They
/// need not be aligned: between the pages of a table there are often pages of its indexes, and
/// alignment would separate pairs.
pub(crate) fn join_len(jobs: &[Job], used: &[Option<usize>], set: &EncodeSettings) -> usize {
    let base = set.run_pages.max(1) as usize;
    let (Some(first), Some(Some(_))) = (jobs.first(), used.first()) else {
        return 1;
    };
    let mut n = (base * JOINED).min(RUN_MAX);
    while n > base {
        if let (Some(run), Some(used)) = (jobs.get(..n), used.get(..n))
            && let Some(sum) = used.iter().copied().sum::<Option<usize>>()
            && shares(sum, first.bytes.len(), base)
            && run.iter().zip(first.page..).all(|(job, page)| {
                job.page == page
                    && job.family == first.family
                    && job.bytes.len() == first.bytes.len()
            })
        {
            return n;
        }
        n /= 2;
    }
    1
}
