//! Leaves all of whose records are whole, which are most leaves: cells are written row by row, each
//! from its end to its beginning.
//!
//! So every store has a fixed length. Its surplus lies before what it writes, where the rest of the
//! cell goes, then the next cell or the unallocated bytes, which the caller clears. Whatever such a
//! store cannot do, [`Cells::write`](super::cells::Cells::write) does.

use super::columns::{ABSENT, Body, Columns, Ready, TEXT_LEAD, Types};
use super::front::Front;
use super::record_place::put_exactly;
use crate::model::{Form, Model, SLACK};
use crate::template::FIELDS_MAX;
use densite_sqlite_format::record::{BODY_LEN, body_len};
use densite_sqlite_format::short_varint;

/// Lengths of headers and of payloads, and row ids, are below these. So what lies before the types of
/// a record is one word.
const HEADER_END: usize = 0x80;
const PAYLOAD_END: usize = 0x4000;
const ROWID_END: u64 = 1 << 28;

/// A leaf to be written.
pub(super) struct WholeLeaf<'a> {
    pub(super) usable: usize,
    pub(super) model: &'a Model,
    pub(super) columns: &'a Columns,
    /// All integers that were read.
    pub(super) ints: &'a [i64],
    /// Empty in an index.
    pub(super) rowids: &'a [i64],
}

impl WholeLeaf<'_> {
    /// Writes the cells, back to back from the end of the usable area, and their sizes. Returns
    /// where the last one begins. `None` if that takes another kind of store; `out` and `sizes`
    /// then hold anything.
    pub(super) fn write(&self, out: &mut [u8], sizes: &mut Vec<u32>) -> Option<usize> {
        let columns = self.columns;
        let rows = columns.front.of_page();
        let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let pieces = Front::pieces(longest);
        sizes.clear();
        sizes.resize(rows.len(), 0);
        let mut rowids = self.rowids.iter();
        let mut end = self.usable;
        let lens = columns.lens.iter().zip(sizes);
        for (j, (row, ((types, body), size))) in rows.iter().zip(lens).enumerate() {
            let header = *types as usize + 1;
            let payload = header + *body as usize;
            if header >= HEADER_END || payload >= PAYLOAD_END {
                return None;
            }
            let mut at = end;
            for (c, column) in columns.ready.iter().enumerate().rev() {
                at = self.put_value(c, column, j, at, out)?;
            }
            at = Front::put_values(row, pieces, at, out)?;
            for column in columns.ready.iter().rev() {
                at = self.put_type(column, j, at, out)?;
            }
            at = columns.front.put_types_back(row, at, out)?;
            let (mut word, mut len) = (header as u64, 1);
            if !self.rowids.is_empty() {
                let rowid = *rowids.next()? as u64;
                if rowid >= ROWID_END {
                    return None;
                }
                let (rowid, rowid_len) = short_varint(rowid);
                word |= rowid << (8 * len);
                len += rowid_len;
            }
            let (payload, payload_len) = short_varint(payload as u64);
            word |= payload << (8 * len);
            len += payload_len;
            *out.get_mut(..at)?.last_chunk_mut()? = word.to_be_bytes();
            let start = at.checked_sub(len)?;
            *size = (end - start) as u32;
            if end - start < 4 {
                return None;
            }
            end = start;
        }
        Some(end)
    }

    /// Writes the serial type of a column in row `j` so that it ends at `end`. Returns where it
    /// begins.
    #[inline(always)]
    fn put_type(&self, column: &Ready, j: usize, end: usize, out: &mut [u8]) -> Option<usize> {
        let serial_type = match column.types {
            _ if matches!(column.body, Body::Absent) => return Some(end),
            Types::Same(t) => t,
            Types::Each(from) => *self.columns.types.get(from + j)?,
        };
        if serial_type < 0x80 {
            let at = end.checked_sub(1)?;
            *out.get_mut(at)? = serial_type as u8;
            return Some(at);
        }
        if serial_type == ABSENT {
            return Some(end);
        }
        if serial_type >= 0x4000 {
            return None;
        }
        let at = end.checked_sub(2)?;
        let bytes = [(serial_type >> 7) as u8 | 0x80, serial_type as u8 & 0x7f];
        *out.get_mut(at..)?.first_chunk_mut()? = bytes;
        Some(at)
    }

    /// Writes the value in row `j` of the `c`-th column behind the front so that it ends at `end`.
    /// Returns where it begins.
    #[inline(always)]
    fn put_value(
        &self,
        c: usize,
        column: &Ready,
        j: usize,
        end: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        let columns = self.columns;
        match column.body {
            Body::Nothing | Body::Absent => Some(end),
            Body::Fixed { from, len } => put_int(*self.ints.get(from + j)?, len, end, out),
            Body::Number { from } => {
                let Types::Each(types) = column.types else {
                    return None;
                };
                let serial_type = *columns.types.get(types + j)? as usize;
                let len = usize::from(*BODY_LEN.get(serial_type)?);
                put_int(*self.ints.get(from + j)?, len, end, out)
            }
            Body::Bytes { from } => {
                put_text(*columns.places.get(from + j)?, &columns.text, end, out)
            }
            Body::Listed { from } => {
                let Form::Dictionary(d) = self.form(c) else {
                    return None;
                };
                put_listed(*columns.places.get(from + j)?, &d.bytes, end, out)
            }
            Body::Template { from } => self.put_formed(c, from + j, end, out),
            Body::Mixed { ints, places } => {
                let Types::Each(types) = column.types else {
                    return None;
                };
                match *columns.types.get(types + j)? {
                    ABSENT => Some(end),
                    t @ 0..12 => put_int(*self.ints.get(ints + j)?, body_len(t), end, out),
                    _ => put_text(*columns.places.get(places + j)?, &columns.text, end, out),
                }
            }
        }
    }

    /// The form of the `c`-th column behind the front.
    fn form(&self, c: usize) -> &Form {
        &self.model.column(self.columns.front.columns + c).form
    }

    /// Writes a text of a template whose first field is the integer at `from`.
    fn put_formed(&self, c: usize, from: usize, end: usize, out: &mut [u8]) -> Option<usize> {
        let Form::Template(template) = self.form(c) else {
            return None;
        };
        let mut fields = [0; FIELDS_MAX];
        let used = fields.get_mut(..template.fields())?;
        for (i, field) in used.iter_mut().enumerate() {
            *field = *self.ints.get(from + i * self.columns.lens.len())?;
        }
        let start = end.checked_sub(template.text_len())?;
        let place = out.get_mut(start..)?;
        template.render(used, place).then_some(start)
    }
}

/// Writes the lowest `len` bytes of a number.
#[inline(always)]
fn put_int(v: i64, len: usize, end: usize, out: &mut [u8]) -> Option<usize> {
    *out.get_mut(..end)?.last_chunk_mut()? = v.to_be_bytes();
    end.checked_sub(len)
}

/// Writes a text of [`Columns::text`].
#[inline(always)]
fn put_text((from, len): (u32, u32), text: &[u8], end: usize, out: &mut [u8]) -> Option<usize> {
    let start = end.checked_sub(len as usize)?;
    let text = text.get(..(from + len) as usize)?;
    if len as usize <= TEXT_LEAD {
        *out.get_mut(..end)?.last_chunk_mut::<TEXT_LEAD>()? = *text.last_chunk()?;
    } else {
        let text = text.get(from as usize..)?;
        out.get_mut(start..end)?.copy_from_slice(text);
    }
    Some(start)
}

/// Writes a value of a dictionary.
#[inline(always)]
fn put_listed((from, len): (u32, u32), bytes: &[u8], end: usize, out: &mut [u8]) -> Option<usize> {
    let start = end.checked_sub(len as usize)?;
    let text = bytes.get(..(from + len) as usize)?;
    match text.last_chunk::<SLACK>() {
        Some(last) if len as usize <= SLACK => {
            *out.get_mut(..end)?.last_chunk_mut()? = *last;
        }
        _ => put_exactly(text.get(from as usize..)?, out.get_mut(start..end)?)?,
    }
    Some(start)
}
