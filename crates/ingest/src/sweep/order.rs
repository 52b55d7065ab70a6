//! In which order the rows of a part are applied.
//!
//! Of a transaction of n rows out of m, in stripes of which there are g, the rows lie in one stripe and, by the other index, within n·g/m of it. So they touch 1/g of the pages of the key's index and n·g/m of those
//! of the other: least where g is the root of m/n. Stripes go up and down in turn, so that the end of one is near the beginning of the next.

use super::{NOWHERE, Part, Places, key};
use crate::affinity::from_log;
use crate::collation::Collation;
use crate::read::Code;
use densite_log::Record;
use densite_sqlite::ValueRef;

/// The first column of another index, by its name, and how it compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Second {
    pub(crate) column: String,
    pub(crate) collation: Collation,
}

/// Bits of a number in a part.
const BITS: u32 = 22;

/// The numbers of the part's rows, counted from its first, that `wanted` wants, in an order in which rows that follow each other share pages, and those of one key are in the order of the log. `None` where
/// the log's own order is as good: its keys ascend mostly.
pub(crate) fn arranged(
    part: &Part,
    wanted: impl Fn(u32) -> bool,
    key: &[Collation],
    second: Option<&Second>,
    together: usize,
) -> Option<Vec<u32>> {
    let mut rows: Vec<(u64, u32)> = Vec::with_capacity(part.rows);
    let mut seconds: Vec<u64> = Vec::with_capacity(part.rows);
    // The upper bits of what tells keys apart, and the row: rows of a key follow each other when these are sorted.
    let mut alike: Vec<u64> = Vec::with_capacity(part.rows);
    let mut numbers: Vec<u32> = Vec::with_capacity(part.rows);
    let (mut ascending, mut before) = (0, 0);
    for (number, unit) in part.each().filter(|(number, _)| wanted(*number)) {
        let (Some(record), row) = (part.records.get(unit.record as usize), unit.row as usize)
        else {
            continue;
        };
        let value = |column| {
            record
                .rows
                .get(row, column)
                .map_or(ValueRef::Null, from_log)
        };
        let code = Code::of(key, value).hi;
        ascending += usize::from(code >= before);
        before = code;
        let i = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        numbers.push(number);
        rows.push((code, i));
        seconds.push(second.map_or(0, |s| of_second(record, row, s)));
        alike.push(key::hash(&record.rows, row, key) >> BITS << BITS | u64::from(i));
    }
    if ascending > rows.len() / 4 * 3 {
        return None;
    }
    put_together(alike, &mut seconds);
    rows.sort_unstable();
    if second.is_some() {
        let stripes = (rows.len() as f64 / together.max(1) as f64).sqrt().round();
        by_second(&mut rows, &seconds, (stripes as usize).max(1));
    }
    let number = |(_, i): &(u64, u32)| numbers.get(*i as usize).copied();
    Some(rows.iter().filter_map(number).collect())
}

fn of_second(record: &Record, row: usize, second: &Second) -> u64 {
    let mut columns = record.table.columns().iter();
    let column = columns.position(|c| c.eq_ignore_ascii_case(&second.column));
    let value = column.and_then(|c| record.rows.get(row, c));
    Code::of(&[second.collation], |_| {
        value.map_or(ValueRef::Null, from_log)
    })
    .hi
}

/// Rows of one key get the second column of its first row: they stay beside each other then, and in the order of the log.
fn put_together(mut alike: Vec<u64>, seconds: &mut [u64]) {
    alike.sort_unstable();
    let row = |tagged: u64| (tagged & ((1 << BITS) - 1)) as usize;
    let mut first = None;
    for tagged in alike {
        let known = first.filter(|first| first >> BITS == tagged >> BITS);
        let Some(known) = known else {
            first = Some(tagged);
            continue;
        };
        let shared = seconds.get(row(known)).copied();
        if let (Some(shared), Some(second)) = (shared, seconds.get_mut(row(tagged))) {
            *second = shared;
        }
    }
}

/// Orders rows, which are in the key's order, by stripes of it and within a stripe by the second column.
fn by_second(rows: &mut [(u64, u32)], seconds: &[u64], stripes: usize) {
    let (count, mut begin) = (rows.len(), 0);
    for stripe in 0..stripes {
        let mut end = ((count as u64) * (stripe as u64 + 1) / stripes as u64) as usize;
        // All of a key are in one stripe.
        while end > 0
            && let (Some(last), Some(next)) = (rows.get(end - 1), rows.get(end))
            && last.0 == next.0
        {
            end += 1;
        }
        let Some(part) = rows.get_mut(begin..end.max(begin)) else {
            continue;
        };
        for row in part.iter_mut() {
            let second = seconds.get(row.1 as usize).copied().unwrap_or(0);
            row.0 = if stripe % 2 == 0 { second } else { !second };
        }
        part.sort_unstable();
        begin = end.max(begin);
    }
}

/// Places for the rows of a part in this order, behind the first `done`, which keep theirs in `old`.
pub(crate) fn places(part: &Part, order: &[u32], old: &[u32], done: u32) -> Places {
    let mut places = vec![NOWHERE; part.numbers()];
    for (place, old) in places.iter_mut().zip(old) {
        if *old < done {
            *place = *old;
        }
    }
    for (number, place) in order.iter().zip(done..) {
        if let Some(at) = places.get_mut(*number as usize) {
            *at = place;
        }
    }
    places.into()
}
