//! Decoding: from streams to columns to cells.
//!
//! First every stream is read and each column's values are made ready ([`columns`]): integers as they will stand in their
//! records, text behind each other in a buffer, and the serial type of every value, or one for all of them. Then the lengths of the records are known,
//! and with them the places of the cells ([`cells`]); and the values are put there column by column ([`values`]), so that each loop does one thing.
//!
//! Any bytes may come: the result is an error or some page, never a panic; memory is bounded by the length of the page.

mod cells;
mod columns;
mod mixed;
mod numbers;
mod values;

use crate::bits::{BitReader, PADDING};
use crate::ints::{Params, Shape};
use crate::model::{Model, PAGE_STREAMS, PageStream};
use crate::page::{Kind, Layout, Page, local_len};
use crate::split::most_values;
use cells::Cells;
use columns::Columns;
use std::cell::RefCell;

/// Why a payload could not be decoded, in a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

impl std::fmt::Display for Undecodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("typed payload that no page has")
    }
}

impl std::error::Error for Undecodable {}

/// What a thread keeps to decode with.
#[derive(Default)]
struct Decoder {
    /// The payload, and padding.
    padded: Vec<u8>,
    streams: Streams,
    columns: Columns,
    cells: Cells,
    layout: Layout,
    /// Cells back to back, where the layout is another.
    packed: Vec<u8>,
    page: Page,
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::default();
}

/// Decodes a payload of [`crate::encode()`] into `out`, a page, with the model that it was encoded with.
///
/// # Errors
/// The payload is none of a page of that length, or needs another model; `out` then holds anything.
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

/// Streams as they are read.
#[derive(Default)]
struct Streams {
    /// Values of all of them; behind those that are used, what was there before.
    ints: Vec<i64>,
    used: usize,
    /// Where those of each stream lie, by its number.
    places: Vec<(usize, usize)>,
    /// Streams have a bit that says whether they keep to their habit.
    deviant: bool,
    /// A stream of this length may be related to another one.
    cells: usize,
    /// No more values than this.
    limit: usize,
}

/// A stream that was read.
#[derive(Clone, Copy)]
struct Read {
    from: usize,
    to: usize,
    /// All values are equal.
    constant: Option<i64>,
}

impl Streams {
    fn begin(&mut self, deviant: bool, cells: usize, limit: usize, streams: usize) {
        self.used = 0;
        self.places.clear();
        self.places.resize(streams, (0, 0));
        self.deviant = deviant;
        self.cells = cells;
        self.limit = limit;
    }

    /// Room for `n` values, which are whatever was there before.
    fn room(&mut self, n: usize) -> Option<usize> {
        let from = self.used;
        if n > self.limit || from > 8 * self.limit {
            return None;
        }
        self.used += n;
        if self.ints.len() < self.used {
            self.ints.resize(self.used, 0);
        }
        Some(from)
    }

    /// Reads a stream of `n` values. `zeros`: it says by how much its values were divided.
    fn read(
        &mut self,
        r: &mut BitReader<'_>,
        model: &Model,
        number: usize,
        n: usize,
        zeros: bool,
    ) -> Option<Read> {
        let from = self.room(n)?;
        let to = from + n;
        if n == 0 {
            return Some(Read {
                from,
                to,
                constant: None,
            });
        }
        let habit = model.habit_of(number);
        let mut other = habit
            .relation
            .filter(|_| n == self.cells)
            .and_then(|other| self.places.get(usize::from(other)).copied())
            .filter(|(from, to)| to - from == n);
        let params: Params;
        if self.deviant && r.get(1)? == 1 {
            if other.is_some() && r.get(1)? == 0 {
                other = None;
            }
            params = Params::take(r)?;
        } else {
            params = habit.take_own(r)?;
        }
        let zeros = if zeros { r.get(6)? as u32 } else { 0 };
        let (before, now) = self.ints.split_at_mut_checked(from)?;
        let now = now.get_mut(..n)?;
        params.read(r, now)?;
        if let Some(other) = other {
            for (v, o) in now.iter_mut().zip(before.get(other.0..other.1)?) {
                *v = v.wrapping_add(*o);
            }
        }
        if zeros > 0 {
            for v in now {
                *v = v.wrapping_shl(zeros);
            }
        }
        // A stream that no habit knows of is not related to either.
        if let Some(place) = self.places.get_mut(number) {
            *place = (from, to);
        }
        let same = params.shape == Shape::Frame && params.width == 0;
        Some(Read {
            from,
            to,
            constant: (same && other.is_none()).then_some(params.anchor),
        })
    }

    #[inline]
    fn values(&self, read: Read) -> Option<&[i64]> {
        self.ints.get(read.from..read.to)
    }
}

/// What the payload's head says.
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

/// Bytes that are stored as they are, to be taken in order.
struct RawBytes<'a>(&'a [u8]);

impl<'a> RawBytes<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(n)?;
        self.0 = later;
        Some(now)
    }
}

/// A payload that is being read, the model it is read with, and what was read.
struct Source<'a> {
    model: &'a Model,
    r: BitReader<'a>,
    raw: RawBytes<'a>,
    streams: &'a mut Streams,
}

impl Source<'_> {
    /// Reads a stream of `n` values.
    fn read(&mut self, number: usize, n: usize) -> Option<Read> {
        self.streams.read(&mut self.r, self.model, number, n, false)
    }

    /// Reads a stream of `n` values which says by how much they were divided.
    fn read_divided(&mut self, number: usize, n: usize) -> Option<Read> {
        self.streams.read(&mut self.r, self.model, number, n, true)
    }

    /// Reads a stream of classes of `n` values; does not keep them if they are all the same.
    #[inline]
    fn read_classes(&mut self, number: usize, n: usize) -> Option<Read> {
        let deviant = self.streams.deviant;
        if let Some(constant) = self.model.constant(number)
            && n > 0
            && (!deviant || self.r.peek(1)? == 0)
        {
            self.r.get(u32::from(deviant))?;
            return Some(Read {
                from: 0,
                to: 0,
                constant: Some(constant),
            });
        }
        self.read(number, n)
    }
}

impl Decoder {
    fn decode(&mut self, payload: &[u8], model: &Model, out: &mut [u8]) -> Option<()> {
        let Decoder {
            padded,
            streams,
            columns,
            cells,
            layout,
            packed,
            page,
        } = self;
        padded.clear();
        padded.extend_from_slice(payload);
        padded.extend_from_slice(&[0; PADDING]);
        let mut r = BitReader::new(padded);
        let flag = |r: &mut BitReader<'_>| Some(r.get(1)? == 1);
        let kind = match r.get(2)? {
            0 => Kind::IndexInterior,
            1 => Kind::TableInterior,
            2 => Kind::IndexLeaf,
            _ => Kind::TableLeaf,
        };
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
            layout.take(&mut r, head.cells, head.usable)?;
        }
        let header_at = if head.first { 100 } else { 0 };
        if head.first {
            out.get_mut(..100)?.copy_from_slice(raw.take(100)?);
        }
        out.get_mut(head.usable..)?
            .copy_from_slice(raw.take(reserved)?);
        // A cell takes six bytes at least, its pointer included.
        if head.cells > out.len() / 4 {
            return None;
        }
        let known = model.habits.len().max(PAGE_STREAMS);
        streams.begin(deviant, head.cells, most_values(out.len()) + 16, known);
        let mut source = Source {
            model,
            r,
            raw,
            streams,
        };
        cells.begin(&head, &mut source)?;
        let has_records = !head.kind.is_table() || !head.kind.has_child();
        let rows = cells.rows();
        if has_records {
            if rows.checked_mul(head.columns)? > most_values(out.len()) {
                return None;
            }
            columns.read(&head, rows, &mut source, out.len())?;
        } else {
            columns.clear(rows);
        }
        let Source {
            streams, mut raw, ..
        } = source;
        if head.irregular {
            packed.resize(out.len(), 0);
            cells.write(&head, model, streams, columns, packed)?;
            layout.scatter(
                packed,
                cells.sizes(),
                header_at,
                head.kind.header_len(),
                head.usable,
                out,
            )?;
        } else {
            let content = cells.write(&head, model, streams, columns, out)?;
            let pointers = header_at + head.kind.header_len() + 2 * head.cells;
            out.get_mut(pointers..content)?.fill(0);
            Layout::finish_canonical(
                cells.sizes(),
                header_at,
                head.kind.header_len(),
                head.usable,
                out,
            )?;
        }
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

/// The bytes of a payload that lie in its page.
fn local(kind: Kind, usable: usize, payload: i64) -> Option<(u64, usize, bool)> {
    let payload = u64::try_from(payload).ok()?;
    let local = local_len(kind, usable, payload);
    Some((payload, local, (local as u64) < payload))
}

/// The streams that a page has whatever its columns.
const OPAQUE: usize = PageStream::Opaque as usize;
