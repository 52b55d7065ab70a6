//! How much to ask for at once.
//!
//! A read that continues an earlier one, forward or backward, asks for twice as much as that one
//! did, so a scan of n bytes takes about log n requests until they are [`MOST`] long. All other
//! reads ask for what is needed. Several scans at once are told apart.

use std::collections::VecDeque;
use std::ops::Range;

/// The most blocks in one request.
const MOST: u64 = 256;
/// How many earlier requests are remembered.
const REMEMBERED: usize = 16;

/// The newest requests, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    newest: VecDeque<Range<u64>>,
}

impl Plan {
    /// The blocks to ask for, of `total`, if those of `needed` are.
    pub(crate) fn window(&mut self, needed: Range<u64>, total: u64) -> Range<u64> {
        let continued = self.newest.iter().rposition(|last| {
            let len = last.end - last.start;
            is_after(last.end, needed.start, len) || is_after(needed.end, last.start, len)
        });
        let window = match continued.and_then(|at| self.newest.remove(at)) {
            Some(last) => {
                let len = (2 * (last.end - last.start)).min(MOST);
                match needed.start >= last.end {
                    true => needed.start..needed.end.max(needed.start + len),
                    false => needed.start.min(needed.end.saturating_sub(len))..needed.end,
                }
            }
            None => needed,
        };
        let window = window.start..window.end.min(total);
        self.note(window.clone());
        window
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
            let window = plan.window(next..next + 1, total);
            assert_eq!(window.start, next);
            (next, requests) = (window.end, requests + 1);
        }
        assert_eq!(requests, 11);
        let (mut plan, mut end, mut requests) = (Plan::default(), total, 0);
        while end > 0 {
            let window = plan.window(end - 1..end, total);
            assert_eq!(window.end, end);
            (end, requests) = (window.start, requests + 1);
        }
        assert_eq!(requests, 11);
    }

    #[test]
    fn reads_far_apart_ask_for_what_they_need() {
        let mut plan = Plan::default();
        for at in [500, 100, 900, 300, 700] {
            assert_eq!(plan.window(at..at + 1, 1000), at..at + 1);
        }
    }

    #[test]
    fn two_scans_at_once_are_told_apart() {
        let mut plan = Plan::default();
        let (mut low, mut high) = (0, 5000);
        for len in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            assert_eq!(plan.window(low..low + 1, 10_000), low..low + len);
            assert_eq!(plan.window(high..high + 1, 10_000), high..high + len);
            (low, high) = (low + len, high + len);
        }
    }
}
