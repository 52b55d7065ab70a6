//! Decoding: from streams to columns to cells (docs/decisions/typed-codec.md, Decoding).
//!
//! Streams are read (`stream`) by column. The leading columns, while they are short, go at once to
//! the fronts of all records ([`front`]). Later ones are prepared ([`columns`]): then lengths of
//! records and places of cells are known. Leaves of whole records are written row by row. In others,
//! each front goes to its cell in one piece ([`cells`]), and other values by column ([`values`]). Any
//! payload gives an error or some page, never a panic. The page's length bounds the memory.

mod cells;
mod columns;
mod cut;
mod front;
mod mixed;
mod record_place;
mod values;

use crate::bits::BitReader;
use crate::layout::LayoutReader;
use crate::model::{Form, Model, PAGE_STREAMS, PageStream, SLACK};
use crate::stream::{RawBytes, Source, Streams, most_values};
use crate::template::FIELDS_MAX;
use cells::Cells;
use columns::{ABSENT, Body, Columns, Ready, TEXT_LEAD, Types};
use densite_sqlite_format::page::{Kind, Layout, Page, header_at, local_len};
use densite_sqlite_format::record::{BODY_LEN, body_len};
use densite_sqlite_format::short_varint;
use front::Front;
use record_place::put_exactly;
use std::cell::RefCell;

/// Lengths of headers and of payloads, and row ids, are below these. So what lies before the types of
/// a record is one word.
const HEADER_END: usize = 0x80;
const PAYLOAD_END: usize = 0x4000;
const ROWID_END: u64 = 1 << 28;

/// A payload could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

impl std::fmt::Display for Undecodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("typed payload that no page has")
    }
}

impl std::error::Error for Undecodable {}

/// The memory that a thread decodes with.
#[derive(Default)]
struct Decoder {
    streams: Streams,
    columns: Columns,
    cells: Cells,
    layout: Layout,
    layouts: LayoutReader,
    /// The cells back to back, if the layout of the page is another one.
    packed: Vec<u8>,
    page: Page,
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::default();
}

/// Decodes a payload of [`crate::encode()`] into `out`, a page, with the model that it was encoded
/// with.
///
/// # Errors
/// If it is not the payload of a page of that length, or needs another model. `out` then holds
/// anything.
pub fn decode(payload: &[u8], model: &Model, out: &mut [u8]) -> Result<(), Undecodable> {
    let here = DECODER.try_with(|cell| {
        cell.try_borrow_mut()
            .ok()
            .map(|mut decoder| decoder.decode(payload, model, out))
    });
    let done = match here {
        Ok(Some(done)) => done,
        _ => Decoder::default().decode(payload, model, out),
    };
    done.ok_or(Undecodable)
}

/// The head of a payload.
struct Head {
    kind: Kind,
    irregular: bool,
    /// 0 and 1 have serial types of their own.
    small: bool,
    first: bool,
    residue: bool,
    cells: usize,
    columns: usize,
    usable: usize,
    right: u32,
}

impl Decoder {
    fn decode(&mut self, payload: &[u8], model: &Model, out: &mut [u8]) -> Option<()> {
        let Decoder {
            streams,
            columns,
            cells,
            layout,
            layouts,
            packed,
            page,
        } = self;
        let mut r = BitReader::unpadded(payload);
        let flag = |r: &mut BitReader<'_>| Some(r.get(1)? == 1);
        let kind = *Kind::ALL.get(r.get(2)? as usize)?;
        let irregular = flag(&mut r)?;
        let deviant = flag(&mut r)?;
        let small = !flag(&mut r)?;
        let first = flag(&mut r)?;
        let residue = flag(&mut r)?;
        let (has_reserved, has_raw, has_columns) = (flag(&mut r)?, flag(&mut r)?, flag(&mut r)?);
        let many = flag(&mut r)?;
        let count = r.get(if many { 16 } else { 8 })? as usize;
        let reserved = if has_reserved { r.get(8)? as usize } else { 0 };
        let raw_len = if has_raw { r.get(17)? as usize } else { 0 };
        let head = Head {
            kind,
            irregular,
            small,
            first,
            residue,
            cells: count,
            columns: if has_columns {
                r.get(15)? as usize
            } else {
                model.columns.len()
            },
            usable: out.len().checked_sub(reserved)?,
            right: if kind.has_child() {
                r.get(32)? as u32
            } else {
                0
            },
        };
        let mut raw = RawBytes(payload.get(payload.len().checked_sub(raw_len)?..)?);
        if head.irregular {
            layouts.take(&mut r, head.cells, head.usable, layout)?;
        }
        let header_at = header_at(head.first);
        let first = raw.take(header_at)?;
        out.get_mut(head.usable..)?
            .copy_from_slice(raw.take(reserved)?);
        // A cell takes at least six bytes with its pointer; four is a safe bound.
        if head.cells > out.len() / 4 {
            return None;
        }
        let known = model.defaults.len().max(PAGE_STREAMS);
        streams.begin(deviant, head.cells, most_values(out.len()) + 16, known);
        let mut source = Source {
            model,
            r,
            raw,
            streams,
        };
        cells.begin(&head, &mut source)?;
        let to = match head.irregular {
            true => {
                packed.resize(out.len(), 0);
                &mut **packed
            }
            false => &mut *out,
        };
        let content = match cells.write_fast(&head, &mut source, to) {
            Some(content) => content,
            None => {
                let has_records = !head.kind.is_table() || !head.kind.has_child();
                let rows = cells.rows();
                if has_records {
                    if rows.checked_mul(head.columns)? > most_values(to.len()) {
                        return None;
                    }
                    columns.read(&head, rows, &mut source, to.len())?;
                } else {
                    columns.clear(rows);
                }
                cells.write(&head, model, source.streams, columns, to)?
            }
        };
        let mut raw = source.raw;
        let header_len = head.kind.header_len();
        if head.irregular {
            layout.scatter(
                packed,
                cells.sizes(),
                header_at,
                header_len,
                head.usable,
                out,
            )?;
        } else {
            let pointers = header_at + header_len + 2 * head.cells;
            out.get_mut(pointers..content)?.fill(0);
            Layout::finish_canonical(cells.sizes(), header_at, header_len, head.usable, out)?;
        }
        out.get_mut(..header_at)?.copy_from_slice(first);
        *out.get_mut(header_at)? = head.kind as u8;
        if head.kind.has_child() {
            out.get_mut(header_at + 8..header_at + 12)?
                .copy_from_slice(&head.right.to_be_bytes());
        }
        if head.residue {
            if !page.parse(out, head.usable, head.first) {
                return None;
            }
            let mut fits = true;
            page.unallocated(|from, to| {
                match (raw.take(to.saturating_sub(from)), out.get_mut(from..to)) {
                    (Some(bytes), Some(to)) => to.copy_from_slice(bytes),
                    _ => fits = false,
                }
            });
            fits.then_some(())?;
        }
        raw.0.is_empty().then_some(())
    }
}

/// The length of a payload, how many of its bytes lie in its page, and whether others lie on
/// overflow pages.
#[inline]
fn local(kind: Kind, usable: usize, payload: i64) -> Option<(u64, usize, bool)> {
    let payload = u64::try_from(payload).ok()?;
    let local = local_len(kind, usable, payload);
    Some((payload, local, (local as u64) < payload))
}

/// The stream that says how each cell is coded.
const OPAQUE: usize = PageStream::Opaque as usize;

/// A leaf to be written all of whose records are whole, as those of most leaves are: row by row,
/// each cell from its end to its beginning.
///
/// So every store has a fixed length. Its surplus lies before what it writes, where the rest of the
/// cell goes, then the next cell or the unallocated bytes, which the caller clears. Whatever such a
/// store cannot do, [`Cells::write`](cells::Cells::write) does.
struct WholeLeaf<'a> {
    usable: usize,
    model: &'a Model,
    columns: &'a Columns,
    /// All integers that were read.
    ints: &'a [i64],
    /// Empty in an index.
    rowids: &'a [i64],
}

impl WholeLeaf<'_> {
    /// Writes the cells, back to back from the end of the usable area, and their sizes. Returns
    /// where the last one begins. `None` if that takes another kind of store; `out` and `sizes`
    /// then hold anything.
    fn write(&self, out: &mut [u8], sizes: &mut Vec<u32>) -> Option<usize> {
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
