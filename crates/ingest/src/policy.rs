//! What an INSERT does on a conflict, and how the log stores that.
//!
//! The note of a table in the log is a byte, the version of the note, 1. Then follows `abort`,
//! `ignore`, `replace`, or `update` and the columns, each after a zero byte.

use crate::error::refused;
use crate::names::{between_commas, unquoted};
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
        let columns = between_commas(inner.unwrap_or_default());
        let columns: Vec<String> = columns.into_iter().map(unquoted).collect();
        if inner.is_none() || columns.iter().any(String::is_empty) {
            return Err(refused(format!(
                "on_conflict={bare}: use abort, ignore, replace or 'update(column, …)'"
            )));
        }
        Ok(OnConflict::Update(columns))
    }

    /// The option as [`OnConflict::parse`] takes it.
    pub(crate) fn sql(&self) -> String {
        match self {
            OnConflict::Abort => "abort".to_owned(),
            OnConflict::Ignore => "ignore".to_owned(),
            OnConflict::Replace => "replace".to_owned(),
            OnConflict::Update(columns) => {
                let columns: Vec<String> = columns.iter().map(|c| quoted(c)).collect();
                format!("'update({})'", columns.join(", ").replace('\'', "''"))
            }
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
        };
        out.extend_from_slice(word);
        if let OnConflict::Update(columns) = self {
            for column in columns {
                out.push(0);
                out.extend_from_slice(column.as_bytes());
            }
        }
        out
    }

    /// Decodes a note of the log; `None` if a newer program wrote it.
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
        ] {
            let policy = OnConflict::parse(text).expect(text);
            assert_eq!(OnConflict::parse(&policy.sql()).as_ref(), Ok(&policy));
            assert_eq!(OnConflict::of_note(&policy.note()), Some(policy));
        }
        for text in ["", "fail", "update", "update()", "update(a,)"] {
            assert!(OnConflict::parse(text).is_err(), "{text}");
        }
        assert_eq!(OnConflict::of_note(b"\x02abort"), None);
    }
}
