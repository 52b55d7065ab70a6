//! The order of keys: compares values as SQLite does, with the built-in collations.

use densite_sqlite::ValueRef;
use std::cmp::Ordering;

/// How text compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collation {
    Binary,
    /// BINARY in a database with this encoding: SQLite compares the bytes of the encoding.
    BinaryUtf16Le,
    BinaryUtf16Be,
    NoCase,
    RTrim,
}

impl Collation {
    /// The built-in collation of this name; `None` for a collation of the application.
    pub(crate) fn of(name: &str) -> Option<Collation> {
        match name.to_ascii_uppercase().as_str() {
            "BINARY" => Some(Collation::Binary),
            "NOCASE" => Some(Collation::NoCase),
            "RTRIM" => Some(Collation::RTrim),
            _ => None,
        }
    }

    /// The collation in a database with this encoding, as `PRAGMA encoding` names it. The other
    /// collations compare UTF-8 in all databases.
    pub(crate) fn encoded(self, encoding: &str) -> Collation {
        match (self, encoding) {
            (Collation::Binary, "UTF-16le") => Collation::BinaryUtf16Le,
            (Collation::Binary, "UTF-16be") => Collation::BinaryUtf16Be,
            _ => self,
        }
    }

    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Collation::Binary | Collation::BinaryUtf16Le | Collation::BinaryUtf16Be => "BINARY",
            Collation::NoCase => "NOCASE",
            Collation::RTrim => "RTRIM",
        }
    }

    fn texts(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Collation::Binary => a.cmp(b),
            Collation::BinaryUtf16Le => utf16(a, b, u16::to_le_bytes),
            Collation::BinaryUtf16Be => utf16(a, b, u16::to_be_bytes),
            Collation::NoCase => without_case(a).cmp(without_case(b)),
            Collation::RTrim => {
                let cut = |t: &[u8]| t.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
                let trimmed = |t: &[u8]| t.get(..cut(t)).unwrap_or_default().to_vec();
                trimmed(a).cmp(&trimmed(b))
            }
        }
    }

    /// NULL, then numbers, then text, then blobs.
    pub(crate) fn compare(self, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
        match (a, b) {
            (ValueRef::Integer(a), ValueRef::Integer(b)) => a.cmp(&b),
            (ValueRef::Text(a), ValueRef::Text(b)) => self.texts(a, b),
            (ValueRef::Blob(a), ValueRef::Blob(b)) => a.cmp(b),
            (ValueRef::Real(a), ValueRef::Real(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (ValueRef::Integer(a), ValueRef::Real(b)) => int_real(a, b),
            (ValueRef::Real(a), ValueRef::Integer(b)) => int_real(b, a).reverse(),
            _ => class(a).cmp(&class(b)),
        }
    }
}

/// Bytes that compare as NOCASE compares text: ASCII letters in lower case, and behind a NUL only
/// the length counts (`sqlite3StrNICmp` ends there).
pub(crate) fn without_case(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut ended = false;
    text.iter().map(move |byte| {
        ended |= *byte == 0;
        if ended { 0 } else { byte.to_ascii_lowercase() }
    })
}

/// Compares the bytes that two texts have in UTF-16.
fn utf16(a: &[u8], b: &[u8], bytes: fn(u16) -> [u8; 2]) -> Ordering {
    let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    a.encode_utf16().map(bytes).cmp(b.encode_utf16().map(bytes))
}

fn class(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Integer(_) | ValueRef::Real(_) => 1,
        ValueRef::Text(_) => 2,
        ValueRef::Blob(_) => 3,
    }
}

/// Exact even if a double cannot hold the integer.
fn int_real(n: i64, x: f64) -> Ordering {
    if x >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    if x < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    let floor = x.floor();
    n.cmp(&(floor as i64)).then(if x > floor {
        Ordering::Less
    } else {
        Ordering::Equal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_reals() {
        assert_eq!(int_real(1, 1.5), Ordering::Less);
        assert_eq!(int_real(2, 1.5), Ordering::Greater);
        assert_eq!(int_real(-1, -1.5), Ordering::Greater);
        assert_eq!(int_real(1 << 53, 9_007_199_254_740_992.0), Ordering::Equal);
        assert_eq!(
            int_real((1 << 53) + 1, 9_007_199_254_740_992.0),
            Ordering::Greater
        );
        assert_eq!(int_real(i64::MAX, f64::INFINITY), Ordering::Less);
        assert_eq!(
            int_real(i64::MIN, -9_223_372_036_854_775_808.0),
            Ordering::Equal
        );
    }

    #[test]
    fn texts() {
        let c = |how: Collation, a: &str, b: &str| {
            how.compare(ValueRef::Text(a.as_bytes()), ValueRef::Text(b.as_bytes()))
        };
        assert_eq!(c(Collation::NoCase, "aB", "Ab"), Ordering::Equal);
        assert_eq!(c(Collation::NoCase, "a\0z", "A\0b"), Ordering::Equal);
        assert_eq!(c(Collation::NoCase, "a\0z", "a\0bb"), Ordering::Less);
        assert_eq!(c(Collation::NoCase, "a\0z", "aa"), Ordering::Less);
        assert_eq!(c(Collation::Binary, "aB", "Ab"), Ordering::Greater);
        let little = Collation::BinaryUtf16Le;
        assert_eq!(c(little, "\u{100}", "a"), Ordering::Less);
        assert_eq!(c(little, "a", "a"), Ordering::Equal);
        let big = Collation::BinaryUtf16Be;
        assert_eq!(c(big, "\u{1f600}", "\u{ffee}"), Ordering::Less);
        assert_eq!(
            c(Collation::Binary, "\u{1f600}", "\u{ffee}"),
            Ordering::Greater
        );
        assert_eq!(c(Collation::RTrim, "a  ", "a"), Ordering::Equal);
    }
}
