//! Sorting rows by their keys. Rows of one key keep the order of the log.

use crate::rows::unit::Unit;
use crate::schema::affinity::from_log;
use crate::schema::collation::Collation;
use densite_log::Record;
use densite_sqlite::ValueRef;
use std::cmp::Ordering;

/// Sorts units by their keys. Units of one key keep their order.
pub(super) fn sort(units: &mut [Unit], records: &[Record], collations: &[Collation]) {
    let value = |i: usize, column: usize| {
        let unit = units.get(i)?;
        let record = records.get(unit.record as usize)?;
        record.rows.get(unit.row as usize, column).map(from_log)
    };
    let order = order(units.len(), collations, value);
    permute(units, &order);
}

/// The indexes of `all` items, sorted by key. `value(item, column)` is a column of a key. Items of
/// one key keep their order.
pub(super) fn order<'a>(
    all: usize,
    collations: &[Collation],
    value: impl Fn(usize, usize) -> Option<ValueRef<'a>>,
) -> Vec<u32> {
    // For the usual keys, the values are read only once.
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

/// `None` if a key has a value that is not an integer.
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

/// Reorders items: the item `order[i]` moves to `i`.
pub(super) fn permute<T: Copy>(all: &mut [T], order: &[u32]) {
    let was = all.to_vec();
    for (to, from) in all.iter_mut().zip(order) {
        if let Some(from) = was.get(*from as usize) {
            *to = *from;
        }
    }
}
