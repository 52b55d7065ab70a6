//! Splitting leaves whose records are integers and nothing else, and few: keys of joins, positions of an index.
//!
//! Their records' headers are of one length, and mostly the same as that of the row before: then the types need not be looked at again, only
//! the values be read. What comes out is what splitting value by value gives, and where that would not be so the page is left to it.

mod even;

use super::{Split, Stream, Tail, most_values};
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Model, PAGE_STREAMS, PageStream};
use crate::record::{BODY_LEN, NARROW_COLUMNS_MAX, Small};

/// How a value that is not NULL is read: the eight bytes that end where it does, without those before it.
#[derive(Clone, Copy, Default)]
struct Value {
    /// Its column.
    column: usize,
    /// Where it ends, counted from the record's beginning.
    end: usize,
    /// Bits of the eight bytes that are not its own.
    unused: u32,
    /// It is 0 or 1 by its type: all bits of what is read that count, and what it is.
    keep: i64,
    constant: i64,
    /// Bits of a magnitude that would do with fewer bytes; where there are no fewer, `least` is 1.
    fewer: u32,
    least: u64,
}

/// What the types of a record's header say.
#[derive(Clone, Copy)]
struct Shape {
    /// The types, the first the lowest byte.
    types: u64,
    columns: usize,
    /// The columns that are NULL.
    nulls: u32,
    /// The others, `count` of them.
    values: [Value; NARROW_COLUMNS_MAX],
    count: usize,
    /// Bytes of the record.
    end: usize,
    /// Some value is 0 or 1 by its type.
    short: bool,
}

impl Shape {
    /// `None` if there is anything but integers and NULL.
    fn of(types: u64, columns: usize) -> Option<Shape> {
        let mut shape = Shape {
            types,
            columns,
            nulls: 0,
            values: [Value::default(); NARROW_COLUMNS_MAX],
            count: 0,
            end: columns + 1,
            short: false,
        };
        for (column, t) in types.to_le_bytes().into_iter().enumerate().take(columns) {
            let len = u32::from(*BODY_LEN.get(usize::from(t))?);
            shape.end += len as usize;
            let value = match t {
                0 => {
                    shape.nulls |= 1 << column;
                    continue;
                }
                1..=6 => Value {
                    unused: 64 - 8 * len,
                    keep: -1,
                    constant: 0,
                    // The length before: types 1 to 6 are of 1, 2, 3, 4, 6 and 8 bytes.
                    fewer: match t {
                        1 => 0,
                        5 => 31,
                        6 => 47,
                        _ => 8 * (len - 1) - 1,
                    },
                    least: u64::from(t == 1),
                    ..Value::default()
                },
                8 | 9 => {
                    shape.short = true;
                    Value {
                        constant: i64::from(t - 8),
                        least: 1,
                        ..Value::default()
                    }
                }
                _ => return None,
            };
            *shape.values.get_mut(shape.count)? = Value {
                column,
                end: shape.end,
                ..value
            };
            shape.count += 1;
        }
        Some(shape)
    }

    fn is_null(&self, column: usize) -> bool {
        self.nulls >> column & 1 == 1
    }
}

/// The types of a record of so many columns that begins at `at`; `None` if its header is of another length.
#[inline]
fn types_at(page: &[u8], at: usize, columns: usize) -> Option<u64> {
    let rest = page.get(at..)?;
    let word = match rest.first_chunk::<9>() {
        Some([header, types @ ..]) if usize::from(*header) == columns + 1 => {
            u64::from_le_bytes(*types)
        }
        Some(_) => return None,
        None => {
            let (header, types) = rest.split_first()?;
            if usize::from(*header) != columns + 1 {
                return None;
            }
            let types = types.iter().rev();
            types.fold(0, |word, t| word << 8 | u64::from(*t))
        }
    };
    Some(word & u64::MAX >> (64 - 8 * columns))
}

impl Split {
    /// Splits the cells of a page that was taken apart, if all of them are such records. `None`, with nothing changed that splitting them otherwise would look at, if not.
    pub(super) fn part_narrow(&mut self, bytes: &[u8], model: &Model) -> Option<()> {
        let cells = self.page.cells.as_slice();
        let first = cells.first().filter(|_| !self.page.kind.has_child())?;
        let mut shape = self.shape_of(bytes, first.local_at as usize, model)?;
        let places = self.make_room(&shape);
        let cells = self.page.cells.as_slice();
        let small = read_values(bytes, cells, &mut shape, &places.values, &mut self.ints);
        let Some(small) = small.filter(|small| !small.short || !small.long) else {
            self.ints.truncate(places.start);
            return None;
        };
        self.long = small.long;
        let rowids = self.ints.get_mut(places.rowids..).unwrap_or_default();
        if self.page.kind.is_table() {
            let each = rowids.iter_mut().zip(&self.page.cells);
            each.for_each(|(to, c)| *to = c.rowid);
        }
        self.put_streams(&shape, &places, model)
    }

    /// What the types of the first record, which begins at `first`, say; `None` if the page is not for us.
    fn shape_of(&self, bytes: &[u8], first: usize, model: &Model) -> Option<Shape> {
        let columns = usize::from(*bytes.get(first)?).checked_sub(1)?;
        let fits = (1..=NARROW_COLUMNS_MAX).contains(&columns)
            && self.page.count() * columns <= most_values(bytes.len());
        if !fits || (0..columns).any(|c| model.column(c).scale != 0) {
            return None;
        }
        Shape::of(types_at(bytes, first, columns)?, columns)
    }

    /// Makes room for what belongs to the cells as such, and of each column for the classes and, if there are any, the values.
    fn make_room(&mut self, shape: &Shape) -> Places {
        let n = self.page.count();
        let start = self.ints.len();
        let rowids = start + n;
        let mut end = rowids + if self.page.kind.is_table() { n } else { 0 };
        let mut values = [0; NARROW_COLUMNS_MAX];
        for (c, at) in values.iter_mut().enumerate().take(shape.columns) {
            *at = end + n;
            end = *at + if shape.is_null(c) { 0 } else { n };
        }
        self.ints.resize(end, 0);
        Places {
            start,
            rowids,
            values,
        }
    }

    /// Lists the streams, whose values and row ids are there.
    fn put_streams(&mut self, shape: &Shape, places: &Places, model: &Model) -> Option<()> {
        self.columns = shape.columns;
        let (n, is_table) = (self.page.count(), self.page.kind.is_table());
        let Split { ints, streams, .. } = self;
        let mut put = |number: usize, from: usize| {
            streams.push(Stream {
                number,
                from,
                to: from + n,
                tail: Tail::Nothing,
            });
        };
        put(PageStream::Opaque as usize, places.start);
        if is_table {
            put(PageStream::Rowid as usize, places.rowids);
        }
        let mut number = PAGE_STREAMS;
        for (c, at) in places.values.iter().enumerate().take(shape.columns) {
            put(number + ColumnStream::Class as usize, at - n);
            if !shape.is_null(c) {
                ints.get_mut(at - n..*at)?.fill(Class::Number as i64);
                put(number + ColumnStream::Number as usize, *at);
            }
            number += COLUMN_STREAMS + model.column(c).form.streams();
        }
        Some(())
    }
}

/// Where values lie in [`Split::ints`].
struct Places {
    /// The first of them.
    start: usize,
    rowids: usize,
    /// Of each column.
    values: [usize; NARROW_COLUMNS_MAX],
}

/// Reads the values of all cells, those of a column to `ints` from its place in `places` on; `shape` is that of the first one.
fn read_values(
    page: &[u8],
    cells: &[crate::page::Cell],
    shape: &mut Shape,
    places: &[usize; NARROW_COLUMNS_MAX],
    ints: &mut [i64],
) -> Option<Small> {
    let (mut small, mut shortest) = (Small::default(), true);
    for (i, cell) in cells.iter().enumerate() {
        let at = cell.local_at as usize;
        let types = types_at(page, at, shape.columns)?;
        if types != shape.types {
            let nulls = shape.nulls;
            *shape = Shape::of(types, shape.columns).filter(|shape| shape.nulls == nulls)?;
        }
        if cell.overflow != 0 || cell.local_len as usize != shape.end {
            return None;
        }
        small.short |= shape.short;
        for value in shape.values.iter().take(shape.count) {
            // There is a page's header before every record, so that there are always eight bytes to load.
            let eight = page.get((at + value.end).checked_sub(8)?..)?;
            let read = i64::from_be_bytes(*eight.first_chunk()?) << value.unused >> value.unused;
            let v = read & value.keep | value.constant;
            shortest &= (((v ^ (v >> 63)) as u64 >> value.fewer) | value.least) != 0;
            small.long |= (v as u64) < 2 && value.keep != 0;
            *ints.get_mut(places.get(value.column)? + i)? = v;
        }
    }
    shortest.then_some(small)
}

#[cfg(test)]
mod tests;
