//! Counts reads, writes and syncs of each file.

use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::Arc;

/// Calls on one file, or on several added up. Failed calls do not count, except for a write that
/// wrote a prefix. The counts outlive the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of these writes.
    pub bytes_written: u64,
    /// Syncs of either kind; for a directory, its own.
    pub syncs: u64,
}

impl Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        Counters {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes_written: self.bytes_written + other.bytes_written,
            syncs: self.syncs + other.syncs,
        }
    }
}

/// The index of a path in the table.
pub(super) type StatNo = usize;

/// The counters of all paths. A directory has its path with a slash at the end.
#[derive(Debug, Default)]
pub(super) struct CountersTable {
    rows: Vec<(Arc<str>, Counters)>,
    numbers: BTreeMap<Arc<str>, StatNo>,
    /// Used for an index without a row, which cannot happen.
    stray: Counters,
}

impl CountersTable {
    pub(super) fn number(&mut self, path: &str) -> StatNo {
        if let Some(no) = self.numbers.get(path) {
            return *no;
        }
        let path: Arc<str> = path.into();
        self.rows.push((path.clone(), Counters::default()));
        self.numbers.insert(path, self.rows.len() - 1);
        self.rows.len() - 1
    }

    pub(super) fn path(&self, no: StatNo) -> Arc<str> {
        self.rows.get(no).map_or_else(|| "".into(), |r| r.0.clone())
    }

    pub(super) fn at(&mut self, no: StatNo) -> &mut Counters {
        self.rows.get_mut(no).map_or(&mut self.stray, |r| &mut r.1)
    }

    pub(super) fn directory(&mut self, dir: &str) -> &mut Counters {
        let no = self.number(&format!("{dir}/"));
        self.at(no)
    }

    pub(super) fn of(&self, path: &str) -> Counters {
        let row = self.numbers.get(path).and_then(|no| self.rows.get(*no));
        row.map(|r| r.1).unwrap_or_default()
    }

    pub(super) fn total(&self) -> Counters {
        (self.rows.iter()).fold(Counters::default(), |sum, row| sum + row.1)
    }
}
