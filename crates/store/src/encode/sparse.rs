//! Which pages share a frame because they have much room left.
//!
//! Rows that are deleted leave pages half full, and SQLite joins two only when they are nearly empty. Adjacent leaf pages of one family that
//! together hold little more than one page ([`SLACK`]) are stored as one run, whose cells are coded as those of one page
//! (`densite_typed::encode_joined`). So a frame's header and all that a page costs whatever is in it are paid once, and reading one of
//! the pages decodes no more rows than reading a full one.
//!
//! - They are encoded both ways, and the smaller one is taken: neighbours in the file need not be neighbours in the tree.
//! - Only pages that are written together are joined. A page that is written again alone gets a frame of its own, and leaves behind its share of the
//!   old one, which space reclamation frees like that of any run.
//! - At most [`JOINED`] times as many pages as a frame holds anyhow.
//! - Not where a user says how many pages a frame has, nor in archives, nor where zstd with a dictionary was found to be smaller.

use super::job::Job;
use super::settings::EncodeSettings;
use densite_typed::used_bytes;

/// Most pages joined, for each page that a frame holds anyhow.
const JOINED: usize = 8;
/// Most pages of a frame: the format's limit.
const RUN_MAX: usize = 64;
/// Pages are joined whose bytes in use are at most this many quarters of what a frame holds anyhow: of pages that lost half of their rows nine pairs in ten are; of pages
/// that were filled in no order, two thirds full, none.
const SLACK: usize = 5;
/// Most bytes that can be in use in joined pages: they must fit into one page of any size.
const USED_MAX: usize = 65_536;

/// Bytes in use in each of the jobs' pages; `None` where that does not matter: the page is no leaf, or none of its neighbours is here.
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

/// Whether so many bytes in use are few enough to share a frame.
fn shares(used: usize, page_size: usize, run_pages: usize) -> bool {
    used <= (run_pages * page_size / 4 * SLACK).min(USED_MAX)
}

/// Whether the checkpoint may join a page and its neighbour, if both come together: then neither is worth a frame of its own before.
pub(crate) fn may_join(set: &EncodeSettings, page: &[u8], neighbour: &[u8]) -> bool {
    let sum = || Some(used_bytes(page)? + used_bytes(neighbour)?);
    set.join
        && page.len() == neighbour.len()
        && page.first() == neighbour.first()
        && sum().is_some_and(|used| shares(used, page.len(), set.run_pages.max(1) as usize))
}

/// How many of the first jobs, whose bytes in use are `used`, are joined: a power of two; 1 if none. They need not be aligned: between the pages of a table
/// often lie those of its indexes, and pairs would be torn.
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
