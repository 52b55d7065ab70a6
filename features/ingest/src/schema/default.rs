//! The default value of a column, as the schema declares it.

use crate::schema::affinity::Affinity;
use crate::schema::names::{in_quotes, quoted_name};
use densite_sqlite::{Connection, Result, Value};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Default {
    /// The value as the column stores it.
    Constant(Value),
    /// An expression that is evaluated for each row.
    Expression(String),
}

impl Default {
    /// Reads a default from the schema, which no longer shows whether it was in parentheses. `None`
    /// for NULL.
    pub(crate) fn read(
        connection: &Connection,
        sql: &str,
        affinity: Affinity,
    ) -> Result<Option<Default>> {
        let sql = sql.trim();
        if sql.eq_ignore_ascii_case("null") {
            return Ok(None);
        }
        let value = match text(sql) {
            Some(text) => Value::Text(text),
            None if is_literal(sql) => evaluated(connection, sql)?,
            None => return Ok(Some(Default::Expression(sql.to_owned()))),
        };
        let cell = affinity.apply(value.as_ref(), connection)?;
        Ok(Some(Default::Constant(cell.as_ref().to_owned())))
    }
}

/// The value of an expression without references.
pub(crate) fn evaluated(connection: &Connection, sql: &str) -> Result<Value> {
    let row = connection.query_row(&format!("SELECT {sql}"), &[])?;
    Ok(row.and_then(|mut r| r.pop()).unwrap_or(Value::Null))
}

/// A text in any quotes. Or a bare word, which SQLite takes as text: no expression consists of one
/// word.
fn text(sql: &str) -> Option<String> {
    const MEANT: [&str; 5] = [
        "true",
        "false",
        "current_date",
        "current_time",
        "current_timestamp",
    ];
    let is_of_a_word =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let is_word = !sql.is_empty()
        && !sql.starts_with(|c: char| c.is_ascii_digit())
        && sql.chars().all(is_of_a_word)
        && !MEANT.iter().any(|m| sql.eq_ignore_ascii_case(m));
    quoted_name(sql).or_else(|| is_word.then(|| sql.to_owned()))
}

/// Whether this is a single number, text or blob, with an optional sign. An expression can begin
/// like one.
fn is_literal(sql: &str) -> bool {
    let sql = sql.trim_start_matches(|c: char| matches!(c, '+' | '-') || c.is_ascii_whitespace());
    let blob = sql.strip_prefix(['x', 'X']).unwrap_or(sql);
    if blob.starts_with('\'') {
        return in_quotes(blob, '\'').is_some();
    }
    let is_hex = sql.get(..2).is_some_and(|s| s.eq_ignore_ascii_case("0x"));
    let is_of_a_number = |(i, c): (usize, char)| {
        let exponent = || sql.get(..i).is_some_and(|s| s.ends_with(['e', 'E']));
        c.is_ascii_alphanumeric() || c == '.' || (matches!(c, '+' | '-') && !is_hex && exponent())
    };
    sql.starts_with(|c: char| c == '.' || c.is_ascii_digit())
        && sql.char_indices().all(is_of_a_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_expressions() {
        for yes in [
            "1", "-1", "- 1", "+.5", "1e5", "1E-5", "0xfe", "'a'", "-'5'", "x'00'", "''",
        ] {
            assert!(
                is_literal(yes) && text(yes).is_none_or(|_| yes.ends_with('\'')),
                "{yes}"
            );
        }
        for no in [
            "1 + 1",
            "1+1",
            "0xe+1",
            "'a' || 'b'",
            "x'00' || x'01'",
            "random()",
            "(1)",
            "1 /* */",
            "-a",
            "",
            "1e1+1",
        ] {
            assert!(!is_literal(no) && text(no).is_none(), "{no}");
        }
        for word in ["a", "Ab_9", "é", "rowid", "\"a\"", "[a b]", "`a`"] {
            assert!(text(word).is_some(), "{word}");
        }
        for no in ["TRUE", "current_date", "9", "a b", "a()", "\"a\" || \"b\""] {
            assert!(text(no).is_none(), "{no}");
        }
    }
}
