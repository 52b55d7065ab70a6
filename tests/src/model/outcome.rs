//! The result of a step on a connection: everything that must be equal on both sides.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection};

/// Rows that are kept as text for a report. All other rows only enter the hash.
const ROWS_KEPT: usize = 6;

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// The first rows, as text.
    pub(crate) first: Vec<String>,
    /// The last row, as text.
    pub(crate) last: Option<String>,
    pub(crate) rows: u64,
    hash: u64,
    /// The extended code and the message of the failed statement. Later statements did not run.
    pub(crate) error: Option<(i32, String)>,
    pub(crate) changes: u64,
    total_changes: u64,
    last_rowid: i64,
    /// No transaction is open now.
    pub(crate) autocommit: bool,
}

/// The outcome of calls other than SQL.
pub(crate) fn answer(db: &Connection, found: rusqlite::Result<Vec<String>>, dir: &str) -> Outcome {
    match found {
        Ok(text) => Outcome::of_text(Some(db), text),
        Err(error) => failed(Some(db), &error, dir),
    }
}

/// The outcome of a call that failed.
pub(crate) fn failed(db: Option<&Connection>, error: &rusqlite::Error, dir: &str) -> Outcome {
    let mut outcome = Outcome::of_text(db, Vec::new());
    outcome.fail(error, dir);
    outcome
}

impl Outcome {
    /// Runs all statements of `sql` and records their results. `{DIR}` stands for the directory of
    /// the side, and replaces it in messages.
    pub(crate) fn of_sql(db: &Connection, sql: &str, dir: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let before = db.total_changes();
        let mut hasher = DefaultHasher::new();
        if let Err(error) = outcome.run(db, &sql.replace("{DIR}", dir), &mut hasher) {
            outcome.fail(&error, dir);
        }
        outcome.hash = hasher.finish();
        outcome.finish(db, before);
        outcome
    }

    fn run(
        &mut self,
        db: &Connection,
        sql: &str,
        hasher: &mut DefaultHasher,
    ) -> rusqlite::Result<()> {
        let mut batch = Batch::new(db, sql);
        while let Some(mut statement) = batch.next()? {
            let columns = statement.column_count();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                self.rows += 1;
                let mut text = String::new();
                for i in 0..columns {
                    let value = row.get_ref(i)?;
                    hash_value(value, hasher);
                    if i > 0 {
                        text.push('|');
                    }
                    text.push_str(&short(value));
                }
                if self.first.len() < ROWS_KEPT {
                    self.first.push(text.clone());
                }
                self.last = Some(text);
            }
        }
        Ok(())
    }

    /// The outcome of a step of several calls, as text.
    pub(crate) fn of_text(db: Option<&Connection>, text: Vec<String>) -> Outcome {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let mut outcome = Outcome {
            rows: text.len() as u64,
            last: text.last().cloned(),
            first: text,
            hash: hasher.finish(),
            ..Outcome::default()
        };
        if let Some(db) = db {
            outcome.finish(db, db.total_changes());
        }
        outcome
    }

    pub(crate) fn fail(&mut self, error: &rusqlite::Error, dir: &str) {
        self.error = Some(code_and_message(error, dir));
    }

    fn finish(&mut self, db: &Connection, before: u64) {
        self.total_changes = db.total_changes() - before;
        self.changes = if self.total_changes > 0 {
            db.changes()
        } else {
            0
        };
        self.last_rowid = db.last_insert_rowid();
        self.autocommit = db.is_autocommit();
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// Whether a statement failed because of a constraint.
    pub(crate) fn is_constraint(&self) -> bool {
        self.error
            .as_ref()
            .is_some_and(|e| e.0 & 0xff == rusqlite::ffi::SQLITE_CONSTRAINT)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some((code, message)) => write!(f, "error {code}: {message}; ")?,
            None => write!(f, "ok; ")?,
        }
        write!(
            f,
            "{} rows (hash {:016x}), {} changes ({} in all), last rowid {}, autocommit {}",
            self.rows,
            self.hash,
            self.changes,
            self.total_changes,
            self.last_rowid,
            self.autocommit
        )?;
        for row in &self.first {
            write!(f, "\n    {row}")?;
        }
        match &self.last {
            Some(last) if self.rows > self.first.len() as u64 => write!(f, "\n    ...\n    {last}"),
            _ => Ok(()),
        }
    }
}

/// The code and the message of an error, without the directory of the side.
pub(crate) fn code_and_message(error: &rusqlite::Error, dir: &str) -> (i32, String) {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(e, m) => (e.extended_code, m.clone().unwrap_or_default()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error.extended_code, msg.clone()),
        other => (-1, other.to_string()),
    };
    (code, message.replace(dir, "{DIR}"))
}

/// Adds a value with its type to a hash.
pub(crate) fn hash_value(value: ValueRef<'_>, hasher: &mut DefaultHasher) {
    match value {
        ValueRef::Null => 0u8.hash(hasher),
        ValueRef::Integer(i) => (1u8, i).hash(hasher),
        ValueRef::Real(r) => (2u8, r.to_bits()).hash(hasher),
        ValueRef::Text(t) => (3u8, t).hash(hasher),
        ValueRef::Blob(b) => (4u8, b).hash(hasher),
    }
}

/// A value as short text.
fn short(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(i) => i.to_string(),
        ValueRef::Real(r) => r.to_string(),
        ValueRef::Text(t) => {
            let text = String::from_utf8_lossy(t);
            match text.char_indices().nth(60) {
                Some((end, _)) => format!("{}... ({} bytes)", &text[..end], t.len()),
                None => text.into_owned(),
            }
        }
        ValueRef::Blob(b) => {
            let head: String = b.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("x'{head}' ({} bytes)", b.len())
        }
    }
}
