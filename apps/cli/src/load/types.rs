//! The types of the columns of a table that is created for a CSV file.
//!
//! A column is INTEGER or REAL only if its numbers come back with the same digits: "007" is text,
//! and so is a number of more than 15 digits with a fraction. "-0" is REAL, as it is in JSON. The
//! rows that fit into memory decide; a later row that does not fit is an error. Among numbers, the
//! words for infinity are numbers. A column of `X'00FF'` alone is one of blobs. Empty fields of a
//! column of numbers or blobs are NULL.

use super::spelled::{infinity, literal};
use super::{Bad, Column, Row, shown};
use crate::args::Types;
use rusqlite::types::Value;

/// The most digits that every floating-point number keeps.
const DIGITS: usize = 15;

/// A type of a column, from the most special one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Integer,
    Real,
    Blob,
    Text,
}

/// The types of the columns of a new table.
#[derive(Debug, Default)]
pub(crate) struct Decided(Vec<Choice>);

/// The type of a column.
#[derive(Debug, Clone, Copy)]
struct Choice {
    of: Type,
    /// The user named it, so only values that it does not have at all are errors.
    is_given: bool,
}

impl Choice {
    /// Whether the field keeps its digits.
    fn fits(self, text: &str) -> bool {
        match (self.of, Type::of(text)) {
            _ if self.is_given || text.is_empty() => true,
            (Type::Blob, found) => found == Type::Blob,
            (Type::Integer | Type::Real, _) if infinity(text).is_some() => true,
            (Type::Real, Type::Integer) => text.trim_start_matches('-').len() <= DIGITS,
            (decided, found) => found <= decided,
        }
    }
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Integer => "INTEGER",
            Type::Real => "REAL",
            Type::Blob => "BLOB",
            Type::Text => "TEXT",
        }
    }

    /// The most special type of a field that is not empty.
    fn of(text: &str) -> Type {
        if literal(text).is_some() {
            return Type::Blob;
        }
        if text.parse::<i64>().is_ok_and(|n| n.to_string() == text) {
            return Type::Integer;
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (digits, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let is_number = !whole.is_empty()
            && is_digits(whole)
            && is_digits(fraction)
            && (whole == "0" || !whole.starts_with('0'))
            && whole.len() + fraction.len() <= DIGITS
            // Digits alone that are no integer are too long. Only a float can be "-0".
            && (mantissa.contains('.') || exponent.is_some() || text == "-0");
        match is_number && text.parse::<f64>().is_ok_and(f64::is_finite) {
            true => Type::Real,
            false => Type::Text,
        }
    }

    /// The field as a value of the type; `None` if it would lose digits.
    fn value(self, text: &str) -> Option<Value> {
        match self {
            Type::Text => Some(Value::Text(text.to_owned())),
            _ if text.is_empty() => Some(Value::Null),
            Type::Integer | Type::Real if infinity(text).is_some() => {
                infinity(text).map(Value::Real)
            }
            Type::Integer => text.parse().ok().map(Value::Integer),
            Type::Real => text
                .parse()
                .ok()
                .filter(|x: &f64| x.is_finite())
                .map(Value::Real),
            Type::Blob => literal(text).map(Value::Blob),
        }
    }
}

impl Decided {
    /// Decides the types of columns that are text by their rows, and names them in `columns`.
    pub(crate) fn new(types: &Types, columns: &mut [Column], rows: &[Row]) -> Result<Decided, Bad> {
        let Types::Auto(given) = types else {
            return Ok(Decided::default());
        };
        let unknown = given
            .iter()
            .find(|(name, _)| !columns.iter().any(|c| c.name.eq_ignore_ascii_case(name)));
        if let Some((name, _)) = unknown {
            let bad = Bad::file("is not a column of the file; check --types");
            return Err(bad.with(name, None));
        }
        let decide = |(i, column): (usize, &mut Column)| {
            let named = given
                .iter()
                .find(|(name, _)| column.name.eq_ignore_ascii_case(name));
            let texts = || {
                rows.iter().filter_map(|row| match row.values.get(i) {
                    Some(Some(Value::Text(text))) if !text.is_empty() => Some(text),
                    _ => None,
                })
            };
            let of = match named {
                Some((_, "INTEGER")) => Type::Integer,
                Some((_, "REAL")) => Type::Real,
                Some(_) => Type::Text,
                None => texts()
                    .filter(|text| infinity(text).is_none())
                    .map(|text| Type::of(text))
                    .max()
                    .unwrap_or(Type::Text),
            };
            let mut choice = Choice {
                of,
                is_given: named.is_some(),
            };
            if !texts().all(|text| choice.fits(text)) {
                choice.of = Type::Text;
            }
            column.declared = match choice.of {
                Type::Integer if texts().any(|text| infinity(text).is_some()) => "NUMERIC",
                of => of.name(),
            };
            choice
        };
        let columns = columns.iter_mut().enumerate();
        Ok(Decided(columns.map(decide).collect()))
    }

    /// Converts the fields of a row.
    pub(crate) fn convert(&self, row: &mut Row, columns: &[Column]) -> Result<(), Bad> {
        for ((value, decided), column) in row.values.iter_mut().zip(&self.0).zip(columns) {
            let Some(Value::Text(text)) = value else {
                continue;
            };
            let fits = decided.fits(text);
            let converted = decided.of.value(text).filter(|_| fits);
            let Some(converted) = converted else {
                let problem = format!(
                    "does not fit the type {} of the new table's column; give --types {}=TEXT, or --types text",
                    decided.of.name(),
                    column.name
                );
                let text = shown(&Value::Text(text.clone()));
                return Err(Bad::row(row.at, problem).with(&column.name, Some(text)));
            };
            *value = Some(converted);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_keep_their_digits_are_numbers() {
        for (text, found) in [
            ("0", Type::Integer),
            ("-12", Type::Integer),
            ("9223372036854775807", Type::Integer),
            ("1.50", Type::Real),
            ("-0.5", Type::Real),
            ("2e10", Type::Real),
            ("1E-3", Type::Real),
            ("007", Type::Text),
            ("+1", Type::Text),
            ("-0", Type::Real),
            ("-0.0", Type::Real),
            ("-00", Type::Text),
            ("00.5", Type::Text),
            (".5", Type::Text),
            ("1.", Type::Real),
            ("9223372036854775808", Type::Text),
            ("3.14159265358979323", Type::Text),
            ("1e999", Type::Text),
            ("NaN", Type::Text),
            ("inf", Type::Text),
            ("X'00FF'", Type::Blob),
            ("X'00F'", Type::Text),
            ("1 ", Type::Text),
            ("2024-02-29", Type::Text),
        ] {
            assert_eq!(Type::of(text), found, "{text}");
        }
    }
}
