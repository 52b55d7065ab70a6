//! Completion: dot commands and their files, keywords, and the names of the schema.

use super::keywords::KEYWORDS;
use crate::args::Format;
use crate::shell::dot::COMMANDS;
use crate::sql::open::BUSY_TIMEOUT;
use clap::ValueEnum;
use densite_sqlite::quoted;
use rusqlite::Connection;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Commands whose argument is a file.
const FILES: [&str; 7] = [
    ".read", ".output", ".once", ".import", ".open", ".backup", ".save",
];

/// The names of tables, views and columns.
const NAMES: &str = "
    SELECT name, '' FROM main.sqlite_schema WHERE type IN ('table', 'view')
    UNION SELECT name, '' FROM temp.sqlite_schema WHERE type IN ('table', 'view')
    UNION SELECT c.name, t.name FROM main.sqlite_schema t, pragma_table_xinfo(t.name) c
    WHERE t.type IN ('table', 'view')";

/// What the editor completes.
pub(super) struct Names {
    /// Weak, so that the session alone closes it.
    db: Weak<Connection>,
    files: FilenameCompleter,
}

impl Names {
    pub(super) fn new(db: &Rc<Connection>) -> Names {
        Names {
            db: Rc::downgrade(db),
            files: FilenameCompleter::new(),
        }
    }

    /// Completes the names of another connection from now on.
    pub(super) fn follow(&mut self, db: &Rc<Connection>) {
        self.db = Rc::downgrade(db);
    }

    /// Names with their tables; tables have none. A locked database gives no names: a key must not
    /// wait.
    fn names(&self) -> Vec<(String, String)> {
        let Some(db) = self.db.upgrade() else {
            return Vec::new();
        };
        db.busy_timeout(Duration::ZERO).ok();
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement = db.prepare(NAMES)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        };
        let names = read().unwrap_or_default();
        db.busy_timeout(BUSY_TIMEOUT).ok();
        names
    }

    /// The words that begin with `word`.
    fn words(&self, word: &str) -> BTreeSet<String> {
        let begins = |name: &str, word: &str| {
            let start = name.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        if let Some((table, column)) = word.rsplit_once('.') {
            let of_table = self
                .names()
                .into_iter()
                .filter(|(name, of)| of.eq_ignore_ascii_case(table) && begins(name, column));
            return of_table
                .map(|(name, _)| format!("{table}.{}", written(&name)))
                .collect();
        }
        let is_lower = word.chars().any(|c| c.is_ascii_lowercase());
        let keywords = KEYWORDS
            .iter()
            .filter(|k| begins(k, word))
            .map(|k| match is_lower {
                true => k.to_ascii_lowercase(),
                false => (*k).to_owned(),
            });
        let names = self.names().into_iter().map(|(name, _)| name);
        let names = names
            .filter(|name| begins(name, word))
            .map(|name| written(&name));
        keywords.chain(names).collect()
    }
}

/// A name as SQL writes it.
fn written(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_';
    let begins = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    let is_keyword = KEYWORDS.iter().any(|k| k.eq_ignore_ascii_case(name));
    match begins && name.chars().all(is_plain) && !is_keyword {
        true => name.to_owned(),
        false => quoted(name),
    }
}

fn pairs(words: impl IntoIterator<Item = String>) -> Vec<Pair> {
    let pair = |word: String| Pair {
        display: word.clone(),
        replacement: word,
    };
    words.into_iter().map(pair).collect()
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..pos).unwrap_or_default();
        if let Some(command) = typed.strip_prefix('.') {
            let Some((name, argument)) = typed.split_once(' ') else {
                let names = COMMANDS.iter().filter(|c| c.name.starts_with(command));
                return Ok((0, pairs(names.map(|c| format!(".{} ", c.name)))));
            };
            if FILES.contains(&name) {
                return self.files.complete(line, pos, context);
            }
            if name == ".mode" {
                let modes = Format::value_variants().iter().filter_map(|mode| {
                    let name = mode.to_possible_value()?.get_name().to_owned();
                    name.starts_with(argument).then_some(name)
                });
                return Ok((pos - argument.len(), pairs(modes)));
            }
        }
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let word = typed.trim_start_matches('.').rsplit(|c| !is_part(c)).next();
        let word = word.unwrap_or_default();
        Ok((pos - word.len(), pairs(self.words(word))))
    }
}

impl Hinter for Names {
    type Hint = String;
}
impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}
