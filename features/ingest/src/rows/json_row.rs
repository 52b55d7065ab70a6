//! A row as a JSON object, with the columns in their order.
//!
//! A blob is `{"hex": "00FF"}`, an infinite number is text. Text that is not UTF-8 is
//! `{"text_hex": "61FF"}`: a rejected row exists nowhere else, and a subscriber can need the exact
//! key.

use densite_sqlite::{Value, ValueRef};
use serde::ser::{Serialize, SerializeMap, Serializer};

struct Json<'a>(ValueRef<'a>);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ValueRef::Null => to.serialize_unit(),
            ValueRef::Integer(n) => to.serialize_i64(n),
            ValueRef::Real(x) if x.is_finite() => to.serialize_f64(x),
            ValueRef::Real(x) if x.is_nan() => to.serialize_unit(),
            ValueRef::Real(x) => to.serialize_str(if x > 0.0 { "Infinity" } else { "-Infinity" }),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => to.serialize_str(text),
                Err(_) => hex(to, "text_hex", text),
            },
            ValueRef::Blob(bytes) => hex(to, "hex", bytes),
        }
    }
}

fn hex<S: Serializer>(to: S, kind: &str, bytes: &[u8]) -> Result<S::Ok, S::Error> {
    let digits: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
    let mut map = to.serialize_map(Some(1))?;
    map.serialize_entry(kind, &digits)?;
    map.end()
}

/// The longest row as JSON, bytes. SQLite's limit is 10⁹ bytes for a value or a row. The rest is
/// for the column names and the other columns of `densite_rejects`.
const MOST: usize = 998_000_000;
/// The most bytes that JSON needs for a byte of text.
const ESCAPED: usize = 6;

/// Whether a row of these values fits into `densite_rejects`, and can be shown to a subscriber.
pub(crate) fn fits<'a>(values: impl Iterator<Item = ValueRef<'a>> + Clone) -> bool {
    let bytes = |value| match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    // A quick check that is almost always enough.
    let short: usize = values.clone().map(bytes).sum();
    short < MOST / ESCAPED || values.map(length).sum::<usize>() < MOST
}

/// Upper bound of the value's length as JSON.
fn length(value: ValueRef<'_>) -> usize {
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => ESCAPED,
        _ => 1,
    };
    match value {
        ValueRef::Text(text) if std::str::from_utf8(text).is_ok() => {
            text.iter().map(escaped).sum::<usize>() + 2
        }
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => 2 * bytes.len() + 16,
        _ => 32,
    }
}

/// A JSON object of columns and their values, in this order.
pub(crate) fn object<'a>(pairs: impl Iterator<Item = (&'a str, ValueRef<'a>)>) -> String {
    let mut out = Vec::new();
    let mut to = serde_json::Serializer::new(&mut out);
    // Writing to memory cannot fail, and the keys are text.
    match to.collect_map(pairs.map(|(name, value)| (name, Json(value)))) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(_) => "{}".to_owned(),
    }
}

/// The columns and values of an object that [`object`] wrote.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parsed(text: &str) -> Result<Vec<(String, Parsed)>, String> {
    let object: serde_json::Map<String, Parsed> = serde_json::from_str(text)
        .map_err(|e| format!("the row is no JSON object of its columns: {e}"))?;
    Ok(object.into_iter().collect())
}

/// A value of JSON.
pub(crate) type Parsed = serde_json::Value;

/// The value of SQLite. In a column that stores numbers, `"Infinity"` is one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn value(parsed: Parsed, is_number: bool) -> Result<Value, String> {
    let bytes = |map: &serde_json::Map<String, Parsed>, kind: &str| {
        let digits = map.get(kind).filter(|_| map.len() == 1)?.as_str()?;
        let pairs = digits.as_bytes().chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return None;
        }
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        pairs.map(byte).collect::<Option<Vec<u8>>>()
    };
    Ok(match parsed {
        Parsed::Null => Value::Null,
        Parsed::Bool(b) => Value::Integer(i64::from(b)),
        Parsed::Number(n) => match n.as_i64() {
            Some(n) => Value::Integer(n),
            None => Value::Real(n.as_f64().ok_or("a number is too large")?),
        },
        Parsed::String(text) => match text.as_str() {
            "Infinity" if is_number => Value::Real(f64::INFINITY),
            "-Infinity" if is_number => Value::Real(f64::NEG_INFINITY),
            _ => Value::Text(text),
        },
        Parsed::Object(map) => match (bytes(&map, "hex"), bytes(&map, "text_hex")) {
            (Some(blob), _) => Value::Blob(blob),
            (_, Some(text)) => Value::RawText(text),
            _ => return Err("an object is neither {\"hex\": …} nor {\"text_hex\": …}".to_owned()),
        },
        Parsed::Array(_) => return Err("a value is an array".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits_come_in_pairs() {
        for text in [
            r#"{"hex":"ABC"}"#,
            r#"{"hex":"GG"}"#,
            r#"{"hex":"AB","b":1}"#,
            "[1]",
        ] {
            let parsed = serde_json::from_str(text).expect("JSON");
            assert!(value(parsed, false).is_err(), "{text}");
        }
        let parsed = serde_json::json!({"hex": "00ff"});
        assert_eq!(value(parsed, false), Ok(Value::Blob(vec![0, 255])));
    }

    #[test]
    fn all_kinds() {
        let row = [
            ("z\"", ValueRef::Null),
            ("b", ValueRef::Integer(-1)),
            ("c", ValueRef::Real(1.0)),
            ("i", ValueRef::Real(f64::NEG_INFINITY)),
            ("d", ValueRef::Text(b"x\n\x01\\")),
            ("e", ValueRef::Blob(b"\x00\xff")),
            ("f", ValueRef::Text(b"a\xffA")),
        ];
        let expected = r#"{"z\"":null,"b":-1,"c":1.0,"i":"-Infinity","d":"x\n\u0001\\","e":{"hex":"00FF"},"f":{"text_hex":"61FF41"}}"#;
        assert_eq!(object(row.into_iter()), expected);
        for (name, value) in row {
            let whole = object(std::iter::once((name, value))).len();
            // The name and the punctuation.
            assert!(length(value) + 8 >= whole, "{value:?}");
        }
    }
}
