//! Values and column names as text.

use super::Column;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Makes column names unique: the second "a" becomes "a:1", as SQLite does in views.
pub(super) fn keys_plain(columns: &[Column]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(columns.len());
    let mut used = std::collections::HashSet::new();
    for Column { name, .. } in columns {
        let mut key = name.clone();
        let mut n = 1;
        while !used.insert(key.clone()) {
            key = format!("{name}:{n}");
            n += 1;
        }
        keys.push(key);
    }
    keys
}

/// The same, as JSON strings.
pub(super) fn keys(columns: &[Column]) -> Vec<String> {
    keys_plain(columns)
        .into_iter()
        .map(|k| Value::String(k).to_string())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    let mut s = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        let _ = write!(s, "{b:02X}");
    }
    s
}

fn real(x: f64) -> String {
    // Debug keeps ".0" on whole numbers, so reals stay recognisable.
    if x.is_finite() {
        format!("{x:?}")
    } else if x > 0.0 {
        "Inf".into()
    } else {
        "-Inf".into()
    }
}

/// Formats a value for readers; `null` stands for NULL.
pub(super) fn text(v: ValueRef<'_>, null: &str) -> String {
    match v {
        ValueRef::Null => null.to_owned(),
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) => real(x),
        ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
        ValueRef::Blob(b) => format!("X'{}'", hex(b)),
    }
}

pub(super) fn json_value(v: ValueRef<'_>) -> Value {
    match v {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => n.into(),
        ValueRef::Real(x) if x.is_finite() => x.into(),
        ValueRef::Real(x) => Value::String(if x > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        }),
        ValueRef::Text(t) => Value::String(String::from_utf8_lossy(t).into_owned()),
        ValueRef::Blob(b) => json!({ "hex": hex(b) }),
    }
}
