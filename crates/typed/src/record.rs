//! Records: SQLite's form of a row (<https://sqlite.org/fileformat2.html#record_format>).

use crate::page::{Cell, varint};
use std::ops::Range;

/// Bytes of a value by serial type, for types below 12.
pub(crate) const BODY_LEN: [u8; 12] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];
/// Serial type of NULL.
pub(crate) const NULL: u32 = 0;
/// Serial type of a REAL.
pub(crate) const REAL: u32 = 7;

/// Serial types of integers by the bits of their magnitude (of `v`, or of its complement when it is
/// negative).
const INT_TYPE: [u8; 65] = {
    let mut t = [6; 65];
    let mut bits = 0;
    while bits <= 47 {
        t[bits] = match bits {
            0..=7 => 1,
            8..=15 => 2,
            16..=23 => 3,
            24..=31 => 4,
            _ => 5,
        };
        bits += 1;
    }
    t
};

/// The serial type that SQLite gives an integer. `small`: 0 and 1 have types of their own (schema
/// format 4).
#[inline]
pub(crate) fn int_type(v: i64, small: bool) -> u32 {
    if small && (v as u64) < 2 {
        return 8 + v as u32;
    }
    let bits = 64 - (v ^ (v >> 63)).leading_zeros();
    u32::from(INT_TYPE.get(bits as usize).copied().unwrap_or(6))
}

/// Bytes of a value's body.
#[inline]
pub(crate) fn body_len(serial_type: u32) -> usize {
    match BODY_LEN.get(serial_type as usize) {
        Some(len) => usize::from(*len),
        None => (serial_type as usize - 12) / 2,
    }
}

/// The serial type of text (or, if not `text`, of a blob) of `len` bytes.
#[inline]
pub(crate) fn bytes_type(len: usize, text: bool) -> u32 {
    (12 + 2 * len) as u32 + u32::from(text)
}

/// Bytes of a serial type in a record's header; types are below 2^32.
#[inline]
pub(crate) fn type_len(serial_type: u32) -> usize {
    match serial_type {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// Bytes of a record's header whose types take `types` bytes: the header's length counts itself.
#[inline]
pub(crate) fn header_len(types: usize) -> usize {
    if types < 0x7f {
        types + 1
    } else if types < 0x3ffe {
        types + 2
    } else {
        types + 3
    }
}

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

/// A big-endian integer of 1 to 8 bytes.
#[inline]
pub(crate) fn int(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    let n = bytes.len().min(8);
    if let Some((to, from)) = wide.get_mut(8 - n..).zip(bytes.get(..n)) {
        to.copy_from_slice(from);
    }
    let unused = 64 - 8 * n as u32;
    i64::from_be_bytes(wide)
        .checked_shl(unused)
        .map_or(0, |v| v >> unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_the_types_that_sqlite_gives_them() {
        let cases: [(i64, u32); 16] = [
            (0, 8),
            (1, 9),
            (2, 1),
            (-1, 1),
            (127, 1),
            (-128, 1),
            (128, 2),
            (-129, 2),
            (32767, 2),
            (32768, 3),
            (-8_388_608, 3),
            (8_388_608, 4),
            (i64::from(i32::MIN), 4),
            (1 << 31, 5),
            (1 << 47, 6),
            (i64::MIN, 6),
        ];
        for (v, t) in cases {
            assert_eq!(int_type(v, true), t, "{v}");
            let bytes = v.to_be_bytes();
            let body = &bytes[8 - body_len(int_type(v, false))..];
            assert_eq!(int(body), v);
        }
        assert_eq!(int_type(1, false), 1);
    }
}
