//! Values that files of text spell, as `densite export` writes them: infinite numbers and blobs.
//!
//! The column decides. One of numbers takes the words for infinity, which SQLite would store as
//! text; one of type BLOB or without a type takes blobs.

use super::{Column, Row};
use densite_ingest::Affinity;
use rusqlite::types::Value;

/// Integers up to this size are exact as floating-point numbers.
const EXACT: u64 = 1 << 53;

/// How a file spells blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// It has values of each type.
    None,
    /// `X'00FF'`.
    Literal,
    /// `{"hex": "00FF"}`, which is a blob already.
    Json,
}

/// Puts the value that a field of a file stands for in its place, for a column of this affinity.
pub(super) fn read(affinity: Affinity, value: &mut Value, spelling: Spelling) {
    let takes_blobs = affinity == Affinity::Blob;
    let read = match (spelling, &*value) {
        (_, Value::Text(text)) if affinity.is_numeric() => infinity(text).map(Value::Real),
        (Spelling::Literal, Value::Text(text)) if takes_blobs => literal(text).map(Value::Blob),
        (Spelling::Json, Value::Blob(bytes)) if !takes_blobs => {
            Some(Value::Text(format!(r#"{{"hex":"{}"}}"#, digits(bytes))))
        }
        _ => None,
    };
    if let Some(read) = read {
        *value = read;
    }
}

/// Gives columns of a new table for JSON a type that takes infinite numbers, if their other values
/// are numbers.
pub(super) fn declare(columns: &mut [Column], rows: &[Row]) {
    for (i, column) in columns.iter_mut().enumerate() {
        let (mut is_infinite, mut integers, mut reals, mut is_exact) = (false, 0, 0, true);
        let mut others = 0;
        for value in rows.iter().filter_map(|row| row.values.get(i)?.as_ref()) {
            match value {
                Value::Null => {}
                Value::Integer(n) => {
                    integers += 1;
                    is_exact &= n.unsigned_abs() <= EXACT;
                }
                Value::Real(_) => reals += 1,
                Value::Text(text) if infinity(text).is_some() => is_infinite = true,
                Value::Text(_) | Value::Blob(_) => others += 1,
            }
        }
        column.declared = match (integers, reals) {
            _ if !is_infinite || others > 0 => continue,
            (0, 0) => continue,
            (_, 0) => "NUMERIC",
            _ if is_exact => "REAL",
            _ => continue,
        };
    }
}

/// The infinite number of this name: `inf` or `infinity`, with or without a sign, in any case.
pub(super) fn infinity(text: &str) -> Option<f64> {
    let name = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_name = ["inf", "infinity"]
        .iter()
        .any(|inf| inf.eq_ignore_ascii_case(name));
    is_name.then_some(match text.starts_with('-') {
        true => f64::NEG_INFINITY,
        false => f64::INFINITY,
    })
}

/// The bytes of a literal `X'00FF'`.
pub(super) fn literal(text: &str) -> Option<Vec<u8>> {
    bytes(text.strip_prefix("X'")?.strip_suffix('\'')?)
}

/// The bytes of pairs of upper-case hexadecimal digits.
pub(super) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    });
    pairs.collect()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_decides() {
        let text = |text: &str| Value::Text(text.to_owned());
        let (sql, json) = (Spelling::Literal, Spelling::Json);
        for (declared, spelling, found, read) in [
            ("REAL", sql, text("-Inf"), Value::Real(f64::NEG_INFINITY)),
            (
                "NUMERIC",
                json,
                text("Infinity"),
                Value::Real(f64::INFINITY),
            ),
            ("TEXT", sql, text("Inf"), text("Inf")),
            ("", sql, text("Inf"), text("Inf")),
            ("REAL", sql, text("infinite"), text("infinite")),
            ("BLOB", sql, text("X'00FF'"), Value::Blob(vec![0, 255])),
            ("", sql, text("X''"), Value::Blob(Vec::new())),
            ("", sql, text("X'0'"), text("X'0'")),
            ("", sql, text("X'0g'"), text("X'0g'")),
            ("VARCHAR(9)", sql, text("X'00'"), text("X'00'")),
            ("", json, text("X'00'"), text("X'00'")),
            ("ANY", json, Value::Blob(vec![1]), Value::Blob(vec![1])),
            ("BLOB", json, Value::Blob(vec![1]), Value::Blob(vec![1])),
            ("JSON", json, Value::Blob(vec![1]), text(r#"{"hex":"01"}"#)),
            ("BLOB", Spelling::None, text("X'00'"), text("X'00'")),
            (
                "TEXT",
                Spelling::None,
                Value::Blob(vec![1]),
                Value::Blob(vec![1]),
            ),
        ] {
            let mut value = found.clone();
            super::read(Affinity::of(declared, true), &mut value, spelling);
            assert_eq!(value, read, "{declared} {spelling:?} {found:?}");
        }
    }
}
