//! The order in which the rows of a batch are applied: stripes of the primary key, in turn
//! ascending and descending by another index (docs/decisions/ingest-applying.md, Clustered apply).
//!
//! Only the set of a transaction's rows matters. So rows are put into buckets instead of being
//! sorted: a bucket is a stripe and one of many equal shares of the other column, with bounds from
//! a sample. Rows of a bucket stay in the order of the log, and all rows of a key go to the bucket
//! of its first row. Each row takes 4 bytes; finding the rows of one key takes 8 more for a few
//! stripes at a time.

use super::{ClusteredBatch, ClusteredLimits, Kept, NOWHERE, Permutation, key};
use crate::schema::affinity::from_log;
use crate::schema::collation::Collation;
use crate::schema::key_code::Code;
use densite_log::Record;
use densite_sqlite::ValueRef;
use std::ops::Range;
use std::sync::Arc;

/// The first column of another index, and how it compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Second {
    pub(crate) column: String,
    pub(crate) collation: Collation,
}

/// Bits of a number within a batch.
const BITS: u32 = ClusteredLimits::MOST.ilog2();

/// Approximate number of buckets. Of four million rows each has about 250, so a transaction of many
/// thousand rows consists mostly of whole buckets.
const BUCKETS: usize = 1 << 14;

/// Number of sampled rows that decide where buckets begin.
const SAMPLE: usize = BUCKETS;

/// The places of the batch's rows, behind the kept ones. Neighbouring rows share pages, and rows of
/// one key are in the order of the log. `None` if the log's own order is as good, because most of
/// its keys ascend.
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
    // First the bucket of each row; later its place.
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

/// The places of the batch's rows in the order of the log, behind the kept ones.
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

/// Gives all rows of a key the bucket of the first of them, for the rows in some buckets.
fn put_together(batch: &ClusteredBatch, key: &[Collation], of: &mut [u32], some: &Range<u32>) {
    let count = of.iter().filter(|bucket| some.contains(bucket)).count();
    // The upper bits of the key's hash, and the row's number. Sorted, rows of a key are neighbours.
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

/// Turns bucket numbers into places. Kept places stay, and the others follow them.
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

/// The columns that decide the order.
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

    /// The buckets of a batch's rows, if `together` rows are applied in one transaction.
    fn buckets(&self, batch: &ClusteredBatch, kept: Kept<'_>, together: usize) -> Buckets {
        let (mut keys, mut seconds) = (Vec::new(), Vec::new());
        // Random steps instead of fixed ones: rows can come in a regular pattern.
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

struct Buckets {
    /// The first key of each stripe except the first stripe.
    stripes: Vec<u64>,
    /// The same for shares of the second column.
    shares: Vec<u64>,
}

impl Buckets {
    fn len(&self) -> usize {
        (self.stripes.len() + 1) * (self.shares.len() + 1)
    }

    /// Ranges of buckets, each with a quarter of the stripes or at least one. All rows of a key are
    /// in one stripe. Empty if there are no shares: then rows of a key already have one bucket.
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

/// The first codes of `shares` equal shares of these codes, except that of the first share.
fn bounds(mut codes: Vec<u64>, shares: usize) -> Vec<u64> {
    codes.sort_unstable();
    let each = (1..shares).filter_map(|share| codes.get(codes.len() * share / shares));
    let mut bounds: Vec<u64> = each.copied().collect();
    bounds.dedup();
    bounds
}

#[cfg(test)]
mod tests;
