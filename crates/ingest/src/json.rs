//! A row as a JSON object, for people and for other programs.
//!
//! Text that is not UTF-8 gets replacement characters; a blob is `{"blob":"<hex>"}`; numbers that JSON has no word for are text.

use densite_sqlite::ValueRef;
use std::fmt::Write as _;

/// Columns and their values, in order.
pub fn object<'a>(pairs: impl Iterator<Item = (&'a str, ValueRef<'a>)>) -> String {
    let mut out = String::from("{");
    for (i, (name, value)) in pairs.enumerate() {
        if i > 0 {
            out.push(',');
        }
        text(name, &mut out);
        out.push(':');
        match value {
            ValueRef::Null => out.push_str("null"),
            ValueRef::Integer(n) => {
                let _ = write!(out, "{n}");
            }
            ValueRef::Real(x) if x.is_finite() => {
                let _ = write!(out, "{x:?}");
            }
            ValueRef::Real(x) => text(&x.to_string(), &mut out),
            ValueRef::Text(bytes) => text(&String::from_utf8_lossy(bytes), &mut out),
            ValueRef::Blob(bytes) => {
                out.push_str("{\"blob\":\"");
                for byte in bytes {
                    let _ = write!(out, "{byte:02x}");
                }
                out.push_str("\"}");
            }
        }
    }
    out.push('}');
    out
}

fn text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds() {
        let row = [
            ("a\"", ValueRef::Null),
            ("b", ValueRef::Integer(-1)),
            ("c", ValueRef::Real(1.0)),
            ("d", ValueRef::Text(b"x\n\x01\\")),
            ("e", ValueRef::Blob(b"\x00\xff")),
        ];
        let expected = r#"{"a\"":null,"b":-1,"c":1.0,"d":"x\n\u0001\\","e":{"blob":"00ff"}}"#;
        assert_eq!(object(row.into_iter()), expected);
    }
}
