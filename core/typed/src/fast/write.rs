//! Decoding a leaf of short records of integers: most of what is decoded of indexes and of tables
//! of keys.
//!
//! The values of each column go to the records by a loop of their own. Then each cell of the page
//! is put together from its end to its beginning by stores of fixed length. A store writes more
//! bytes than the cell has. The surplus lies before the cell, where the next cell goes or the
//! unallocated bytes, which the caller clears.

use super::COLUMNS_MAX;
use super::path::Path;
use crate::bits::{mask, width_of};
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Model, PAGE_STREAMS};
use crate::numbers::Numbers;
use crate::stream::Source;
use densite_sqlite_format::page::Kind;
use densite_sqlite_format::record::NULL;
use densite_sqlite_format::{short_varint, varint_len};

/// Row ids below this take at most four bytes.
const ROWID_END: i64 = 1 << 28;

/// Most bytes of a record's values.
const BODY_MAX: usize = 16;
/// Bytes before the values of a record in memory: its last [`BODY_MAX`] bytes are loaded at once,
/// however few there are.
const LEAD: usize = BODY_MAX;

/// The serial type and length of all values of a column, if they are the same.
pub(super) type Same = Option<(u8, u8)>;

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

/// A column of a leaf.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    /// `None` if all values are NULL.
    pub(super) values: Option<&'a [i64]>,
    same: Same,
}

/// The values of a record.
#[derive(Debug, Clone, Copy)]
struct Body {
    /// The serial types of columns in which they differ between records, the last column in the
    /// highest byte; zero for other columns.
    types: u64,
    /// Where in `bytes` the next value goes, without the columns in which all values have one
    /// length.
    at: usize,
    /// Eight bytes behind the values can be overwritten.
    bytes: [u8; LEAD + BODY_MAX + 8],
}

impl Body {
    const EMPTY: Body = Body {
        types: 0,
        at: LEAD,
        bytes: [0; LEAD + BODY_MAX + 8],
    };

    /// Writes a value that begins at `at`. At the end of a full record there is only a value
    /// without bytes, and where that goes does not matter.
    #[inline(always)]
    fn put(&mut self, at: usize, value: [u8; 8]) {
        let at = at % (LEAD + BODY_MAX);
        if let Some(to) = self.bytes.get_mut(at..at + 8) {
            to.copy_from_slice(&value);
        }
    }
}

/// What the records of a leaf are made of.
struct Records<'a> {
    pub(super) columns: &'a [Column<'a>],
    /// Empty in an index.
    rowids: &'a [i64],
    /// Bytes of each row id, if all row ids have the same number.
    rowid_len: Option<usize>,
    pub(super) cells: usize,
    numbers: Numbers,
    pub(super) usable: usize,
}

impl Records<'_> {
    /// Writes the cells and their sizes. Returns where the last cell begins. No record has more
    /// than [`BODY_MAX`] bytes of values.
    #[inline(always)]
    pub(super) fn write(
        &self,
        bodies: &mut Vec<Body>,
        out: &mut [u8],
        sizes: &mut Vec<u32>,
    ) -> Option<usize> {
        bodies.clear();
        bodies.resize(self.cells, Body::EMPTY);
        // The types and bytes that all records have in common.
        let (mut types, mut skip) = (0u64, 0usize);
        for (c, column) in self.columns.iter().enumerate() {
            let place = 8 * (COLUMNS_MAX + c - self.columns.len()) as u32;
            let Some(values) = column.values else {
                continue;
            };
            let each = bodies.iter_mut().zip(values);
            if let Some((serial_type, len)) = column.same {
                types |= u64::from(serial_type) << (place & 63);
                let unused = (64 - 8 * u32::from(len)) & 63;
                for (body, v) in each {
                    body.put(body.at + skip, (*v << unused).to_be_bytes());
                }
                skip += usize::from(len);
            } else {
                for (body, v) in each {
                    let stored = self.numbers.stored(*v);
                    body.put(body.at + skip, stored.first_bytes());
                    body.at += usize::from(stored.len);
                    body.types |= u64::from(stored.serial_type) << (place & 63);
                }
            }
        }
        sizes.resize(self.cells, 0);
        let each = bodies.iter().zip(sizes);
        if self.rowids.is_empty() {
            self.write_cells(each.map(|each| (each, (0, 0))), types, skip, out)
        } else {
            let ids = self.rowids.iter();
            let ids = ids.map(|id| short_varint(*id as u64));
            self.write_cells(each.zip(ids), types, skip, out)
        }
    }

    /// Writes the cells of records that have `types` and `skip` bytes in common. Each comes with
    /// the place of its cell's size, and with the bytes and length of its row id.
    #[inline(always)]
    fn write_cells<'b>(
        &self,
        cells: impl Iterator<Item = ((&'b Body, &'b mut u32), (u64, usize))>,
        types: u64,
        skip: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        let header = self.columns.len() + 1;
        let mut end = self.usable;
        for ((body, size), (id, id_len)) in cells {
            let body_end = body.at + skip;
            let len = body_end - LEAD;
            let bytes = body.bytes.get(..body_end)?.last_chunk::<BODY_MAX>()?;
            *out.get_mut(..end)?.last_chunk_mut()? = *bytes;
            let types_end = end.checked_sub(len)?;
            *out.get_mut(..types_end)?.last_chunk_mut()? = (types | body.types).to_le_bytes();
            let front_end = types_end.checked_sub(self.columns.len())?;
            // The payload's length, the row id, the header's length.
            let front_len = 2 + id_len;
            let front = header as u64 | id << 8 | ((header + len) as u64) << (8 * (1 + id_len));
            *out.get_mut(..front_end)?.last_chunk_mut()? = front.to_be_bytes();
            let start = front_end.checked_sub(front_len)?;
            *size = (end - start) as u32;
            if end - start < 4 {
                return None;
            }
            end = start;
        }
        Some(end)
    }

    /// As [`Records::write`], for records that have so much in common. `None` unless what lies
    /// before the values fits in a word, the values fit in a word, and all row ids have one length.
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
            if let (Some(values), 1..) = (column.values, len) {
                let bits = 8 * u32::from(len);
                let mask = u64::MAX >> (64 - bits);
                for (body, v) in bodies.iter_mut().zip(values) {
                    *body = *body << (bits & 63) | *v as u64 & mask;
                }
            }
        }
        // The same for all: the payload's length, room for a row id, the header.
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
}

/// What the records have in common if the values of each column have one serial type. Then the cells
/// have one size, and what lies before the values differs only in the row id.
#[derive(Clone, Copy, Default)]
struct Alike {
    /// Their types, the last one in the lowest byte.
    types: u64,
    columns: usize,
    /// Bytes of a value, by column.
    lens: [u8; COLUMNS_MAX],
    /// Bytes of all values of a record.
    len: usize,
}

impl Alike {
    /// With one more column, of this serial type and length. `None` if there are too many.
    fn with(mut self, (serial_type, len): (u8, u8)) -> Option<Alike> {
        *self.lens.get_mut(self.columns)? = len;
        self.types = self.types << 8 | u64::from(serial_type);
        self.columns += 1;
        self.len += usize::from(len);
        Some(self)
    }
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
