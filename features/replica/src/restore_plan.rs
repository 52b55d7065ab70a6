//! Which objects lead to a restore point.

use crate::format::{Base, Compacted, Generation};

/// Where to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The last restore point.
    pub(crate) n: u64,
    /// The last moment, in milliseconds since 1970.
    pub(crate) time_ms: u64,
}

/// No limit.
pub(crate) const NEWEST: Limit = Limit {
    n: u64::MAX,
    time_ms: u64::MAX,
};

impl Generation {
    /// The newest base within the limit.
    pub(crate) fn base_within(&self, limit: Limit) -> Option<&Base> {
        let within = |base: &&Base| base.n <= limit.n && base.time_ms <= limit.time_ms;
        self.bases.iter().rev().find(within)
    }

    /// The compacted delta within the limit that follows restore point `n` and reaches furthest.
    pub(crate) fn compacted_after(&self, n: u64, limit: Limit) -> Option<&Compacted> {
        let fits =
            |c: &&Compacted| c.first == n + 1 && c.last <= limit.n && c.time_ms <= limit.time_ms;
        self.compacted.iter().filter(fits).max_by_key(|c| c.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_exclude_what_comes_later() {
        let base = |n, time_ms| Base {
            name: String::new(),
            n,
            commit: n,
            time_ms,
            bytes: 1,
        };
        let compacted = |first, last, time_ms| Compacted {
            first,
            last,
            time_ms,
            bytes: 1,
            merges: 1,
        };
        let generation = Generation {
            name: "g".into(),
            epoch: 1,
            database: String::new(),
            owner: String::new(),
            bases: vec![base(0, 100), base(9, 190)],
            compacted: vec![
                compacted(1, 4, 140),
                compacted(5, 8, 180),
                compacted(10, 12, 220),
            ],
            rests: false,
        };
        let at = |time_ms| Limit {
            n: u64::MAX,
            time_ms,
        };
        let base = |limit| generation.base_within(limit).map(|b| b.n);
        assert_eq!(base(NEWEST), Some(9));
        assert_eq!(base(at(189)), Some(0));
        assert_eq!(base(at(99)), None);
        let reach = |n, limit| generation.compacted_after(n, limit).map(|c| c.last);
        assert_eq!(reach(0, NEWEST), Some(4));
        assert_eq!(reach(4, at(179)), None);
        assert_eq!(reach(1, NEWEST), None);
        assert_eq!(
            reach(
                9,
                Limit {
                    n: 11,
                    time_ms: u64::MAX
                }
            ),
            None
        );
    }
}
