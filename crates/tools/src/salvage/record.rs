//! The values of a record (<https://sqlite.org/fileformat2.html#record_format>).

use densite_sqlite::Value;
use densite_typed::page::varint;

/// How a database stores its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16le,
    Utf16be,
}

impl Encoding {
    /// That of a database header.
    pub(super) fn of(number: u32) -> Encoding {
        match number {
            2 => Encoding::Utf16le,
            3 => Encoding::Utf16be,
            _ => Encoding::Utf8,
        }
    }

    /// Its name in SQL.
    pub(super) fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16le => "UTF-16le",
            Encoding::Utf16be => "UTF-16be",
        }
    }

    /// Text as it is stored. What is malformed is [`Value::RawText`] with the same bytes. SQLite
    /// stores no half of a UTF-16 unit, so text with one is a blob.
    fn text(self, bytes: &[u8]) -> Value {
        let valid = match self {
            Encoding::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ if !bytes.len().is_multiple_of(2) => return Value::Blob(bytes.to_vec()),
            _ => String::from_utf16(&self.units(bytes)).ok(),
        };
        valid.map_or_else(|| Value::RawText(bytes.to_vec()), Value::Text)
    }

    /// Text as it can be read.
    pub(super) fn readable(self, bytes: &[u8]) -> String {
        match self {
            Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::from_utf16_lossy(&self.units(bytes)),
        }
    }

    fn units(self, bytes: &[u8]) -> Vec<u16> {
        let unit = match self {
            Encoding::Utf16be => u16::from_be_bytes,
            _ => u16::from_le_bytes,
        };
        let pairs = bytes.as_chunks::<2>().0;
        pairs.iter().map(|pair| unit(*pair)).collect()
    }
}

/// The values of a record; `None` if it is malformed.
pub(super) fn values(record: &[u8], encoding: Encoding) -> Option<Vec<Value>> {
    let (header_len, mut at) = varint(record)?;
    let header = record.get(..usize::try_from(header_len).ok()?)?;
    let mut body = record.get(header.len()..)?;
    let mut values = Vec::new();
    while at < header.len() {
        let (serial_type, len) = varint(header.get(at..)?)?;
        at += len;
        let (value, len) = value(serial_type, body, encoding)?;
        body = body.get(len..)?;
        values.push(value);
    }
    (at == header.len()).then_some(values)
}

/// The value at the beginning of a body, and its length in bytes.
fn value(serial_type: u64, body: &[u8], encoding: Encoding) -> Option<(Value, usize)> {
    let integer = |len: usize| {
        let bytes = body.get(..len)?;
        let first = i64::from(bytes.first()?.cast_signed());
        let rest = bytes.get(1..)?.iter();
        Some(rest.fold(first, |n, byte| n << 8 | i64::from(*byte)))
    };
    Some(match serial_type {
        0 => (Value::Null, 0),
        1..=4 => {
            let len = usize::try_from(serial_type).ok()?;
            (Value::Integer(integer(len)?), len)
        }
        5 => (Value::Integer(integer(6)?), 6),
        6 => (Value::Integer(integer(8)?), 8),
        7 => (Value::Real(f64::from_bits(integer(8)?.cast_unsigned())), 8),
        8 | 9 => (Value::Integer(i64::from(serial_type == 9)), 0),
        10 | 11 => return None,
        _ => {
            let len = usize::try_from((serial_type - 12) / 2).ok()?;
            let bytes = body.get(..len)?;
            let value = match serial_type % 2 {
                1 => encoding.text(bytes),
                _ => Value::Blob(bytes.to_vec()),
            };
            (value, len)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let read = values(&record, Encoding::Utf8).expect("a record");
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
            Value::Text("a".into()),
        ];
        assert_eq!(read, wanted);
        for cut in 0..record.len() {
            assert_eq!(values(&record[..cut], Encoding::Utf8), None, "{cut}");
        }
        let both = values(&[3, 17, 14, 0xe9, 0, 1], Encoding::Utf16le);
        let wanted = [Value::Text("é".into()), Value::Blob(vec![1])];
        assert_eq!(both.as_deref(), Some(&wanted[..]));
        let raw = values(&[2, 15, 0xff], Encoding::Utf8);
        assert_eq!(raw, Some(vec![Value::RawText(vec![0xff])]));
        assert_eq!(values(&[2, 10], Encoding::Utf8), None);
        // Half a surrogate pair, and half a unit.
        for (encoding, bytes) in [
            (Encoding::Utf16le, [0x00, 0xd8]),
            (Encoding::Utf16be, [0xd8, 0x00]),
        ] {
            let raw = values(&[&[2, 17][..], &bytes].concat(), encoding);
            assert_eq!(raw, Some(vec![Value::RawText(bytes.to_vec())]));
            assert_eq!(encoding.readable(&bytes), "\u{fffd}");
            let half = values(&[2, 15, b'a'], encoding);
            assert_eq!(half, Some(vec![Value::Blob(b"a".to_vec())]));
        }
    }
}
