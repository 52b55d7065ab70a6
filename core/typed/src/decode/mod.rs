//! Decoding: from streams to columns to cells (docs/decisions/typed-codec.md, Decoding).
//!
//! Streams are read (`stream`) column by column. The leading columns, while they are short, go at
//! once to the fronts of all records ([`front`]). The later columns are prepared ([`columns`]).
//! Then lengths of records and places of cells are known. Leaves of whole records are written row by
//! row ([`whole`]). In other pages, each front goes to its cell in one piece ([`cells`]), and the
//! other values column by column ([`values`]). Any payload gives an error or some page, never a
//! panic. Memory is bounded by the length of the page.

mod cells;
mod columns;
mod cut;
mod front;
mod mixed;
mod record_place;
mod values;
mod whole;

use crate::bits::BitReader;
use crate::layout::LayoutReader;
use crate::model::{Model, PAGE_STREAMS, PageStream};
use crate::stream::{RawBytes, Source, Streams, most_values};
use cells::Cells;
use columns::Columns;
use densite_sqlite_format::page::{Kind, Layout, Page, header_at, local_len};
use std::cell::RefCell;

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
