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
use crate::record::{NARROW_COLUMNS_MAX, NULL};

/// Most bytes of a record's values.
const BODY_MAX: u32 = 16;
/// Row ids below this take four bytes at most.
const ROWID_END: i64 = 1 << 28;

/// The smallest value and the largest.
fn ends(values: &[i64]) -> (i64, i64) {
    let first = values.first().copied().unwrap_or(0);
    let ends = |(least, most): (i64, i64), v: &i64| (least.min(*v), most.max(*v));
    values.iter().fold((first, first), ends)
}

/// Whether a model's pages may be such: a first look, which reads nothing.
fn may_be(head: &Head, model: &Model) -> bool {
    let mut number = PAGE_STREAMS;
    let fits = (1..=NARROW_COLUMNS_MAX).contains(&head.columns);
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
        let mut reads: [Option<Read>; NARROW_COLUMNS_MAX] = [None; NARROW_COLUMNS_MAX];
        let (mut number, mut len_max) = (PAGE_STREAMS, 0);
        let mut alike = Some(Alike::default());
        for (c, to) in reads.iter_mut().enumerate().take(head.columns) {
            let column = source.model.column(c);
            let classes = source.read_classes(number + ColumnStream::Class as usize, self.cells)?;
            match Class::of(classes.constant?)? {
                Class::Null => alike = alike.and_then(|alike| alike.with((NULL as u8, 0))),
                Class::Number if column.scale == 0 => {
                    let number = number + ColumnStream::Number as usize;
                    let read = source.read(number, self.cells)?;
                    let ends = || ends(source.streams.values(read).unwrap_or_default());
                    let does =
                        |range: &(i64, i64)| alike.is_none() || numbers.same(*range).is_some();
                    let range = read.range.filter(does).unwrap_or_else(ends);
                    alike = alike.and_then(|alike| alike.with(numbers.same(range)?));
                    // The farther from zero, the longer.
                    let len = |v| u32::from(numbers.stored(v).len);
                    len_max += len(range.0).max(len(range.1));
                    *to = Some(read);
                }
                _ => return None,
            }
            number += COLUMN_STREAMS + column.form.streams();
        }
        if len_max > BODY_MAX {
            return None;
        }
        let mut columns: [Option<&[i64]>; NARROW_COLUMNS_MAX] = [None; NARROW_COLUMNS_MAX];
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
        let (least, most) = match self.rowid_range {
            Some(range) if head.kind.is_table() => range,
            _ => ends(rowids),
        };
        if least < 0 || most >= ROWID_END {
            return None;
        }
        let len = |id: i64| varint_len(id as u64);
        let records = Records {
            columns,
            rowids,
            rowid_len: (len(least) == len(most)).then_some(len(least)),
            cells: self.cells,
            numbers,
            usable: head.usable,
        };
        self.sizes.clear();
        if let Some(alike) = alike
            && let Some(content) =
                records.write_alike(alike, &mut self.bodies, out, &mut self.sizes)
        {
            return Some(content);
        }
        self.sizes.clear();
        match len_max {
            0..8 => records.write::<false>(out, &mut self.sizes),
            _ => records.write::<true>(out, &mut self.sizes),
        }
    }
}

/// What the records of a page have in common where the values of each column are of one type.
#[derive(Clone, Copy, Default)]
struct Alike {
    /// Their types, the last the lowest byte.
    types: u64,
    columns: usize,
    /// Bytes of each column's values, and of all.
    lens: [u8; NARROW_COLUMNS_MAX],
    len: usize,
}

impl Alike {
    /// With one column more.
    fn with(mut self, (serial_type, len): (u8, u8)) -> Option<Alike> {
        *self.lens.get_mut(self.columns)? = len;
        self.types = self.types << 8 | u64::from(serial_type);
        self.columns += 1;
        self.len += usize::from(len);
        Some(self)
    }
}

/// What the records of a page are made of.
struct Records<'a> {
    /// The values of each column; `None`: all are NULL.
    columns: &'a [Option<&'a [i64]>],
    /// Empty where there are none.
    rowids: &'a [i64],
    /// Bytes that each of them takes, if it is the same for all.
    rowid_len: Option<usize>,
    cells: usize,
    numbers: Numbers,
    usable: usize,
}

impl Records<'_> {
    /// As [`Records::write`], of records that have so much in common, if what stands before the values and the values themselves are a word each, and
    /// all row ids take the same number of bytes.
    fn write_alike(
        &self,
        alike: Alike,
        bodies: &mut Vec<u64>,
        out: &mut [u8],
        sizes: &mut Vec<u32>,
    ) -> Option<usize> {
        let n = self.cells;
        let header = self.columns.len() + 1;
        let (rowid_len, rowid_at) = match self.rowids {
            [] => (0, 0),
            _ => (self.rowid_len?, 8 * header),
        };
        let front_len = 1 + rowid_len + header;
        let size = front_len + alike.len;
        if front_len > 8 || alike.len > 8 || size < 4 {
            return None;
        }
        let content = self.usable.checked_sub(n * size)?;

        bodies.clear();
        bodies.resize(n, 0);
        for (column, len) in self.columns.iter().zip(alike.lens) {
            if let (Some(values), 1..) = (column, len) {
                let bits = 8 * u32::from(len);
                let mask = u64::MAX >> (64 - bits);
                for (body, v) in bodies.iter_mut().zip(*values) {
                    *body = *body << (bits & 63) | *v as u64 & mask;
                }
            }
        }
        // What is the same for all: the payload's length, room for a row id, the header.
        let payload = (header + alike.len) as u64;
        let front =
            payload << (8 * (front_len - 1)) | (header as u64) << (8 * (header - 1)) | alike.types;
        let tops = (0x80_8080u64 << 8 & !(u64::MAX << (8 * rowid_len))) << rowid_at;
        let mut end = self.usable;
        let mut put = |body: u64, front: u64| {
            let front_end = end.checked_sub(alike.len)?;
            *out.get_mut(..end)?.last_chunk_mut()? = body.to_be_bytes();
            *out.get_mut(..front_end)?.last_chunk_mut()? = front.to_be_bytes();
            end = front_end.checked_sub(front_len)?;
            Some(())
        };
        if self.rowids.is_empty() {
            for body in &*bodies {
                put(*body, front)?;
            }
        } else {
            for (body, id) in bodies.iter().zip(self.rowids) {
                let id = *id as u64;
                let groups =
                    id & 0x7f | (id & 0x3f80) << 1 | (id & 0x1f_c000) << 2 | (id & 0xfe0_0000) << 3;
                put(*body, front | tops | groups << rowid_at)?;
            }
        }
        sizes.resize(n, size as u32);
        Some(content)
    }

    /// Writes the cells and their sizes; returns where the last one begins. Not `WIDE`: no record's values take more than seven bytes.
    #[inline(always)]
    fn write<const WIDE: bool>(&self, out: &mut [u8], sizes: &mut Vec<u32>) -> Option<usize> {
        let header = self.columns.len() + 1;
        let mut end = self.usable;
        for i in 0..self.cells {
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
