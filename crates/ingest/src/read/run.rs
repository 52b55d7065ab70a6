//! Rows of one table that are not in the base table yet, sorted by key.
//!
//! A run is a list of records as the log has them, packed in columns, and an order of eight bytes for each row: by key, and within a key by sequence number. Runs follow each other in the
//! log; each is at least [`GROWTH`] times as long as the one after it, so there are few of them, and each row takes part in few merges.

use crate::affinity::from_log;
use crate::collation::Collation;
use densite_log::{Op, Record, Seq};
use densite_sqlite::ValueRef;
use std::cmp::Ordering;
use std::sync::Arc;

/// Two runs become one when the older is not this many times as long as the newer.
const GROWTH: usize = 4;

/// A row of a run.
#[derive(Debug, Clone, Copy)]
struct Entry {
    record: u32,
    row: u32,
}

/// See the module.
pub(crate) struct Run {
    records: Vec<Arc<Record>>,
    order: Vec<Entry>,
}

/// A place in a run's order.
pub(crate) struct Row<'a> {
    pub(crate) record: &'a Record,
    pub(crate) row: usize,
}

impl<'a> Row<'a> {
    pub(crate) fn seq(&self) -> Seq {
        self.record.first + self.row as u64
    }

    pub(crate) fn op(&self) -> Op {
        self.record.op
    }

    /// A value, by its place in the log's order of columns; the key's come first.
    pub(crate) fn value(&self, column: usize) -> ValueRef<'a> {
        self.record
            .rows
            .get(self.row, column)
            .map_or(ValueRef::Null, from_log)
    }

    pub(crate) fn compare(&self, other: &Row<'_>, key: &[Collation]) -> Ordering {
        let mut columns = key.iter().enumerate();
        let differs = columns.find_map(|(i, c)| match c.compare(self.value(i), other.value(i)) {
            Ordering::Equal => None,
            other => Some(other),
        });
        differs.unwrap_or(Ordering::Equal)
    }
}

impl Run {
    /// Of records in the log's order; the rows that a record's `skip` names are left out.
    pub(crate) fn new(records: Vec<Arc<Record>>, key: &[Collation]) -> Run {
        let mut run = Run {
            order: Vec::with_capacity(records.iter().map(|r| r.rows.len() - r.skip).sum()),
            records,
        };
        for (i, record) in run.records.iter().enumerate() {
            let rows = record.skip..record.rows.len();
            run.order.extend(rows.map(|row| Entry {
                record: i as u32,
                row: row as u32,
            }));
        }
        let mut order = std::mem::take(&mut run.order);
        // Stable, so that the log's order stays within a key.
        order.sort_by(|a, b| run.compare(*a, &run, *b, key));
        run.order = order;
        run
    }

    fn entry(&self, entry: Entry) -> Option<Row<'_>> {
        let record = self.records.get(entry.record as usize)?;
        Some(Row {
            record,
            row: entry.row as usize,
        })
    }

    fn compare(&self, a: Entry, other: &Run, b: Entry, key: &[Collation]) -> Ordering {
        match (self.entry(a), other.entry(b)) {
            (Some(a), Some(b)) => a.compare(&b, key),
            _ => Ordering::Equal,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn at(&self, place: usize) -> Option<Row<'_>> {
        self.order.get(place).and_then(|e| self.entry(*e))
    }

    pub(crate) fn last(&self) -> Seq {
        self.records.last().map_or(0, |r| r.last())
    }

    pub(crate) fn first(&self) -> Seq {
        self.records.first().map_or(0, |r| r.first)
    }

    /// The first place for which `is_before` is false.
    pub(crate) fn partition(&self, is_before: impl Fn(&Row<'_>) -> bool) -> usize {
        self.order
            .partition_point(|e| self.entry(*e).is_some_and(|row| is_before(&row)))
    }

    /// This run and the one after it in the log.
    fn merged(&self, newer: &Run, key: &[Collation]) -> Run {
        let shift = self.records.len() as u32;
        let mut order = Vec::with_capacity(self.order.len() + newer.order.len());
        let (mut a, mut b) = (self.order.iter().peekable(), newer.order.iter().peekable());
        loop {
            let older_first = match (a.peek(), b.peek()) {
                (Some(a), Some(b)) => self.compare(**a, newer, **b, key) != Ordering::Greater,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            if older_first {
                order.extend(a.next().copied());
            } else {
                order.extend(b.next().map(|e| Entry {
                    record: e.record + shift,
                    row: e.row,
                }));
            }
        }
        let records = self.records.iter().chain(&newer.records).cloned().collect();
        Run { records, order }
    }

    /// Without the rows up to this one.
    fn after(&self, seq: Seq) -> Run {
        let mut places = Vec::with_capacity(self.records.len());
        let mut records = Vec::new();
        for record in &self.records {
            places.push((record.last() > seq).then_some(records.len() as u32));
            if record.last() > seq {
                records.push(record.clone());
            }
        }
        let kept = self
            .order
            .iter()
            .filter(|e| self.entry(**e).is_some_and(|row| row.seq() > seq));
        let order = kept.filter_map(|e| {
            let record = places.get(e.record as usize).copied().flatten()?;
            Some(Entry { record, row: e.row })
        });
        Run {
            order: order.collect(),
            records,
        }
    }
}

/// Adds a run behind the others, and merges where that is due.
pub(crate) fn push(runs: &mut Vec<Arc<Run>>, run: Run, key: &[Collation]) {
    if run.len() == 0 {
        return;
    }
    let mut run = Arc::new(run);
    while let Some(older) = runs.last()
        && older.len() < GROWTH * run.len()
    {
        run = Arc::new(older.merged(&run, key));
        runs.pop();
    }
    runs.push(run);
}

/// Drops what is applied: whole runs, and of one run its older part once that is half of it.
pub(crate) fn trim(runs: &mut Vec<Arc<Run>>, applied: Seq) {
    runs.retain(|run| run.last() > applied);
    if let Some(run) = runs.first_mut() {
        let gone = (applied + 1).saturating_sub(run.first());
        if gone > (run.last() - run.first()) / 2 {
            *run = Arc::new(run.after(applied));
        }
    }
}
