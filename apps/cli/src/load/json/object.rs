//! The keys and values of an object.

use crate::load::{Bad, shown, spelled};
use rusqlite::types::Value;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Keys and the text of their values, in order.
struct Object<'a>(Vec<(Key<'a>, &'a RawValue)>);

/// A key, borrowed unless it has escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The keys and values of an object; an error has the place `at`.
pub(super) fn parse(at: u64, text: &[u8]) -> Result<Vec<(Cow<'_, str>, Value)>, Bad> {
    let broken = |e: serde_json::Error| {
        let said = e.to_string();
        // The text is one line, or a part of one: its own line number says nothing.
        let said = match said.split_once(" at line ") {
            Some((what, place)) => match place.split_once(" column ") {
                Some(("1", byte)) => format!("{what}, byte {byte}"),
                _ => what.to_owned(),
            },
            None => said,
        };
        Bad::row(at, format!("is not JSON: {said}"))
    };
    if text.trim_ascii_start().first() != Some(&b'{') {
        let value: &RawValue = serde_json::from_slice(text).map_err(broken)?;
        let bad = Bad::row(at, "is not a JSON object with columns and values");
        return Err(Bad {
            value: Some(shown(&Value::Text(value.get().to_owned()))),
            ..bad
        });
    }
    let Object(fields) = serde_json::from_slice(text).map_err(broken)?;
    let mut values = Vec::with_capacity(fields.len());
    for (Key(key), raw) in fields {
        let value = value_of(at, &key, raw, broken)?;
        values.push((key, value));
    }
    Ok(values)
}

fn value_of(
    at: u64,
    key: &str,
    raw: &RawValue,
    broken: impl Fn(serde_json::Error) -> Bad,
) -> Result<Value, Bad> {
    let text = raw.get();
    Ok(match text.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => Value::Integer(1),
        Some(b'f') => Value::Integer(0),
        Some(b'"') => Value::Text(serde_json::from_str(text).map_err(broken)?),
        Some(b'{' | b'[') => {
            let text = without_blanks(text);
            let digits = text
                .strip_prefix(r#"{"hex":""#)
                .and_then(|rest| rest.strip_suffix(r#""}"#));
            digits
                .and_then(spelled::bytes)
                .map_or(Value::Text(text), Value::Blob)
        }
        // As in SQLite, 1e999 is infinite. serde_json refuses it.
        _ if text.contains(['.', 'e', 'E']) || text == "-0" => {
            let number = serde_json::from_str(text).or_else(|e| text.parse().map_err(|_| e));
            Value::Real(number.map_err(broken)?)
        }
        _ => Value::Integer(text.parse().map_err(|_| {
            let bad = Bad::row(at, "is an integer beyond 64 bits; write it as text");
            bad.with(key, Some(text.to_owned()))
        })?),
    })
}

/// JSON text without the blanks between its parts.
fn without_blanks(text: &str) -> String {
    let (mut is_in_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        if is_in_string {
            is_in_string = is_escaped || *c != '"';
            is_escaped = !is_escaped && *c == '\\';
            return true;
        }
        is_in_string = *c == '"';
        !matches!(c, ' ' | '\t' | '\n' | '\r')
    };
    text.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_nested_text() {
        let text = br#"{"z": {"b": 1.50, "a": [ "x \" y\\" , 12345678901234567890 ]}, "y": -0, "x": 1e2, "w": "\u00e9", "\u0076": true}"#;
        let fields = parse(1, text).expect("an object");
        let fields: Vec<(&str, Value)> = fields.iter().map(|(k, v)| (&**k, v.clone())).collect();
        let nested = r#"{"b":1.50,"a":["x \" y\\",12345678901234567890]}"#;
        assert_eq!(
            fields,
            [
                ("z", Value::Text(nested.into())),
                ("y", Value::Real(-0.0)),
                ("x", Value::Real(100.0)),
                ("w", Value::Text("é".into())),
                ("v", Value::Integer(1)),
            ]
        );
        for (text, words) in [
            (&br#"{"a": 9223372036854775808}"#[..], "beyond 64 bits"),
            (br#"{"a": "\ud800"}"#, "is not JSON"),
            (b"{\"a\": \"\xff\"}", "is not JSON"),
            (
                br#"{"a": 1"#,
                "is not JSON: EOF while parsing an object, byte 7",
            ),
            (b"[1]", "is not a JSON object"),
        ] {
            let said = parse(1, text).expect_err("bad").problem;
            assert!(said.contains(words), "{said}");
        }
    }
}
