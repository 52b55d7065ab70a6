//! Decoding a leaf of short records of integers: most of what is decoded of indexes and of tables
//! of keys.

use super::COLUMNS_MAX;
use super::alike::Alike;
use super::path::Path;
use super::records::{BODY_MAX, Body, Column, Records};
use crate::bits::{mask, width_of};
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Model, PAGE_STREAMS};
use crate::numbers::Numbers;
use crate::stream::Source;
use densite_sqlite_format::page::Kind;
use densite_sqlite_format::record::NULL;
use densite_sqlite_format::varint_len;

/// Row ids below this take at most four bytes.
const ROWID_END: i64 = 1 << 28;

/// Memory to work with.
#[derive(Debug, Default)]
pub(crate) struct Work {
    words: Vec<u64>,
    bodies: Vec<Body>,
}

/// A leaf that is to be decoded, of which no cell is opaque or cut.
pub(crate) struct Leaf {
    pub(crate) kind: Kind,
    pub(crate) usable: usize,
    pub(crate) cells: usize,
    pub(crate) columns: usize,
    /// 0 and 1 have serial types of their own.
    pub(crate) small: bool,
    /// Where the row ids of a table begin in [`Streams::ints`](crate::stream::Streams::ints).
    pub(crate) rowid: usize,
    /// See [`Read::range`](crate::stream::Read::range).
    pub(crate) rowid_range: Option<(i64, i64)>,
}

impl Leaf {
    /// Whether the model says that each column is NULL or an integer: a first look, which reads
    /// nothing.
    fn is_narrow(&self, model: &Model) -> bool {
        let mut number = PAGE_STREAMS;
        let fits = (1..=COLUMNS_MAX).contains(&self.columns) && self.cells > 0;
        fits && !self.kind.has_child()
            && (0..self.columns).all(|c| {
                let class = model.constant(number);
                let column = model.column(c);
                number += COLUMN_STREAMS + column.form.streams();
                // A column about which nothing was learned has its classes in the page.
                class == Some(Class::Null as i64)
                    || class == Some(Class::Number as i64) && column.scale == 0
            })
    }
}

/// Reads all columns and writes the cells and their sizes as the general decoder does. Returns
/// where the last cell begins. `None`, with the streams read as far as before, if the leaf does not
/// consist of such records; `out` and `sizes` then hold anything.
pub(crate) fn write(
    leaf: &Leaf,
    source: &mut Source<'_>,
    work: &mut Work,
    out: &mut [u8],
    sizes: &mut Vec<u32>,
) -> Option<usize> {
    if !leaf.is_narrow(source.model) {
        return None;
    }
    let begun = (source.r.clone(), source.streams.used);
    let content = read_and_write(leaf, source, work, out, sizes);
    if content.is_none() {
        (source.r, source.streams.used) = begun;
    }
    content
}

/// A lower and an upper bound of all values, each with as many bits as some value. A loop that
/// compares values would take longer.
fn bounds(values: &[i64]) -> (i64, i64) {
    let first = values.first().copied().unwrap_or(0);
    let bits = |(differ, magnitude): (i64, i64), v: &i64| {
        (differ | (v ^ first), magnitude | (v ^ (v >> 63)))
    };
    let (differ, magnitude) = values.iter().fold((0, 0), bits);
    match differ < 0 {
        // Values of both signs.
        true => {
            let most = mask(width_of(magnitude as u64)) as i64;
            (!most, most)
        }
        false => {
            let low = mask(width_of(differ as u64)) as i64;
            (first & !low, first | low)
        }
    }
}

#[inline(always)]
fn read_and_write(
    leaf: &Leaf,
    source: &mut Source<'_>,
    work: &mut Work,
    out: &mut [u8],
    sizes: &mut Vec<u32>,
) -> Option<usize> {
    let numbers = Numbers::new(leaf.small);
    let mut reads = [(None, None); COLUMNS_MAX];
    let (mut number, mut len_max) = (PAGE_STREAMS, 0);
    let mut alike = Some(Alike::default());
    for (c, to) in reads.iter_mut().enumerate().take(leaf.columns) {
        let column = source.model.column(c);
        let classes = source.read_classes(number + ColumnStream::Class as usize, leaf.cells)?;
        match Class::of(classes.constant?)? {
            Class::Null => alike = alike.and_then(|alike| alike.with((NULL as u8, 0))),
            Class::Number if column.scale == 0 => {
                let number = number + ColumnStream::Number as usize;
                let read = source.read(number, leaf.cells)?;
                let bounds = || bounds(source.streams.values(read).unwrap_or_default());
                let does = |range: &(i64, i64)| alike.is_none() || numbers.same(*range).is_some();
                let range = read.range.filter(does).unwrap_or_else(bounds);
                let same = numbers.same(range);
                alike = alike.and_then(|alike| alike.with(same?));
                // The farther a value is from zero, the longer it is.
                let len = |v| usize::from(numbers.stored(v).len);
                len_max += len(range.0).max(len(range.1));
                *to = (Some(read), same);
            }
            _ => return None,
        }
        number += COLUMN_STREAMS + column.form.streams();
    }
    if len_max > BODY_MAX {
        return None;
    }
    let null = Column {
        values: None,
        same: None,
    };
    let mut columns = [null; COLUMNS_MAX];
    for (to, (read, same)) in columns.iter_mut().zip(reads) {
        if let Some(read) = read {
            to.values = Some(source.streams.values(read)?);
            to.same = same;
        }
    }
    let columns = columns.get(..leaf.columns)?;
    let rowids = match leaf.kind.is_table() {
        true => source
            .streams
            .ints
            .get(leaf.rowid..leaf.rowid + leaf.cells)?,
        false => &[],
    };
    let (least, most) = match leaf.rowid_range {
        Some(range) if leaf.kind.is_table() => range,
        _ => bounds(rowids),
    };
    if least < 0 || most >= ROWID_END {
        return None;
    }
    let len = |id: i64| varint_len(id as u64);
    let records = Records {
        columns,
        rowids,
        rowid_len: (len(least) == len(most)).then_some(len(least)),
        cells: leaf.cells,
        numbers,
        usable: leaf.usable,
    };
    sizes.clear();
    if let Some(alike) = alike
        && Path::Alike.is_on()
        && let Some(content) = records.write_alike(alike, &mut work.words, out, sizes)
    {
        Path::Alike.count();
        return Some(content);
    }
    if !Path::Each.is_on() {
        return None;
    }
    sizes.clear();
    let content = records.write(&mut work.bodies, out, sizes);
    if content.is_some() {
        Path::Each.count();
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bounds_have_the_bits_of_some_value(values in prop::collection::vec(any::<i64>(), 0..9), shift in 0u32..64, below in any::<i64>()) {
            let near: Vec<i64> = values.iter().map(|v| below.wrapping_add(v >> shift)).collect();
            for values in [values, near] {
                let (least, most) = bounds(&values);
                let magnitude = |v: &i64| width_of((v ^ (v >> 63)) as u64);
                let widest = values.iter().map(magnitude).max().unwrap_or(0);
                prop_assert!(values.iter().all(|v| (least..=most).contains(v)));
                prop_assert!(magnitude(&least) <= widest && magnitude(&most) <= widest);
            }
        }
    }
}
