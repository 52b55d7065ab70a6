//! Values as SQL.

use rusqlite::types::ValueRef;

/// A value as an SQL literal that keeps every bit of it.
pub(crate) fn literal(value: ValueRef<'_>) -> String {
    let hex = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
        format!("X'{digits}'")
    };
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) if x.is_finite() => format!("{x:?}"),
        ValueRef::Real(x) => if x > 0.0 { "9e999" } else { "-9e999" }.to_owned(),
        ValueRef::Blob(bytes) => hex(bytes),
        // SQLite stops reading SQL at a zero byte, and has no text for bytes that are not UTF-8.
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => format!("'{}'", text.replace('\'', "''")),
            _ => format!("CAST({} AS TEXT)", hex(bytes)),
        },
    }
}
