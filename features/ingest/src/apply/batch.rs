//! Rows that are applied together, and in which order (rule L5).

use super::plan::Plan;
use super::sort::sort;
use crate::rows::unit::Unit;
use densite_log::Record;

/// The units of these records, in an order with the same result as the log's order. Rows of tables
/// that depend on each other keep the log's order. Rows of each independent table are sorted by
/// key, and keep the log's order within a key. A table keeps the log's order if it has a row with a
/// NULL key. It also does if the log has several descriptions of its key, because the schema
/// changed in between. `of` has the index of the plan of each record.
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

/// Whether no key of a record contains NULL. A row without an id gets the next id when it is
/// applied, so it must not move before rows that bring their ids.
pub(super) fn has_all_keys(record: &Record, columns: usize) -> bool {
    (record.skip..record.rows.len()).all(|row| {
        (0..columns).all(|column| {
            let value = record.rows.get(row, column);
            !matches!(value, None | Some(densite_log::Value::Null))
        })
    })
}
