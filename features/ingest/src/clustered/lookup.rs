//! Finds the rows of a batch by their numbers.

use super::ClusteredBatch;
use crate::rows::unit::Unit;

/// See the module.
pub(crate) struct Lookup {
    /// The number of each record's first row. They are stored together because records can have one
    /// row each.
    firsts: Vec<u32>,
}

impl Lookup {
    pub(crate) fn of(batch: &ClusteredBatch) -> Lookup {
        let records = batch.records.iter();
        Lookup {
            firsts: records.map(|r| batch.number(r, r.skip)).collect(),
        }
    }

    /// The rows of that batch with these numbers, each of which has a row. Fastest for ascending
    /// numbers.
    pub(crate) fn units(
        &self,
        batch: &ClusteredBatch,
        numbers: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = Unit> {
        let mut record = 0;
        numbers.map(move |number| {
            record = self.record(number, record);
            let first = self.firsts.get(record).copied().unwrap_or(0);
            let skip = batch.records.get(record).map_or(0, |r| r.skip);
            Unit {
                record: record as u32,
                row: number.saturating_sub(first) + skip as u32,
            }
        })
    }

    /// The index of the record with a number. The search begins at `near`.
    fn record(&self, number: u32, near: usize) -> usize {
        let is_behind = |record: usize| self.firsts.get(record).is_none_or(|f| *f > number);
        let near = if is_behind(near) { 0 } else { near };
        if is_behind(near + 1) {
            return near;
        }
        let more = self.firsts.get(near + 1..).unwrap_or_default();
        near + more.partition_point(|first| *first <= number)
    }
}
