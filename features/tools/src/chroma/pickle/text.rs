//! Parses numbers and texts that protocol 0 writes as lines.

/// A decimal number in the form of `INT` and `LONG`: `12`, `-3`, `12L`.
pub(super) fn number(line: &[u8]) -> Option<i64> {
    let line = line.strip_suffix(b"L").unwrap_or(line);
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// A little-endian number in two's complement, in the form of `LONG1` and `LONG4`. `None` if it has
/// more than 64 bits.
pub(super) fn long(bytes: &[u8]) -> Option<i64> {
    if bytes.len() > 8 {
        return None;
    }
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut eight = if negative { [0xff; 8] } else { [0; 8] };
    for (to, from) in eight.iter_mut().zip(bytes) {
        *to = *from;
    }
    Some(i64::from_le_bytes(eight))
}

/// The text of `UNICODE`: Latin-1, with `\uXXXX` and `\UXXXXXXXX` for all other characters.
pub(super) fn unescape(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'\\' {
            text.push(char::from(byte));
            continue;
        }
        let digits = match rest.as_slice().first() {
            Some(b'u') => 4,
            Some(b'U') => 8,
            // Python writes a backslash of the text itself as an escape, but also accepts a plain
            // one.
            _ => {
                text.push('\\');
                continue;
            }
        };
        let code = rest.as_slice().get(1..=digits)?;
        let code = u32::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?;
        text.push(char::from_u32(code)?);
        rest = rest.as_slice().get(1 + digits..)?.iter();
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lines() {
        assert_eq!(number(b"12"), Some(12));
        assert_eq!(number(b"-7L"), Some(-7));
        assert_eq!(number(b"9223372036854775808"), None);
        assert_eq!(number(b"1 2"), None);
    }

    #[test]
    fn numbers_of_bytes() {
        assert_eq!(long(b""), Some(0));
        assert_eq!(long(&[0xff, 0x00]), Some(255));
        assert_eq!(long(&[0xff]), Some(-1));
        assert_eq!(long(&i64::MAX.to_le_bytes()), Some(i64::MAX));
        assert_eq!(long(&[0; 9]), None);
    }

    #[test]
    fn texts_with_escapes() {
        assert_eq!(unescape(b"a\xe4b").as_deref(), Some("aäb"));
        assert_eq!(
            unescape(b"\\u20ac\\U0001f600x").as_deref(),
            Some("€\u{1f600}x")
        );
        assert_eq!(unescape(b"\\x41").as_deref(), Some("\\x41"));
        for broken in [&b"\\u12"[..], b"\\uzzzz", b"\\ud800", b"\\U00110000"] {
            assert_eq!(unescape(broken), None, "{broken:?}");
        }
    }
}
