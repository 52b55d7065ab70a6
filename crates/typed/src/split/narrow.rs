//! Splitting leaves whose records are integers and nothing else, and few: keys of joins, positions of an index.
//!
//! Their records' headers are of one length, and mostly the same as that of the row before: then the types need not be looked at again, only
//! the values be read. What comes out is what splitting value by value gives, and where that would not be so the page is left to it.

mod even;

use super::{Split, Stream, Tail, most_values};
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Model, PAGE_STREAMS, PageStream};
use crate::record::{BODY_LEN, Small};

/// Most columns: their types are one word.
const COLUMNS_MAX: usize = 8;

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
    values: [Value; COLUMNS_MAX],
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
            values: [Value::default(); COLUMNS_MAX],
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
        let fits = (1..=COLUMNS_MAX).contains(&columns)
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
        let mut values = [0; COLUMNS_MAX];
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
    values: [usize; COLUMNS_MAX],
}

/// Reads the values of all cells, those of a column to `ints` from its place in `places` on; `shape` is that of the first one.
fn read_values(
    page: &[u8],
    cells: &[crate::page::Cell],
    shape: &mut Shape,
    places: &[usize; COLUMNS_MAX],
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
mod tests {
    use super::*;
    use crate::split::PageContext;
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use rusqlite::Connection;

    /// What splitting gives, as it goes on from there.
    fn outcome(split: &Split) -> String {
        let Split {
            columns,
            long,
            ints,
            streams,
            codes,
            raw,
            ..
        } = split;
        format!("{columns} {long} {ints:?} {streams:?} {codes:?} {raw:?}")
    }

    /// Pages of tables of integers, of an index and of one without row ids, some of them with cells gone.
    fn pages() -> Vec<Vec<u8>> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.db");
        let db = Connection::open(&path).expect("opens");
        db.execute_batch(
            "CREATE TABLE pairs(a INTEGER, b INTEGER, c REAL, PRIMARY KEY (a, b));
             WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO pairs(a, b) SELECT i / 100, i % 100 * (i % 7) * (i % 3 - 1) * 300 FROM n WHERE 1 ON CONFLICT DO NOTHING;
             DELETE FROM pairs WHERE a BETWEEN 10 AND 20 AND b % 3 = 0;
             CREATE TABLE wide(a INTEGER PRIMARY KEY, b, c, d, e, f, g) WITHOUT ROWID;
             WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO wide SELECT i, i * i * i * i, -i, 1 << (i % 63), NULL, i % 2, i % 1000 FROM n;
             CREATE TABLE one(a INTEGER PRIMARY KEY, b INTEGER);
             WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO one SELECT i, i % 3 FROM n;
             CREATE TABLE even(a INTEGER, b INTEGER, c REAL, d INTEGER, PRIMARY KEY (a, b));
             WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
             INSERT INTO even SELECT 200 + i / 1000, -1000 - i % 1000, NULL, i / 4500 FROM n;
             CREATE TABLE mixed(a, b);
             WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO mixed SELECT CASE WHEN i % 400 = 399 THEN NULL ELSE i END, CASE WHEN i % 900 = 899 THEN 'x' ELSE 0.5 * i END FROM n;",
        )
        .expect("runs");
        drop(db);
        let bytes = std::fs::read(&path).expect("reads");
        bytes.chunks(4096).map(<[u8]>::to_vec).collect()
    }

    /// Splits a page in each way that there is, which must all agree; says which could.
    fn split(page: &[u8], number: u32) -> Option<(bool, bool)> {
        let model = Model::empty();
        let context = PageContext {
            number,
            pages: 0,
            reserved: 0,
        };
        let [mut even, mut narrow, mut plain, mut whole] =
            std::array::from_fn(|_| Split::default());
        let done = whole.split(page, &context, &model);
        if !narrow.page.parse(page, page.len(), false) {
            assert!(!done && !even.page.parse_even(page, page.len(), false));
            return None;
        }
        assert!(plain.page.parse(page, page.len(), false));
        let by_value = plain.part_values(page, &model).is_some();
        assert_eq!(done, by_value, "page {number}");
        let is_narrow = narrow.part_narrow(page, &model).is_some();
        let is_even =
            even.page.parse_even(page, page.len(), false) && even.part_even(page, &model).is_some();
        for (is, split) in [(is_even, even), (is_narrow, narrow)] {
            if is {
                assert!(by_value);
                assert_eq!(outcome(&split), outcome(&plain), "page {number}");
            } else {
                assert!(split.ints.is_empty() && split.streams.is_empty());
            }
        }
        if done {
            assert_eq!(whole.ints, plain.ints, "page {number}");
        }
        Some((is_even, is_narrow))
    }

    #[test]
    fn pages_of_integers_are_split_as_any_other_page_is() {
        let (mut even, mut narrow, mut others) = (0, 0, 0);
        for (page, number) in pages().iter().zip(1..).skip(1) {
            match split(page, number) {
                Some((true, _)) => even += 1,
                Some((false, true)) => narrow += 1,
                Some(_) => others += 1,
                None => {}
            }
        }
        assert!(
            even >= 20 && narrow >= 20 && others >= 5,
            "{even}, {narrow} and {others}"
        );
    }

    #[test]
    fn so_are_pages_that_sqlite_would_not_write() {
        let mut rng = StdRng::seed_from_u64(7);
        let (mut split_still, mut refused) = (0, 0);
        for (page, number) in pages().iter().zip(1..).skip(1) {
            for _ in 0..20 {
                let mut page = page.clone();
                let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
                if cells == 0 || cells > 1000 {
                    continue;
                }
                let pointer = 8 + 2 * rng.random_range(0..cells);
                let start = usize::from(u16::from_be_bytes([page[pointer], page[pointer + 1]]));
                let at = start + rng.random_range(0..12);
                if let Some(byte) = page.get_mut(at) {
                    *byte = [0, 1, 2, 8, 9, 0xff, *byte ^ 0x80][rng.random_range(0..7)];
                }
                match split(&page, number) {
                    Some(_) => split_still += 1,
                    None => refused += 1,
                }
            }
        }
        assert!(
            split_still > 300 && refused > 100,
            "{split_still} and {refused}"
        );
    }

    #[test]
    fn what_sqlite_does_not_write_is_left_to_splitting_value_by_value() {
        // A table leaf with one row of three columns: 1, 5 in two bytes, NULL.
        let mut page = vec![0; 512];
        page[..10].copy_from_slice(&[13, 0, 0, 0, 1, 1, 0xf8, 0, 1, 0xf8]);
        page[504..].copy_from_slice(&[6, 1, 4, 9, 2, 0, 0, 5]);
        let mut split = Split::default();
        assert!(split.page.parse(&page, 512, false));
        assert!(split.part_narrow(&page, &Model::empty()).is_none());
        page[510] = 1;
        assert!(split.part_narrow(&page, &Model::empty()).is_some());
        assert_eq!(split.ints, [0, 1, 1, 1, 1, 261, 0]);
    }
}
