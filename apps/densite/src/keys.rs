//! The table `keys` of a query: columns of the caller, in front of the statement's own tables.
//!
//! It is a common table expression over `densite_columns`, so it needs no write to any schema. It
//! is not materialized, so SQLite looks each key up in the index of the table that it joins.

use crate::insert::list;
use crate::set::Registered;
use crate::{Columns, Error, Result};
use densite_bulk::{Collation, SortKey, queries::explained};
use densite_sqlite::{CompileError, quoted};

/// A statement with a table of keys.
pub(crate) struct Keyed {
    sql: String,
    /// Where the table was inserted into the caller's statement, in bytes.
    at: usize,
    keys: Registered,
}

impl Keyed {
    /// Sorts the keys and puts their table into a statement.
    pub(crate) fn new(sql: &str, keys: Columns) -> Result<Keyed> {
        let keys = Registered::new(keys)?;
        check(keys.names())?;
        // A join then reads an index from one end to the other.
        let ascending = (0..keys.names().len()).map(|column| SortKey {
            column,
            descending: false,
            collation: Collation::Binary,
        });
        keys.sort(&ascending.collect::<Vec<_>>())?;
        let table = format!(
            "keys({}) AS NOT MATERIALIZED (SELECT {} FROM {})",
            list(keys.names().iter().map(|name| quoted(name))),
            list((0..keys.names().len()).map(|i| format!("c{i}"))),
            keys.table()
        );
        let at = after_with(sql);
        let (with, rest) = sql.split_at(at.unwrap_or(0));
        let sql = match at {
            Some(_) => format!("{with} {table}, {rest}"),
            None => format!("WITH {table} {rest}"),
        };
        Ok(Keyed {
            sql,
            at: at.unwrap_or(0),
            keys,
        })
    }

    /// The statement to compile.
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// The keys, which a statement reads until its end.
    pub(crate) fn into_keys(self) -> Registered {
        self.keys
    }

    /// The error of a statement that does not compile, in terms of the caller's statement `own`.
    pub(crate) fn explain(&self, error: rusqlite::Error, own: &str) -> rusqlite::Error {
        let explain = |message: String| explained(message, self.keys.names());
        match error {
            rusqlite::Error::SqlInputError {
                error, msg, offset, ..
            } if !lacks_densite(&msg) => rusqlite::Error::SqlInputError {
                error,
                msg: explain(msg),
                sql: own.to_owned(),
                offset: self.own_offset(offset, own),
            },
            rusqlite::Error::SqliteFailure(code, Some(message)) => {
                rusqlite::Error::SqliteFailure(code, Some(explain(message)))
            }
            other => other,
        }
    }

    /// An offset into the caller's statement.
    fn own_offset(&self, offset: i32, own: &str) -> i32 {
        let inserted = self.sql.len().saturating_sub(own.len());
        let Ok(at) = usize::try_from(offset) else {
            return offset;
        };
        let own = match at > self.at {
            true => at.saturating_sub(inserted).max(self.at),
            false => at,
        };
        i32::try_from(own).unwrap_or(offset)
    }
}

/// Whether the connection does not have the table of columns.
fn lacks_densite(message: &str) -> bool {
    matches!(CompileError::of(message), Some(CompileError::NoTable(name)) if name.starts_with("densite_columns"))
}

fn check(names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Err(Error::Columns(
            "keys has no columns; add one, also if it has no rows".to_owned(),
        ));
    }
    for (i, name) in names.iter().enumerate() {
        let mut before = names.iter().take(i);
        if before.any(|known| known.eq_ignore_ascii_case(name)) {
            return Err(Error::Columns(format!(
                "keys has a column twice: {}; give it once",
                names.join(", ")
            )));
        }
    }
    Ok(())
}

/// The end of `WITH` or `WITH RECURSIVE` at the beginning of a statement.
fn after_with(sql: &str) -> Option<usize> {
    let with = after_word(sql, after_blank(sql, 0), "WITH")?;
    Some(after_word(sql, after_blank(sql, with), "RECURSIVE").unwrap_or(with))
}

/// The end of spaces and comments.
fn after_blank(sql: &str, mut at: usize) -> usize {
    loop {
        let rest = sql.get(at..).unwrap_or_default();
        let end = if rest.starts_with("--") {
            rest.find('\n').map_or(rest.len(), |end| end + 1)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else {
            rest.len()
                - rest
                    .trim_start_matches([' ', '\t', '\n', '\r', '\x0c'])
                    .len()
        };
        if end == 0 {
            return at;
        }
        at += end;
    }
}

/// The end of a word, if the text has it at this place, in any case.
fn after_word(sql: &str, at: usize, word: &str) -> Option<usize> {
    let end = at + word.len();
    let has = sql.get(at..end)?.eq_ignore_ascii_case(word);
    // SQLite's names continue with these, and with every byte beyond ASCII.
    let continues = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    let is_whole = !sql.get(end..)?.starts_with(continues);
    (has && is_whole).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_first_in_a_with_clause() {
        let with =
            |sql: &str| after_with(sql).map(|at| sql.get(at..).expect("a boundary").to_owned());
        assert_eq!(
            with("WITH x AS (SELECT 1) SELECT 2").as_deref(),
            Some(" x AS (SELECT 1) SELECT 2")
        );
        let commented = " -- WITH\n /* and\n more */ with/**/recursive n(n) AS";
        assert_eq!(with(commented).as_deref(), Some(" n(n) AS"));
        assert_eq!(
            with("WITH recursively AS").as_deref(),
            Some(" recursively AS")
        );
        assert_eq!(with("with\"x\" AS").as_deref(), Some("\"x\" AS"));
        for none in [
            "SELECT 1",
            "",
            "WITHx",
            "withü",
            "-- WITH",
            "/* WITH",
            "WIT",
            "SELECT 'WITH '",
        ] {
            assert_eq!(with(none), None, "{none}");
        }
    }

    #[test]
    fn a_join_looks_each_key_up_in_the_index() {
        let dir = tempfile::tempdir().expect("a directory");
        let con = crate::open(dir.path().join("app.db")).expect("opens");
        con.execute_batch("CREATE TABLE t(a, b, val, PRIMARY KEY (a, b)) WITHOUT ROWID")
            .expect("a table");
        let keys = Columns::new().integers("a", [1]).integers("b", [2]);
        for from in ["keys k JOIN t USING (a, b)", "t JOIN keys k USING (a, b)"] {
            let sql = format!("SELECT k.a, k.b, t.val FROM {from}");
            let keyed = Keyed::new(&sql, keys.clone()).expect("keys");
            let plan = format!("EXPLAIN QUERY PLAN {}", keyed.sql());
            let mut plan = con.prepare(&plan).expect("compiles");
            let steps = plan.query_map([], |row| row.get("detail")).expect("a plan");
            let steps: Vec<String> = steps.map(|step| step.expect("a step")).collect();
            let [first, second] = steps.as_slice() else {
                panic!("{steps:?}")
            };
            assert!(first.starts_with("SCAN densite_columns_few"), "{first}");
            assert_eq!(second, "SEARCH t USING PRIMARY KEY (a=? AND b=?)");
        }
    }
}
