//! SQLite's integrity check, and checks of a database that was just written.

use crate::copy;
use crate::db::from_sqlite;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::temp::Temp;
use densite_sqlite::{Code, Connection};
use densite_store::Options;
use std::path::Path;

/// What an error of the check of a new database says was done.
pub(crate) const VERIFY: &str = "verify";

/// The lines of SQLite's integrity check. A damaged file gives lines too, not an error.
pub(crate) fn lines(db: &Connection, path: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut run = || -> densite_sqlite::Result<()> {
        let mut query = db.prepare("PRAGMA integrity_check")?;
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

/// The same with SQLite's quick check, which does not compare indexes with their tables.
pub(crate) fn quick(db: &Connection, path: &Path) -> Result<()> {
    let said = db
        .query_string("PRAGMA quick_check(1)")
        .map_err(|e| from_sqlite(path, e))?;
    said_ok(&said.into_iter().collect::<Vec<_>>(), path)
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
