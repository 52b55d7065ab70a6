//! Reads the log beside a database (`densite_ingest`) without opening it for ingest.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::target::{self, utf8};
use densite_disk::RealDir;
use densite_ingest::Position;
use densite_log::{Log, LogDir, LogId, Status, Subscriber};
use densite_sqlite::{Api, Connection};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A log and the database it belongs to.
pub struct Beside {
    /// The path of the database, as given.
    pub db: PathBuf,
    /// The path of the log's directory.
    pub path: PathBuf,
    /// The same directory, for reading.
    pub dir: LogDir,
    /// The id that connects it to its database.
    pub id: LogId,
}

/// The log's directory of a database file. `db` can be a symbolic link.
fn directory(db: &Path) -> Result<PathBuf> {
    let mut path = target::resolve(db)?.path.into_os_string();
    path.push("-log");
    Ok(path.into())
}

/// A connection to a database for reading, if it can be read.
fn connect(api: Api, db: &Path) -> Option<Connection> {
    let name = utf8(db).ok()?;
    let connected = Through::Densite.connect_to(api, (name, db), Access::Read, Duration::ZERO);
    connected.ok()
}

/// Whether a database names a log.
pub(crate) fn names_log(api: Api, db: &Path) -> bool {
    let named = connect(api, db).map(|open| open.query_i64("SELECT 1 FROM main.densite_applied"));
    matches!(named, Some(Ok(Some(_))))
}

/// Whether a database names a log that is not beside it.
pub(crate) fn is_missing(api: Api, db: &Path) -> bool {
    matches!(Beside::find(db), Ok(None)) && names_log(api, db)
}

/// The error for a missing log that the database names; `None` if the database names no log.
fn lost(api: Api, db: &Path) -> Option<Error> {
    if !names_log(api, db) {
        return None;
    }
    let dir = directory(db).ok()?;
    Some(Error::from_log(&dir, &densite_log::Error::Missing))
}

/// The error for a file that is no database; `None` if it is one, or cannot be read.
fn not_a_database(api: Api, db: &Path) -> Option<Error> {
    let form = crate::form::form(api, &target::resolve(db).ok()?);
    form.err()
        .filter(|e| matches!(e, Error::NotADatabase { .. } | Error::Damaged { .. }))
}

impl Beside {
    /// Finds the log; `None` if there is no log beside the database.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no database; [`Error::Log`].
    pub fn find(db: &Path) -> Result<Option<Beside>> {
        let path = directory(db)?;
        // Opening the directory reports any other problem with the name.
        if std::fs::symlink_metadata(&path).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        let dir: LogDir = Arc::new(RealDir::new(&path).like(db));
        let id = densite_log::id_in(dir.clone()).map_err(|e| Error::from_log(&path, &e))?;
        Ok(id.map(|id| Beside {
            db: db.to_path_buf(),
            path,
            dir,
            id,
        }))
    }

    /// Finds a log that must exist.
    ///
    /// # Errors
    /// [`Error::NoLog`] and [`Error::NotADatabase`] in addition to the errors of
    /// [`Beside::find`]; [`Error::Log`] if the database names a log.
    pub fn expect(api: Api, db: &Path) -> Result<Beside> {
        let found = Beside::find(db)?;
        found.ok_or_else(|| match not_a_database(api, db) {
            Some(e) => e,
            None => lost(api, db).unwrap_or_else(|| Error::NoLog {
                path: db.to_path_buf(),
            }),
        })
    }

    /// Opens the log for reading.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub fn read(&self) -> Result<Log> {
        Log::open_read_only(self.dir.clone(), self.id).map_err(|e| self.failed(&e))
    }

    /// An error of the log as an error of this crate.
    pub fn failed(&self, e: &densite_log::Error) -> Error {
        Error::from_log(&self.path, e)
    }

    /// The position of the database in the log; `None` if it cannot be read.
    pub fn applied(&self, api: Api) -> Option<Applied> {
        let db = connect(api, &self.db)?;
        let position = Position::read(&db).ok()??;
        let paused = db.query_string("SELECT paused FROM main.densite_applied");
        let rejects = db.query_i64("SELECT count(*) FROM main.densite_rejects");
        Some(Applied {
            is_same: position.id == self.id,
            position,
            per_second: densite_ingest::applied_per_second(&db).ok()?,
            rejects: u64::try_from(rejects.ok()??).ok()?,
            paused: serde_json::from_str(&paused.ok()??).unwrap_or_default(),
        })
    }

    /// Reads all figures of the log.
    ///
    /// # Errors
    /// [`Error::Log`].
    pub fn figures(&self, api: Api) -> Result<Figures> {
        let log = self.read()?;
        let began = log.status().map_err(|e| self.failed(&e))?.first;
        let applied = self.applied(api);
        let all = || -> densite_log::Result<_> {
            let unapplied = applied
                .as_ref()
                .map(|a| log.bytes_after(a.position.seq))
                .transpose()?;
            let waited = match &applied {
                Some(applied) => log.time_waited(applied.position.seq)?,
                None => None,
            };
            Ok((
                log.status()?,
                log.subscribers()?,
                (unapplied, waited),
                log.is_led()?,
            ))
        };
        let (status, subscribers, (unapplied_bytes, waited), is_led) =
            all().map_err(|e| self.failed(&e))?;
        Ok(Figures {
            directory: self.path.clone(),
            id: self.id,
            status,
            subscribers,
            applied,
            began,
            unapplied_bytes,
            waited,
            is_led,
        })
    }
}

/// A message about a copy of this database that lacks acknowledged rows, which wait in its log.
/// `None` if no rows wait or if this is unknown.
pub(crate) fn left_behind(api: Api, db: &Path, copy: &Path) -> Option<String> {
    let beside = Beside::find(db).ok()??;
    let applied = beside.applied(api).filter(|a| a.is_same)?;
    let rows = beside
        .read()
        .ok()?
        .last()
        .ok()?
        .checked_sub(applied.position.seq)?;
    (rows > 0).then(|| {
        format!(
            "{} lacks the rows that wait in the log of {} ({rows} {}); to include them, wait until they are applied (densite_wait) and copy again",
            copy.display(),
            db.display(),
            if rows == 1 { "row" } else { "rows" },
        )
    })
}

/// The position of the database in its log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Applied {
    /// Whether the database names this log.
    pub is_same: bool,
    /// How far rows are applied.
    pub position: Position,
    /// How many rows a second are applied: a mean over about the last ten seconds.
    pub per_second: f64,
    /// The number of rows that tables refused.
    pub rejects: u64,
    /// Tables for which no rows are applied until `densite_resume`.
    pub paused: Vec<String>,
}

/// All figures of a log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// The log's directory.
    pub directory: PathBuf,
    /// The id that connects it to its database.
    pub id: LogId,
    /// Its size and its end.
    pub status: Status,
    /// Its subscribers.
    pub subscribers: Vec<Subscriber>,
    /// The position of the database; `None` if it cannot be read.
    pub applied: Option<Applied>,
    /// The first row before the position of the database was read. Rows that are applied after that
    /// can be pruned.
    began: u64,
    /// Bytes of rows that are not applied.
    pub unapplied_bytes: Option<u64>,
    /// How long the first row behind the position has been in the log.
    waited: Option<Duration>,
    /// Whether a process runs the worker that applies rows. Every process that uses ingest and can
    /// write to the database has one.
    pub is_led: bool,
}

impl Figures {
    /// The subscriber that is furthest behind, if any is behind.
    pub fn slowest(&self) -> Option<&Subscriber> {
        let behind = self.subscribers.iter().filter(|s| s.rows_behind > 0);
        behind.max_by_key(|s| s.rows_behind)
    }

    /// The number of rows that are not applied.
    pub fn unapplied_rows(&self) -> Option<u64> {
        let applied = self.applied.as_ref()?;
        Some(applied.position.unapplied(self.status.last))
    }

    /// About how long the oldest row that is not applied waits: at most an eighth and a tenth of a
    /// second too much. In a clustered apply, how long its first row has been in the log. `None` if
    /// no row waits, or if it is unknown.
    pub fn oldest_unapplied(&self) -> Option<Duration> {
        self.waited.filter(|_| self.unapplied_rows() != Some(0))
    }

    /// Why the database does not continue with this log, and what to do; `None` if it does. Ingest
    /// refuses such a log.
    pub fn misfit(&self) -> Option<String> {
        let applied = self.applied.as_ref()?;
        let (first, last) = (self.began, self.status.last);
        let end = applied.position.end();
        if !applied.is_same {
            return Some("the database names another log than this one; put back the log that belongs to it, or give that one up (DROP TABLE densite_applied, and move this log away)".to_owned());
        }
        if last < end {
            return Some(format!(
                "this is an older state of the log: it ends at row {last}, but the database is applied up to row {end}; put back the newest state, or give it up \
                 (DROP TABLE densite_applied, and move this log away)"
            ));
        }
        let lacks_rows = first > applied.position.seq.saturating_add(1);
        lacks_rows.then(|| {
            format!(
                "the database is applied up to row {}, but the log begins at row {first}: the database is older than the log reaches back; put back the newest copy of the database",
                applied.position.seq
            )
        })
    }

    /// Whether rows wait and no process applies them.
    pub fn is_left_alone(&self) -> bool {
        !self.is_led && self.unapplied_rows().is_some_and(|rows| rows > 0)
    }
}

/// The figures of the log beside a database, or why they are not available; `None` if there is no
/// log.
pub(crate) fn beside(api: Api, db: &Path) -> Option<std::result::Result<Figures, String>> {
    let figures = match Beside::find(db) {
        Ok(Some(beside)) => beside.figures(api),
        Ok(None) => Err(lost(api, db)?),
        Err(e) => Err(e),
    };
    Some(figures.map_err(|e| e.to_string()))
}
