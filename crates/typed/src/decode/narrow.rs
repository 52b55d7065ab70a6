//! Leaves whose records are integers and nothing else, and few: most of what is decoded of indexes and of tables of keys.
//!
//! A record is put together in registers, from its end to its beginning, and so is each cell of the page: what is written too much lies before it, where the next cell
//! goes or nothing. Where anything does not fit, the page is left to the way that fits all.

use super::Head;
use super::cells::{Cells, short_varint};
use super::numbers::Numbers;
use super::streams::{Read, Source};
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Model, PAGE_STREAMS};
use crate::page::varint_len;

/// Most columns: their types are one word.
const COLUMNS_MAX: usize = 8;
/// Most bytes of a record's values.
const BODY_MAX: u32 = 16;
/// Row ids below this take four bytes at most.
const ROWID_END: u64 = 1 << 28;

/// Whether a model's pages may be such: a first look, which reads nothing.
fn may_be(head: &Head, model: &Model) -> bool {
    let mut number = PAGE_STREAMS;
    let fits = (1..=COLUMNS_MAX).contains(&head.columns);
    fits && !head.kind.has_child()
        && (0..head.columns).all(|c| {
            let class = model.constant(number);
            let column = model.column(c);
            number += COLUMN_STREAMS + column.form.streams();
            // Of what nothing was learned the classes are told by the page.
            class == Some(Class::Null as i64)
                || class == Some(Class::Number as i64) && column.scale == 0
        })
}

impl Cells {
    /// Reads all columns and writes the cells as [`Cells::write`] does, if they are such. `None` if not: then the columns are to be read again.
    pub(super) fn write_narrow(
        &mut self,
        head: &Head,
        source: &mut Source<'_>,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.coded.is_empty() || self.cells == 0 || !may_be(head, source.model) {
            return None;
        }
        let numbers = Numbers::new(head.small);
        let mut reads: [Option<Read>; COLUMNS_MAX] = [None; COLUMNS_MAX];
        let (mut number, mut len_max) = (PAGE_STREAMS, 0);
        for (c, to) in reads.iter_mut().enumerate().take(head.columns) {
            let column = source.model.column(c);
            let classes = source.read_classes(number + ColumnStream::Class as usize, self.cells)?;
            match Class::of(classes.constant?)? {
                Class::Null => {}
                Class::Number if column.scale == 0 => {
                    let number = number + ColumnStream::Number as usize;
                    let read = source.read(number, self.cells)?;
                    let (least, most) = read.range.unwrap_or_else(|| {
                        let values = source.streams.values(read).unwrap_or_default();
                        let ends =
                            |(least, most): (i64, i64), v: &i64| (least.min(*v), most.max(*v));
                        values.iter().fold((0, 0), ends)
                    });
                    // The farther from zero, the longer.
                    let len = |v| u32::from(numbers.stored(v).len);
                    len_max += len(least).max(len(most));
                    *to = Some(read);
                }
                _ => return None,
            }
            number += COLUMN_STREAMS + column.form.streams();
        }
        if len_max > BODY_MAX {
            return None;
        }
        let mut columns: [Option<&[i64]>; COLUMNS_MAX] = [None; COLUMNS_MAX];
        for (to, read) in columns.iter_mut().zip(reads) {
            if let Some(read) = read {
                *to = Some(source.streams.values(read)?);
            }
        }
        let columns = columns.get(..head.columns)?;
        let rowids = match head.kind.is_table() {
            true => source
                .streams
                .ints
                .get(self.rowid..self.rowid + self.cells)?,
            false => &[],
        };
        if rowids.iter().any(|id| *id as u64 >= ROWID_END) {
            return None;
        }
        let records = Records {
            columns,
            rowids,
            numbers,
            usable: head.usable,
        };
        self.sizes.clear();
        match len_max {
            0..8 => records.write::<false>(self.cells, out, &mut self.sizes),
            _ => records.write::<true>(self.cells, out, &mut self.sizes),
        }
    }
}

/// What the records of a page are made of.
struct Records<'a> {
    /// The values of each column; `None`: all are NULL.
    columns: &'a [Option<&'a [i64]>],
    /// Empty where there are none.
    rowids: &'a [i64],
    numbers: Numbers,
    usable: usize,
}

impl Records<'_> {
    /// Writes `cells` cells and their sizes; returns where the last one begins. Not `WIDE`: no record's values take more than seven bytes.
    #[inline(always)]
    fn write<const WIDE: bool>(
        &self,
        cells: usize,
        out: &mut [u8],
        sizes: &mut Vec<u32>,
    ) -> Option<usize> {
        let header = self.columns.len() + 1;
        let mut end = self.usable;
        for i in 0..cells {
            let (mut types, mut body, mut wide, mut bits) = (0u64, 0u64, 0u128, 0u32);
            for column in self.columns {
                types <<= 8;
                if let Some(values) = column {
                    let stored = self.numbers.stored(*values.get(i)?);
                    let len = 8 * u32::from(stored.len);
                    if WIDE {
                        let low = u128::from(stored.value as u64) & !(u128::MAX << len);
                        wide = wide << len | low;
                    } else {
                        body = body << (len & 63) | stored.value as u64 & !(u64::MAX << (len & 63));
                    }
                    bits += len;
                    types |= u64::from(stored.serial_type);
                }
            }
            let body_len = bits as usize / 8;
            let (mut front, mut front_len) = ((header + body_len) as u64, 1);
            if let Some(id) = self.rowids.get(i) {
                front |= short_varint(*id as u64) << 8;
                front_len += varint_len(*id as u64);
            }
            front |= (header as u64) << (8 * front_len);
            front_len += 1;
            let types_end = end.checked_sub(body_len)?;
            let front_end = types_end.checked_sub(self.columns.len())?;
            let start = front_end.checked_sub(front_len)?;
            if end - start < 4 {
                return None;
            }
            if WIDE {
                *out.get_mut(..end)?.last_chunk_mut()? = wide.to_be_bytes();
            } else {
                *out.get_mut(..end)?.last_chunk_mut()? = body.to_be_bytes();
            }
            *out.get_mut(..types_end)?.last_chunk_mut()? = types.to_be_bytes();
            let front = front << (64 - 8 * front_len);
            *out.get_mut(..front_end)?.last_chunk_mut()? = front.to_le_bytes();
            sizes.push((end - start) as u32);
            end = start;
        }
        Some(end)
    }
}
