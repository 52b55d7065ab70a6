//! Cells: where each lies, and its bytes.

use super::columns::{ABSENT, Body, Columns, Types};
use super::{Head, OPAQUE, RawBytes, Streams, local};
use crate::bits::BitReader;
use crate::model::{Form, Model, PageStream, SLACK};
use crate::page::{put_varint, varint_len};
use crate::record::{BODY_LEN, body_len, header_len};
use crate::template::FIELDS_MAX;

/// Most types that are written at once.
const FRONT: usize = 32;

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
    /// By row: where the next byte goes, `skip` bytes before; and where its cell ends.
    at: Vec<u32>,
    /// Bytes that every row has got since `at` was brought up to date.
    skip: u32,
    ends: Vec<u32>,
    /// By row: where the next type goes.
    types_at: Vec<u32>,
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
    pub(super) fn begin(
        &mut self,
        head: &Head,
        model: &Model,
        streams: &mut Streams,
        r: &mut BitReader<'_>,
        raw: &mut RawBytes<'_>,
    ) -> Option<()> {
        let n = head.cells;
        self.cells = n;
        self.sizes.clear();
        self.at.clear();
        self.skip = 0;
        self.ends.clear();
        self.types_at.clear();
        self.is_opaque.clear();
        self.opaque.clear();
        self.opaque_bytes.clear();
        let mut opaque = 0;
        if !head.kind.is_table() || !head.kind.has_child() {
            let read = streams.read(r, model, OPAQUE, n, false)?;
            if read.constant != Some(0) {
                self.is_opaque
                    .extend(streams.values(read)?.iter().map(|v| *v != 0));
                opaque = self.is_opaque.iter().filter(|o| **o).count();
            }
        }
        if head.kind.has_child() {
            self.child = streams
                .read(r, model, PageStream::Child as usize, n, false)?
                .from;
        }
        if head.kind.is_table() {
            self.rowid = streams
                .read(r, model, PageStream::Rowid as usize, n, false)?
                .from;
        }
        if opaque > 0 {
            self.read_opaque(head, opaque, model, streams, r, raw)?;
        }
        Some(())
    }

    fn read_opaque(
        &mut self,
        head: &Head,
        n: usize,
        model: &Model,
        streams: &mut Streams,
        r: &mut BitReader<'_>,
        raw: &mut RawBytes<'_>,
    ) -> Option<()> {
        let payloads = streams.read(r, model, PageStream::Payload as usize, n, false)?;
        let mut chained = 0;
        for payload in streams.values(payloads)? {
            let (payload, len, more) = local(head.kind, head.usable, *payload)?;
            let at = self.opaque_bytes.len();
            self.opaque_bytes.extend_from_slice(raw.take(len)?);
            chained += usize::from(more);
            self.opaque.push(OpaqueCell {
                payload,
                at,
                len,
                overflow: more.then_some(0),
            });
        }
        let pages = streams.read(r, model, PageStream::Overflow as usize, chained, false)?;
        let pages = streams.values(pages)?;
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
        if columns.ready.is_empty() {
            return Some(content);
        }
        self.write_types(columns, out)?;
        for (c, column) in columns.ready.iter().enumerate() {
            self.write_values(c, column.types, column.body, model, streams, columns, out)?;
        }
        Some(content)
    }

    /// Writes the serial types of all records. The types of one byte that come first in every record are the same in most places: they are
    /// written as one piece of text, and those that differ over it.
    fn write_types(&mut self, columns: &Columns, out: &mut [u8]) -> Option<()> {
        let mut front = [0; FRONT];
        let mut same = 0;
        for (column, to) in columns.ready.iter().zip(&mut front) {
            match (column.body, column.types) {
                (Body::Absent, _) => break,
                (_, Types::Same(t)) if t < 0x80 => *to = t as u8,
                (_, Types::Each(from))
                    if columns
                        .types
                        .get(from..from + self.at.len())?
                        .iter()
                        .fold(0, |all, t| all | t)
                        < 0x80 => {}
                _ => break,
            }
            same += 1;
        }
        for (at, end) in self.types_at.iter().zip(&self.ends) {
            let at = *at as usize;
            if at + FRONT <= *end as usize {
                *out.get_mut(at..)?.first_chunk_mut()? = front;
            } else {
                out.get_mut(at..at + same)?
                    .copy_from_slice(front.get(..same)?);
            }
        }
        for (i, column) in columns.ready.iter().enumerate().take(same) {
            if let Types::Each(from) = column.types {
                for (at, t) in self.types_at.iter().zip(columns.types.get(from..)?) {
                    *out.get_mut(*at as usize + i)? = *t as u8;
                }
            }
        }
        for at in &mut self.types_at {
            *at += same as u32;
        }
        for column in columns.ready.iter().skip(same) {
            match column.types {
                _ if matches!(column.body, Body::Absent) => {}
                Types::Same(t) => {
                    for at in &mut self.types_at {
                        *at += put_varint(u64::from(t), out.get_mut(*at as usize..)?) as u32;
                    }
                }
                Types::Each(from) => {
                    for (at, t) in self.types_at.iter_mut().zip(columns.types.get(from..)?) {
                        if *t < 0x80 {
                            *out.get_mut(*at as usize)? = *t as u8;
                            *at += 1;
                        } else if *t != ABSENT {
                            *at += put_varint(u64::from(*t), out.get_mut(*at as usize..)?) as u32;
                        }
                    }
                }
            }
        }
        Some(())
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
                self.types_at.push(record as u32 + 1);
                self.at.push((record + header) as u32);
                self.ends.push((record + payload) as u32);
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
            self.types_at.push((record + header_bytes) as u32);
            self.at.push((record + header) as u32);
            self.ends.push((record + payload) as u32);
            self.sizes.push(len.max(4) as u32);
            end = start;
        }
        Some(end)
    }

    /// Writes the values of one column. A row's bytes are written from left to right, so a copy may reach into what comes next in the
    /// same cell, but never beyond its end.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one decoder")]
    #[inline]
    fn write_values(
        &mut self,
        c: usize,
        types: Types,
        body: Body,
        model: &Model,
        streams: &Streams,
        columns: &Columns,
        out: &mut [u8],
    ) -> Option<()> {
        match body {
            Body::Nothing | Body::Absent => Some(()),
            Body::Fixed { from, len } => {
                let values = streams.ints.get(from..)?;
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
                let values = streams.ints.get(from..)?;
                let types = columns.types.get(types..)?;
                let skip = std::mem::take(&mut self.skip);
                for (((at, end), v), t) in self.at.iter_mut().zip(&self.ends).zip(values).zip(types)
                {
                    let len = usize::from(*BODY_LEN.get(*t as usize)?);
                    *at += skip;
                    put_int(*v, len, *at as usize, *end as usize, out)?;
                    *at += len as u32;
                }
                Some(())
            }
            Body::Bytes { from } => {
                self.bytes(columns.places.get(from..)?, types, &columns.text, out)
            }
            Body::Listed { from } => match &model.column(c).form {
                Form::Dictionary(d) => {
                    self.bytes(columns.places.get(from..)?, types, &d.bytes, out)
                }
                _ => None,
            },
            Body::Template { from } => {
                let Form::Template(template) = &model.column(c).form else {
                    return None;
                };
                let rows = self.at.len();
                let values = streams.ints.get(from..)?;
                let skip = self.skip as usize;
                if template.fields() == 1 {
                    template.render_column(values, &self.at, skip, out)?;
                } else {
                    let mut fields = [0; FIELDS_MAX];
                    let used = fields.get_mut(..template.fields())?;
                    for (j, at) in self.at.iter().enumerate() {
                        for (i, field) in used.iter_mut().enumerate() {
                            *field = *values.get(j + i * rows)?;
                        }
                        let place = out.get_mut(*at as usize + skip..)?;
                        template.render(used, place).then_some(())?;
                    }
                }
                self.skip += template.text_len() as u32;
                Some(())
            }
            Body::Mixed { ints, places } => {
                let Types::Each(types) = types else {
                    return None;
                };
                let types = columns.types.get(types..)?.iter();
                let values = streams.ints.get(ints..)?.iter();
                let places = columns.places.get(places..)?.iter();
                let skip = std::mem::take(&mut self.skip);
                let rows = self.at.iter_mut().zip(&self.ends);
                for (((t, v), place), (at, end)) in types.zip(values).zip(places).zip(rows) {
                    *at += skip;
                    if *t == ABSENT {
                        continue;
                    }
                    let len = body_len(*t);
                    if *t < 12 {
                        put_int(*v, len, *at as usize, *end as usize, out)?;
                    } else {
                        put_bytes(*place, &columns.text, *at as usize, *end as usize, out)?;
                    }
                    *at += len as u32;
                }
                Some(())
            }
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, values: &[i64], out: &mut [u8]) -> Option<()> {
        let skip = self.skip as usize;
        for (at, v) in self.at.iter().zip(values) {
            let to: &mut [u8; N] = out.get_mut(*at as usize + skip..)?.first_chunk_mut()?;
            let wide = v.to_be_bytes();
            *to = *wide.last_chunk()?;
        }
        self.skip += N as u32;
        Some(())
    }

    #[inline]
    fn bytes(
        &mut self,
        places: &[(u32, u32)],
        types: Types,
        source: &[u8],
        out: &mut [u8],
    ) -> Option<()> {
        if let Types::Same(_) = types {
            let skip = self.skip;
            let mut len = 0;
            for ((at, end), place) in self.at.iter().zip(&self.ends).zip(places) {
                put_bytes(*place, source, (*at + skip) as usize, *end as usize, out)?;
                len = place.1;
            }
            self.skip += len;
            return Some(());
        }
        let skip = std::mem::take(&mut self.skip);
        for ((at, end), place) in self.at.iter_mut().zip(&self.ends).zip(places) {
            *at += skip;
            put_bytes(*place, source, *at as usize, *end as usize, out)?;
            *at += place.1;
        }
        Some(())
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

/// Puts the lowest `len` bytes of a number at `at` of a cell that ends at `end`.
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

/// Puts bytes of a source, which goes on for [`SLACK`] bytes behind them, at `at` of a cell that ends at `end`.
#[inline]
fn put_bytes(
    (from, len): (u32, u32),
    source: &[u8],
    at: usize,
    end: usize,
    out: &mut [u8],
) -> Option<()> {
    const _: () = assert!(SLACK >= 32);
    let (from, len) = (from as usize, len as usize);
    let source = source.get(from..)?;
    if len <= 32 && at + 32 <= end {
        *out.get_mut(at..)?.first_chunk_mut::<32>()? = *source.first_chunk()?;
    } else if (16..=32).contains(&len) {
        // The two halves overlap.
        let to = out.get_mut(at..at + len)?;
        *to.first_chunk_mut::<16>()? = *source.first_chunk()?;
        *to.last_chunk_mut::<16>()? = *source.get(..len)?.last_chunk()?;
    } else if (33..=64).contains(&len) {
        let to = out.get_mut(at..at + len)?;
        *to.first_chunk_mut::<32>()? = *source.first_chunk()?;
        *to.last_chunk_mut::<32>()? = *source.get(..len)?.last_chunk()?;
    } else {
        out.get_mut(at..at + len)?
            .copy_from_slice(source.get(..len)?);
    }
    Some(())
}
