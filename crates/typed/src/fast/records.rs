//! Decoded records of integers, written as cells.
//!
//! Each record is put together in registers, from its end to its beginning, and so is each cell of
//! the page. A store writes more bytes than the cell has. The surplus lies before the cell, where
//! the next cell goes or the unallocated bytes, which the caller clears.

use crate::numbers::Numbers;
use crate::page::{short_varint, varint_len};

/// What the records of a leaf are made of.
pub(super) struct Records<'a> {
    /// The values of each column, or `None` if all of them are NULL.
    pub(super) columns: &'a [Option<&'a [i64]>],
    /// Empty in an index.
    pub(super) rowids: &'a [i64],
    /// Bytes of each row id, if all row ids have the same number.
    pub(super) rowid_len: Option<usize>,
    pub(super) cells: usize,
    pub(super) numbers: Numbers,
    pub(super) usable: usize,
}

impl Records<'_> {
    /// Writes the cells and their sizes. Returns where the last cell begins. Without `WIDE` the
    /// values of a record take at most seven bytes.
    #[inline(always)]
    pub(super) fn write<const WIDE: bool>(
        &self,
        out: &mut [u8],
        sizes: &mut Vec<u32>,
    ) -> Option<usize> {
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
