//! Columns of numbers, copied into the order in which they are read.
//!
//! Sorted rows can be anywhere in memory. A statement that reads them one by one waits for a cache
//! miss at each value. In a loop that does nothing else, the processor handles many of these misses
//! at once.

use crate::bits::{Bits, BitsBuilder};
use crate::chunk::{Chunk, Data, Numbers};
use crate::memory::Slice;
use crate::rows::{Place, Rows};
use densite_sqlite::ValueRef;

/// A column in order; `None` if it has values other than numbers of one kind.
pub(crate) fn numbers(rows: &Rows, order: &[Place], column: usize) -> Option<Chunk> {
    if let Some(data) = plain(rows, order, column) {
        return Some(Chunk {
            rows: order.len(),
            valid: None,
            data,
        });
    }
    let mut kinds = rows
        .batches()
        .iter()
        .map(|(_, columns)| columns.get(column)?.is_numbers());
    let kind = kinds.next()??;
    if !kinds.all(|other| other == Some(kind)) {
        return None;
    }
    let mut valid = BitsBuilder::default();
    let values = order.iter().map(|place| rows.value(*place, column));
    let data = match kind {
        Numbers::Integers => Data::I64(Slice::from(
            values
                .map(|value| {
                    let n = value.as_i64();
                    valid.push(n.is_some());
                    n.unwrap_or(0)
                })
                .collect::<Vec<i64>>(),
        )),
        Numbers::Reals => Data::F64(Slice::from(
            values
                .map(|value| match value {
                    ValueRef::Real(x) => {
                        valid.push(true);
                        x
                    }
                    _ => {
                        valid.push(false);
                        0.0
                    }
                })
                .collect::<Vec<f64>>(),
        )),
    };
    let valid = (valid.zeros > 0).then(|| Bits::new(Slice::from(valid.into_bytes()), 0));
    Some(Chunk {
        rows: order.len(),
        valid,
        data,
    })
}

/// A column of a single batch that has only 64-bit numbers, so no row's type must be checked.
fn plain(rows: &Rows, order: &[Place], column: usize) -> Option<Data> {
    let [(_, columns)] = rows.batches() else {
        return None;
    };
    let chunk = columns.get(column)?;
    if let Some(values) = chunk.integers() {
        return in_order(values, order).map(|values| Data::I64(Slice::from(values)));
    }
    let values = chunk.reals()?;
    in_order(values, order).map(|values| Data::F64(Slice::from(values)))
}

fn in_order<T: Copy>(values: &[T], order: &[Place]) -> Option<Vec<T>> {
    let mut found = Vec::with_capacity(order.len());
    for place in order {
        found.push(*values.get(place.row())?);
    }
    Some(found)
}
