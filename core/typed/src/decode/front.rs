//! The front of records: the leading columns of a page, while their values are short.
//!
//! While the columns are read, the types and values of each row are put together in a buffer of its
//! own. Each front then goes to its cell in one piece. A buffer has spare room, so every copy has a
//! fixed length, and each value is looked at once.

use super::record_place::{Record, put_exactly};
use crate::model::{Dictionary, SLACK};
use crate::numbers::{Numbers, Stored};
use crate::template::{FIELDS_MAX, Template};

/// Most columns of a front.
pub(super) const TYPES: usize = 32;
/// Most bytes of a front's values.
const BODY: usize = 160;
/// Bytes before the types of a row: the last sixteen types are loaded at once, however few there
/// are.
const TYPES_LEAD: usize = 16;
/// The same before its values, which are copied in pieces of so many bytes.
const LEAD: usize = 32;
/// The most pieces.
const PIECES: usize = BODY / LEAD;

/// The front of one record.
#[derive(Clone)]
pub(super) struct Row {
    /// The serial types, one byte each, of columns in which they differ between rows; zero for
    /// other columns.
    types: [u8; TYPES_LEAD + TYPES],
    /// Where in `body` the values end, which begin at [`LEAD`].
    end: usize,
    body: [u8; LEAD + BODY + SLACK],
}

impl Row {
    const EMPTY: Row = Row {
        types: [0; TYPES_LEAD + TYPES],
        end: LEAD,
        body: [0; LEAD + BODY + SLACK],
    };

    /// Appends the first `len` of `N` bytes.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N], len: usize) -> Option<()> {
        *self.body.get_mut(self.end..)?.first_chunk_mut()? = bytes;
        self.end += len;
        Some(())
    }

    /// See [`Front::put_values`].
    #[inline(always)]
    fn put_pieces<const N: usize>(&self, end: usize, out: &mut [u8]) -> Option<usize> {
        let start = end.checked_sub(self.len())?;
        let mut from = self.end;
        for _ in 0..N {
            from = from.saturating_sub(LEAD);
            let to = out.get_mut((start + from).checked_sub(LEAD)?..)?;
            *to.first_chunk_mut::<LEAD>()? = *self.body.get(from..)?.first_chunk()?;
        }
        Some(start)
    }

    /// Bytes of its values.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.end.saturating_sub(LEAD)
    }
}

/// The fronts of all records of a page.
pub(super) struct Front {
    /// The first `count` of them are used; the others are left from earlier pages.
    rows: Vec<Row>,
    count: usize,
    /// The number of columns in the front.
    pub(super) columns: usize,
    /// The types of columns with one type in all rows; zero for other columns.
    types: [u8; TYPES_LEAD + TYPES],
    /// The most bytes that the values of a row take.
    len_max: usize,
}

impl Default for Front {
    fn default() -> Front {
        Front {
            rows: Vec::new(),
            count: 0,
            columns: 0,
            types: [0; TYPES_LEAD + TYPES],
            len_max: 0,
        }
    }
}

impl Front {
    /// Begins a page of so many records.
    pub(super) fn begin(&mut self, rows: usize) {
        if self.rows.len() < rows {
            self.rows.resize(rows, Row::EMPTY);
        }
        for row in self.rows.iter_mut().take(rows) {
            row.types = [0; TYPES_LEAD + TYPES];
            row.end = LEAD;
        }
        self.count = rows;
        self.columns = 0;
        self.types = [0; TYPES_LEAD + TYPES];
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

    /// The rows, and where the type of the column that was taken last goes.
    fn rows(&mut self) -> (&mut [Row], usize) {
        let rows = self.rows.get_mut(..self.count).unwrap_or_default();
        (
            rows,
            TYPES_LEAD + (self.columns.wrapping_sub(1) & (TYPES - 1)),
        )
    }

    /// Sets the type of the column that was taken last for all rows.
    pub(super) fn same(&mut self, serial_type: u32) {
        let (_, at) = self.rows();
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
        if scale == 0
            && let Some((serial_type, len)) = range.and_then(|range| n.same(range))
        {
            self.same(u32::from(serial_type));
            return self.fixed(values, usize::from(len));
        }
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
                let to = row.body.get_mut(row.end..)?.first_chunk_mut()?;
                write(*v, to).then_some(())?;
                row.end += len;
            }
            return Some(());
        }
        if let Some(write) = template.number_last() {
            for (row, v) in rows.iter_mut().zip(fields) {
                let to = row.body.get_mut(row.end..)?.first_chunk_mut()?;
                write(*v, to).then_some(())?;
                row.end += len;
            }
            return Some(());
        }
        let mut of_row = [0; FIELDS_MAX];
        let used = of_row.get_mut(..template.fields())?;
        for (j, row) in rows.iter_mut().enumerate() {
            for (i, field) in used.iter_mut().enumerate() {
                *field = *fields.get(j + i * count)?;
            }
            let to = row.body.get_mut(row.end..)?;
            template.render(used, to).then_some(())?;
            row.end += len;
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

    /// The rows of the page.
    pub(super) fn of_page(&self) -> &[Row] {
        self.rows.get(..self.count).unwrap_or_default()
    }

    /// Writes the values of a row so that they end at `end`, in `pieces` pieces of [`LEAD`] bytes.
    /// Returns where they begin. It can overwrite as many bytes before them.
    #[inline(always)]
    pub(super) fn put_values(
        row: &Row,
        pieces: usize,
        end: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        // A loop would end with a branch that a processor cannot always predict.
        match pieces {
            0 => Some(end),
            1 => row.put_pieces::<1>(end, out),
            2 => row.put_pieces::<2>(end, out),
            3 => row.put_pieces::<3>(end, out),
            _ => row.put_pieces::<PIECES>(end, out),
        }
    }

    /// Writes the types of a row so that they end at `end`. Returns where they begin. It can
    /// overwrite as many bytes before them as a header has at most.
    #[inline(always)]
    pub(super) fn put_types_back(&self, row: &Row, end: usize, out: &mut [u8]) -> Option<usize> {
        let mut put = |from: usize, end: usize| {
            let same: &[u8; TYPES_LEAD] = self.types.get(from..)?.first_chunk()?;
            let own: &[u8; TYPES_LEAD] = row.types.get(from..)?.first_chunk()?;
            let both = u128::from_ne_bytes(*same) | u128::from_ne_bytes(*own);
            *out.get_mut(..end)?.last_chunk_mut()? = both.to_ne_bytes();
            Some(())
        };
        put(self.columns, end)?;
        if self.columns > TYPES_LEAD {
            put(self.columns - TYPES_LEAD, end.checked_sub(TYPES_LEAD)?)?;
        }
        end.checked_sub(self.columns)
    }

    /// Pieces in which [`Front::put_values`] writes values of so many bytes.
    pub(super) fn pieces(len: usize) -> usize {
        len.div_ceil(LEAD)
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
        let from = row.body.get(LEAD..row.end)?;
        put_exactly(from, out.get_mut(values..values + from.len())?)?;
        Some(from.len())
    }

    /// Writes the types of a row, sixteen at a time.
    #[inline(always)]
    fn put_types(&self, row: &Row, out: &mut [u8; TYPES]) {
        let same = self.types.get(TYPES_LEAD..).unwrap_or_default();
        let own = row.types.get(TYPES_LEAD..).unwrap_or_default();
        let (same, own) = (same.as_chunks().0, own.as_chunks().0);
        for (to, (same, own)) in out.as_chunks_mut().0.iter_mut().zip(same.iter().zip(own)) {
            *to = (u128::from_ne_bytes(*same) | u128::from_ne_bytes(*own)).to_ne_bytes();
        }
    }
}
