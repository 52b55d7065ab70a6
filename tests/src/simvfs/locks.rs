//! The locks of one database file between the connections of this process.
//!
//! The rules are those of SQLite's unix VFS between threads: any number of SHARED locks, with one
//! RESERVED lock beside them. PENDING prevents new SHARED locks. EXCLUSIVE is alone. A connection
//! that goes from RESERVED to EXCLUSIVE and finds readers keeps PENDING.

use std::collections::BTreeMap;

/// The owner of a lock: an open file.
pub(super) type Holder = u64;

/// A level of SQLite's locks, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Shared = 1,
    Reserved,
    Pending,
    Exclusive,
}

/// Another connection holds a conflicting lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// The locks on one file.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: BTreeMap<Holder, Level>,
}

impl Locks {
    pub(super) fn level(&self, who: Holder) -> Option<Level> {
        self.held.get(&who).copied()
    }

    /// Whether a connection holds more than SHARED.
    pub(super) fn reserved(&self) -> bool {
        self.held.values().any(|l| *l > Level::Shared)
    }

    /// Raises the lock of `who` to `want`. If that fails, the lock does not change (except to
    /// PENDING, see above).
    pub(super) fn lock(&mut self, who: Holder, want: Level) -> Result<(), Busy> {
        let have = self.level(who);
        if have >= Some(want) {
            return Ok(());
        }
        let others = || {
            self.held
                .iter()
                .filter(|(h, _)| **h != who)
                .map(|(_, l)| *l)
        };
        let highest = others().max();
        let blocked = match want {
            Level::Shared => highest >= Some(Level::Pending),
            _ => highest > Some(Level::Shared),
        };
        if blocked {
            return Err(Busy);
        }
        if want == Level::Exclusive && highest.is_some() {
            if have >= Some(Level::Reserved) {
                self.held.insert(who, Level::Pending);
            }
            return Err(Busy);
        }
        self.held.insert(who, want);
        Ok(())
    }

    /// Lowers the lock of `who` to `to`, which is SHARED or `None`.
    pub(super) fn unlock(&mut self, who: Holder, to: Option<Level>) {
        if self.level(who) <= to {
            return;
        }
        match to {
            Some(level) => self.held.insert(who, level),
            None => self.held.remove(&who),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_exclude_as_in_sqlite() {
        let mut locks = Locks::default();
        assert_eq!(locks.lock(1, Level::Shared), Ok(()));
        assert_eq!(locks.lock(2, Level::Shared), Ok(()));
        assert_eq!(locks.lock(1, Level::Reserved), Ok(()));
        assert_eq!(locks.lock(2, Level::Reserved), Err(Busy));
        assert_eq!(locks.lock(2, Level::Exclusive), Err(Busy));
        assert_eq!(
            locks.lock(3, Level::Shared),
            Ok(()),
            "RESERVED lets readers in"
        );
        assert_eq!(locks.lock(1, Level::Exclusive), Err(Busy));
        assert_eq!(locks.level(1), Some(Level::Pending));
        assert_eq!(locks.lock(4, Level::Shared), Err(Busy), "PENDING does not");
        locks.unlock(2, None);
        locks.unlock(3, None);
        assert_eq!(locks.lock(1, Level::Exclusive), Ok(()));
        assert!(locks.reserved());
        locks.unlock(1, Some(Level::Shared));
        assert!(!locks.reserved());
        assert_eq!(locks.lock(4, Level::Shared), Ok(()));
    }

    #[test]
    fn a_hot_journal_is_rolled_back_by_one() {
        let mut locks = Locks::default();
        assert_eq!(locks.lock(1, Level::Shared), Ok(()));
        assert_eq!(locks.lock(2, Level::Shared), Ok(()));
        assert_eq!(locks.lock(1, Level::Exclusive), Err(Busy));
        assert_eq!(
            locks.level(1),
            Some(Level::Shared),
            "no PENDING from SHARED"
        );
        locks.unlock(2, None);
        assert_eq!(locks.lock(1, Level::Exclusive), Ok(()));
    }
}
