//! Chooses the pages that share a frame as a run. A run has a power of two of adjacent pages. There
//! are three kinds:
//!
//! - **Overflow pages of one chain**, each of which names the next one as its follower. They hold
//!   one long value and are read and written together, so they share a frame of up to
//!   [`CHAIN_BYTES`]. It can begin at any page.
//! - **Pages of one family**, up to `run_pages`, aligned to their number. So pages that are written
//!   again mostly replace whole frames.
//! - **In archives**, pages of one family, or of any families that have no model. Archives are
//!   written once, so their runs can begin at any page. Pages with postings stay alone, because
//!   their codec is for single pages.

use super::encode_settings::EncodeSettings;
use super::job::Job;
use crate::codec::CodecId;
use crate::codec::family::Family;
use crate::options::CodecChoice;
use densite_sqlite_format::page::next_overflow;

/// The most bytes of pages in a run of overflow pages. A read of one of them decodes all.
const CHAIN_BYTES: usize = 64 << 10;
/// The most pages of a frame, which is the format's limit.
pub(super) const RUN_MAX: usize = 64;

/// How many of the first jobs make one frame.
pub(super) fn run_len(jobs: &[Job], set: &EncodeSettings) -> usize {
    let Some(first) = jobs.first() else { return 1 };
    let archive = set.choice == CodecChoice::Archive;
    let chain = if set.chains { chain_len(jobs) } else { 1 };
    let mut n = set.run_pages.max(1) as usize;
    while n > chain {
        let aligned = archive || (first.page as usize - 1).is_multiple_of(n);
        if aligned && let Some(run) = jobs.get(..n) {
            let alike = |(job, page): (&Job, u32)| {
                let mixes = || archive && is_general(set, first) && is_general(set, job);
                job.page == page
                    && job.bytes.len() == first.bytes.len()
                    && (job.family == first.family || mixes())
                    && !(archive && densite_typed::postings::is_likely(&job.bytes))
            };
            if run.iter().zip(first.page..).all(alike) {
                return n;
            }
        }
        n /= 2;
    }
    chain
}

/// The family that the dictionary of a run is for.
pub(super) fn family(run: &[Job]) -> Family {
    let first = run.first().map_or(Family::OTHER, |job| job.family);
    if run.iter().all(|job| job.family == first) {
        first
    } else {
        Family::OTHER
    }
}

/// Whether a page is coded by zstd: its family has a dictionary, or nothing.
fn is_general(set: &EncodeSettings, job: &Job) -> bool {
    let trained = set.dicts.get(&job.family).and_then(|all| all.first());
    job.family == Family::OTHER || trained.is_some_and(|d| d.codec() == CodecId::ZSTD_DICT)
}

/// Whether a page is an overflow page whose chain continues on the page behind it. Both have one
/// length.
pub(crate) fn are_linked(number: u32, page: &[u8], behind: &[u8]) -> bool {
    page.len() == behind.len()
        && next_overflow(page).is_some_and(|next| number.checked_add(1) == Some(next))
        && Family::of(page) == Family::OTHER
}

/// How many of the first jobs are a run of one chain, or 1.
fn chain_len(jobs: &[Job]) -> usize {
    let linked = jobs.windows(2).take(chain_most(jobs) - 1);
    let linked = linked.take_while(|pair| matches!(pair, [job, behind] if links(job, behind)));
    1 << (linked.count() + 1).ilog2()
}

/// The most pages of a chain that share a frame.
fn chain_most(jobs: &[Job]) -> usize {
    let page_size = jobs.first().map_or(1, |job| job.bytes.len().max(1));
    (CHAIN_BYTES / page_size).clamp(1, RUN_MAX)
}

/// Whether a job's chain continues with the job behind it.
fn links(job: &Job, behind: &Job) -> bool {
    job.family == Family::OTHER
        && job.page.checked_add(1) == Some(behind.page)
        && are_linked(job.page, &job.bytes, &behind.bytes)
}

/// How many of the first jobs can be encoded before the jobs behind them are known, so that the
/// frames are the same as if all were known. The last ones wait if their chain continues.
pub(crate) fn whole_runs(jobs: &[Job]) -> usize {
    let Some(last) = jobs.last() else { return 0 };
    if !are_linked(last.page, &last.bytes, &last.bytes) {
        return jobs.len();
    }
    let chain = jobs.windows(2).rev();
    let chain = chain.take_while(|pair| matches!(pair, [job, behind] if links(job, behind)));
    let waiting = (chain.count() + 1) % chain_most(jobs);
    match jobs.len() - waiting {
        0 => jobs.len(),
        n => n,
    }
}
