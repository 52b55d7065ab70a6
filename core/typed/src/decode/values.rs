//! The values of records, column by column.
//!
//! A row's bytes are written from left to right. So a copy can overwrite later bytes of the same
//! cell, but never bytes beyond its end. Copies have a fixed length if possible, and the shortest
//! that a column needs, because the ends of cells are near.

use super::columns::{ABSENT, Body, Columns, Ready, Types};
use super::front::Front;
use super::record_place::{Record, put_exactly};
use crate::model::{Dictionary, Form, SLACK};
use crate::template::FIELDS_MAX;
use densite_sqlite_format::put_varint;
use densite_sqlite_format::record::{BODY_LEN, body_len};

/// A record that is being written.
#[derive(Clone, Copy)]
struct Row {
    /// Where the next type goes.
    types_at: u32,
    /// Where the next byte goes, less [`Rows::skip`].
    at: u32,
    /// Where its cell ends.
    end: u32,
}

/// The records of a page that are made of columns.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// Bytes that were written to every row since its `at` was updated.
    skip: u32,
}

impl Rows {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.skip = 0;
    }

    /// The number of rows that were begun.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Writes the serial types of the columns behind the front.
    pub(super) fn write_types(&mut self, columns: &Columns, out: &mut [u8]) -> Option<()> {
        for column in &columns.ready {
            match column.types {
                _ if matches!(column.body, Body::Absent) => {}
                Types::Same(t @ 0..0x80) => {
                    for row in &mut self.rows {
                        *out.get_mut(row.types_at as usize)? = t as u8;
                        row.types_at += 1;
                    }
                }
                Types::Same(t) => {
                    for row in &mut self.rows {
                        let to = out.get_mut(row.types_at as usize..)?;
                        row.types_at += put_varint(u64::from(t), to) as u32;
                    }
                }
                Types::Each(from) => {
                    for (row, t) in self.rows.iter_mut().zip(columns.types.get(from..)?) {
                        let at = row.types_at as usize;
                        if *t < 0x80 {
                            *out.get_mut(at)? = *t as u8;
                            row.types_at += 1;
                        } else if *t != ABSENT {
                            row.types_at += put_varint(u64::from(*t), out.get_mut(at..)?) as u32;
                        }
                    }
                }
            }
        }
        Some(())
    }

    /// Appends a row: notes where its record lies and writes its front.
    #[inline(always)]
    pub(super) fn begin(&mut self, record: Record, front: &Front, out: &mut [u8]) -> Option<()> {
        let len = front.write(self.rows.len(), record, out)?;
        self.rows.push(Row {
            types_at: (record.types + front.columns) as u32,
            at: (record.values + len) as u32,
            end: record.end as u32,
        });
        Some(())
    }

    /// Writes the values of one column of this form.
    pub(super) fn write_values(
        &mut self,
        column: &Ready,
        form: &Form,
        numbers: &[i64],
        columns: &Columns,
        out: &mut [u8],
    ) -> Option<()> {
        let types = column.types;
        match column.body {
            Body::Nothing | Body::Absent => Some(()),
            Body::Fixed { from, len } => {
                let values = numbers.get(from..)?;
                match len {
                    1 => self.fixed::<1>(values, out),
                    2 => self.fixed::<2>(values, out),
                    3 => self.fixed::<3>(values, out),
                    4 => self.fixed::<4>(values, out),
                    6 => self.fixed::<6>(values, out),
                    _ => self.fixed::<8>(values, out),
                }
            }
            Body::Number { from } => {
                let Types::Each(types) = types else {
                    return None;
                };
                let values = numbers.get(from..)?;
                let types = columns.types.get(types..)?;
                let skip = std::mem::take(&mut self.skip);
                for ((row, v), t) in self.rows.iter_mut().zip(values).zip(types) {
                    let len = usize::from(*BODY_LEN.get(*t as usize)?);
                    row.at += skip;
                    put_int(*v, len, row.at as usize, row.end as usize, out)?;
                    row.at += len as u32;
                }
                Some(())
            }
            Body::Bytes { from } => {
                let places = columns.places.get(from..)?;
                self.bytes(places, types, |place, at, end| {
                    put_text(place, &columns.text, at, end, out)
                })
            }
            Body::Listed { from } => {
                let Form::Dictionary(d) = form else {
                    return None;
                };
                let places = columns.places.get(from..)?;
                match d.longest {
                    0..=8 => self.listed::<8>(places, types, d, out),
                    9..=16 => self.listed::<16>(places, types, d, out),
                    17..=SLACK => self.listed::<SLACK>(places, types, d, out),
                    _ => self.bytes(places, types, |place, at, end| {
                        put_text(place, &d.bytes, at, end, out)
                    }),
                }
            }
            Body::Template { from } => {
                let Form::Template(template) = form else {
                    return None;
                };
                let rows = self.rows.len();
                let values = numbers.get(from..)?;
                let skip = self.skip as usize;
                let mut fields = [0; FIELDS_MAX];
                let used = fields.get_mut(..template.fields())?;
                for (j, row) in self.rows.iter().enumerate() {
                    for (i, field) in used.iter_mut().enumerate() {
                        *field = *values.get(j + i * rows)?;
                    }
                    let place = out.get_mut(row.at as usize + skip..)?;
                    template.render(used, place).then_some(())?;
                }
                self.skip += template.text_len() as u32;
                Some(())
            }
            Body::Mixed { ints, places } => {
                let Types::Each(types) = types else {
                    return None;
                };
                let types = columns.types.get(types..)?.iter();
                let values = numbers.get(ints..)?.iter();
                let places = columns.places.get(places..)?.iter();
                let skip = std::mem::take(&mut self.skip);
                let rows = self.rows.iter_mut();
                for (((t, v), place), row) in types.zip(values).zip(places).zip(rows) {
                    row.at += skip;
                    if *t == ABSENT {
                        continue;
                    }
                    let len = body_len(*t);
                    let (at, end) = (row.at as usize, row.end as usize);
                    if *t < 12 {
                        put_int(*v, len, at, end, out)?;
                    } else {
                        put_text(*place, &columns.text, at, end, out)?;
                    }
                    row.at += len as u32;
                }
                Some(())
            }
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, values: &[i64], out: &mut [u8]) -> Option<()> {
        let skip = self.skip as usize;
        for (row, v) in self.rows.iter().zip(values) {
            let to: &mut [u8; N] = out.get_mut(row.at as usize + skip..)?.first_chunk_mut()?;
            let wide = v.to_be_bytes();
            *to = *wide.last_chunk()?;
        }
        self.skip += N as u32;
        Some(())
    }

    /// Writes values of a dictionary, each of at most `N` bytes.
    #[inline]
    fn listed<const N: usize>(
        &mut self,
        places: &[(u32, u32)],
        types: Types,
        dictionary: &Dictionary,
        out: &mut [u8],
    ) -> Option<()> {
        const { assert!(N <= SLACK) }
        let source = &dictionary.bytes;
        self.bytes(places, types, |(from, len), at, end| {
            let source = source.get(from as usize..)?;
            if at + N <= end {
                *out.get_mut(at..)?.first_chunk_mut::<N>()? = *source.first_chunk()?;
                return Some(());
            }
            put_exactly(
                source.get(..len as usize)?,
                out.get_mut(at..at + len as usize)?,
            )
        })
    }

    /// Calls `put` for each row with the place of its bytes in the source, the address where they
    /// go, and the end of the cell.
    #[inline]
    fn bytes(
        &mut self,
        places: &[(u32, u32)],
        types: Types,
        mut put: impl FnMut((u32, u32), usize, usize) -> Option<()>,
    ) -> Option<()> {
        if let Types::Same(_) = types {
            let skip = self.skip;
            let mut len = 0;
            for (row, place) in self.rows.iter().zip(places) {
                put(*place, (row.at + skip) as usize, row.end as usize)?;
                len = place.1;
            }
            self.skip += len;
            return Some(());
        }
        let skip = std::mem::take(&mut self.skip);
        for (row, place) in self.rows.iter_mut().zip(places) {
            row.at += skip;
            put(*place, row.at as usize, row.end as usize)?;
            row.at += place.1;
        }
        Some(())
    }
}

/// Writes the lowest `len` bytes of a number to `at`, in a cell that ends at `end`.
#[inline]
fn put_int(v: i64, len: usize, at: usize, end: usize, out: &mut [u8]) -> Option<()> {
    let shift = (64 - 8 * len as u32) & 63;
    let bytes = (v << shift).to_be_bytes();
    if at + 8 <= end {
        *out.get_mut(at..)?.first_chunk_mut()? = bytes;
    } else {
        out.get_mut(at..at + len)?
            .copy_from_slice(bytes.get(..len)?);
    }
    Some(())
}

/// Writes text to `at`, in a cell that ends at `end`.
#[inline(always)]
fn put_text(
    (from, len): (u32, u32),
    source: &[u8],
    at: usize,
    end: usize,
    out: &mut [u8],
) -> Option<()> {
    let source = source.get(from as usize..)?;
    let len = len as usize;
    if len <= 32 && at + 32 <= end {
        *out.get_mut(at..)?.first_chunk_mut::<32>()? = *source.first_chunk()?;
        return Some(());
    }
    put_exactly(source.get(..len)?, out.get_mut(at..at + len)?)
}
