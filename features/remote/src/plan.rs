//! How much to ask for at once.
//!
//! A read that continues an earlier one, forward or backward, asks for twice as much as that one
//! did, within limits, so a scan takes few requests. A scan that skips a few blocks asks for them,
//! too: pages of one tree are only roughly in order. Concurrent scans are recognized separately.
//!
//! The first read near the end of a file asks for all of its end: `densite publish` puts there what
//! every query needs, and other files have their newest trailer there. It puts the small tables
//! first, so after a few reads near the beginning, all of the beginning is asked for. All other
//! reads ask for what is needed.

use std::collections::VecDeque;
use std::ops::Range;

/// The most blocks in one request: 16 MiB, half of the memory for blocks.
pub(crate) const MOST: u64 = 1024;
/// The fewest blocks that a read asks for which continues another: 64 KiB.
const LEAST: u64 = 4;
/// A scan that skips at most this part of what it asks for next asks for that, too.
const SKIPPED: u64 = 4;
/// The blocks at the end of a file that are asked for together: 192 KiB.
const END: u64 = 12;
/// The blocks at the beginning of a file that are asked for together: 1 MiB.
const BEGINNING: u64 = 64;
/// The read there that asks for all of them. Those before it ask for what is needed.
const READS: u32 = 3;
/// How many earlier requests are remembered.
const REMEMBERED: usize = 4;

/// The newest requests, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    newest: VecDeque<Range<u64>>,
    /// Reads near the beginning that continued no scan.
    reads: u32,
}

impl Plan {
    /// The blocks to ask for, of `total`, if those of `needed` are. They are at most `most`, or what
    /// is needed.
    pub(crate) fn window(&mut self, needed: Range<u64>, total: u64, most: u64) -> Range<u64> {
        let len = |last: &Range<u64>| last.end - last.start;
        let is_continued = |last: &Range<u64>| {
            is_after(last.end, needed.start, len(last).saturating_sub(1))
                || is_after(needed.end, last.start, len(last).saturating_sub(1))
        };
        // A scan passes blocks that were read alone before, so the longest one continues.
        let all = self.newest.iter().enumerate();
        let continued = all.filter(|(_, last)| is_continued(last));
        let continued = continued
            .max_by_key(|(_, last)| len(last))
            .map(|(at, _)| at);
        let window = match continued.and_then(|at| self.newest.remove(at)) {
            Some(last) => {
                let len = (2 * len(&last)).max(LEAST).min(most);
                let is_near = |gap: u64| gap <= len / SKIPPED;
                if needed.start >= last.end {
                    let start = match is_near(needed.start - last.end) {
                        true => last.end,
                        false => needed.start,
                    };
                    start..needed.end.max(start + len)
                } else {
                    let end = match is_near(last.start - needed.end) {
                        true => last.start,
                        false => needed.end,
                    };
                    needed.start.min(end.saturating_sub(len))..end
                }
            }
            None => {
                if let Some(window) = self
                    .region(&needed, total)
                    .filter(|w| w.end - w.start <= most)
                {
                    // Not noted: a read beside it continues no scan.
                    return window;
                }
                needed
            }
        };
        let window = window.start..window.end.min(total);
        let is_inside = |last: &Range<u64>| window.start <= last.start && last.end <= window.end;
        self.newest.retain(|last| !is_inside(last));
        self.note(window.clone());
        window
    }

    /// The region of the file that a read asks for which continues no scan; `None`: it asks for
    /// what is needed.
    fn region(&mut self, needed: &Range<u64>, total: u64) -> Option<Range<u64>> {
        let end = total.saturating_sub(END);
        if needed.start >= end {
            return Some(end..total);
        }
        if needed.end > BEGINNING {
            return None;
        }
        self.reads = self.reads.saturating_add(1);
        (self.reads >= READS).then(|| 0..BEGINNING.min(total))
    }

    /// Notes a request that was sent.
    pub(crate) fn note(&mut self, window: Range<u64>) {
        if self.newest.len() == REMEMBERED {
            self.newest.pop_front();
        }
        self.newest.push_back(window);
    }
}

/// Whether `begin` follows `end` closely: with at most `gap` blocks between them.
fn is_after(end: u64, begin: u64, gap: u64) -> bool {
    begin >= end && begin - end <= gap
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_takes_few_requests_in_both_directions() {
        let total = 1000;
        let (mut plan, mut next, mut requests) = (Plan::default(), 0, 0);
        while next < total {
            let window = plan.window(next..next + 1, total, 256);
            assert_eq!(window.start, next);
            (next, requests) = (window.end, requests + 1);
        }
        assert_eq!(requests, 10);
        let (mut plan, mut end, mut requests) = (Plan::default(), total, 0);
        while end > 0 {
            let window = plan.window(end - 1..end, total, 256);
            assert_eq!(window.end, end);
            (end, requests) = (window.start, requests + 1);
        }
        // The end of the file takes one, and is no part of the scan.
        assert_eq!(requests, 11);
    }

    #[test]
    fn reads_far_apart_ask_for_what_they_need() {
        let mut plan = Plan::default();
        for at in [500, 100, 900, 300, 700] {
            assert_eq!(plan.window(at..at + 1, 1000, MOST), at..at + 1);
        }
    }

    #[test]
    fn a_scan_takes_along_the_few_blocks_that_it_skips() {
        let mut plan = Plan::default();
        for (needed, window) in [
            (100..101, 100..101),
            (101..102, 101..105),
            (107..108, 105..113),
            (117..118, 113..129),
            (140..141, 140..172),
            (139..140, 76..140),
        ] {
            assert_eq!(
                plan.window(needed.clone(), 1000, MOST),
                window,
                "{needed:?}"
            );
        }
        assert_eq!(plan.window(140..141, 1000, 4), 140..144, "the limit");
    }

    #[test]
    fn the_end_of_a_file_is_asked_for_at_once() {
        let mut plan = Plan::default();
        assert_eq!(plan.window(995..996, 1000, MOST), 988..1000);
        assert_eq!(plan.window(987..988, 1000, MOST), 987..988);
        assert_eq!(plan.window(999..1000, 1000, 4), 999..1000, "a slow line");
        assert_eq!(plan.window(5..6, 8, MOST), 0..8, "a short file");
    }

    #[test]
    fn after_a_few_reads_near_the_beginning_all_of_it_is_asked_for() {
        let mut plan = Plan::default();
        for at in [50, 10] {
            assert_eq!(plan.window(at..at + 1, 1000, MOST), at..at + 1);
        }
        assert_eq!(plan.window(30..31, 1000, MOST), 0..64);
        assert_eq!(plan.window(64..65, 1000, MOST), 64..65, "beside it");
        let mut plan = Plan::default();
        let mut next = 0;
        while next < 64 {
            let window = plan.window(next..next + 1, 1000, MOST);
            assert_eq!(window.start, next, "a scan");
            next = window.end;
        }
        assert_eq!(plan.window(70..71, 1000, 4), 70..71, "no read there yet");
    }

    #[test]
    fn concurrent_scans_are_recognized_separately() {
        let mut plan = Plan::default();
        let (mut low, mut high) = (0, 5000);
        for len in [1, 4, 8, 16, 32, 64, 128, 256, 256] {
            assert_eq!(plan.window(low..low + 1, 10_000, 256), low..low + len);
            assert_eq!(plan.window(high..high + 1, 10_000, 256), high..high + len);
            (low, high) = (low + len, high + len);
        }
    }
}
