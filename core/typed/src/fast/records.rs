//! Decoded records of integers, written as cells.
//!
//! The values of each column go to the records by a loop of their own. Then each cell of the page
//! is put together from its end to its beginning by stores of fixed length. A store writes more
//! bytes than the cell has. The surplus lies before the cell, where the next cell goes or the
//! unallocated bytes, which the caller clears.

use super::COLUMNS_MAX;
use crate::numbers::Numbers;
use densite_sqlite_format::short_varint;

/// Most bytes of a record's values.
pub(super) const BODY_MAX: usize = 16;
/// Bytes before the values of a record in memory: its last [`BODY_MAX`] bytes are loaded at once,
/// however few there are.
const LEAD: usize = BODY_MAX;

/// The serial type and length of all values of a column, if they are the same.
pub(super) type Same = Option<(u8, u8)>;

/// A column of a leaf.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    /// `None` if all values are NULL.
    pub(super) values: Option<&'a [i64]>,
    pub(super) same: Same,
}

/// The values of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body {
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
pub(super) struct Records<'a> {
    pub(super) columns: &'a [Column<'a>],
    /// Empty in an index.
    pub(super) rowids: &'a [i64],
    /// Bytes of each row id, if all row ids have the same number.
    pub(super) rowid_len: Option<usize>,
    pub(super) cells: usize,
    pub(super) numbers: Numbers,
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
}
