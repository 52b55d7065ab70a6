//! Collects records of the log for a run.

use super::packed::Item;
use super::packed_values::{Kind, ValuesBuilder, value};
use super::run::{Run, Sorted, compare};
use crate::schema::collation::Collation;
use crate::schema::key_code::Code;
use densite_log::{Record, Seq};
use std::cmp::Ordering;

/// See the module.
#[derive(Default)]
pub(crate) struct RunBuilder {
    values: ValuesBuilder,
    /// In the order of the log.
    items: Vec<Item>,
    first: Option<Seq>,
    last: Seq,
}

impl RunBuilder {
    /// Adds a record, which follows the previous one in the log. Rows before its `skip` are left
    /// out.
    pub(crate) fn add(&mut self, record: Record, key: &[Collation]) {
        let from = self.items.len();
        self.first.get_or_insert(record.first + record.skip as u64);
        self.last = record.last();
        let rows = &record.rows;
        self.items.extend((record.skip..rows.len()).map(|row| Item {
            code: Code::of(key, |column| value(rows, row, column)),
            seq: record.first + row as u64,
            kind: 0,
        }));
        let kind = (self.values).add(record, self.items.get(from..).unwrap_or_default());
        if kind != 0 {
            let added = self.items.iter_mut().skip(from);
            added.for_each(|item| item.kind = kind);
        }
    }

    /// Number of rows so far.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Sorts the collected rows into a run.
    pub(crate) fn run(self, key: &[Collation]) -> Run {
        let (kinds, mut items) = (self.values.finish(), self.items);
        let mut sorted = Sorted::new(items.len());
        match narrow(&items) {
            Some(order) => {
                let rows = order.iter().map(|word| *word as u32 as usize);
                items = rows.filter_map(|place| items.get(place).copied()).collect();
            }
            // The numbers keep the log's order within a key.
            None => items.sort_unstable_by_key(|item| (item.code, item.seq)),
        }
        sort_ties(&mut items, &kinds, key);
        items.iter().for_each(|item| sorted.push(*item));
        sorted.run(kinds, self.first.unwrap_or(0), self.last)
    }
}

/// The sorted order as numbers that end in a row's index, because numbers sort fastest. `None` if
/// the codes differ in more than 96 bits.
fn narrow(items: &[Item]) -> Option<Vec<u128>> {
    let first = items.first()?.code;
    let (mut low, mut high) = (first, first);
    for item in items {
        let code = item.code;
        (low.hi, low.lo) = (low.hi.min(code.hi), low.lo.min(code.lo));
        (high.hi, high.lo) = (high.hi.max(code.hi), high.lo.max(code.lo));
    }
    let bits = |low: u64, high: u64| 64 - (high - low).leading_zeros();
    let lo_bits = bits(low.lo, high.lo);
    if bits(low.hi, high.hi) + lo_bits > 96 || items.len() > u32::MAX as usize {
        return None;
    }
    let words = items.iter().zip(0u32..).map(|(item, place)| {
        let hi = u128::from(item.code.hi - low.hi) << (lo_bits + 32);
        hi | u128::from(item.code.lo - low.lo) << 32 | u128::from(place)
    });
    let mut words: Vec<u128> = words.collect();
    words.sort_unstable();
    Some(words)
}

/// Sorts rows with equal inexact codes by their values.
fn sort_ties(items: &mut [Item], kinds: &[Kind], key: &[Collation]) {
    for same in items.chunk_by_mut(|a, b| a.code == b.code && !a.code.is_exact()) {
        if same.len() > 1 {
            same.sort_by(|a, b| match compare((kinds, *a), (kinds, *b), key) {
                Ordering::Equal => a.seq.cmp(&b.seq),
                other => other,
            });
        }
    }
}
