//! The order of a table's key, close to SQLite's. It only has to put rows together that are near in
//! the table.

use rusqlite::types::Value;

/// A value of a key. Text that looks like a number counts as a number, because a column can convert
/// it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Null,
    /// The number as a float, in the order of its bits; then the exact value if it is an integer.
    Number(i64, i64),
    Text(String),
    Blob(Vec<u8>),
}

/// Converts a float to an integer with the same order.
fn ordered(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl Part {
    pub(super) fn of(value: Option<&Value>) -> Part {
        let integer = |n: i64| Part::Number(ordered(n as f64), n);
        match value {
            None | Some(Value::Null) => Part::Null,
            // SQLite stores NaN as NULL.
            Some(Value::Real(x)) if x.is_nan() => Part::Null,
            Some(Value::Integer(n)) => integer(*n),
            Some(Value::Real(x)) => Part::Number(ordered(*x), 0),
            Some(Value::Text(text)) => match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(n), _) => integer(n),
                (_, Ok(x)) => Part::Number(ordered(x), 0),
                _ => Part::Text(text.clone()),
            },
            Some(Value::Blob(bytes)) => Part::Blob(bytes.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_sqlite_orders() {
        let values = [
            Value::Null,
            Value::Real(-1e300),
            Value::Text("-10".into()),
            Value::Integer(-2),
            Value::Real(-0.5),
            Value::Real(1.5),
            Value::Integer(2),
            Value::Text("10".into()),
            Value::Integer(i64::MAX - 1),
            Value::Integer(i64::MAX),
            Value::Text("a".into()),
            Value::Blob(vec![0]),
        ];
        let parts: Vec<Part> = values.iter().map(|v| Part::of(Some(v))).collect();
        assert!(parts.is_sorted_by(|a, b| a < b), "{parts:?}");
        assert_eq!(Part::of(Some(&Value::Real(f64::NAN))), Part::Null);
    }
}
