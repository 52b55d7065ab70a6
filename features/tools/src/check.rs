//! Checks a whole database: every stored frame, the page map and the space accounting, then
//! SQLite's own integrity check. If that finds a problem, or needs what only the application has, all
//! b-trees are walked ([`crate::usage`]): so damage is told from rows and indexes that can be
//! repaired by SQL.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::integrity;
use crate::lock;
use crate::progress::Progress;
use crate::remedy;
use crate::source::{self, Source};
use crate::target::{self, Target};
use crate::usage;
use densite_sqlite::Api;
use densite_store::{self as store, Damage, Handle};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for a lock.
const WAIT: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_secs(1);

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
    /// The tables that SQLite could not check, and why: they need a collation, function or tokenizer
    /// that only the application has. Their b-trees were verified.
    pub not_verified: Vec<String>,
    /// What is wrong with the b-trees, if SQLite's integrity check found a problem or could not
    /// check all tables.
    pub damaged_trees: Vec<String>,
}

impl Checked {
    /// Whether no problem was found. A cut is not damage: the state is one that was published.
    pub fn ok(&self) -> bool {
        self.is_whole() && (self.form == Form::Empty || self.integrity_check == ["ok"])
    }

    /// Whether all pages and b-trees are intact. SQLite can still object to rows and indexes: an
    /// index lacks rows, a row breaks a constraint, a text index is not of its table.
    pub fn is_whole(&self) -> bool {
        let is_checked = self.form == Form::Empty || !self.integrity_check.is_empty();
        self.problems.is_empty() && self.damaged_trees.is_empty() && is_checked
    }

    /// What to do about the lines of the integrity check, if the database is whole.
    pub fn remedies(&self) -> Vec<String> {
        match self.is_whole() && !self.ok() {
            true => remedy::remedies(&self.integrity_check),
            false => Vec::new(),
        }
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
        not_verified: Vec::new(),
        damaged_trees: Vec::new(),
    };
    let through = match form {
        Form::Empty => return Ok(checked),
        Form::Plain => Through::Host,
        Form::Compressed => {
            // This comes before SQLite opens the file: a connection could write and so remove the
            // traces of a cut.
            let file = Through::Host.file(api, &target, Access::Read)?;
            lock::shared(&file, &target, WAIT)?;
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
        through.connect(api, &target, Access::Read, BUSY)
    };
    match db {
        Ok(db) => {
            match integrity::check(&db, path) {
                Ok(said) => {
                    checked.integrity_check = said.lines;
                    checked.not_verified = said.not_verified;
                }
                // Damage of the store is worth more than why SQLite could not look.
                Err(_) if !checked.problems.is_empty() => {}
                Err(e) => return Err(e),
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
    let is_ok = checked.integrity_check == ["ok"];
    if checked.problems.is_empty() && !(is_ok && checked.not_verified.is_empty()) {
        checked.damaged_trees = match damaged_trees(api, through, &target, progress) {
            Ok(damaged) => damaged,
            Err(e) if is_ok || matches!(e, Error::Interrupted { .. }) => return Err(e),
            // What SQLite says is worth more than why this could not be told apart.
            Err(e) => vec![e.to_string()],
        };
    }
    Ok(checked)
}

/// What is wrong with the b-trees of a database, without the SQL that needs its application.
fn damaged_trees(
    api: Api,
    through: Through,
    target: &Target,
    progress: &mut dyn Progress,
) -> Result<Vec<String>> {
    let mut source = Source::shared(api, through, target, WAIT)?;
    let header = source.header();
    let roots = match usage::roots(api, &source.state()) {
        Ok(roots) => roots,
        Err(e) => return Ok(vec![format!("the schema cannot be read: {}", e.message)]),
    };
    Ok(usage::usage(&mut source, &header, &roots, &target.given, progress)?.problems)
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
