//! Cells: where each cell lies, and its bytes.

use super::columns::Columns;
use super::cut::Cut;
use super::record_place::Record;
use super::values::Rows;
use super::{Head, OPAQUE, WholeLeaf, local};
use crate::fast;
use crate::model::{Model, PageStream};
use crate::record::Coded;
use crate::stream::{Source, Streams};
use densite_sqlite_format::record::header_len;
use densite_sqlite_format::{put_varint, varint_len};

/// A cell whose record is stored as raw bytes.
#[derive(Debug, Clone, Copy)]
struct OpaqueCell {
    payload: u64,
    /// Where its local bytes begin in [`Cells::opaque_bytes`].
    at: usize,
    len: usize,
    overflow: Option<u32>,
}

/// What comes before the payload's length in a cell that has a payload.
struct Before {
    child: Option<u32>,
    rowid: Option<u64>,
}

impl Before {
    /// Its bytes and those of the payload's length.
    fn len(&self, payload: u64) -> usize {
        self.child.map_or(0, |_| 4) + varint_len(payload) + self.rowid.map_or(0, varint_len)
    }

    /// Writes it and the payload's length to the beginning of a cell. Returns their number of
    /// bytes.
    fn put(&self, payload: u64, cell: &mut [u8]) -> Option<usize> {
        let mut at = 0;
        if let Some(child) = self.child {
            *cell.first_chunk_mut()? = child.to_be_bytes();
            at = 4;
        }
        at += put_varint(payload, cell.get_mut(at..)?);
        if let Some(rowid) = self.rowid {
            at += put_varint(rowid, cell.get_mut(at..)?);
        }
        Some(at)
    }

    /// Writes a whole cell that ends at `end`. Returns its size.
    #[cold]
    fn put_opaque(
        &self,
        opaque: &OpaqueCell,
        bytes: &[u8],
        end: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        let chained = if opaque.overflow.is_some() { 4 } else { 0 };
        let size = (self.len(opaque.payload) + opaque.len + chained).max(4);
        let cell = out.get_mut(end.checked_sub(size)?..end)?;
        cell.fill(0);
        let at = self.put(opaque.payload, cell)?;
        let (to, rest) = cell.get_mut(at..)?.split_at_mut_checked(opaque.len)?;
        to.copy_from_slice(bytes.get(opaque.at..opaque.at + opaque.len)?);
        if let Some(page) = opaque.overflow {
            *rest.first_chunk_mut()? = page.to_be_bytes();
        }
        Some(size)
    }
}

/// The cells of a page.
#[derive(Default)]
pub(super) struct Cells {
    /// By cell.
    sizes: Vec<u32>,
    /// Memory of the short path.
    work: fast::Work,
    rows: Rows,
    /// By cell. Empty if no cell is opaque or cut.
    coded: Vec<Coded>,
    opaque: Vec<OpaqueCell>,
    opaque_bytes: Vec<u8>,
    cuts: Vec<Cut>,
    child: usize,
    rowid: usize,
    /// See [`crate::stream::Read::range`].
    rowid_range: Option<(i64, i64)>,
    cells: usize,
}

impl Cells {
    /// Reads what belongs to the cells themselves.
    pub(super) fn begin(&mut self, head: &Head, source: &mut Source<'_>) -> Option<()> {
        let n = head.cells;
        self.cells = n;
        self.sizes.clear();
        self.rows.clear();
        self.coded.clear();
        self.opaque.clear();
        self.opaque_bytes.clear();
        self.cuts.clear();
        if !head.kind.is_table() || !head.kind.has_child() {
            let read = source.read(OPAQUE, n)?;
            if read.constant != Some(Coded::Whole as i64) {
                for number in source.streams.values(read)? {
                    self.coded.push(Coded::of(*number)?);
                }
            }
        }
        if head.kind.has_child() {
            self.child = source.read(PageStream::Child as usize, n)?.from;
        }
        if head.kind.is_table() {
            let read = source.read(PageStream::Rowid as usize, n)?;
            (self.rowid, self.rowid_range) = (read.from, read.range);
        }
        if !self.coded.is_empty() {
            self.read_long(head, source)?;
        }
        Some(())
    }

    /// Reads what only opaque and cut cells have.
    #[cold]
    fn read_long(&mut self, head: &Head, source: &mut Source<'_>) -> Option<()> {
        let count = |what: Coded| self.coded.iter().filter(|c| **c == what).count();
        let (opaque, cut) = (count(Coded::Opaque), count(Coded::Cut));
        let payloads = source.read(PageStream::Payload as usize, opaque)?;
        let mut chained = cut;
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
        Cut::read(cut, source, &mut self.cuts)?;
        let mut pages = source.streams.values(pages)?.iter();
        let (mut opaque, mut cuts) = (self.opaque.iter_mut(), self.cuts.iter_mut());
        for coded in &self.coded {
            let to = match coded {
                Coded::Whole => None,
                Coded::Opaque => opaque.next().and_then(|o| o.overflow.as_mut()),
                Coded::Cut => cuts.next().map(|c| &mut c.overflow),
            };
            if let Some(to) = to {
                *to = u32::try_from(*pages.next()?).ok()?;
            }
        }
        Some(())
    }

    /// The number of records that are in the columns.
    pub(super) fn rows(&self) -> usize {
        self.cells - self.opaque.len()
    }

    pub(super) fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Reads all columns and writes the cells as [`Cells::write`] does, by the short path for
    /// leaves of integers. `None` if it does not apply; then the columns are still to be read.
    pub(super) fn write_fast(
        &mut self,
        head: &Head,
        source: &mut Source<'_>,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.coded.is_empty() {
            return None;
        }
        let leaf = fast::Leaf {
            kind: head.kind,
            usable: head.usable,
            cells: self.cells,
            columns: head.columns,
            small: head.small,
            rowid: self.rowid,
            rowid_range: self.rowid_range,
        };
        fast::write(&leaf, source, &mut self.work, out, &mut self.sizes)
    }

    /// Writes the cells, back to back from the end of the usable area. Returns where the last one
    /// begins.
    pub(super) fn write(
        &mut self,
        head: &Head,
        model: &Model,
        streams: &Streams,
        columns: &Columns,
        out: &mut [u8],
    ) -> Option<usize> {
        if self.coded.is_empty() && !head.kind.has_child() {
            let rowids = self.rowid..self.rowid + self.cells;
            let leaf = WholeLeaf {
                usable: head.usable,
                model,
                columns,
                ints: &streams.ints,
                rowids: match head.kind.is_table() {
                    true => streams.ints.get(rowids)?,
                    false => &[],
                },
            };
            if let Some(content) = leaf.write(out, &mut self.sizes) {
                return Some(content);
            }
        }
        self.sizes.clear();
        let content = self.write_heads(head, streams, columns, out)?;
        self.rows.write_types(columns, out)?;
        for cut in &self.cuts {
            cut.write_types(streams, out)?;
        }
        for (c, column) in (columns.front.columns..).zip(&columns.ready) {
            let form = &model.column(c).form;
            self.rows
                .write_values(column, form, &streams.ints, columns, out)?;
        }
        Some(content)
    }

    /// Writes what comes before the values of each cell, and the whole of opaque cells.
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
        let (mut opaque, mut cuts) = (self.opaque.iter(), self.cuts.iter_mut());
        let children = streams.ints.get(self.child..).unwrap_or_default();
        let rowids = streams.ints.get(self.rowid..).unwrap_or_default();
        for i in 0..self.cells {
            let child = if has_child { 4 } else { 0 };
            let rowid = if is_table { *rowids.get(i)? as u64 } else { 0 };
            let rowid_len = if is_table { varint_len(rowid) } else { 0 };
            if let Some(coded) = self.coded.get(i)
                && *coded != Coded::Whole
            {
                let before = Before {
                    child: has_child.then(|| children.get(i).copied().unwrap_or(0) as u32),
                    rowid: is_table.then_some(rowid),
                };
                let size = if *coded == Coded::Opaque {
                    before.put_opaque(opaque.next()?, &self.opaque_bytes, end, out)?
                } else {
                    let (cut, row) = (cuts.next()?, self.rows.count());
                    let parts = cut.parts(row, *lens.next()?, head, columns, streams)?;
                    let size = before.len(parts.payload) + parts.local + 4;
                    let start = end.checked_sub(size)?;
                    let at = start + before.put(parts.payload, out.get_mut(start..end)?)?;
                    let record = cut.put(&parts, at, out)?;
                    self.rows.begin(record, &columns.front, out)?;
                    size
                };
                end -= size;
                self.sizes.push(size as u32);
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
