//! Cells: where each lies, and its bytes.

use super::columns::Columns;
use super::streams::{Source, Streams};
use super::values::{Record, Rows};
use super::{Head, OPAQUE, local};
use crate::model::{Model, PageStream};
use crate::page::{put_varint, varint_len};
use crate::record::header_len;

/// A cell whose record is stored as it is.
#[derive(Debug, Clone, Copy)]
struct OpaqueCell {
    payload: u64,
    /// Where its local bytes lie in [`Cells::opaque_bytes`], and how many.
    at: usize,
    len: usize,
    overflow: Option<u32>,
}

/// The cells of a page.
#[derive(Default)]
pub(super) struct Cells {
    /// By cell.
    sizes: Vec<u32>,
    rows: Rows,
    /// By cell, if there are opaque ones.
    is_opaque: Vec<bool>,
    opaque: Vec<OpaqueCell>,
    opaque_bytes: Vec<u8>,
    child: usize,
    rowid: usize,
    cells: usize,
}

impl Cells {
    /// Reads what belongs to the cells as such.
    pub(super) fn begin(&mut self, head: &Head, source: &mut Source<'_>) -> Option<()> {
        let n = head.cells;
        self.cells = n;
        self.sizes.clear();
        self.rows.clear();
        self.is_opaque.clear();
        self.opaque.clear();
        self.opaque_bytes.clear();
        let mut opaque = 0;
        if !head.kind.is_table() || !head.kind.has_child() {
            let read = source.read(OPAQUE, n)?;
            if read.constant != Some(0) {
                let values = source.streams.values(read)?;
                self.is_opaque.extend(values.iter().map(|v| *v != 0));
                opaque = self.is_opaque.iter().filter(|o| **o).count();
            }
        }
        if head.kind.has_child() {
            self.child = source.read(PageStream::Child as usize, n)?.from;
        }
        if head.kind.is_table() {
            self.rowid = source.read(PageStream::Rowid as usize, n)?.from;
        }
        if opaque > 0 {
            self.read_opaque(head, opaque, source)?;
        }
        Some(())
    }

    fn read_opaque(&mut self, head: &Head, n: usize, source: &mut Source<'_>) -> Option<()> {
        let payloads = source.read(PageStream::Payload as usize, n)?;
        let mut chained = 0;
        for payload in source.streams.values(payloads)? {
            let (payload, len, more) = local(head.kind, head.usable, *payload)?;
            let at = self.opaque_bytes.len();
            self.opaque_bytes.extend_from_slice(source.raw.take(len)?);
            chained += usize::from(more);
            self.opaque.push(OpaqueCell {
                payload,
                at,
                len,
                overflow: more.then_some(0),
            });
        }
        let pages = source.read(PageStream::Overflow as usize, chained)?;
        let pages = source.streams.values(pages)?;
        let places = self.opaque.iter_mut().filter_map(|o| o.overflow.as_mut());
        for (to, page) in places.zip(pages) {
            *to = u32::try_from(*page).ok()?;
        }
        Some(())
    }

    /// Records that are in the columns.
    pub(super) fn rows(&self) -> usize {
        self.cells - self.opaque.len()
    }

    pub(super) fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Writes the cells, back to back from the end of the usable area. Returns where the last one begins.
    pub(super) fn write(
        &mut self,
        head: &Head,
        model: &Model,
        streams: &Streams,
        columns: &Columns,
        out: &mut [u8],
    ) -> Option<usize> {
        let content = self.write_heads(head, streams, columns, out)?;
        self.rows.write_types(columns, out)?;
        for (c, column) in (columns.front.columns..).zip(&columns.ready) {
            let form = &model.column(c).form;
            self.rows
                .write_values(column, form, &streams.ints, columns, out)?;
        }
        Some(content)
    }

    /// Writes what comes before the values of each cell, and opaque cells whole.
    fn write_heads(
        &mut self,
        head: &Head,
        streams: &Streams,
        columns: &Columns,
        out: &mut [u8],
    ) -> Option<usize> {
        let (has_child, is_table) = (head.kind.has_child(), head.kind.is_table());
        let mut end = head.usable;
        let mut lens = columns.lens.iter();
        let mut opaque = self.opaque.iter();
        let children = streams.ints.get(self.child..).unwrap_or_default();
        let rowids = streams.ints.get(self.rowid..).unwrap_or_default();
        for i in 0..self.cells {
            let child = if has_child { 4 } else { 0 };
            let rowid = if is_table { *rowids.get(i)? as u64 } else { 0 };
            let rowid_len = if is_table { varint_len(rowid) } else { 0 };
            if self.is_opaque.get(i) == Some(&true) {
                let o = opaque.next()?;
                let chained = if o.overflow.is_some() { 4 } else { 0 };
                let len = child + varint_len(o.payload) + rowid_len + o.len + chained;
                let start = end.checked_sub(len.max(4))?;
                let mut cell = out.get_mut(start..end)?;
                cell.fill(0);
                if has_child {
                    let (to, rest) = cell.split_at_mut_checked(4)?;
                    to.copy_from_slice(&(*children.get(i)? as u32).to_be_bytes());
                    cell = rest;
                }
                let n = put_varint(o.payload, cell);
                cell = cell.get_mut(n..)?;
                if is_table {
                    let n = put_varint(rowid, cell);
                    cell = cell.get_mut(n..)?;
                }
                let (to, rest) = cell.split_at_mut_checked(o.len)?;
                to.copy_from_slice(self.opaque_bytes.get(o.at..o.at + o.len)?);
                if let Some(page) = o.overflow {
                    rest.get_mut(..4)?.copy_from_slice(&page.to_be_bytes());
                }
                end = start;
                self.sizes.push(len.max(4) as u32);
                continue;
            }
            if has_child && is_table {
                let len = 4 + rowid_len;
                let start = end.checked_sub(len)?;
                let cell = out.get_mut(start..end)?;
                let (to, rest) = cell.split_at_mut_checked(4)?;
                to.copy_from_slice(&(*children.get(i)? as u32).to_be_bytes());
                put_varint(rowid, rest);
                end = start;
                self.sizes.push(len as u32);
                continue;
            }
            let (types, body) = *lens.next()?;
            let header = header_len(types as usize);
            let payload = header + body as usize;
            let payload_len = varint_len(payload as u64);
            let len = child + payload_len + rowid_len + payload;
            let start = end.checked_sub(len.max(4))?;
            let cell = out.get_mut(start..end)?;
            if !has_child && payload < 0x4000 && header < 0x80 && rowid < 1 << 28 && len >= 8 {
                // Nearly always: all numbers before the types in one word.
                let (mut word, mut bits) = (short_varint(payload as u64), 8 * payload_len);
                if is_table {
                    word |= short_varint(rowid) << bits;
                    bits += 8 * rowid_len;
                }
                word |= (header as u64) << bits;
                *cell.first_chunk_mut()? = word.to_le_bytes();
                let record = start + bits / 8;
                let record = Record {
                    types: record + 1,
                    values: record + header,
                    end: record + payload,
                };
                self.rows.begin(record, &columns.front, out)?;
                self.sizes.push(len as u32);
                end = start;
                continue;
            }
            if len < 4 {
                cell.fill(0);
            }
            let mut at = 0;
            if has_child {
                cell.get_mut(..4)?
                    .copy_from_slice(&(*children.get(i)? as u32).to_be_bytes());
                at = 4;
            }
            at += put_varint(payload as u64, cell.get_mut(at..)?);
            if is_table {
                at += put_varint(rowid, cell.get_mut(at..)?);
            }
            let header_bytes = put_varint(header as u64, cell.get_mut(at..)?);
            let record = start + at;
            let record = Record {
                types: record + header_bytes,
                values: record + header,
                end: record + payload,
            };
            self.rows.begin(record, &columns.front, out)?;
            self.sizes.push(len.max(4) as u32);
            end = start;
        }
        Some(end)
    }
}

/// The bytes of SQLite's form of a number below 2^28, the first the lowest.
#[inline]
fn short_varint(v: u64) -> u64 {
    if v < 0x80 {
        v
    } else if v < 0x4000 {
        0x80 | v >> 7 | (v & 0x7f) << 8
    } else if v < 0x20_0000 {
        0x8080 | v >> 14 | (v >> 7 & 0x7f) << 8 | (v & 0x7f) << 16
    } else {
        0x80_8080 | v >> 21 | (v >> 14 & 0x7f) << 8 | (v >> 7 & 0x7f) << 16 | (v & 0x7f) << 24
    }
}
