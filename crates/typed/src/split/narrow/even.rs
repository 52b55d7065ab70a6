//! Of these leaves those whose records also have the same types, so that all values of a column lie at the same distance from their cells' beginnings: then columns
//! are read one by one.

use super::{Split, Value};
use crate::model::Model;
use crate::record::Small;

/// Most columns whose types and the header's length before them are one word.
const COLUMNS_MAX: usize = 7;

impl Split {
    /// As [`Split::part_narrow`], of a page that was found to be even.
    pub(in crate::split) fn part_even(&mut self, bytes: &[u8], model: &Model) -> Option<()> {
        let even = self.page.even?;
        let starts = self.page.starts.as_slice();
        let first = usize::from(*starts.first()?) + even.payload_at;
        let shape = self.shape_of(bytes, first, model)?;
        if shape.end != even.payload || !are_alike(bytes, starts, even.payload_at, shape.columns)? {
            return None;
        }
        let places = self.make_room(&shape);
        let n = self.page.count();
        let mut small = Small {
            short: shape.short,
            long: false,
        };
        for value in shape.values.iter().take(shape.count) {
            let place = *places.values.get(value.column)?;
            let to = self.ints.get_mut(place..place + n)?;
            let read = value.read(bytes, &self.page.starts, even.payload_at, to);
            let Some(long) = read else {
                self.ints.truncate(places.start);
                return None;
            };
            small.long |= long;
        }
        if small.short && small.long {
            self.ints.truncate(places.start);
            return None;
        }
        self.long = small.long;
        if self.page.kind.is_table() {
            let rowids = self.ints.get_mut(places.rowids..places.rowids + n)?;
            rowids.copy_from_slice(&self.page.rowids);
        }
        self.put_streams(&shape, &places, model)
    }
}

/// Whether the headers of all records, which begin at this distance from the cells' beginnings, are the same.
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

/// Finds the eight bytes that end at some distance from the beginnings of cells. There is a page's header before every cell, so that there are as many.
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

    /// One look at where the bytes end, and none at where they begin.
    #[inline(always)]
    fn eight(self, start: u16) -> Option<[u8; 8]> {
        let at = usize::from(start.wrapping_sub(self.back));
        self.bytes.get(at..at + 8)?.first_chunk().copied()
    }
}

impl Value {
    /// Reads it from each record to `to`. Returns whether some 0 or 1 takes a byte; `None` if SQLite would have written some value otherwise.
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
            // There is no shorter form, but for 0 and 1.
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
