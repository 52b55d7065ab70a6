//! What an INSERT does on a conflict, and how the log stores that.
//!
//! The note of a table in the log is a byte, the version of the note, 1. Then follows `abort`,
//! `ignore`, `replace`, `update` or `set`. After `update` come the columns, after `set` the
//! condition, which can be empty, and then columns and expressions in turn; each after a zero byte.

use crate::error::refused;
use crate::schema::expression;
use crate::schema::names::{between_commas, unquoted};
use densite_sqlite::{Result, quoted};

const VERSION: u8 = 1;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// The new row is rejected.
    Abort,
    /// The new row is dropped.
    Ignore,
    /// The old row is deleted.
    Replace,
    /// These columns of the old row get the values of the new row.
    Update(Vec<String>),
    /// Columns of the old row get the values of expressions.
    Set(Upsert),
}

/// As `DO UPDATE SET … WHERE …` of SQLite: expressions of the columns of the old row, and of the new
/// row as `excluded`. All were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upsert {
    /// Columns and expressions.
    pub(crate) set: Vec<(String, String)>,
    /// The old row stays as it is unless this is true.
    pub(crate) only_if: Option<String>,
}

impl Upsert {
    /// Parses what stands in the parentheses. The error says what is wrong.
    fn parse(text: &str) -> std::result::Result<Upsert, String> {
        let checked = |text: &str| expression::check(text).map(|()| text.trim().to_owned());
        let (assignments, only_if) = expression::condition(text);
        let parts = between_commas(assignments).into_iter();
        // An update of the log can have a condition alone.
        let has_none = only_if.is_some() && assignments.trim().is_empty();
        let set = parts.filter(|_| !has_none).map(|part| {
            let (name, value) = match expression::assignment(part) {
                Some((name, value)) => (unquoted(name), checked(value)?),
                None => {
                    let name = unquoted(part);
                    let value = format!("excluded.{}", quoted(&name));
                    (name, value)
                }
            };
            match name.is_empty() {
                true => Err("the name of a column is missing".to_owned()),
                false => Ok((name, value)),
            }
        });
        Ok(Upsert {
            set: set.collect::<std::result::Result<_, String>>()?,
            only_if: only_if.map(checked).transpose()?,
        })
    }

    /// The SQL after `DO UPDATE SET`.
    pub(crate) fn sql(&self) -> String {
        let set: Vec<String> = (self.set.iter())
            .map(|(name, value)| format!("{} = {value}", quoted(name)))
            .collect();
        let only_if = self.only_if.as_ref();
        let only_if = only_if.map_or(String::new(), |text| format!(" WHERE {text}"));
        format!("{}{only_if}", set.join(", "))
    }
}

impl OnConflict {
    /// Parses the option of `CREATE VIRTUAL TABLE`.
    pub(crate) fn parse(text: &str) -> Result<OnConflict> {
        let bare = unquoted(text);
        let bare = bare.trim();
        let lower = bare.to_ascii_lowercase();
        match lower.as_str() {
            "abort" => return Ok(OnConflict::Abort),
            "ignore" => return Ok(OnConflict::Ignore),
            "replace" => return Ok(OnConflict::Replace),
            _ => {}
        }
        let inner = bare
            .get("update".len()..)
            .filter(|_| lower.starts_with("update"))
            .and_then(|rest| rest.trim().strip_prefix('('))
            .and_then(|rest| rest.strip_suffix(')'));
        let wrong = |why: &str| {
            refused(format!(
                "on_conflict={bare}: {why}use abort, ignore, replace, 'update(column, …)' or 'update(column = expression, …)'"
            ))
        };
        let inner = inner.ok_or_else(|| wrong(""))?;
        let upsert = Upsert::parse(inner).map_err(|why| wrong(&format!("{why}; ")))?;
        let is_copy =
            |(name, value): &(String, String)| *value == format!("excluded.{}", quoted(name));
        if upsert.only_if.is_none() && upsert.set.iter().all(is_copy) {
            let columns = upsert.set.into_iter().map(|(name, _)| name);
            return Ok(OnConflict::Update(columns.collect()));
        }
        Ok(OnConflict::Set(upsert))
    }

    /// The policy as text, which [`OnConflict::parse`] takes.
    pub(crate) fn text(&self) -> String {
        match self {
            OnConflict::Abort => "abort".to_owned(),
            OnConflict::Ignore => "ignore".to_owned(),
            OnConflict::Replace => "replace".to_owned(),
            OnConflict::Update(columns) => {
                let columns: Vec<String> = columns.iter().map(|c| quoted(c)).collect();
                format!("update({})", columns.join(", "))
            }
            OnConflict::Set(upsert) => format!("update({})", upsert.sql()),
        }
    }

    /// Encodes the note of the log.
    pub(crate) fn note(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let word: &[u8] = match self {
            OnConflict::Abort => b"abort",
            OnConflict::Ignore => b"ignore",
            OnConflict::Replace => b"replace",
            OnConflict::Update(_) => b"update",
            OnConflict::Set(_) => b"set",
        };
        out.extend_from_slice(word);
        let mut add = |part: &str| {
            out.push(0);
            out.extend_from_slice(part.as_bytes());
        };
        match self {
            OnConflict::Update(columns) => columns.iter().for_each(|column| add(column)),
            OnConflict::Set(Upsert { set, only_if }) => {
                add(only_if.as_deref().unwrap_or_default());
                for (name, value) in set {
                    add(name);
                    add(value);
                }
            }
            _ => {}
        }
        out
    }

    /// Decodes a note of the log; `None` if a newer program wrote it, or one that does not check
    /// expressions.
    pub(crate) fn of_note(note: &[u8]) -> Option<OnConflict> {
        let (version, rest) = note.split_first()?;
        let mut parts = rest.split(|b| *b == 0);
        let word = parts.next()?;
        let columns: Option<Vec<String>> =
            parts.map(|c| String::from_utf8(c.to_vec()).ok()).collect();
        match (*version, word) {
            (VERSION, b"abort") => Some(OnConflict::Abort),
            (VERSION, b"ignore") => Some(OnConflict::Ignore),
            (VERSION, b"replace") => Some(OnConflict::Replace),
            (VERSION, b"update") => Some(OnConflict::Update(columns?)),
            (VERSION, b"set") => {
                let parts = columns?;
                let (only_if, set) = parts.split_first()?;
                let only_if = (!only_if.is_empty()).then(|| only_if.clone());
                let pairs = set.chunks_exact(2);
                let is_whole = pairs.remainder().is_empty();
                let pair = |pair: &[String]| Some((pair.first()?.clone(), pair.get(1)?.clone()));
                let set: Vec<(String, String)> = pairs.map(pair).collect::<Option<_>>()?;
                let texts = set.iter().map(|(_, value)| value).chain(&only_if);
                let is_safe = texts
                    .into_iter()
                    .all(|text| expression::check(text).is_ok());
                (is_whole && is_safe).then_some(OnConflict::Set(Upsert { set, only_if }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_survive_parsing_and_encoding() {
        for text in [
            "abort",
            "IGNORE",
            "'replace'",
            "update(a)",
            "'update(a, \"b c\")'",
            "'update(\"b, c\", [d)], \"it''s\")'",
            "'update(n = n + excluded.n, at = max(at, excluded.at), b)'",
            "update(\"a, b\" = 'it''s' WHERE excluded.n > n)",
        ] {
            let policy = OnConflict::parse(text).expect(text);
            assert_eq!(OnConflict::parse(&policy.text()).as_ref(), Ok(&policy));
            assert_eq!(OnConflict::of_note(&policy.note()), Some(policy));
        }
        for text in [
            "",
            "fail",
            "update",
            "update()",
            "update(a,)",
            "update(a = random())",
            "update(= 1)",
            "update(a WHERE)",
        ] {
            assert!(OnConflict::parse(text).is_err(), "{text}");
        }
        assert_eq!(OnConflict::of_note(b"\x02abort"), None);
        for note in ["set", "set\0\0a", "set\0\0a\0(SELECT 1)", "set\0;\0a\0n"] {
            let note = [b"\x01", note.as_bytes()].concat();
            assert_eq!(OnConflict::of_note(&note), None);
        }
    }
}
