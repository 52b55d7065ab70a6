//! Records: a row or a key (<https://www.sqlite.org/fileformat2.html#record_format>).
//!
//! A record is a header and a body. The header is a varint, the header's own length in bytes, and
//! then the serial type of each value, a varint too. The body has the values one behind the other:
//!
//! | serial type | value | bytes |
//! |---|---|---|
//! | 0 | NULL | 0 |
//! | 1 to 6 | integer | 1, 2, 3, 4, 6, 8 |
//! | 7 | REAL | 8 |
//! | 8, 9 | the integers 0 and 1, in schema format 4 | 0 |
//! | 10, 11 | never in a file | |
//! | 12, 14, … n | blob | (n - 12) / 2 |
//! | 13, 15, … n | text | (n - 13) / 2 |

use crate::varint;
use std::iter;

/// Bytes of a value by serial type, for types below 12.
pub const BODY_LEN: [u8; 12] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];
/// Serial type of NULL.
pub const NULL: u32 = 0;
/// Serial type of a REAL.
pub const REAL: u32 = 7;

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
pub fn int_type(v: i64, small: bool) -> u32 {
    if small && (v as u64) < 2 {
        return 8 + v as u32;
    }
    let bits = 64 - (v ^ (v >> 63)).leading_zeros();
    u32::from(INT_TYPE.get(bits as usize).copied().unwrap_or(6))
}

/// Bytes of a value's body.
#[inline]
pub fn body_len(serial_type: u32) -> usize {
    match BODY_LEN.get(serial_type as usize) {
        Some(len) => usize::from(*len),
        None => (serial_type as usize - 12) / 2,
    }
}

/// The serial type of text (or, if not `text`, of a blob) of `len` bytes.
#[inline]
pub fn bytes_type(len: usize, text: bool) -> u32 {
    (12 + 2 * len) as u32 + u32::from(text)
}

/// Bytes of a serial type in a record's header; types are below 2^32.
#[inline]
pub fn type_len(serial_type: u32) -> usize {
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
pub fn header_len(types: usize) -> usize {
    if types < 0x7f {
        types + 1
    } else if types < 0x3ffe {
        types + 2
    } else {
        types + 3
    }
}

/// A big-endian integer of 1 to 8 bytes.
#[inline]
pub fn int(bytes: &[u8]) -> i64 {
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

/// The serial types of a record, and the bytes of its header; `None` if the header does not end
/// there. A malformed type is `None`, and the last item.
#[inline]
pub fn serial_types(record: &[u8]) -> Option<(impl Iterator<Item = Option<u64>>, usize)> {
    let (len, at) = varint(record)?;
    let header = record.get(..usize::try_from(len).ok()?)?;
    let mut rest = header.get(at..)?;
    let next = move || {
        let read = (!rest.is_empty()).then(|| varint(rest))?;
        rest = read
            .and_then(|(_, len)| rest.get(len..))
            .unwrap_or_default();
        Some(read.map(|(serial_type, _)| serial_type))
    };
    Some((iter::from_fn(next), header.len()))
}

/// A value of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A REAL.
    Real(f64),
    /// Text, in the encoding of the database; not checked.
    Text(&'a [u8]),
    /// A blob.
    Blob(&'a [u8]),
}

/// The values of a record; `None` if it is malformed.
pub fn values(record: &[u8]) -> Option<Vec<Value<'_>>> {
    let (types, header_len) = serial_types(record)?;
    let mut body = record.get(header_len..)?;
    let mut next = |serial_type| {
        let (value, rest) = value(serial_type, body)?;
        body = rest;
        Some(value)
    };
    types.map(|serial_type| next(serial_type?)).collect()
}

/// The value at the beginning of a body, and the rest of the body.
fn value(serial_type: u64, body: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let len = match serial_type {
        0..12 => body_len(serial_type as u32),
        _ => usize::try_from((serial_type - 12) / 2).ok()?,
    };
    let (bytes, rest) = body.split_at_checked(len)?;
    let value = match serial_type {
        0 => Value::Null,
        1..=6 => Value::Integer(int(bytes)),
        7 => Value::Real(f64::from_bits(int(bytes).cast_unsigned())),
        8 | 9 => Value::Integer(i64::from(serial_type == 9)),
        10 | 11 => return None,
        _ if serial_type % 2 == 1 => Value::Text(bytes),
        _ => Value::Blob(bytes),
    };
    Some((value, rest))
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
    #[test]
    fn each_serial_type_is_read_and_what_is_cut_is_not() {
        let record = [
            &[12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15][..],
            &[0xff],
            &[1, 0],
            &[0xff, 0, 0],
            &[0x7f, 0xff, 0xff, 0xff],
            &[0, 0, 0, 0, 0, 9],
            &[0x80, 0, 0, 0, 0, 0, 0, 0],
            &1.5f64.to_be_bytes(),
            b"a",
        ]
        .concat();
        let read = values(&record).expect("a record");
        let wanted = [
            Value::Null,
            Value::Integer(-1),
            Value::Integer(256),
            Value::Integer(-65536),
            Value::Integer(0x7fff_ffff),
            Value::Integer(9),
            Value::Integer(i64::MIN),
            Value::Real(1.5),
            Value::Integer(0),
            Value::Integer(1),
            Value::Text(b"a"),
        ];
        assert_eq!(read, wanted);
        for cut in 0..record.len() {
            assert_eq!(values(&record[..cut]), None, "{cut}");
        }
        assert_eq!(values(&[2, 14, 7]), Some(vec![Value::Blob(&[7])]));
        assert_eq!(values(&[1]), Some(Vec::new()));
        for malformed in [&[2, 10][..], &[0], &[2, 0x80], &[0x80, 2, 0]] {
            assert_eq!(values(malformed), None, "{malformed:?}");
        }
    }
}
