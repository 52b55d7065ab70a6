//! The front of records: the leading columns of a page, while their values are short.
//!
//! While the columns are read, the types and values of each row are put together in a buffer of its
//! own. Each front then goes to its cell in one piece. A buffer has spare room, so every copy has a
//! fixed length, and each value is looked at once.

use super::place::{Record, put_exactly};
use crate::model::{Dictionary, SLACK};
use crate::numbers::{Numbers, Stored};
use crate::template::{FIELDS_MAX, Template};

/// Most columns of a front.
pub(super) const TYPES: usize = 32;
/// Most bytes of a front's values.
const BODY: usize = 160;

/// The front of one record.
#[derive(Clone)]
struct Row {
    /// The serial types, one byte each, of columns in which they differ between rows; zero for
    /// other columns.
    types: [u8; TYPES],
    /// The bytes of `body` that hold values.
    len: usize,
    body: [u8; BODY + SLACK],
}

impl Row {
    const EMPTY: Row = Row {
        types: [0; TYPES],
        len: 0,
        body: [0; BODY + SLACK],
    };

    /// Appends the first `len` of `N` bytes.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N], len: usize) -> Option<()> {
        *self.body.get_mut(self.len..)?.first_chunk_mut()? = bytes;
        self.len += len;
        Some(())
    }
}

/// The fronts of all records of a page.
#[derive(Default)]
pub(super) struct Front {
    /// The first `count` of them are used; the others are left from earlier pages.
    rows: Vec<Row>,
    count: usize,
    /// The number of columns in the front.
    pub(super) columns: usize,
    /// The types of columns with one type in all rows; zero for other columns.
    types: [u8; TYPES],
    /// The most bytes that the values of a row take.
    len_max: usize,
}

impl Front {
    /// Begins a page of so many records.
    pub(super) fn begin(&mut self, rows: usize) {
        if self.rows.len() < rows {
            self.rows.resize(rows, Row::EMPTY);
        }
        for row in self.rows.iter_mut().take(rows) {
            row.types = [0; TYPES];
            row.len = 0;
        }
        self.count = rows;
        self.columns = 0;
        self.types = [0; TYPES];
        self.len_max = 0;
    }

    /// Whether column `c`, whose values have at most `len_max` bytes, belongs to the front. If so,
    /// the caller must put it there.
    pub(super) fn takes(&mut self, c: usize, len_max: usize) -> bool {
        let fits = self.columns == c && c < TYPES && self.len_max + len_max <= BODY;
        if fits {
            self.columns += 1;
            self.len_max += len_max;
        }
        fits
    }

    /// The rows, and the index of the column that was taken last.
    fn rows(&mut self) -> (&mut [Row], usize) {
        let rows = self.rows.get_mut(..self.count).unwrap_or_default();
        (rows, self.columns.wrapping_sub(1) & (TYPES - 1))
    }

    /// Sets the type of the column that was taken last for all rows.
    pub(super) fn same(&mut self, serial_type: u32) {
        let at = self.columns.wrapping_sub(1) & (TYPES - 1);
        if let Some(to) = self.types.get_mut(at) {
            *to = serial_type as u8;
        }
    }

    /// Puts numbers that were multiplied by ten to the power of `scale`. All of them are within
    /// `range`, if it is known.
    pub(super) fn numbers(
        &mut self,
        values: &[i64],
        range: Option<(i64, i64)>,
        scale: u8,
        n: Numbers,
    ) -> Option<()> {
        if let Some(table) = n.table(range, scale) {
            return self.stored(values, |v| table.of(v));
        }
        match scale {
            0 => self.stored(values, |v| n.stored(v)),
            1 => self.stored(values, |v| n.unscaled::<10>(v, 1)),
            2 => self.stored(values, |v| n.unscaled::<100>(v, 2)),
            3 => self.stored(values, |v| n.unscaled::<1000>(v, 3)),
            4 => self.stored(values, |v| n.unscaled::<10_000>(v, 4)),
            _ => self.stored(values, |v| n.unscaled::<0>(v, scale)),
        }
    }

    /// Puts numbers in the form that `stored` returns.
    #[inline(always)]
    pub(super) fn stored(&mut self, values: &[i64], stored: impl Fn(i64) -> Stored) -> Option<()> {
        let (rows, at) = self.rows();
        for (row, v) in rows.iter_mut().zip(values) {
            let stored = stored(*v);
            *row.types.get_mut(at)? = stored.serial_type;
            row.put(stored.first_bytes(), usize::from(stored.len))?;
        }
        Some(())
    }

    /// Puts the lowest `len` bytes of numbers.
    pub(super) fn fixed(&mut self, values: &[i64], len: usize) -> Option<()> {
        let (rows, _) = self.rows();
        let shift = (64 - 8 * len as u32) & 63;
        for (row, v) in rows.iter_mut().zip(values) {
            row.put((*v << shift).to_be_bytes(), len)?;
        }
        Some(())
    }

    /// Puts texts of a template. `fields` has all values of the first field, then those of the
    /// next.
    pub(super) fn formed(&mut self, template: &Template, fields: &[i64]) -> Option<()> {
        let (rows, _) = self.rows();
        let (count, len) = (rows.len(), template.text_len());
        if let Some(write) = template.date_alone() {
            for (row, v) in rows.iter_mut().zip(fields) {
                let to = row.body.get_mut(row.len..)?.first_chunk_mut()?;
                write(*v, to).then_some(())?;
                row.len += len;
            }
            return Some(());
        }
        if let Some(write) = template.number_last() {
            for (row, v) in rows.iter_mut().zip(fields) {
                let to = row.body.get_mut(row.len..)?.first_chunk_mut()?;
                write(*v, to).then_some(())?;
                row.len += len;
            }
            return Some(());
        }
        let mut of_row = [0; FIELDS_MAX];
        let used = of_row.get_mut(..template.fields())?;
        for (j, row) in rows.iter_mut().enumerate() {
            for (i, field) in used.iter_mut().enumerate() {
                *field = *fields.get(j + i * count)?;
            }
            let to = row.body.get_mut(row.len..)?;
            template.render(used, to).then_some(())?;
            row.len += len;
        }
        Some(())
    }

    /// Puts texts of a dictionary, each of at most [`SLACK`] bytes.
    pub(super) fn listed(&mut self, codes: &[i64], d: &Dictionary) -> Option<()> {
        let (rows, at) = self.rows();
        for (row, code) in rows.iter_mut().zip(codes) {
            let (from, len) = *d.places.get(*code as u64 as usize)?;
            *row.types.get_mut(at)? = (13 + 2 * len) as u8;
            let bytes: &[u8; SLACK] = d.bytes.get(from as usize..)?.first_chunk()?;
            row.put(*bytes, len as usize)?;
        }
        Some(())
    }

    /// Bytes of each row's values.
    pub(super) fn lens(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().map(|row| row.len)
    }

    /// Writes the types and values of row `j`. Returns the bytes of its values. It can overwrite
    /// bytes of the record behind the types.
    #[inline(always)]
    pub(super) fn write(&self, j: usize, record: Record, out: &mut [u8]) -> Option<usize> {
        let Record { types, values, end } = record;
        let row = self.rows.get(j)?;
        if types + TYPES <= end {
            self.put_types(row, out.get_mut(types..)?.first_chunk_mut()?);
        } else {
            let mut all = [0; TYPES];
            self.put_types(row, &mut all);
            let all = all.get(..self.columns)?;
            out.get_mut(types..types + all.len())?.copy_from_slice(all);
        }
        let from = row.body.get(..row.len)?;
        let to = out.get_mut(values..values + row.len)?;
        if (64..=128).contains(&row.len) {
            // The first 64 bytes and the last 64, which overlap.
            *to.first_chunk_mut::<64>()? = *from.first_chunk()?;
            *to.last_chunk_mut::<64>()? = *from.last_chunk()?;
            return Some(row.len);
        }
        put_exactly(from, to)?;
        Some(row.len)
    }

    /// Writes the types of a row, sixteen at a time.
    #[inline(always)]
    fn put_types(&self, row: &Row, out: &mut [u8; TYPES]) {
        let (same, own) = (self.types.as_chunks().0, row.types.as_chunks().0);
        for (to, (same, own)) in out.as_chunks_mut().0.iter_mut().zip(same.iter().zip(own)) {
            *to = (u128::from_ne_bytes(*same) | u128::from_ne_bytes(*own)).to_ne_bytes();
        }
    }
}
