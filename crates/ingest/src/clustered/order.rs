//! In which order the rows of a batch are applied.
//!
//! Of a transaction of n rows out of m, in stripes of which there are g, the rows lie in one stripe
//! and, by the other index, within n·g/m of it. So they touch 1/g of the pages of the key's index
//! and n·g/m of those of the other: least where g is the root of m/n. Stripes go up and down in
//! turn, so that the end of one is near the beginning of the next.
//!
//! Only which rows a transaction has matters for that, and not their order in it. So rows are not
//! sorted but put into buckets: a bucket is a stripe and, of the other column, one of many equal
//! shares, whose bounds a sample of the rows tells; rows of a bucket stay in the order of the log.
//! All rows of a key are in one bucket, that of the first of them: so they, too, stay in the order
//! of the log.
//!
//! The next batch is put in order while this one is applied, so little memory is taken beside the
//! rows: 4 bytes for each row, for its bucket and then its place, and 8 for each one of some
//! stripes at a time, to find those of one key.

use super::{ClusteredBatch, ClusteredLimits, Kept, NOWHERE, Permutation, key};
use crate::affinity::from_log;
use crate::code::Code;
use crate::collation::Collation;
use densite_log::Record;
use densite_sqlite::ValueRef;
use std::ops::Range;
use std::sync::Arc;

/// The first column of another index, by its name, and how it compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Second {
    pub(crate) column: String,
    pub(crate) collation: Collation,
}

/// Bits of a number in a batch.
const BITS: u32 = ClusteredLimits::MOST.ilog2();

/// Buckets, about: of four million rows a bucket has 250, and a transaction with a thousand of them
/// has whole buckets mostly.
const BUCKETS: usize = 1 << 14;

/// Rows that tell where buckets begin.
const SAMPLE: usize = BUCKETS;

/// The places of the batch's rows in an order in which rows that follow each other share pages, and
/// those of one key are in the order of the log; behind the places that are kept. `None` where the
/// log's own order is as good: its keys ascend mostly.
pub(crate) fn permutation(
    batch: &ClusteredBatch,
    kept: Kept<'_>,
    key: &[Collation],
    second: Option<&Second>,
    together: usize,
) -> Option<Permutation> {
    if batch.numbers() > ClusteredLimits::MOST {
        return None;
    }
    let order = Order { key, second };
    let buckets = order.buckets(batch, kept, together);
    // Of each row first its bucket.
    let mut permutation = all_nowhere(batch);
    let of = Arc::get_mut(&mut permutation)?;
    let (mut rows, mut ascending, mut before) = (0, 0, 0);
    for record in &batch.records {
        let column = order.column_of_second(record);
        for row in record.skip..record.rows.len() {
            let number = batch.number(record, row);
            let Some(bucket) = of.get_mut(number as usize) else {
                continue;
            };
            if kept.place(number).is_some() {
                continue;
            }
            let code = order.code(record, row);
            rows += 1;
            ascending += usize::from(code >= before);
            before = code;
            *bucket = buckets.of(code, || order.code_of_second(record, row, column));
        }
    }
    if ascending > rows / 4 * 3 {
        return None;
    }
    for some in buckets.some_stripes() {
        put_together(batch, key, of, &some);
    }
    place(of, kept, buckets.len());
    Some(permutation)
}

/// The places of the batch's rows in the order of the log, behind those that are kept.
pub(crate) fn log_order(batch: &ClusteredBatch, kept: Kept<'_>) -> Permutation {
    let mut permutation = all_nowhere(batch);
    if let Some(of) = Arc::get_mut(&mut permutation) {
        for number in batch.each() {
            if let Some(bucket) = of.get_mut(number as usize) {
                *bucket = 0;
            }
        }
        place(of, kept, 1);
    }
    permutation
}

fn all_nowhere(batch: &ClusteredBatch) -> Permutation {
    (0..batch.numbers()).map(|_| NOWHERE).collect()
}

/// Of the rows in some buckets those of one key get the bucket of the first of them.
fn put_together(batch: &ClusteredBatch, key: &[Collation], of: &mut [u32], some: &Range<u32>) {
    let count = of.iter().filter(|bucket| some.contains(bucket)).count();
    // The upper bits of what tells keys apart, and the row: rows of a key follow each other when
    // these are sorted.
    let mut alike: Vec<u64> = Vec::with_capacity(count);
    for record in &batch.records {
        for row in record.skip..record.rows.len() {
            let number = batch.number(record, row);
            let bucket = of.get(number as usize);
            if bucket.is_some_and(|bucket| some.contains(bucket)) {
                alike.push(key::hash(&record.rows, row, key) >> BITS << BITS | u64::from(number));
            }
        }
    }
    alike.sort_unstable();
    let row = |tagged: u64| (tagged & ((1 << BITS) - 1)) as usize;
    let mut first = None;
    for tagged in alike {
        let known = first.filter(|first| first >> BITS == tagged >> BITS);
        let Some(known) = known else {
            first = Some(tagged);
            continue;
        };
        let shared = of.get(row(known)).copied();
        if let (Some(shared), Some(bucket)) = (shared, of.get_mut(row(tagged))) {
            *bucket = shared;
        }
    }
}

/// Makes places of buckets, of which there are so many. What is kept stays where it is, and the
/// others come behind it.
fn place(of: &mut [u32], kept: Kept<'_>, buckets: usize) {
    let mut next = vec![0u32; buckets];
    for (number, bucket) in (0..).zip(&*of) {
        if kept.place(number).is_none()
            && let Some(rows) = next.get_mut(*bucket as usize)
        {
            *rows += 1;
        }
    }
    let mut end = kept.done;
    for begin in &mut next {
        end += std::mem::replace(begin, end);
    }
    for (number, bucket) in (0..).zip(of) {
        *bucket = match (kept.place(number), next.get_mut(*bucket as usize)) {
            (Some(place), _) => place,
            (None, Some(next)) => {
                *next += 1;
                *next - 1
            }
            (None, None) => NOWHERE,
        };
    }
}

/// What the order goes by.
struct Order<'a> {
    key: &'a [Collation],
    second: Option<&'a Second>,
}

impl Order<'_> {
    fn code(&self, record: &Record, row: usize) -> u64 {
        let value = |column| {
            let value = record.rows.get(row, column);
            value.map_or(ValueRef::Null, from_log)
        };
        Code::of(self.key, value).hi
    }

    fn column_of_second(&self, record: &Record) -> Option<(usize, Collation)> {
        let second = self.second?;
        let mut columns = record.table.columns().iter();
        let column = columns.position(|c| c.eq_ignore_ascii_case(&second.column))?;
        Some((column, second.collation))
    }

    fn code_of_second(
        &self,
        record: &Record,
        row: usize,
        column: Option<(usize, Collation)>,
    ) -> u64 {
        let Some((column, collation)) = column else {
            return 0;
        };
        let value = record.rows.get(row, column);
        let value = value.map_or(ValueRef::Null, from_log);
        Code::of(&[collation], |_| value).hi
    }

    /// Into which rows of a batch are put, if so many are applied together.
    fn buckets(&self, batch: &ClusteredBatch, kept: Kept<'_>, together: usize) -> Buckets {
        let (mut keys, mut seconds) = (Vec::new(), Vec::new());
        // Not each so many-th: rows may come in turns.
        let step = batch.rows / SAMPLE;
        let mut random = 1u64;
        let mut skip = 0;
        for record in &batch.records {
            let column = self.column_of_second(record);
            let rows = record.rows.len();
            let mut row = record.skip + skip;
            while row < rows {
                if kept.place(batch.number(record, row)).is_none() {
                    keys.push(self.code(record, row));
                    seconds.extend(column.map(|_| self.code_of_second(record, row, column)));
                }
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let most = (2 * step).max(1) as u64;
                row += 1 + ((random >> 32) % most) as usize;
            }
            skip = row - rows;
        }
        let stripes = (batch.rows as f64 / together.max(1) as f64).sqrt().round();
        let stripes = match seconds.is_empty() {
            false => (stripes as usize).clamp(1, BUCKETS),
            true => BUCKETS,
        };
        Buckets {
            stripes: bounds(keys, stripes),
            shares: bounds(seconds, BUCKETS / stripes),
        }
    }
}

/// See the module.
struct Buckets {
    /// The first key of each stripe but the first one.
    stripes: Vec<u64>,
    /// The same of shares of the second column.
    shares: Vec<u64>,
}

impl Buckets {
    fn len(&self) -> usize {
        (self.stripes.len() + 1) * (self.shares.len() + 1)
    }

    /// Those of a quarter of the stripes or of one, and so on: all rows of a key are in one stripe.
    /// None without shares: then they are in one bucket.
    fn some_stripes(&self) -> impl Iterator<Item = Range<u32>> {
        let (stripes, shares) = (self.stripes.len() + 1, self.shares.len() + 1);
        let some = stripes.div_ceil(4) * shares;
        let begins = (0..self.len()).step_by(some).filter(move |_| shares > 1);
        begins.map(move |begin| begin as u32..(begin + some) as u32)
    }

    fn of(&self, key: u64, second: impl FnOnce() -> u64) -> u32 {
        let place = |bounds: &[u64], code| bounds.partition_point(|bound| *bound <= code);
        let stripe = place(&self.stripes, key);
        let last = self.shares.len();
        let share = match last {
            0 => 0,
            _ => place(&self.shares, second()),
        };
        let share = if stripe % 2 == 0 { share } else { last - share };
        (stripe * (last + 1) + share) as u32
    }
}

/// Where shares begin if these codes are cut into so many; without the first one.
fn bounds(mut codes: Vec<u64>, shares: usize) -> Vec<u64> {
    codes.sort_unstable();
    let each = (1..shares).filter_map(|share| codes.get(codes.len() * share / shares));
    let mut bounds: Vec<u64> = each.copied().collect();
    bounds.dedup();
    bounds
}

#[cfg(test)]
mod tests;
