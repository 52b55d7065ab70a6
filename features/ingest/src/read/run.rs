//! Unapplied rows of one table, sorted by key, and within a key by number.
//!
//! A run has the sort order ([`Packed`]), a [`Filter`] over the keys, and the values as the log
//! packs them ([`Kind`]). Runs never change. They follow each other in the log, and each is at
//! least [`GROWTH`] times as long as the next. So there are few runs, and each row is merged only a
//! few times. A merge moves codes and numbers; values stay in place. A [`Visibility`] says which of
//! the rows a read transaction sees.

use super::filter::{Filter, Probe};
use super::packed::{Item, Packed};
use super::packed_values::{Found, Kind, ValuesBuilder, merged, value};
use crate::clustered::ClusteredProgress;
use crate::schema::collation::Collation;
use crate::schema::key_code::Code;
use densite_log::{Op, Record, Seq, Table};
use densite_sqlite::ValueRef;
use std::cmp::Ordering;
use std::sync::Arc;

/// Two runs are merged if the older is not this many times as long as the newer,
const GROWTH: usize = 4;
/// unless the result would be longer than this. That bounds the time and memory of a merge. One
/// more filter costs a lookup little.
const LONGEST: usize = 4 << 20;
/// Shorter runs are searched without a filter.
const FILTER_FROM: usize = 256;

/// The connection's own rows, which are not appended yet, have numbers from here on.
pub(crate) const OWN: Seq = 1 << 62;

/// See the module.
#[derive(Default)]
pub(crate) struct Run {
    pub(super) kinds: Vec<Kind>,
    items: Packed,
    pub(super) filter: Filter,
    /// All its rows have numbers from `first` to `last`.
    first: Seq,
    last: Seq,
}

/// A row with its values.
pub(crate) struct Row<'a> {
    kind: &'a Kind,
    found: Found<'a>,
    code: Code,
    seq: Seq,
}

impl<'a> Row<'a> {
    pub(crate) fn op(&self) -> Op {
        self.kind.op
    }

    pub(crate) fn table(&self) -> &'a Arc<Table> {
        &self.kind.table
    }

    /// Its number in the log.
    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }

    /// A value, by its index in the log's order of columns. The key's columns come first.
    pub(crate) fn value(&self, column: usize) -> ValueRef<'a> {
        let key_columns = self.kind.table.key_columns();
        self.found.value(column, self.code, key_columns)
    }

    pub(crate) fn compare(
        &self,
        key: &[Collation],
        other: impl Fn(usize) -> ValueRef<'a>,
    ) -> Ordering {
        let mut columns = key.iter().enumerate();
        let differs = columns.find_map(|(i, c)| match c.compare(self.value(i), other(i)) {
            Ordering::Equal => None,
            other => Some(other),
        });
        differs.unwrap_or(Ordering::Equal)
    }
}

/// Collects the rows of a run in their order.
struct Sorted {
    items: Packed,
    filter: Option<Filter>,
}

impl Sorted {
    /// For this many rows.
    pub(super) fn new(rows: usize) -> Sorted {
        Sorted {
            items: Packed::for_rows(rows),
            filter: (rows >= FILTER_FROM).then(|| Filter::new(rows)),
        }
    }

    pub(super) fn push(&mut self, item: Item) {
        if let Some(filter) = &mut self.filter {
            filter.add(item.code);
        }
        self.items.push(item);
    }

    /// The run of these rows, with their values and range of numbers.
    pub(super) fn run(self, kinds: Vec<Kind>, first: Seq, last: Seq) -> Run {
        Run {
            kinds,
            items: self.items.finish(),
            filter: self.filter.unwrap_or_default(),
            first,
            last,
        }
    }
}

/// Compares the keys of two rows.
pub(super) fn compare(a: (&[Kind], Item), b: (&[Kind], Item), key: &[Collation]) -> Ordering {
    match a.1.code.cmp(&b.1.code) {
        Ordering::Equal if !a.1.code.is_exact() => match (row(a.0, a.1), row(b.0, b.1)) {
            (Some(a), Some(b)) => a.compare(key, |i| b.value(i)),
            _ => Ordering::Equal,
        },
        order => order,
    }
}

fn row(kinds: &[Kind], item: Item) -> Option<Row<'_>> {
    let kind = kinds.get(item.kind as usize)?;
    Some(Row {
        kind,
        found: kind.find(item.seq)?,
        code: item.code,
        seq: item.seq,
    })
}

impl Run {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The row at a place of the order.
    pub(crate) fn at(&self, place: usize) -> Option<Item> {
        self.items.get(place)
    }

    /// The table and the operation of a row.
    pub(crate) fn kind(&self, item: Item) -> Option<(&Arc<Table>, Op)> {
        let kind = self.kinds.get(item.kind as usize)?;
        Some((&kind.table, kind.op))
    }

    /// A row with its values.
    pub(crate) fn row(&self, item: Item) -> Option<Row<'_>> {
        row(&self.kinds, item)
    }

    pub(crate) fn compare(&self, a: Item, other: &Run, b: Item, key: &[Collation]) -> Ordering {
        compare((&self.kinds, a), (&other.kinds, b), key)
    }

    /// False: the run has no row of a key with this code.
    pub(crate) fn may_have(&self, probe: Probe) -> bool {
        self.filter.may_have(probe)
    }

    /// The code of the row at a place of the order.
    pub(crate) fn code_at(&self, place: usize) -> Option<Code> {
        self.items.code_at(place)
    }

    /// The first place whose code is not less than this one.
    pub(crate) fn lower(&self, code: Code) -> usize {
        self.items.lower(code)
    }

    /// The first place whose code is greater than this one.
    pub(crate) fn upper(&self, code: Code) -> usize {
        self.items.upper(code)
    }

    /// Whether the run has the row of this number with a key of this code.
    pub(crate) fn has(&self, code: Code, seq: Seq) -> bool {
        let (mut low, end) = (self.lower(code), self.upper(code));
        let mut high = end;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at(middle).is_some_and(|item| item.seq < seq) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low < end && self.at(low).is_some_and(|item| item.seq == seq)
    }

    /// The first place in `low..high` for which `is_before` is false, or `high`.
    pub(crate) fn partition(
        &self,
        (mut low, mut high): (usize, usize),
        is_before: impl Fn(&Row<'_>) -> bool,
    ) -> usize {
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.at(middle).and_then(|item| self.row(item));
            match row.is_some_and(|row| is_before(&row)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Merges this run with the next one in the log.
    fn merged(&self, newer: &Run, key: &[Collation]) -> Run {
        let (kinds, places) = merged(&self.kinds, &newer.kinds);
        let mut sorted = Sorted::new(self.len() + newer.len());
        let (mut a, mut b) = (self.items.iter(), newer.items.iter());
        let (mut x, mut y) = (a.next(), b.next());
        loop {
            let older_first = match (x, y) {
                (Some(x), Some(y)) => self.compare(x, newer, y, key) != Ordering::Greater,
                (x, _) => x.is_some(),
            };
            match (older_first, x, y) {
                (true, Some(item), _) => {
                    sorted.push(item);
                    x = a.next();
                }
                (_, _, Some(item)) => {
                    let kind = places.get(item.kind as usize).copied().unwrap_or(0);
                    sorted.push(Item { kind, ..item });
                    y = b.next();
                }
                _ => break,
            }
        }
        sorted.run(kinds, self.first, newer.last)
    }

    /// This run without the rows up to `seq`.
    fn after(&self, seq: Seq) -> Run {
        let kept = || self.items.iter().filter(|item| item.seq > seq);
        let mut sorted = Sorted::new(kept().count());
        kept().for_each(|item| sorted.push(item));
        let kinds = self.kinds.iter().map(|kind| kind.after(seq)).collect();
        sorted.run(kinds, seq + 1, self.last)
    }
}

/// Adds a run behind the others, and merges runs if necessary.
pub(crate) fn push(runs: &mut Vec<Arc<Run>>, run: Run, key: &[Collation]) {
    if run.len() == 0 {
        return;
    }
    let mut run = Arc::new(run);
    while let Some(older) = runs.last()
        && older.len() < GROWTH * run.len()
        && older.len() + run.len() <= LONGEST
    {
        run = Arc::new(older.merged(&run, key));
        runs.pop();
    }
    runs.push(run);
}

/// Drops applied rows: whole runs, and the applied part of the first remaining run once it is half
/// of it.
pub(crate) fn trim(runs: &mut Vec<Arc<Run>>, applied: Seq) {
    runs.retain(|run| run.last > applied);
    if let Some(run) = runs.first_mut() {
        let gone = (applied + 1).saturating_sub(run.first);
        if gone > (run.last - run.first) / 2 {
            *run = Arc::new(run.after(applied));
        }
    }
}

/// Collects records of the log for a run.
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

/// A running clustered apply, as a snapshot sees it.
#[derive(Debug, Clone)]
pub(crate) struct ClusteredSnapshot {
    pub(crate) id: i64,
    pub(crate) progress: ClusteredProgress,
}

/// The numbers that a transaction sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visibility {
    /// The base table has all rows up to here.
    pub(crate) from: Seq,
    /// The log's end for this transaction.
    pub(crate) to: Seq,
    /// Later rows that the base table also has.
    pub(crate) clustered: Option<ClusteredSnapshot>,
}

impl Visibility {
    /// Whether the transaction sees this row. Its own rows count as well.
    pub(crate) fn sees(&self, seq: Seq) -> bool {
        let is_applied = |s: &ClusteredSnapshot| s.progress.has(seq);
        seq > self.from
            && (seq <= self.to || seq >= OWN)
            && !self.clustered.as_ref().is_some_and(is_applied)
    }
}
