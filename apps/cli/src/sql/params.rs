//! Values of the parameters of statements.
//!
//! A name stands for `:name`, `@name` and `$name`; a number stands for `?1` and for the first `?`.

use super::failure::other;
use crate::failure::Failure;
use rusqlite::types::Value;
use rusqlite::{Connection, Statement};
use std::collections::BTreeMap;

/// Parameters by name, without their sign.
#[derive(Debug, Default)]
pub(crate) struct Params(BTreeMap<String, Value>);

/// The name without its sign.
fn bare(name: &str) -> &str {
    name.strip_prefix([':', '@', '$', '?']).unwrap_or(name)
}

/// The value of a text on the command line: a number if it is one, otherwise the text. It is never
/// SQL, because a script can pass on what a user typed.
fn of_text(text: &str) -> Value {
    let is_plain = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    if let Ok(n) = text.parse::<i64>()
        && n.to_string() == text
    {
        return Value::Integer(n);
    }
    // No "inf" and "nan", and no numbers like 007, whose zeros would be lost.
    let digits = text.trim_start_matches('-');
    let has_zeros = digits.starts_with('0') && !digits.starts_with("0.");
    match text.parse::<f64>() {
        Ok(x)
            if x.is_finite()
                && !has_zeros
                && text.chars().all(is_plain)
                && text.contains(['.', 'e', 'E']) =>
        {
            Value::Real(x)
        }
        _ => Value::Text(text.to_owned()),
    }
}

impl Params {
    pub(crate) fn new(pairs: &[(String, String)]) -> Params {
        let own = |(name, value): &(String, String)| (bare(name).to_owned(), of_text(value));
        Params(pairs.iter().map(own).collect())
    }

    /// Sets a parameter to the value of an SQL expression, or to the text if it is none, as the
    /// sqlite3 shell does.
    pub(crate) fn set(&mut self, name: &str, text: &str, db: &Connection) {
        let value = db.query_row(&format!("SELECT {text}"), [], |row| row.get(0));
        let value = value.unwrap_or_else(|_| Value::Text(text.to_owned()));
        self.0.insert(bare(name).to_owned(), value);
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.0.remove(bare(name));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Names and values, in order.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Binds the parameters of a statement.
    ///
    /// # Errors
    /// If a parameter has no value.
    pub(crate) fn bind(
        &self,
        statement: &mut Statement<'_>,
    ) -> Result<Result<(), Failure>, rusqlite::Error> {
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).map(str::to_owned);
            let key = name
                .as_deref()
                .map_or_else(|| index.to_string(), |name| bare(name).to_owned());
            match self.0.get(&key) {
                Some(value) => statement.raw_bind_parameter(index, value)?,
                None => {
                    let shown = name.unwrap_or_else(|| format!("?{index}"));
                    return Ok(Err(other(format!(
                        "the parameter {shown} has no value; give --param {key}=VALUE, or type .parameter set {key} VALUE"
                    ))));
                }
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_the_rest_is_text() {
        for (text, value) in [
            ("5", Value::Integer(5)),
            ("-5", Value::Integer(-5)),
            ("2.5", Value::Real(2.5)),
            ("1e3", Value::Real(1e3)),
            ("007", Value::Text("007".into())),
            ("+5", Value::Text("+5".into())),
            ("inf", Value::Text("inf".into())),
            ("", Value::Text(String::new())),
            ("(SELECT 1)", Value::Text("(SELECT 1)".into())),
            (
                "99999999999999999999",
                Value::Text("99999999999999999999".into()),
            ),
        ] {
            assert_eq!(of_text(text), value, "{text}");
        }
    }
}
