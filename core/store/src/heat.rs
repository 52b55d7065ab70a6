//! Which pages are written again and again, and which of them have a raw frame for that reason
//! (docs/decisions/writing-less.md).
//!
//! In WAL mode a checkpoint can bring a thousand pages that the last few checkpoints brought too.
//! Encoding them well each time takes much longer than writing them. So they are stored raw, and
//! encoded once they are quiet: by a later commit, by space reclamation at rest, or at the close.
//!
//! What is known here is lost with the process. So each commit notes in the file how many raw frames
//! there are ([`Learned::hot`]). A process that knows of fewer looks for them at rest (`relearn`).

use crate::codec::CodecId;
use crate::format::entry::Entry;
use crate::format::trailer::Learned;
use densite_disk::sync::Mutex;
use std::collections::hash_map::{self, HashMap};

/// A page is quiet if so many commits have not written it.
const QUIET: u64 = 16;
/// A page is hot if it was written this often, never with a quiet time in between.
const TIMES: u8 = 3;
/// Hot pages are stored raw if the last commit had more of them than this: fewer cost little.
const FEW: usize = 64;
/// The most pages that are known.
const KNOWN: usize = 1 << 16;
/// The most raw frames at a time: so many pages, or this part of the file if that is more. A raw
/// frame is several times as long as an encoded one.
const RAW_PAGES: usize = 1024;
const RAW_PART: u64 = 16;

#[derive(Default)]
struct State {
    /// The number of commits so far.
    clock: u64,
    pages: HashMap<u32, Seen>,
    /// Hot pages of the last commit.
    hot: usize,
    /// Pages with a raw frame.
    raw: usize,
    /// The most of them.
    most_raw: usize,
    /// Whether the file had raw frames that this process did not know of, when it first looked.
    inherited: Option<bool>,
    /// This process is looking for such frames, and has begun at the first page.
    searches: bool,
}

struct Seen {
    last: u64,
    times: u8,
    /// The version of the raw frame that the page has because it was hot.
    raw: Option<u64>,
}

impl Seen {
    /// Whether the page has this frame, now that it is written, because it was hot. Also if it has
    /// just ceased to be hot: it was hot when it was encoded.
    fn becomes_hot(&self, entry: &Entry) -> bool {
        self.times >= TIMES && is_raw(entry)
    }
}

fn is_raw(entry: &Entry) -> bool {
    !entry.is_none() && entry.codec == CodecId::RAW.0
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Heat {
    state: Mutex<State>,
}

impl State {
    fn is_quiet(&self, seen: &Seen) -> bool {
        self.clock - seen.last >= QUIET
    }

    fn is_hot(&self, page: u32) -> bool {
        let seen = self.pages.get(&page);
        seen.is_some_and(|seen| seen.times >= TIMES && !self.is_quiet(seen))
    }

    /// Whether the page is stored raw if it is written now. `more`: how many pages can be stored raw
    /// that are not yet; one less if this is one.
    fn is_hurried(&self, page: u32, more: &mut usize) -> bool {
        if self.hot <= FEW || !self.is_hot(page) {
            return false;
        }
        if self.pages.get(&page).is_some_and(|seen| seen.raw.is_some()) {
            return true;
        }
        let is_room = *more > 0;
        *more = more.saturating_sub(1);
        is_room
    }

    fn more_raw(&self) -> usize {
        self.most_raw.saturating_sub(self.raw)
    }
}

impl Heat {
    /// Which of these pages are stored raw, if they are written now.
    pub(crate) fn hurried(&self, pages: impl Iterator<Item = u32>) -> Vec<bool> {
        let state = self.state.lock();
        let mut more = state.more_raw();
        pages
            .map(|page| state.is_hurried(page, &mut more))
            .collect()
    }

    /// Whether the page is stored raw, if it is written now.
    pub(crate) fn is_hurried(&self, page: u32) -> bool {
        let state = self.state.lock();
        state.is_hurried(page, &mut state.more_raw())
    }

    /// How many raw frames there are after a commit of these pages, of which `settled` are only
    /// encoded again, if there were `before`.
    pub(crate) fn hot_after<'a>(
        &self,
        before: u32,
        pages: impl Iterator<Item = (u32, &'a Entry)>,
        settled: impl Fn(u32) -> bool,
    ) -> u32 {
        let state = self.state.lock();
        let (mut gone, mut new) = (0, 0);
        let looked_at = pages.filter(|(_, entry)| state.raw > 0 || is_raw(entry));
        for (page, entry) in looked_at {
            if let Some(seen) = state.pages.get(&page) {
                gone += u32::from(seen.raw.is_some());
                new += u32::from(seen.becomes_hot(entry) && !settled(page));
            }
        }
        before.saturating_sub(gone) + new
    }

    /// Whether the file has raw frames that this process does not know of.
    pub(crate) fn has_others(&self, learned: Learned) -> bool {
        learned.hot as usize > self.state.lock().raw
    }

    /// Whether it had such frames when this process first asked.
    pub(crate) fn has_inherited(&self, learned: Learned) -> bool {
        let state = &mut *self.state.lock();
        let has_others = learned.hot as usize > state.raw;
        has_others && *state.inherited.get_or_insert(has_others)
    }

    /// A search for raw frames begins at the first page.
    pub(crate) fn begins_search(&self) {
        self.state.lock().searches = true;
    }

    /// The last page was looked at. Returns how many raw frames there are then, if there were
    /// `before`: those that this process knows of, if it began at the first page. Otherwise there
    /// can be others before the page where it began.
    pub(crate) fn ends_search(&self, before: u32) -> u32 {
        let state = &mut *self.state.lock();
        if !std::mem::take(&mut state.searches) {
            return before;
        }
        state.inherited = Some(false);
        state.raw as u32
    }

    /// Notes a commit: its pages, of which `settled` were only encoded again, and how many pages
    /// the file could hold if it held them raw.
    pub(crate) fn committed<'a>(
        &self,
        file_pages: u64,
        pages: impl Iterator<Item = (u32, &'a Entry)>,
        settled: impl Fn(u32) -> bool,
    ) {
        let state = &mut *self.state.lock();
        state.clock += 1;
        state.most_raw = RAW_PAGES.max((file_pages / RAW_PART) as usize);
        let clock = state.clock;
        if clock.is_multiple_of(QUIET) {
            let quiet = |seen: &Seen| clock - seen.last >= QUIET;
            state
                .pages
                .retain(|_, seen| seen.raw.is_some() || !quiet(seen));
        }
        state.hot = 0;
        for (page, entry) in pages {
            // A page without a frame has nothing to encode.
            if entry.is_none() {
                let seen = state.pages.remove(&page);
                state.raw -= usize::from(seen.is_some_and(|seen| seen.raw.is_some()));
                continue;
            }
            let hot = state.is_hot(page);
            let room = state.pages.len() < KNOWN;
            let seen = match state.pages.entry(page) {
                hash_map::Entry::Occupied(seen) => seen.into_mut(),
                hash_map::Entry::Vacant(new) if room => new.insert(Seen {
                    last: 0,
                    times: 0,
                    raw: None,
                }),
                hash_map::Entry::Vacant(_) => continue,
            };
            state.raw -= usize::from(seen.raw.take().is_some());
            if settled(page) {
                continue;
            }
            if seen.becomes_hot(entry) {
                seen.raw = Some(entry.version);
                state.raw += 1;
            }
            state.hot += usize::from(hot);
            seen.times = match clock - seen.last < QUIET {
                true => seen.times.saturating_add(1),
                false => 1,
            };
            seen.last = clock;
        }
    }

    /// Up to so many pages with raw frames, with the versions of these, in order: quiet pages, or
    /// any at rest.
    pub(crate) fn due(&self, most: usize, at_rest: bool) -> Vec<(u32, u64)> {
        let state = self.state.lock();
        if state.raw == 0 {
            return Vec::new();
        }
        let due = state.pages.iter().filter_map(|(page, seen)| {
            let due = at_rest || state.is_quiet(seen);
            seen.raw.filter(|_| due).map(|version| (*page, version))
        });
        let mut due: Vec<(u32, u64)> = due.collect();
        due.sort_unstable();
        due.truncate(most);
        due
    }

    /// Whether any page has a raw frame.
    pub(crate) fn is_due(&self) -> bool {
        self.state.lock().raw > 0
    }

    /// Forgets the raw frame of a page.
    pub(crate) fn forget(&self, page: u32) {
        let state = &mut *self.state.lock();
        if let Some(seen) = state.pages.get_mut(&page) {
            state.raw -= usize::from(seen.raw.take().is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(version: u64) -> Entry {
        Entry {
            off: 1,
            version,
            len: 1,
            codec: CodecId::RAW.0,
            ..Entry::NONE
        }
    }

    fn commit(heat: &Heat, pages: std::ops::Range<u32>, version: u64) {
        let entry = raw(version);
        heat.committed(0, pages.map(|page| (page, &entry)), |_| false);
    }

    #[test]
    fn many_pages_are_hot_after_three_commits_and_due_once_quiet() {
        let heat = Heat::default();
        for version in 1..=4 {
            assert!(!heat.is_hurried(1) && !heat.is_due());
            commit(&heat, 1..100, version);
        }
        assert!(heat.is_hurried(1) && !heat.is_hurried(100));
        let entry = raw(5);
        let hot = heat.hot_after(99 + 7, (1..101).map(|page| (page, &entry)), |page| {
            page == 9
        });
        assert_eq!(hot, 7 + 98);
        commit(&heat, 1..100, 5);
        assert_eq!(
            heat.hot_after(99, std::iter::once((3, &Entry::NONE)), |_| false),
            98
        );
        let learned = |hot| Learned {
            hot,
            ..Learned::default()
        };
        assert!(heat.has_others(learned(100)) && !heat.has_others(learned(99)));
        assert!(!heat.has_inherited(learned(99)) && heat.has_inherited(learned(100)));
        assert!(heat.ends_search(100) == 100 && heat.has_inherited(learned(100)));
        heat.begins_search();
        assert!(heat.ends_search(100) == 99 && !heat.has_inherited(learned(100)));
        assert!(heat.due(usize::MAX, false).is_empty());
        assert_eq!(heat.due(2, true), [(1, 5), (2, 5)]);
        for version in 6..6 + QUIET {
            commit(&heat, 50..200, version);
        }
        assert_eq!(heat.due(2, false), [(1, 5), (2, 5)]);
        assert_eq!(heat.due(usize::MAX, false).len(), 49);
        let again = raw(99);
        heat.committed(0, (1..50).map(|page| (page, &again)), |_| true);
        assert!(heat.due(usize::MAX, false).is_empty() && heat.is_due());
    }

    /// The last commit for which a page is hot stores it raw, and that is noted.
    #[test]
    fn every_raw_frame_of_a_hot_page_is_due_at_rest() {
        for others in 0..2 * QUIET {
            let heat = Heat::default();
            (1..=5).for_each(|version| commit(&heat, 1..100, version));
            (6..6 + others).for_each(|version| commit(&heat, 2..100, version));
            let hurried = heat.is_hurried(1);
            commit(&heat, 1..2, 99);
            let due = heat.due(usize::MAX, true).contains(&(1, 99));
            assert!(due || !hurried, "after {others} commits");
            assert_eq!(hurried, others < QUIET, "after {others} commits");
        }
    }

    #[test]
    fn a_hot_page_that_is_dropped_has_no_raw_frame() {
        let heat = Heat::default();
        (1..=5).for_each(|version| commit(&heat, 1..100, version));
        assert_eq!(heat.due(usize::MAX, true).len(), 99);
        heat.committed(0, (1..100).map(|page| (page, &Entry::NONE)), |_| false);
        assert!(heat.due(usize::MAX, true).is_empty() && !heat.is_due());
    }

    #[test]
    fn raw_frames_are_a_bounded_part_of_the_file() {
        let heat = Heat::default();
        let entry = raw(1);
        let many = 4 * RAW_PAGES as u32;
        for (file_pages, most) in [
            (0, RAW_PAGES),
            (2 * RAW_PART * RAW_PAGES as u64, 2 * RAW_PAGES),
        ] {
            for _ in 0..6 {
                let hurried = heat.hurried(1..many);
                let encoded = Entry {
                    codec: CodecId::RAW.0 + 1,
                    ..entry
                };
                let entry_of = |raw: &bool| if *raw { &entry } else { &encoded };
                let entries = (1..many).zip(hurried.iter().map(entry_of));
                heat.committed(file_pages, entries, |_| false);
            }
            assert_eq!(heat.due(usize::MAX, true).len(), most);
        }
    }

    #[test]
    fn few_hot_pages_are_encoded_well() {
        let heat = Heat::default();
        for version in 1..100 {
            commit(&heat, 1..FEW as u32, version);
            assert!(!heat.is_hurried(1));
        }
    }
}
