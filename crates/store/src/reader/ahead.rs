//! Read-ahead: if pages are read in order, the next ones are read in one call and decoded on the
//! pool.
//!
//! Only the calling thread uses the file, because a host's file object belongs to one connection.
//! The pool decodes.

use super::Reader;
use super::batches::WINDOWS;
use crate::map::Entry;
use crate::open_file::OpenFile;
use crate::options::Readahead;
use crate::pool::Pool;
use crate::shared::Shared;
use std::collections::HashMap;
use std::sync::Arc;

/// So many reads in order count as a scan.
const STREAK: u32 = 6;
/// Two reads of a scan are at most this many pages apart, because interior pages may be between
/// them.
const SKIP: u32 = 4;
/// The next read of a scan comes within this many reads elsewhere; a later one is a coincidence.
const NEAR: u32 = 256;
/// Pages ahead for each page read in order. After few reads it may not be a scan.
const GROWTH: u32 = 4;
/// The most bytes of decoded pages ahead.
const AHEAD_BYTES: usize = 1 << 20;
/// The least bytes of decoded pages per job.
const JOB_BYTES: usize = 64 << 10;
/// A gap of at most so many stored bytes between two frames is read too, instead of making another
/// call.
const GAP: u64 = 4096;
/// In a remote file, frames that begin farther behind the last one are not read ahead: pages of
/// adjacent numbers can lie far from each other there, and each would take a request.
const NEAR_BYTES: u64 = 64 << 10;

/// Places in the table of recent reads.
const PLACES: usize = 256;
/// See [`Recent::patience`].
const PATIENCE: u8 = 8;

/// The recent reads of this handle. Scans are recognised even with lookups in between: a join reads
/// one table in order and others at random. Recent reads are kept in a table by page number, so
/// that a read finds the previous one of its own scan.
pub(crate) struct Ahead {
    recent: Box<[Recent; PLACES]>,
    /// Reads so far.
    clock: u32,
}

/// Pages to read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    /// The page that was read.
    read: u32,
    from: u32,
    /// The one after the last.
    to: u32,
    /// Reads in order that led to it.
    streak: u32,
}

/// The last read among some adjacent pages.
#[derive(Clone, Copy, Default)]
struct Recent {
    page: u32,
    /// The clock at that read.
    at: u32,
    /// Reads in order that led to it.
    streak: u32,
    /// The first page that was not requested ahead; 0: none was.
    next: u32,
    /// How many reads elsewhere that map to its place in the table a scan still survives.
    patience: u8,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead {
            recent: Box::new([Recent::default(); PLACES]),
            clock: 0,
        }
    }
}

impl Ahead {
    fn recent(&mut self, page: u32) -> &mut Recent {
        let i = (page / SKIP) as usize % PLACES;
        // The remainder is below the length.
        #[expect(clippy::indexing_slicing, reason = "a remainder by the length")]
        &mut self.recent[i]
    }

    /// Notes a read of a page that was in the cache. Nothing is read ahead for it: where a scan
    /// finds its pages in the cache, pages in between that are not there were not wanted before.
    pub(super) fn note_cached(&mut self, page: u32) {
        self.note(page, 0);
    }

    /// Notes a read of `page`. Returns what to read ahead now, if anything.
    fn note(&mut self, page: u32, window: u32) -> Option<Wish> {
        self.clock = self.clock.wrapping_add(1);
        let clock = self.clock;
        let follows = |r: &Recent| {
            r.page < page
                && page - r.page <= SKIP
                && r.page != 0
                && clock.wrapping_sub(r.at) <= NEAR
        };
        let here = *self.recent(page);
        if here.page == page {
            return None;
        }
        let before = *self.recent(page.saturating_sub(SKIP));
        let from = [here, before].into_iter().find(follows).unwrap_or_default();
        let mut now = Recent {
            page,
            at: clock,
            streak: if from.page == 0 {
                0
            } else {
                from.streak.saturating_add(1)
            },
            next: from.next,
            patience: PATIENCE,
        };
        let mut wanted = None;
        if now.streak >= STREAK {
            let window = window.min(now.streak.saturating_mul(GROWTH));
            let first = now.next.max(page.saturating_add(1));
            // Half of the window must be used up before the next request, so that requests are
            // long.
            if first <= page.saturating_add(window / 2) {
                now.next = page.saturating_add(window);
                wanted = Some(Wish {
                    read: page,
                    from: first,
                    to: now.next,
                    streak: now.streak,
                });
            }
        }
        let place = self.recent(page);
        if now.streak == 0 && place.streak >= STREAK && place.patience > 0 {
            place.patience -= 1;
        } else {
            *place = now;
        }
        wanted
    }
}

impl Reader {
    /// Notes a read of a whole page, and requests the next ones if that is worthwhile.
    pub(super) fn read_ahead(
        &mut self,
        open: &OpenFile,
        shared: &Shared,
        page: u32,
        page_size: usize,
    ) {
        if open.options().readahead == Readahead::Off {
            return;
        }
        let budget = AHEAD_BYTES.min(shared.cache.budget() / (2 * WINDOWS));
        let window = (budget / page_size) as u32;
        if window >= 8
            && let Some(pool) = open.pool()
            && let Some(wish) = self.ahead.note(page, window)
            && (self.batches).room(page, wish.to - wish.from, window, self.ahead.clock)
            && self.batches.pay()
        {
            self.request(open, pool, shared, &wish, page_size);
        }
    }

    #[cold]
    fn request(
        &mut self,
        open: &OpenFile,
        pool: &Pool,
        shared: &Shared,
        wish: &Wish,
        page_size: usize,
    ) {
        let near = open.options().readahead == Readahead::Near;
        // The end of what was read, if only what lies close behind it is read ahead.
        let mut read_to = None;
        let mut family = None;
        let keep = wish.streak as usize <= shared.cache.budget() / page_size;
        let mut wanted: Vec<(u32, Entry)> = Vec::new();
        let mut dicts = HashMap::new();
        {
            let state = shared.state.read();
            let last = u32::try_from(state.pages()).unwrap_or(u32::MAX);
            let families: HashMap<u32, u16> = (state.dicts().iter())
                .map(|info| (info.id, info.family))
                .collect();
            if let Ok(entry) = shared.lookup(open.file(), &state, wish.read) {
                read_to = near.then_some(entry.off + u64::from(entry.len));
                family = families.get(&entry.model);
            }
            // Pages of other tables and indexes can be in between.
            let is_other = |entry: &Entry| {
                let other = families.get(&entry.model);
                family
                    .zip(other)
                    .is_some_and(|(family, other)| family != other)
            };
            for page in wish.from..wish.to.min(last.saturating_add(1)) {
                // An error here is ignored: it shows when the page is read.
                let Ok(entry) = shared.lookup(open.file(), &state, page) else {
                    break;
                };
                let known = || shared.cache.contains(page, entry.version);
                if entry.is_none() || is_other(&entry) || known() {
                    continue;
                }
                if entry.model != 0 && !dicts.contains_key(&entry.model) {
                    let Ok(d) = shared.dictionary(open.file(), &state, entry.model) else {
                        break;
                    };
                    dicts.insert(entry.model, d);
                }
                wanted.push((page, entry));
            }
        }
        let dicts = Arc::new(dicts);
        let adjacent = |a: &(u32, Entry), b: &(u32, Entry)| {
            let end = a.1.off + u64::from(a.1.len);
            b.1.off == a.1.off || (b.1.off >= end && b.1.off - end <= GAP)
        };
        for cluster in wanted.chunk_by(adjacent) {
            let (Some((_, first)), Some((_, last))) = (cluster.first(), cluster.last()) else {
                continue;
            };
            if let Some(read_to) = &mut read_to {
                if !(*read_to..=*read_to + NEAR_BYTES).contains(&first.off) {
                    continue;
                }
                *read_to = last.off + u64::from(last.len);
            }
            // The pool queues only a few jobs, so they are few, but enough for all of its threads.
            let each = (JOB_BYTES / page_size)
                .max(cluster.len().div_ceil(2 * open.options().threads.max(1)))
                .max(1);
            for part in cluster.chunks(each) {
                let mut load = self.batches.load();
                load.wanted.extend_from_slice(part);
                let begin = load.prepare();
                let Ok(n) = open.file().read_at(&mut load.stored, begin) else {
                    return;
                };
                load.stored.truncate(n);
                let note = (self.ahead.clock, keep);
                (self.batches).send(load, shared.salt, &dicts, page_size, pool, note);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_is_seen_through_lookups() {
        let mut ahead = Ahead::default();
        let mut asked = Vec::new();
        let mut random = 12345u32;
        for page in 1000..1300 {
            asked.extend(ahead.note(page, 64));
            for _ in 0..20 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                assert_eq!(
                    ahead.note(10_000 + random % 1_000_000, 64),
                    None,
                    "a lookup is not a scan"
                );
            }
        }
        assert!(asked.len() >= 6, "{asked:?}");
        assert!(
            asked.windows(2).all(|w| w[0].to == w[1].from),
            "each page is asked for once: {asked:?}"
        );
    }

    #[test]
    fn nothing_is_asked_for_where_pages_are_cached() {
        let mut ahead = Ahead::default();
        (1..100).for_each(|page| ahead.note_cached(page));
        let wish = ahead
            .note(100, 64)
            .expect("goes on at the first page that is not");
        assert_eq!((wish.from, wish.to), (101, 164));
    }

    #[test]
    fn reading_a_page_again_changes_nothing() {
        let mut ahead = Ahead::default();
        (1..20).for_each(|_| assert_eq!(ahead.note(7, 64), None));
    }
}
