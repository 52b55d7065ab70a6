//! Maps errors of the log to SQLite's.

use densite_log as log;
use densite_sqlite::{Code, Error};
use std::path::{Path, PathBuf};

/// An error of the log in this directory, with the matching SQLite code.
pub fn from_log(dir: &Path, error: log::Error) -> Error {
    let code = match &error {
        log::Error::Full(_) => Code::FULL,
        log::Error::Io(e) if e.kind == densite_disk::ErrorKind::TooManyFiles => {
            Code::CANTOPEN.explained()
        }
        log::Error::Io(e) => e.op.into(),
        log::Error::SyncFailed(_) => Code::IOERR_FSYNC,
        log::Error::Damaged { .. } => Code::CORRUPT.explained(),
        log::Error::TooLarge { .. } => Code::TOOBIG,
        log::Error::Forked => Code::MISUSE,
        log::Error::Locked { .. } => Code::BUSY,
        log::Error::Interrupted => Code::INTERRUPT,
        log::Error::Replaced => Code::READONLY_DBMOVED,
        _ => Code::ERROR,
    };
    let text = match error {
        log::Error::Missing if aside(dir).is_dir() => format!(
            "{}: the log that the database names is not there, because an interrupted restore has put it aside; run the same restore again, which finishes or undoes it",
            dir.display()
        ),
        log::Error::Missing => format!(
            "{}: the log that the database names is not there; put it back, or give up what was not applied yet with DROP TABLE densite_applied and begin a new one",
            dir.display()
        ),
        log::Error::Damaged { .. } => format!(
            "{}: {error}; `densite log check` lists what is damaged, and with --repair keeps what can be read",
            dir.display()
        ),
        log::Error::OtherLog { .. } => format!(
            "{}: {error}; bring the right one back, or give up what was not applied yet: move this one away, DROP TABLE densite_applied, and begin a new one",
            dir.display()
        ),
        log::Error::Replaced => format!(
            "{}: the log was moved, removed or replaced, and this connection has the old one open; put that back, or open the database again",
            dir.display()
        ),
        error => format!("{}: {error}", dir.display()),
    };
    Error::new(code, text)
}

/// Where a restore puts the log that a database had (`densite restore --force`).
fn aside(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push("-before-restore");
    name.into()
}

/// The error for a database without the table that names its log.
pub(crate) fn unnamed(dir: &Path) -> Error {
    refused(format!(
        "{}: the database does not name this log any more: its table densite_applied was dropped. Rows of the log are not applied, and no more are acknowledged. \
         To begin a new log, close the database everywhere, move this one away, and make the ingest tables again",
        dir.display()
    ))
}

/// The error of a function that needs a log, in a database that has none.
pub fn no_log() -> Error {
    refused(
        "the database has no log; densite_subscribe() or a virtual table with densite_ingest makes one",
    )
}

/// An error with this message.
pub fn refused(message: impl Into<String>) -> Error {
    Error::new(Code::ERROR, message)
}

/// The error for a transaction that writes to the log and to this schema (rule L2).
pub(crate) fn mixed(schema: &str) -> Error {
    refused(format!(
        "this transaction writes to tables of {schema}, or has it open for that since BEGIN IMMEDIATE, and to the log: the two cannot be committed as one. \
         Write all of it through ingest tables; or commit the ordinary tables first and append then; or write a row to an outbox table and append it later (docs/guides/ingest.md, Transactions). \
         (The first CREATE VIRTUAL TABLE … USING densite_ingest of a database writes to main, too: run it before BEGIN.)"
    ))
}
