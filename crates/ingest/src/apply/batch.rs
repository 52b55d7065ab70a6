//! Rows that are applied together, and in which order (rule 5).

use super::plan::Plan;
use crate::affinity::from_log;
use crate::collation::Collation;
use densite_log::Record;
use densite_sqlite::ValueRef;
use std::cmp::Ordering;

/// One row: the record and the row in it. They are ordered as in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unit {
    pub(crate) record: u32,
    pub(crate) row: u32,
}

/// The units of these records in an order whose result is that of the log's order: rows of tables that depend on each other stay as they are; those of each
/// independent table are sorted by key, and stay in order within a key. A table with a row whose key is NULL, or of which the log has several descriptions of the key (the schema
/// changed in between), keeps the order of the log. `of` names the plan of each record.
pub(super) fn ordered(records: &[Record], of: &[usize], plans: &[Plan], rows: usize) -> Vec<Unit> {
    let mut units = Vec::with_capacity(rows);
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut left = rows;
    let mut spans = Vec::with_capacity(records.len());
    for (i, record) in records.iter().enumerate() {
        let take = (record.rows.len() - record.skip).min(left);
        left -= take;
        spans.push(record.skip..record.skip + take);
        let Some(plan) = of.get(i).and_then(|p| plans.get(*p)) else {
            continue;
        };
        let name = record.table.name();
        if !plan.independent {
            push(&mut units, i, &spans);
            continue;
        }
        match groups
            .iter_mut()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
        {
            Some((_, members)) => members.push(i),
            None => groups.push((name, vec![i])),
        }
    }
    for (_, members) in groups {
        let from = units.len();
        members.iter().for_each(|i| push(&mut units, *i, &spans));
        let first = members
            .first()
            .and_then(|i| of.get(*i))
            .and_then(|p| plans.get(*p));
        let (Some(first), Some(part)) = (first, units.get_mut(from..)) else {
            continue;
        };
        let same = members.iter().all(|i| {
            let plan = of.get(*i).and_then(|p| plans.get(*p));
            plan.is_some_and(|p| p.sort == first.sort)
        });
        let has_key = |i: &usize| {
            let record = records.get(*i);
            record.is_some_and(|r| has_all_keys(r, first.sort.len()))
        };
        if same && members.iter().all(has_key) {
            sort(part, records, &first.sort);
        }
    }
    units
}

fn push(units: &mut Vec<Unit>, record: usize, spans: &[std::ops::Range<usize>]) {
    let span = spans.get(record).cloned().unwrap_or_default();
    units.extend(span.map(|row| Unit {
        record: record as u32,
        row: row as u32,
    }));
}

/// Whether no key of a record has NULL in it. A row without an id gets the next one when its turn comes, so it may not go before rows that bring theirs.
pub(super) fn has_all_keys(record: &Record, columns: usize) -> bool {
    (record.skip..record.rows.len()).all(|row| {
        (0..columns).all(|column| {
            let value = record.rows.get(row, column);
            !matches!(value, None | Some(densite_log::Value::Null))
        })
    })
}

/// Units in the order of their keys; those of one key stay as they are.
pub(super) fn sort(units: &mut [Unit], records: &[Record], collations: &[Collation]) {
    let value = |i: usize, column: usize| {
        let unit = units.get(i)?;
        let record = records.get(unit.record as usize)?;
        record.rows.get(unit.row as usize, column).map(from_log)
    };
    let order = order(units.len(), collations, value);
    permute(units, &order);
}

/// What of `all` is to come first, second, and so on: in the order of the keys, of which `value` tells the columns; what has one key stays as it is.
pub(super) fn order<'a>(
    all: usize,
    collations: &[Collation],
    value: impl Fn(usize, usize) -> Option<ValueRef<'a>>,
) -> Vec<u32> {
    // The usual keys, taken out once.
    let integers = match collations.len() {
        1 => by_integers::<1>(all, &value),
        2 => by_integers::<2>(all, &value),
        _ => None,
    };
    integers.unwrap_or_else(|| {
        let value = |i: u32, column| value(i as usize, column).unwrap_or(ValueRef::Null);
        let mut order: Vec<u32> = (0..all as u32).collect();
        order.sort_by(|a, b| {
            let columns = collations.iter().enumerate();
            let mut each = columns.map(|(c, how)| how.compare(value(*a, c), value(*b, c)));
            each.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        });
        order
    })
}

/// `None` where a key has something else than integers.
fn by_integers<'a, const N: usize>(
    all: usize,
    value: impl Fn(usize, usize) -> Option<ValueRef<'a>>,
) -> Option<Vec<u32>> {
    let mut keyed = Vec::with_capacity(all);
    for i in 0..all {
        let mut key = [0; N];
        for (column, part) in key.iter_mut().enumerate() {
            *part = value(i, column)?.as_i64()?;
        }
        keyed.push((key, i as u32));
    }
    keyed.sort_unstable();
    Some(keyed.into_iter().map(|(_, i)| i).collect())
}

/// Puts what `order` says first first.
pub(super) fn permute<T: Copy>(all: &mut [T], order: &[u32]) {
    let was = all.to_vec();
    for (to, from) in all.iter_mut().zip(order) {
        if let Some(from) = was.get(*from as usize) {
            *to = *from;
        }
    }
}
