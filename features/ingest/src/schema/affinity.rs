//! Column affinity, applied before a value is logged (rule L5): the log holds what the table would
//! hold.
//!
//! SQLite does not apply affinity to values that a virtual table is given. Conversions that depend
//! on SQLite's reading or printing of numbers are done by SQLite (`CAST`).

use densite_log as log;
use densite_sqlite::{Connection, Result, Value, ValueRef};

/// The affinity of a column (<https://www.sqlite.org/datatype3.html>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// BLOB, or none.
    Blob,
    /// TEXT.
    Text,
    /// NUMERIC.
    Numeric,
    /// INTEGER.
    Integer,
    /// REAL.
    Real,
}

/// A value with its affinity applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'a> {
    Same(ValueRef<'a>),
    Other(Value),
}

impl Cell<'_> {
    pub(crate) fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Cell::Same(value) => *value,
            Cell::Other(value) => value.as_ref(),
        }
    }
}

/// Converts a value for the log.
pub(crate) fn to_log(value: ValueRef<'_>) -> log::Value<'_> {
    match value {
        ValueRef::Null => log::Value::Null,
        ValueRef::Integer(n) => log::Value::Int(n),
        ValueRef::Real(x) => log::Value::Real(x),
        ValueRef::Text(b) => log::Value::Text(b),
        ValueRef::Blob(b) => log::Value::Blob(b),
    }
}

/// Converts a value from the log.
pub(crate) fn from_log(value: log::Value<'_>) -> ValueRef<'_> {
    match value {
        log::Value::Null => ValueRef::Null,
        log::Value::Int(n) => ValueRef::Integer(n),
        log::Value::Real(x) => ValueRef::Real(x),
        log::Value::Text(b) => ValueRef::Text(b),
        log::Value::Blob(b) => ValueRef::Blob(b),
    }
}

impl Affinity {
    /// The affinity of a declared type. In a STRICT table ANY has no affinity.
    pub fn of(declared: &str, strict: bool) -> Affinity {
        let upper = declared.to_ascii_uppercase();
        let has = |part: &str| upper.contains(part);
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if has("BLOB") || upper.is_empty() || (strict && upper == "ANY") {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }

    /// Whether a column of this affinity stores texts that are numbers as numbers.
    pub fn is_numeric(self) -> bool {
        !matches!(self, Affinity::Blob | Affinity::Text)
    }

    /// A declared type with this affinity.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Affinity::Blob => "",
            Affinity::Text => "TEXT",
            Affinity::Numeric => "NUMERIC",
            Affinity::Integer => "INTEGER",
            Affinity::Real => "REAL",
        }
    }

    /// The value as a column of this affinity stores it.
    pub(crate) fn apply<'a>(
        self,
        value: ValueRef<'a>,
        connection: &Connection,
    ) -> Result<Cell<'a>> {
        let cast = |sql: &str| -> Result<Cell<'a>> {
            let mut statement = connection.prepare(sql)?;
            statement.bind_ref(1, value)?;
            statement.step()?;
            Ok(Cell::Other(statement.column(0).to_owned()))
        };
        Ok(match (self, value) {
            (Affinity::Text, ValueRef::Integer(n)) => Cell::Other(Value::Text(n.to_string())),
            (Affinity::Text, ValueRef::Real(_)) => cast("SELECT CAST(?1 AS TEXT)")?,
            (Affinity::Real, ValueRef::Integer(n)) => Cell::Other(Value::Real(n as f64)),
            // SQLite stores it as the integer 0, so it loses its sign.
            (Affinity::Real, ValueRef::Real(0.0)) => Cell::Other(Value::Real(0.0)),
            (Affinity::Real, ValueRef::Text(text)) if is_number(text) => {
                cast("SELECT CAST(?1 AS REAL) + 0.0")?
            }
            (Affinity::Integer | Affinity::Numeric, ValueRef::Real(x)) => match whole(x) {
                Some(n) => Cell::Other(Value::Integer(n)),
                None => Cell::Same(value),
            },
            (Affinity::Integer | Affinity::Numeric, ValueRef::Text(text)) if is_number(text) => {
                cast("SELECT CAST(?1 AS NUMERIC)")?
            }
            _ => Cell::Same(value),
        })
    }
}

/// The integer that a real without fraction becomes.
fn whole(x: f64) -> Option<i64> {
    let n = x as i64;
    (n as f64 == x && n > i64::MIN && n < i64::MAX).then_some(n)
}

/// Whether the whole text is a number, with spaces around it allowed. Only then affinity changes
/// it.
fn is_number(text: &[u8]) -> bool {
    let is_space = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
    let from = text.iter().position(|b| !is_space(b)).unwrap_or(text.len());
    let to = text
        .iter()
        .rposition(|b| !is_space(b))
        .map_or(from, |i| i + 1);
    let text = text.get(from..to).unwrap_or_default();
    let digits = |t: &[u8]| t.iter().take_while(|b| b.is_ascii_digit()).count();
    let after = |t: &[u8], n: usize| t.get(n..).unwrap_or_default().to_vec();
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let mut rest = after(text, sign);
    let mut n = digits(&rest);
    rest = after(&rest, n);
    if rest.first() == Some(&b'.') {
        let fraction = digits(&after(&rest, 1));
        n += fraction;
        rest = after(&rest, 1 + fraction);
    }
    if n == 0 {
        return false;
    }
    if let Some(b'e' | b'E') = rest.first() {
        rest = after(&rest, 1);
        let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
        rest = after(&rest, sign);
        let exponent = digits(&rest);
        if exponent == 0 {
            return false;
        }
        rest = after(&rest, exponent);
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_numbers() {
        for yes in ["1", " 12 ", "-1.5", ".5", "5.", "1e3", "+1E-2\n"] {
            assert!(is_number(yes.as_bytes()), "{yes:?}");
        }
        for no in ["", " ", "x", "1x", "1e", "0x10", ".", "1 2", "e5", "--1"] {
            assert!(!is_number(no.as_bytes()), "{no:?}");
        }
    }

    #[test]
    fn declared_types() {
        for (declared, affinity) in [
            ("INTEGER", Affinity::Integer),
            ("CHARINT", Affinity::Integer),
            ("VARCHAR(9)", Affinity::Text),
            ("", Affinity::Blob),
            ("DOUBLE PRECISION", Affinity::Real),
            ("DECIMAL(1,2)", Affinity::Numeric),
            ("ANY", Affinity::Numeric),
        ] {
            assert_eq!(Affinity::of(declared, false), affinity, "{declared}");
        }
        assert_eq!(Affinity::of("ANY", true), Affinity::Blob);
    }
}
