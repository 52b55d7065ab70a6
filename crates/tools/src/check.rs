//! Checks a whole database: every stored frame, the page map and the space accounting, then
//! SQLite's own integrity check.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::integrity;
use crate::lock;
use crate::progress::Progress;
use crate::source;
use crate::target;
use densite_sqlite::{Api, Code};
use densite_store::{self as store, Damage, Handle};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for a lock.
const WAIT: Duration = Duration::from_secs(1);
const BUSY_MS: i32 = 1000;

/// The result of a check.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Checked {
    /// The path as given.
    pub path: PathBuf,
    /// How it is stored.
    pub form: Form,
    /// Pages checked.
    pub pages: u64,
    /// Stored frames verified; `None` for a plain file.
    pub frames: Option<u64>,
    /// What is damaged in the store, and where.
    pub problems: Vec<Damage>,
    /// Describes the commits that were lost because the file was not closed cleanly. The database
    /// is a complete earlier state.
    pub cut: Option<String>,
    /// The lines of SQLite's integrity check: "ok", or the problems it found. Empty if the check
    /// could not run.
    pub integrity_check: Vec<String>,
}

impl Checked {
    /// Whether no problem was found. A cut is not damage: the state is one that was published.
    pub fn ok(&self) -> bool {
        self.problems.is_empty() && (self.form == Form::Empty || self.integrity_check == ["ok"])
    }
}

/// Checks a database, compressed or plain. Damage is part of the result, not an error.
///
/// # Errors
/// Any [`Error`] that prevents the check; [`Error::Interrupted`].
pub fn check(api: Api, path: &Path, progress: &mut dyn Progress) -> Result<Checked> {
    let target = target::resolve_to_read(api, path)?;
    let path = target.given.as_path();
    let form = form::form(api, &target)?;
    let mut checked = Checked {
        path: path.to_path_buf(),
        form,
        pages: 0,
        frames: None,
        problems: Vec::new(),
        cut: None,
        integrity_check: Vec::new(),
    };
    let through = match form {
        Form::Empty => return Ok(checked),
        Form::Plain => Through::Host,
        Form::Compressed => {
            // This comes before SQLite opens the file: a connection could write and so remove the
            // traces of a cut.
            let file = Through::Host.file(api, &target, Access::Read)?;
            lock::shared(api, &file, &target, WAIT)?;
            match form::open_store(&target, file) {
                Ok(mut store) => check_store(&mut store, path, &mut checked, progress)?,
                Err(store::Error::Corrupt(damage)) => {
                    checked.frames = Some(0);
                    checked.problems.push(damage);
                    return Ok(checked);
                }
                Err(e) => return Err(Error::from_store(path, "open", e)),
            }
            Through::Densite
        }
    };
    progress.phase("SQLite", 0);
    // SQLite rolls back a hot journal here. A damaged store is only read.
    let db = if checked.problems.is_empty() {
        source::open_reading(api, through, &target, WAIT).map(|(db, _)| db)
    } else {
        through.connect(api, &target, Access::Read, BUSY_MS)
    };
    match db {
        Ok(db) => {
            match integrity::lines(&db, path) {
                Ok(lines) => checked.integrity_check = lines,
                // Damage of the store is worth more than why SQLite could not look.
                Err(_) if !checked.problems.is_empty() => {}
                Err(e) => return Err(intact_but(e, &checked)),
            }
            if form == Form::Plain {
                let pages = db.query_i64("PRAGMA page_count").ok().flatten();
                checked.pages = pages.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            }
        }
        Err(Error::Damaged { what, .. }) => checked.integrity_check.push(what),
        Err(_) if !checked.problems.is_empty() => {}
        Err(e) => return Err(e),
    }
    Ok(checked)
}

/// SQLite checks an index only with the collations and functions that it uses, and those of an
/// application are not here.
fn intact_but(error: Error, checked: &Checked) -> Error {
    match error {
        Error::Sqlite {
            path,
            code,
            message,
        } if code & 0xff == Code::ERROR.0 => {
            let frames = match checked.frames {
                Some(_) => "every stored frame is intact, but ",
                None => "",
            };
            Error::Sqlite {
                path,
                code,
                message: format!(
                    "{frames}SQLite's integrity check could not run: {message}; run PRAGMA integrity_check in the program that defines it"
                ),
            }
        }
        other => other,
    }
}

fn check_store(
    store: &mut Handle,
    path: &Path,
    checked: &mut Checked,
    progress: &mut dyn Progress,
) -> Result<()> {
    let size = u64::from(store.page_size().unwrap_or(0));
    let mut begun = false;
    let mut stopped = false;
    let report = store.check(&mut |done, total| {
        if !begun {
            progress.phase("checking", total * size);
            begun = true;
        }
        progress.done(done * size);
        stopped = progress.cancelled();
        !stopped
    });
    if stopped {
        return Err(Error::Interrupted {
            path: path.to_path_buf(),
        });
    }
    match report {
        Ok(report) => {
            checked.pages = report.pages;
            checked.frames = Some(report.frames);
            checked.problems = report.problems;
            checked.cut = report.cut;
            Ok(())
        }
        Err(store::Error::Corrupt(damage)) => {
            checked.frames = Some(0);
            checked.problems.push(damage);
            Ok(())
        }
        Err(e) => Err(Error::from_store(path, "check", e)),
    }
}
