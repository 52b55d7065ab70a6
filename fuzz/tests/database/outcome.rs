//! Reads a mutant with SQLite, and compares it with the stored rows.

use super::content::{Content, queries, rows};
use super::kinds::{Kind, open};
use std::path::Path;

/// The outcome of a mutant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All rows, no error.
    Same,
    /// An error. Rows before it and from other tables are right.
    Error,
    /// All rows of an earlier state, in a file that was not closed.
    Earlier,
    /// No table and no error.
    Empty,
    /// Wrong or missing rows, without an error.
    Wrong(String),
}

impl Outcome {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Outcome::Same => "same",
            Outcome::Error => "error",
            Outcome::Earlier => "earlier",
            Outcome::Empty => "empty",
            Outcome::Wrong(_) => "WRONG",
        }
    }
}

/// The rows that were read.
struct Found {
    /// By query: its rows, and whether it ended without an error.
    parts: Vec<(String, Vec<u64>, bool)>,
}

/// Reads everything and compares it with each allowed state.
pub(crate) fn outcome(kind: &Kind, path: &Path) -> Outcome {
    let Ok(con) = open(path) else {
        return Outcome::Error;
    };
    let Ok(queries) = queries(&con) else {
        return Outcome::Error;
    };
    let parts = queries.into_iter().map(|sql| {
        let (hashes, done) = rows(&con, &sql);
        (sql, hashes, done.is_ok())
    });
    let found = Found {
        parts: parts.collect(),
    };
    let whole = found.parts.iter().all(|(.., done)| *done);
    let mut problem = String::new();
    for (age, state) in kind.states.iter().rev().enumerate() {
        match found.compared(state) {
            Ok(()) => {
                return match (whole, age) {
                    (false, _) => Outcome::Error,
                    (true, 0) => Outcome::Same,
                    (true, _) => Outcome::Earlier,
                };
            }
            Err(e) if age == 0 => problem = e,
            Err(_) => {}
        }
    }
    match whole && found.parts.iter().all(|(_, rows, _)| rows.is_empty()) {
        true => Outcome::Empty,
        false => Outcome::Wrong(problem),
    }
}

impl Found {
    /// Checks that the rows do not contradict this state.
    fn compared(&self, state: &Content) -> std::result::Result<(), String> {
        if self.parts.len() != state.len() {
            return Err(format!(
                "{} tables and indexes, not {}",
                self.parts.len(),
                state.len()
            ));
        }
        for ((sql, found, done), (wanted_sql, wanted)) in self.parts.iter().zip(state) {
            if sql != wanted_sql {
                return Err(format!("{sql}, not {wanted_sql}"));
            }
            let same = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            if same < found.len() || (*done && same < wanted.len()) {
                let how = if *done {
                    "without an error"
                } else {
                    "before an error"
                };
                return Err(format!(
                    "{sql}: {} of {} rows, {same} of them right, {how}",
                    found.len(),
                    wanted.len()
                ));
            }
        }
        Ok(())
    }
}
