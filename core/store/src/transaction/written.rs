//! The pages that a transaction has written: in memory while they can change again, then as frames.
//!
//! SQLite's page cache spills pages in the middle of a transaction, and a page that changes again
//! is spilled again. So a written page is held. If more bytes are held than the window allows, the
//! pages that were not written for the longest time are encoded. At the commit all others are.
//! Invariants: a page that is held was not encoded since it was last written; which pages are
//! encoded together follows from the writes alone, not from the speed of the pool.

use crate::codec::family::Family;
use crate::encode::{Job, ReadyFrame};
use crate::format::entry::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages to be encoded are chosen in parts of the window, so that adjacent pages come together.
const PARTS: usize = 16;

/// The bytes that every transaction can hold.
const LEAST: usize = 1 << 20;
/// The bytes beyond [`LEAST`] that all transactions of the process can hold together.
const BUDGET: usize = 64 << 20;
/// A window grows by this factor,
const GROWTH: usize = 4;
/// if this part of it was encoded in vain,
const WASTED: usize = 8;
/// while this many times its bytes were encoded.
const PERIOD: usize = 4;

/// The part of the budget that all windows of the process use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The state of a written page. `seq` distinguishes this write from later ones of the same page.
pub(super) enum Page {
    /// In memory, not encoded.
    Held(Held),
    /// Being encoded.
    Sent { seq: u64, bytes: Arc<[u8]> },
    /// Appended as a frame.
    Stored(Entry),
}

/// A page in memory.
pub(super) struct Held {
    pub(super) seq: u64,
    pub(super) bytes: Arc<[u8]>,
    /// Its frame, if it was encoded before the transaction.
    pub(super) preencoded: Option<ReadyFrame>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Written {
    pages: HashMap<u32, Page>,
    /// Bytes of pages that are held, and how many pages they are.
    held_bytes: usize,
    held: usize,
    /// Held pages, the one that was not written for the longest time first. An entry whose number
    /// of the write is not the page's is skipped.
    order: VecDeque<(u32, u64)>,
    /// Held pages that are encoded next, the last one first, with the same rule.
    chosen: Vec<(u32, u64)>,
    window: Window,
}

impl Written {
    pub(super) fn get(&self, page: u32) -> Option<&Page> {
        self.pages.get(&page)
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        self.pages.contains_key(&page)
    }

    /// The number of written pages.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Page)> {
        self.pages.iter().map(|(page, written)| (*page, written))
    }

    /// Bytes of pages that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether pages must be encoded now.
    pub(super) fn is_full(&self) -> bool {
        self.held_bytes > self.window.bytes()
    }

    /// Holds a page. Returns the buffer that it had until now, which can be reused.
    pub(super) fn hold(&mut self, page: u32, held: Held) -> Option<Arc<[u8]>> {
        let (seq, len) = (held.seq, held.bytes.len());
        let before = self.insert(page, Page::Held(held));
        if self.order.len() > 2 * self.held + PARTS {
            let pages = &self.pages;
            self.order
                .retain(|(page, seq)| is_held(pages, *page, *seq).is_some());
        }
        self.order.push_back((page, seq));
        match before? {
            Page::Held(held) => Some(held.bytes),
            Page::Sent { .. } => {
                self.window.wasted(len);
                None
            }
            Page::Stored(entry) => {
                if !entry.is_none() {
                    self.window.wasted(len);
                }
                None
            }
        }
    }

    /// Notes the frame of a page, or that it has none.
    pub(super) fn store(&mut self, page: u32, entry: Entry) {
        self.insert(page, Page::Stored(entry));
    }

    /// Whether this write of a page is being encoded.
    pub(super) fn is_sent(&self, page: u32, seq: u64) -> bool {
        matches!(self.pages.get(&page), Some(Page::Sent { seq: s, .. }) if *s == seq)
    }

    /// Notes the frame of a page if this write of it is being encoded. Returns its buffer.
    pub(super) fn encoded(&mut self, page: u32, seq: u64, entry: Entry) -> Option<Arc<[u8]>> {
        let written = self.pages.get_mut(&page)?;
        if !matches!(written, Page::Sent { seq: s, .. } if *s == seq) {
            return None;
        }
        match std::mem::replace(written, Page::Stored(entry)) {
            Page::Sent { bytes, .. } => Some(bytes),
            Page::Held(_) | Page::Stored(_) => None,
        }
    }

    /// Forgets that a page was written.
    pub(super) fn forget(&mut self, page: u32) {
        let before = self.pages.remove(&page);
        self.uncount(before.as_ref());
    }

    /// Forgets the pages behind page `last`.
    pub(super) fn cut(&mut self, last: u64) {
        let gone = self.pages.keys().copied();
        let gone: Vec<u32> = gone.filter(|page| u64::from(*page) > last).collect();
        for page in gone {
            self.forget(page);
        }
    }

    /// Replaces all pages by these frames.
    pub(super) fn replace(&mut self, frames: HashMap<u32, Entry>) {
        self.pages = frames
            .into_iter()
            .map(|(page, entry)| (page, Page::Stored(entry)))
            .collect();
        self.order.clear();
        self.chosen.clear();
        (self.held, self.held_bytes) = (0, 0);
    }

    /// The next pages to encode, in order: about `enough` bytes, or all if fewer are held.
    pub(super) fn next_batch(&mut self, enough: usize) -> Vec<Job> {
        let mut jobs = Vec::new();
        let mut bytes = 0;
        while bytes < enough && (!self.chosen.is_empty() || self.choose_quiet()) {
            let Some((page, seq)) = self.chosen.pop() else {
                break;
            };
            if let Some(job) = self.send(page, seq) {
                bytes += job.bytes.len();
                jobs.push(job);
            }
        }
        self.window.encoded(bytes);
        jobs
    }

    /// Chooses all held pages to be encoded next.
    pub(super) fn choose_all(&mut self) {
        self.order.clear();
        let held = self
            .pages
            .iter()
            .filter_map(|(page, written)| match written {
                Page::Held(held) => Some((*page, held.seq)),
                Page::Sent { .. } | Page::Stored(_) => None,
            });
        self.chosen = held.collect();
        self.sort_chosen();
    }

    /// Chooses pages that were not written for the longest time. Returns whether there are any.
    fn choose_quiet(&mut self) -> bool {
        let part = self.window.bytes() / PARTS;
        let mut bytes = 0;
        while bytes < part
            && let Some((page, seq)) = self.order.pop_front()
        {
            if let Some(held) = is_held(&self.pages, page, seq) {
                bytes += held.bytes.len();
                self.chosen.push((page, seq));
            }
        }
        self.sort_chosen();
        bytes > 0
    }

    fn sort_chosen(&mut self) {
        self.chosen
            .sort_unstable_by_key(|(page, _)| std::cmp::Reverse(*page));
    }

    /// Takes a page to be encoded, if this write of it is held.
    fn send(&mut self, page: u32, seq: u64) -> Option<Job> {
        let bytes = Arc::clone(&is_held(&self.pages, page, seq)?.bytes);
        let sent = Page::Sent {
            seq,
            bytes: Arc::clone(&bytes),
        };
        let Some(Page::Held(held)) = self.insert(page, sent) else {
            return None;
        };
        let family = held.preencoded.as_ref().map(|ready| ready.frame.family);
        Some(Job {
            page,
            seq,
            family: family.unwrap_or_else(|| Family::of(&bytes)),
            bytes,
            preencoded: held.preencoded,
        })
    }

    /// Holds the last pages of a batch again, which are then the next ones to be encoded.
    pub(super) fn take_back(&mut self, jobs: Vec<Job>) {
        for job in jobs.into_iter().rev() {
            let held = Held {
                seq: job.seq,
                bytes: job.bytes,
                preencoded: job.preencoded,
            };
            self.insert(job.page, Page::Held(held));
            self.chosen.push((job.page, job.seq));
        }
    }

    /// Sets the state of a page. Returns the one before.
    pub(super) fn insert(&mut self, page: u32, written: Page) -> Option<Page> {
        if let Page::Held(held) = &written {
            self.held += 1;
            self.held_bytes += held.bytes.len();
        }
        let before = self.pages.insert(page, written);
        self.uncount(before.as_ref());
        before
    }

    fn uncount(&mut self, before: Option<&Page>) {
        if let Some(Page::Held(held)) = before {
            self.held -= 1;
            self.held_bytes -= held.bytes.len();
        }
    }
}

/// This write of a page, if it is held.
fn is_held(pages: &HashMap<u32, Page>, page: u32, seq: u64) -> Option<&Held> {
    match pages.get(&page)? {
        Page::Held(held) if held.seq == seq => Some(held),
        Page::Held(_) | Page::Sent { .. } | Page::Stored(_) => None,
    }
}

/// How many bytes of written pages a transaction holds.
///
/// A bulk load in the order of its keys writes each page once. Its window stays small, so that the
/// pool encodes while SQLite goes on. If pages come again after they were encoded, the window grows.
/// All windows of a process share one budget.
struct Window {
    bytes: usize,
    /// Bytes encoded in this period, and those of them that were written again.
    encoded: usize,
    wasted: usize,
    in_use: &'static AtomicUsize,
}

impl Default for Window {
    fn default() -> Self {
        Window::within(&IN_USE)
    }
}

impl Window {
    fn within(in_use: &'static AtomicUsize) -> Window {
        Window {
            bytes: LEAST,
            encoded: 0,
            wasted: 0,
            in_use,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes that so many bytes are being encoded.
    pub(super) fn encoded(&mut self, bytes: usize) {
        self.encoded += bytes;
        if self.encoded > PERIOD * self.bytes {
            (self.encoded, self.wasted) = (0, 0);
        }
    }

    /// Notes that a page of so many bytes was encoded in vain. Grows if that happens often.
    fn wasted(&mut self, bytes: usize) {
        self.wasted += bytes;
        if self.wasted > self.bytes / WASTED {
            (self.encoded, self.wasted) = (0, 0);
            self.bytes += self.reserve((GROWTH - 1) * self.bytes);
        }
    }

    /// Reserves up to so many bytes of the budget. Returns how many.
    fn reserve(&self, wanted: usize) -> usize {
        let mut got = 0;
        // The update never fails: the closure always returns a value.
        let _ = (self.in_use).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
            got = wanted.min(BUDGET.saturating_sub(in_use));
            Some(in_use + got)
        });
        got
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        (self.in_use).fetch_sub(self.bytes - LEAST, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn all_windows_together_keep_to_the_budget() {
        static MINE: AtomicUsize = AtomicUsize::new(0);
        let mut windows: Vec<Window> = (0..5).map(|_| Window::within(&MINE)).collect();
        for _ in 0..BUDGET / PAGE {
            windows.iter_mut().for_each(|window| window.wasted(PAGE));
            let held: usize = windows.iter().map(Window::bytes).sum();
            assert!(held <= BUDGET + windows.len() * LEAST, "{held}");
        }
        assert_eq!(MINE.load(Ordering::Relaxed), BUDGET);
        drop(windows);
        assert_eq!(MINE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_window_stays_small_if_few_pages_come_again() {
        static MINE: AtomicUsize = AtomicUsize::new(0);
        let mut window = Window::within(&MINE);
        for page in 0..100_000 {
            window.encoded(PAGE);
            if page % 50 == 0 {
                window.wasted(PAGE);
            }
        }
        assert_eq!(window.bytes(), LEAST);
        (0..100).for_each(|_| window.wasted(PAGE));
        assert_eq!(window.bytes(), GROWTH * LEAST);
    }
}
