//! Read-ahead: if pages are read in order, the next ones are read in one call and decoded on the
//! pool.
//!
//! Only the calling thread uses the file, because a host's file object belongs to one connection.
//! The pool decodes.

use super::Reader;
use super::batches::{WINDOWS, resize};
use crate::format::entry::Entry;
use crate::open_file::OpenFile;
use crate::options::Readahead;
use crate::shared::Shared;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
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
/// The most bytes of decoded pages ahead of one scan.
const AHEAD_BYTES: usize = 1 << 20;
/// The least bytes of decoded pages of a batch; the last one of a request can have fewer.
const BATCH_BYTES: usize = 64 << 10;
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
/// The number of last reads whose families are read ahead. A leaf and the overflow pages of its
/// rows are of different families, and leaves of one table can be, too.
const FAMILIES_OF: usize = 32;

/// The recent reads of this handle. Scans are recognised even with lookups in between: a join reads
/// one table in order and others at random. Recent reads are kept in a table by page number, so
/// that a read finds the previous one of its own scan.
pub(crate) struct Ahead {
    recent: Box<[Recent; PLACES]>,
    /// Reads so far.
    clock: u32,
    /// The models of the last reads of pages that were not cached, and where the next one goes.
    models: [u32; FAMILIES_OF],
    oldest: usize,
}

/// Pages to read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
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
            models: [0; FAMILIES_OF],
            oldest: 0,
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

    /// Notes the model of a page that is being read.
    fn note_model(&mut self, model: u32) {
        if let Some(place) = self.models.get_mut(self.oldest) {
            *place = model;
        }
        self.oldest = (self.oldest + 1) % FAMILIES_OF;
    }

    /// The families of the last reads, given the family of each model.
    fn families(&self, of: &HashMap<u32, u16>) -> HashSet<u16> {
        let known = self.models.iter().filter_map(|model| of.get(model));
        known.copied().collect()
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
        (page, entry): (u32, &Entry),
        page_size: usize,
    ) {
        if open.options().readahead == Readahead::Off {
            return;
        }
        let budget = AHEAD_BYTES.min(shared.cache.budget() / (2 * WINDOWS));
        let window = (budget / page_size) as u32;
        self.ahead.note_model(entry.model);
        if window >= 8
            && let Some(pool) = open.pool()
            && let Some(wish) = self.ahead.note(page, window)
            && (self.batches).room(page, wish.to - wish.from, window, self.ahead.clock)
            && self.batches.pay()
        {
            self.request(open, shared, &wish, entry, page_size);
            self.batches.offer(pool);
        }
    }

    #[cold]
    fn request(
        &mut self,
        open: &OpenFile,
        shared: &Shared,
        wish: &Wish,
        read: &Entry,
        page_size: usize,
    ) {
        let near = open.options().readahead == Readahead::Near;
        // The end of what was read, if only what lies close behind it is read ahead.
        let mut read_to = near.then_some(read.off + u64::from(read.len));
        let keeps = wish.streak as usize <= shared.cache.budget() / page_size;
        let mut wanted: Vec<(u32, Entry)> = Vec::new();
        let mut dicts = HashMap::new();
        let contents;
        {
            let state = shared.state.read();
            contents = shared.cache.contents();
            let last = u32::try_from(state.pages()).unwrap_or(u32::MAX);
            let families: HashMap<u32, u16> = (state.dicts().iter())
                .map(|info| (info.id, info.family))
                .collect();
            // Pages of other tables and indexes can be in between.
            let read_lately = self.ahead.families(&families);
            let is_other = |entry: &Entry| {
                (families.get(&entry.model)).is_some_and(|family| !read_lately.contains(family))
            };
            for page in wish.from..=last {
                // An error here is ignored: it shows when the page is read.
                let Ok(entry) = shared.lookup(open.file(), &state, page) else {
                    break;
                };
                // The last frame is requested as a whole: the next request would decode it again.
                let before = wanted.last().map(|(_, before)| before.off);
                if page >= wish.to && before != Some(entry.off) {
                    break;
                }
                let known = || shared.cache.contains(page, entry.version) || self.batches.has(page);
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
            let end = last.off + u64::from(last.len);
            if !resize(&mut self.scratch, (end - first.off) as usize) {
                return;
            }
            let Ok(n) = open.file().read_at(&mut self.scratch, first.off) else {
                return;
            };
            self.scratch.truncate(n);
            for part in parts(cluster, BATCH_BYTES / page_size) {
                let mut load = self.batches.load();
                load.fill(part, first.off, &self.scratch);
                let cache = keeps.then_some(&shared.cache);
                let note = (self.ahead.clock, cache, contents);
                (self.batches).add(load, shared.salt, &dicts, page_size, note);
            }
        }
    }
}

/// Divides pages into parts of at least `least` pages, except the last. Pages of one frame stay
/// together, so that no frame is decoded twice.
fn parts(pages: &[(u32, Entry)], least: usize) -> impl Iterator<Item = &[(u32, Entry)]> {
    let mut rest = pages;
    std::iter::from_fn(move || {
        let mut frames = rest.chunk_by(|a, b| a.1.off == b.1.off).map(<[_]>::len);
        let first = frames.next()?;
        let len = frames.try_fold(first, |len, more| match len < least {
            true => ControlFlow::Continue(len + more),
            false => ControlFlow::Break(len),
        });
        let (ControlFlow::Continue(len) | ControlFlow::Break(len)) = len;
        let (part, behind) = rest.split_at(len);
        rest = behind;
        Some(part)
    })
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
    fn families_that_a_scan_no_longer_reads_are_forgotten() {
        let mut ahead = Ahead::default();
        let of = HashMap::from([(1, 10), (2, 20), (3, 30)]);
        let mut read = |page, model| {
            ahead.note_model(model);
            ahead.note(page, 64);
            ahead.families(&of)
        };
        read(1, 1);
        assert_eq!(
            read(2, 2),
            HashSet::from([10, 20]),
            "a leaf and its overflow pages"
        );
        assert_eq!(
            read(3, 0),
            HashSet::from([10, 20]),
            "a page without a model"
        );
        let last = (4..).map(|page| read(page, 3)).nth(FAMILIES_OF);
        assert_eq!(last, Some(HashSet::from([30])));
    }

    #[test]
    fn pages_of_a_frame_stay_together() {
        let entry = |off| Entry { off, ..Entry::NONE };
        let pages: Vec<(u32, Entry)> = (1..).zip([1, 1, 2, 3, 3, 3, 4, 5].map(entry)).collect();
        let lens = |least| parts(&pages, least).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lens(2), [2, 4, 2]);
        assert_eq!(lens(3), [3, 3, 2]);
        assert_eq!(lens(0), [2, 1, 3, 1, 1]);
        assert_eq!(lens(100), [8]);
    }

    #[test]
    fn reading_a_page_again_changes_nothing() {
        let mut ahead = Ahead::default();
        (1..20).for_each(|_| assert_eq!(ahead.note(7, 64), None));
    }
}
