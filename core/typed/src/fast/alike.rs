//! Decoding a leaf of integers in which the values of each column have one serial type.
//!
//! Then the cells have one size, and what lies before the values differs only in the row id.

use super::COLUMNS_MAX;
use super::records::Records;

/// What the records have in common.
#[derive(Clone, Copy, Default)]
pub(super) struct Alike {
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
    pub(super) fn with(mut self, (serial_type, len): (u8, u8)) -> Option<Alike> {
        *self.lens.get_mut(self.columns)? = len;
        self.types = self.types << 8 | u64::from(serial_type);
        self.columns += 1;
        self.len += usize::from(len);
        Some(self)
    }
}

impl Records<'_> {
    /// As [`Records::write`], for records that have so much in common. `None` unless what lies
    /// before the values fits in a word, the values fit in a word, and all row ids have one length.
    pub(super) fn write_alike(
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
