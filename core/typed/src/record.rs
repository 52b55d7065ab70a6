//! Records, taken apart into values for the columns. `densite_sqlite_format` has the format. Here
//! the header is read by a short path, and a record that SQLite would have written in another way
//! is refused: it would not come back.

use densite_sqlite_format::page::Cell;
use densite_sqlite_format::record::{body_len, bytes_type, header_len, int_type};
use densite_sqlite_format::varint;
use std::ops::Range;

/// A value of a record: its serial type and where its body begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Raw {
    pub(crate) serial_type: u32,
    pub(crate) at: u32,
    /// The integer, or the bits of the REAL. [`CUT`] for the local part of a value that does not
    /// end in the page. 0 for others.
    pub(crate) value: i64,
}

/// See [`Raw::value`]. Such a value has the type of a text of its local bytes, or of a blob if it
/// is not text.
pub(crate) const CUT: i64 = 1;

/// How a cell's record is coded. The number is what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coded {
    /// In the columns.
    Whole = 0,
    /// As raw bytes.
    Opaque = 1,
    /// In the columns as far as it is local. The record continues on overflow pages.
    Cut = 2,
}

impl Coded {
    pub(crate) fn of(number: i64) -> Option<Coded> {
        Some(match number {
            0 => Coded::Whole,
            1 => Coded::Opaque,
            2 => Coded::Cut,
            _ => return None,
        })
    }
}

/// Takes the record of a cell apart and appends its local values to `values`. In a record that is
/// [`Coded::Cut`], the last of them is the local part of the first value that does not end in the
/// page. The serial types of that value and of all later ones are appended to `types`. Nothing is
/// appended for a record that is [`Coded::Opaque`]: SQLite would have written it in another way, or
/// its header is not local.
pub(crate) fn take_cell(
    page: &[u8],
    cell: &Cell,
    small: &mut Small,
    values: &mut Vec<Raw>,
    types: &mut Vec<u32>,
) -> Coded {
    let (values_before, types_before) = (values.len(), types.len());
    let at = cell.local_at as usize;
    let local = at..at + cell.local_len as usize;
    let (done, coded) = if cell.overflow == 0 {
        (take(page, local, small, values), Coded::Whole)
    } else {
        let taken = take_cut(page, local, cell.payload, small, values, types);
        (taken, Coded::Cut)
    };
    if done.is_none() {
        values.truncate(values_before);
        types.truncate(types_before);
        return Coded::Opaque;
    }
    coded
}

impl Raw {
    /// Its body in its page.
    #[inline]
    pub(crate) fn body<'a>(&self, page: &'a [u8]) -> Option<&'a [u8]> {
        page.get(self.at as usize..)?
            .get(..body_len(self.serial_type))
    }
}

/// Whether 0 and 1 have serial types of their own, as the page's values show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Small {
    /// Some value did.
    pub(crate) short: bool,
    /// Some value of 0 or 1 took a byte.
    pub(crate) long: bool,
}

/// Takes a record apart that lies in `range` as a whole.
fn take(page: &[u8], range: Range<usize>, small: &mut Small, values: &mut Vec<Raw>) -> Option<()> {
    let mut types = Types::of(page.get(range.clone())?)?;
    let mut body = range.start + types.header;
    while let Some(serial_type) = types.next() {
        let serial_type = serial_type?;
        let end = body + body_len(serial_type);
        values.push(raw(page, serial_type, body, end, small)?);
        body = end;
    }
    (body == range.end).then_some(())
}

/// Takes a record of `payload` bytes apart, of which only those in `local` are here.
#[cold]
fn take_cut(
    page: &[u8],
    local: Range<usize>,
    payload: u64,
    small: &mut Small,
    values: &mut Vec<Raw>,
    types: &mut Vec<u32>,
) -> Option<()> {
    let before = types.len();
    let mut all = Types::of(page.get(local.clone())?)?;
    let mut body = local.start + all.header;
    while let Some(serial_type) = all.next() {
        let serial_type = serial_type?;
        let end = body.checked_add(body_len(serial_type))?;
        if types.len() > before {
            types.push(serial_type);
        } else if end <= local.end {
            values.push(raw(page, serial_type, body, end, small)?);
        } else {
            types.push(serial_type);
            let text = serial_type >= 12 && serial_type % 2 == 1;
            values.push(Raw {
                serial_type: bytes_type(local.end - body, text),
                at: body as u32,
                value: CUT,
            });
        }
        body = end;
    }
    ((body - local.start) as u64 == payload && types.len() > before).then_some(())
}

/// The serial types in a record's header.
struct Types<'a> {
    bytes: &'a [u8],
    /// Where the next one begins.
    at: usize,
    /// Bytes of the header.
    header: usize,
}

impl<'a> Types<'a> {
    /// The types of a record, if its whole header is here and has the length that SQLite writes.
    #[inline(always)]
    fn of(record: &'a [u8]) -> Option<Types<'a>> {
        let (header, at) = varint(record)?;
        let header = usize::try_from(header).ok()?;
        let bytes = record.get(..header)?;
        // The header counts itself, and no record is without values.
        let right = header > at && header_len(header - at) == header;
        right.then_some(Types { bytes, at, header })
    }

    /// The next type. `Some(None)` if it is not a valid one.
    #[inline(always)]
    fn next(&mut self) -> Option<Option<u32>> {
        let &byte = self.bytes.get(self.at)?;
        if byte < 0x80 {
            self.at += 1;
            return Some(Some(u32::from(byte)));
        }
        let wide = self.bytes.get(self.at..).and_then(varint);
        Some(wide.and_then(|(wide, len)| {
            self.at += len;
            u32::try_from(wide).ok()
        }))
    }
}

/// The value of this type whose body is from `at` to `end`. `None` if SQLite would have written it
/// in another way.
#[inline(always)]
fn raw(page: &[u8], serial_type: u32, at: usize, end: usize, small: &mut Small) -> Option<Raw> {
    let value = match serial_type {
        1..=6 => {
            let v = int_before(page, end, end - at)?;
            if int_type(v, false) != serial_type {
                return None;
            }
            small.long |= (v as u64) < 2;
            v
        }
        7 => int_before(page, end, 8)?,
        8 | 9 => {
            small.short = true;
            i64::from(serial_type - 8)
        }
        10 | 11 => return None,
        _ => 0,
    };
    Some(Raw {
        serial_type,
        at: at as u32,
        value,
    })
}

/// The big-endian integer of `len` bytes, 1 to 8, that ends at `end`.
#[inline]
fn int_before(page: &[u8], end: usize, len: usize) -> Option<i64> {
    let from = end.checked_sub(8)?;
    // A page's header lies before every record, so there are always eight bytes to load.
    let eight = page.get(from..)?.first_chunk::<8>()?;
    let unused = 64 - 8 * len as u32;
    let high = i64::from_be_bytes(*eight).checked_shl(unused)?;
    Some(high >> unused)
}
