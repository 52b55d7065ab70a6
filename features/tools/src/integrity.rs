//! SQLite's integrity check, and checks of a database that was just written.

use crate::copy;
use crate::db::from_sqlite;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::temp::Temp;
use densite_sqlite::{Code, Connection, quoted};
use densite_store::Options;
use std::path::Path;

/// What an error of the check of a new database says was done.
pub(crate) const VERIFY: &str = "verify";

/// What SQLite's integrity check says of a database.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Its lines: "ok", or the problems it found.
    pub(crate) lines: Vec<String>,
    /// The tables that it cannot check here, and why: they need what only the application has.
    pub(crate) not_verified: Vec<String>,
}

/// Runs SQLite's integrity check. If a collation, function or tokenizer is missing, it checks the
/// tables that do not need it.
pub(crate) fn check(db: &Connection, path: &Path) -> Result<Said> {
    match lines(db, path) {
        Ok(lines) => Ok(Said {
            lines,
            not_verified: Vec::new(),
        }),
        Err(e) if is_of_application(&e) => by_table(db, "integrity_check", path).unwrap_or(Err(e)),
        Err(e) => Err(e),
    }
}

/// Checks each table by itself with a pragma; `None` if the schema cannot be read.
fn by_table(db: &Connection, pragma: &str, path: &Path) -> Option<Result<Said>> {
    let mut said = Said::default();
    for table in tables(db).ok()? {
        let sql = format!("PRAGMA {pragma}({})", quoted(&table));
        match lines_of(db, &sql, path) {
            Ok(lines) => said
                .lines
                .extend(lines.into_iter().filter(|line| line != "ok")),
            Err(Error::Sqlite { message, .. }) => {
                said.not_verified.push(format!("table {table}: {message}"));
            }
            Err(e) => return Some(Err(e)),
        }
    }
    if said.lines.is_empty() {
        said.lines.push("ok".to_owned());
    }
    Some(Ok(said))
}

/// The tables that SQLite cannot check here, and why. Reads no rows.
pub(crate) fn not_verifiable(db: &Connection) -> densite_sqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    for table in tables(db)? {
        let sql = format!("PRAGMA integrity_check({})", quoted(&table));
        if let Err(e) = db.prepare(&sql)
            && e.code.primary() == Code::ERROR
        {
            found.push(format!("table {table}: {}", e.message));
        }
    }
    Ok(found)
}

fn tables(db: &Connection) -> densite_sqlite::Result<Vec<String>> {
    let mut query =
        db.prepare("SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY name")?;
    let mut names = Vec::new();
    while query.step()? {
        names.extend(query.column(0).as_str().map(str::to_string));
    }
    Ok(names)
}

fn is_of_application(e: &Error) -> bool {
    matches!(e, Error::Sqlite { code, .. } if code & 0xff == Code::ERROR.0)
}

/// Whether a line is about pages and b-trees, and not about rows and indexes.
pub(crate) fn is_of_pages(line: &str) -> bool {
    line.starts_with("*** in database") || line == "database disk image is malformed"
}

/// The lines of SQLite's integrity check. A damaged file gives lines too, not an error.
pub(crate) fn lines(db: &Connection, path: &Path) -> Result<Vec<String>> {
    lines_of(db, "PRAGMA integrity_check", path)
}

fn lines_of(db: &Connection, sql: &str, path: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut run = || -> densite_sqlite::Result<()> {
        let mut query = db.prepare(sql)?;
        while query.step()? {
            lines.extend(query.column(0).as_str().map(str::to_string));
        }
        Ok(())
    };
    match run() {
        Ok(()) => {}
        Err(e) if matches!(e.code.primary(), Code::CORRUPT | Code::NOTADB) => lines.push(e.message),
        Err(e) => return Err(from_sqlite(path, e)),
    }
    Ok(lines)
}

/// Returns an error if SQLite's integrity check finds a problem in a new database.
pub(crate) fn full(db: &Connection, path: &Path) -> Result<()> {
    let lines = lines(db, path)?;
    said_ok(&lines, path)
}

/// The same for pages, pointer maps and the freelist alone, by SQLite's quick check. What it says of
/// rows is so in the source, too: the caller has compared the records.
pub(crate) fn pages(db: &Connection, path: &Path) -> Result<()> {
    let mut lines = match lines_of(db, "PRAGMA quick_check", path) {
        // A virtual table can need its application. It has no pages of its own.
        Err(e) if is_of_application(&e) => {
            let said = by_table(db, "quick_check", path).unwrap_or(Err(e))?;
            said.lines
        }
        lines => lines?,
    };
    lines.retain(|line| is_of_pages(line));
    match lines.is_empty() {
        true => Ok(()),
        false => said_ok(&lines, path),
    }
}

fn said_ok(lines: &[String], path: &Path) -> Result<()> {
    match lines.first().map(String::as_str) {
        Some("ok") => Ok(()),
        first => Err(Error::Io {
            path: path.to_path_buf(),
            doing: VERIFY.into(),
            message: format!(
                "SQLite's integrity check says: {}",
                first.unwrap_or("nothing")
            ),
        }),
    }
}

/// Returns an error if a new compressed file has a damaged frame. No other process has that file.
pub(crate) fn frames(temp: &Temp, progress: &mut dyn Progress) -> Result<()> {
    let path = temp.path();
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let failed = |e| Error::from_store(path, "verify", e);
    let mut store = copy::open_store(temp, options, "proof")?;
    let report = store
        .check(&mut |_, _| !progress.cancelled())
        .map_err(failed)?;
    if progress.cancelled() {
        return Err(Error::Interrupted {
            path: path.to_path_buf(),
        });
    }
    match report.problems.first() {
        None => Ok(()),
        Some(damage) => Err(Error::Io {
            path: path.to_path_buf(),
            doing: "verify".into(),
            message: damage.to_string(),
        }),
    }
}
