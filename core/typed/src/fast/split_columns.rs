//! Splitting an even leaf column by column, if all its records have the same types.
//!
//! Then the values of a column lie at one distance from the beginnings of their cells, and each
//! column is read by its own loop.

use super::SplitLeaf;
use super::even::{Common, EvenLeaf};
use super::path::Path;
use super::room::Room;
use super::shape::{Shape, Value};
use crate::model::Model;
use crate::record::Small;
use crate::stream::Stream;
use densite_sqlite_format::page::Page;

/// Most columns whose types, and the header's length before them, are one word.
const COLUMNS_MAX: usize = 7;

impl EvenLeaf {
    /// Splits the leaf that was parsed into `page`, as the general split does. `None`, with `ints`
    /// and `streams` as they were, unless its records are such.
    pub(crate) fn split(
        &self,
        page: &Page,
        bytes: &[u8],
        model: &Model,
        ints: &mut Vec<i64>,
        streams: &mut Vec<Stream>,
    ) -> Option<SplitLeaf> {
        let Common {
            payload,
            payload_at,
        } = self.common.filter(|_| Path::Columns.is_on())?;
        let starts = self.starts.as_slice();
        let first = usize::from(*starts.first()?) + payload_at;
        let shape = Shape::of_first(bytes, first, page.count(), model)?;
        if shape.end != payload || !are_alike(bytes, starts, payload_at, shape.columns)? {
            return None;
        }
        let room = Room::make(page, &shape, ints);
        let n = page.count();
        let mut small = Small {
            short: shape.short,
            long: false,
        };
        for value in shape.values.iter().take(shape.count) {
            let at = *room.values.get(value.column)?;
            let to = ints.get_mut(at..at + n)?;
            let Some(long) = value.read(bytes, starts, payload_at, to) else {
                ints.truncate(room.start);
                return None;
            };
            small.long |= long;
        }
        if small.short && small.long {
            ints.truncate(room.start);
            return None;
        }
        if page.kind.is_table() {
            let rowids = ints.get_mut(room.rowids..room.rowids + n)?;
            rowids.copy_from_slice(&self.rowids);
        }
        Path::Columns.count();
        room.list_streams(&shape, model, small.long, ints, streams)
    }
}

/// Whether the headers of all records are the same. A record begins `payload_at` bytes behind the
/// beginning of its cell.
fn are_alike(bytes: &[u8], starts: &[u16], payload_at: usize, columns: usize) -> Option<bool> {
    if columns > COLUMNS_MAX {
        return None;
    }
    let ends = Ends::of(bytes, payload_at + columns + 1)?;
    let header = |start| ends.eight(start).map(u64::from_le_bytes);
    let first = header(*starts.first()?)?;
    let mut other = 0;
    for start in starts {
        other |= header(*start)? ^ first;
    }
    Some(other >> (8 * (COLUMNS_MAX - columns)) == 0)
}

/// Finds the eight bytes that end at some distance from the beginning of a cell. There are always
/// as many, because the page's header lies before every cell.
#[derive(Clone, Copy)]
struct Ends<'a> {
    bytes: &'a [u8],
    back: u16,
}

impl<'a> Ends<'a> {
    fn of(bytes: &'a [u8], end: usize) -> Option<Ends<'a>> {
        let bytes = bytes.get(end.saturating_sub(8)..)?;
        let back = 8usize.saturating_sub(end) as u16;
        Some(Ends { bytes, back })
    }

    /// Checks bounds once, for the end of the bytes.
    #[inline(always)]
    fn eight(self, start: u16) -> Option<[u8; 8]> {
        let at = usize::from(start.wrapping_sub(self.back));
        self.bytes.get(at..at + 8)?.first_chunk().copied()
    }
}

impl Value {
    /// Reads this value of each record to `to`. Returns whether some 0 or 1 takes a byte. `None` if
    /// SQLite would have written some value in another way.
    fn read(
        &self,
        bytes: &[u8],
        starts: &[u16],
        payload_at: usize,
        to: &mut [i64],
    ) -> Option<bool> {
        if self.keep == 0 {
            to.fill(self.constant);
            return Some(false);
        }
        let ends = Ends::of(bytes, payload_at + self.end)?;
        let read = |start: &u16| {
            Some(i64::from_be_bytes(ends.eight(*start)?) << self.unused >> self.unused)
        };
        if self.least == 1 {
            // Only 0 and 1 have a shorter form.
            let mut long = false;
            for (to, start) in to.iter_mut().zip(starts) {
                let v = read(start)?;
                long |= (v as u64) < 2;
                *to = v;
            }
            return Some(long);
        }
        let mut least = u64::MAX;
        for (to, start) in to.iter_mut().zip(starts) {
            let v = read(start)?;
            least = least.min((v ^ (v >> 63)) as u64);
            *to = v;
        }
        (least >> self.fewer != 0).then_some(false)
    }
}
