//! `.open`: another database. `.backup` and `.save`: a copy of the database, of one committed state.

use super::super::session::{Flow, Session};
use crate::failure::Failure;
use crate::out;
use crate::sql::failure::{At, failure, other};
use crate::sql::open::{Access, BUSY_TIMEOUT, Opened, shown_name};
use densite_disk::wait::Retry;
use rusqlite::backup::{Backup, StepResult};
use std::path::Path;

/// Pages that are copied before it is asked whether Ctrl-C was pressed.
const STEP: i32 = 1000;

pub(super) fn open(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let (mut access, mut names) = (Access::Create, Vec::new());
    for word in arguments {
        match word.trim_start_matches('-') {
            "readonly" if word.starts_with('-') => access = Access::ReadOnly,
            // The sqlite3 shell empties the file.
            "new" if word.starts_with('-') => {
                return Err(other(
                    "a file is not emptied; remove it first, or name a new one".to_owned(),
                ));
            }
            _ if word.starts_with('-') => {
                return Err(other(format!(
                    "{word} is no option of .open, which has --readonly"
                )));
            }
            _ => names.push(word.as_str()),
        }
    }
    let name = match names.as_slice() {
        [] => ":memory:",
        [name] => name,
        _ => return Err(other("the command is .open [--readonly] [FILE]".to_owned())),
    };
    if session.reopen(name, access)? {
        out::message(session.common, &format!("{}: a new database", session.db));
    }
    Ok(Flow::Next)
}

pub(super) fn backup(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let (schema, file) = match arguments {
        [schema, file] => (schema.as_str(), file.as_str()),
        [file] => ("main", file.as_str()),
        _ => return Err(other("the command is .backup [SCHEMA] FILE".to_owned())),
    };
    if let Some(option) = arguments.iter().find(|word| word.starts_with("--")) {
        return Err(other(format!(
            "{option} is no option of .backup, which has none"
        )));
    }
    let is_itself = |path: &str| {
        let real = |path: &str| std::fs::canonicalize(path).ok();
        real(path).is_some_and(|path| Some(path) == real(file))
    };
    if session.connection.path().is_some_and(is_itself) {
        return Err(other(format!(
            "{file} is the database itself; name another file"
        )));
    }
    copy(session, schema, file)?;
    // The log beside a database is no part of its pages.
    let path = session.connection.path().filter(|_| schema == "main");
    let log = path.map(|path| format!("{path}-log"));
    if let Some(log) = log.filter(|log| Path::new(log).is_dir()) {
        out::message(
            session.common,
            &format!(
                "rows that wait in {log} are not in the copy; to have them in it, run SELECT densite_wait(); first"
            ),
        );
    }
    Ok(Flow::Next)
}

/// Copies a schema into a file. A missing file is created, the contents of a database are replaced.
fn copy(session: &Session, schema: &str, file: &str) -> Result<(), Failure> {
    let mut target = Opened::new(file, Access::Create)?;
    let failed = |e: rusqlite::Error| failure(&shown_name(file), At::Database, &e);
    let copying = Backup::new_with_names(&session.connection, schema, target.get_mut()?, "main");
    let copying = copying.map_err(failed)?;
    let mut retry = Retry::within(BUSY_TIMEOUT);
    loop {
        if session.interrupts.has_come() {
            return Err(other("interrupted; the copy is not complete".to_owned()));
        }
        match copying.step(STEP).map_err(failed)? {
            StepResult::Done => break,
            StepResult::Busy | StepResult::Locked if retry.again() => {}
            StepResult::Busy | StepResult::Locked => {
                return Err(other(format!(
                    "{} is locked; another connection uses it, try again later",
                    shown_name(file)
                )));
            }
            _ => retry = Retry::within(BUSY_TIMEOUT),
        }
    }
    drop(copying);
    target.keep().map_err(failed)
}
