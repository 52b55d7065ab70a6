//! The values of a record as SQLite takes them.

use densite_sqlite::Value;
use densite_sqlite_format::Encoding;
use densite_sqlite_format::record::{self, Value as Stored};

/// The values of a record; `None` if it is malformed.
pub(super) fn values(record: &[u8], encoding: Encoding) -> Option<Vec<Value>> {
    let values = record::values(record)?.into_iter();
    let value = |stored| match stored {
        Stored::Null => Value::Null,
        Stored::Integer(n) => Value::Integer(n),
        Stored::Real(n) => Value::Real(n),
        Stored::Text(bytes) if encoding.is_whole(bytes) => encoding
            .text(bytes)
            .map_or_else(|| Value::RawText(bytes.to_vec()), Value::Text),
        Stored::Text(bytes) | Stored::Blob(bytes) => Value::Blob(bytes.to_vec()),
    };
    Some(values.map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_the_encoding_of_the_database() {
        let both = values(&[3, 17, 14, 0xe9, 0, 1], Encoding::Utf16le);
        let wanted = [Value::Text("é".into()), Value::Blob(vec![1])];
        assert_eq!(both.as_deref(), Some(&wanted[..]));
        let raw = values(&[2, 15, 0xff], Encoding::Utf8);
        assert_eq!(raw, Some(vec![Value::RawText(vec![0xff])]));
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
