//! Counts the events in histories by kind.

use std::collections::BTreeMap;

#[derive(Debug, Default, Clone)]
pub(crate) struct Tally(BTreeMap<String, u64>);

/// Each of these kinds must occur, or the test covers less than it claims.
const KINDS: [&str; 12] = [
    "rows acknowledged",
    "rows delivered",
    "segments pruned",
    "subscriptions removed",
    "killed: a writer",
    "killed: prune",
    "killed: tail",
    "killed: follow, reading",
    "killed: follow, read",
    "killed: follow, acking",
    "an acknowledgement was cut off: it counted",
    "an acknowledgement was cut off: it did not count",
];

impl Tally {
    pub(crate) fn count(&mut self, kind: impl Into<String>, n: u64) {
        *self.0.entry(kind.into()).or_default() += n;
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        for (kind, n) in &other.0 {
            self.count(kind, *n);
        }
    }

    pub(crate) fn kills(&self) -> u64 {
        let kills = self
            .0
            .iter()
            .filter(|(kind, _)| kind.starts_with("killed: "));
        kills.map(|(_, n)| n).sum()
    }

    pub(crate) fn expect_all_kinds(&self) {
        for kind in KINDS {
            assert!(self.0.contains_key(kind), "no {kind:?}: {self:#?}");
        }
    }
}
