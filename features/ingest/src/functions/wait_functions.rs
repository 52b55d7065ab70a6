//! `densite_wait`, and which rows it can wait for: `densite_last_seq`, `densite_log_last`.

use crate::apply::stream::streams;
use crate::database::position::number;
use crate::error::{no_log, refused};
use crate::vtab::session::Session;
use crate::waiting::deadline::deadline;
use densite_disk::wait::Deadline;
use densite_log::Seq;
use densite_sqlite::{Connection, Result, Value, ValueRef, create_function, ffi};
use std::sync::Arc;

/// Adds the functions to a connection.
pub(super) fn create(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_last_seq",
        0,
        ffi::DIRECTONLY,
        move |_, _| Ok(own.last().map_or(Value::Null, number)),
    )?;
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_log_last",
        0,
        ffi::DIRECTONLY,
        move |connection, _| {
            let Some(database_log) = own.database_log(connection)? else {
                return Ok(Value::Null);
            };
            let last = database_log
                .log()
                .last()
                .map_err(|e| database_log.failed(e))?;
            // The connection's own last row can be behind rows that are not decided yet.
            Ok(number(last.max(own.last_in(&database_log).unwrap_or(0))))
        },
    )?;
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_wait",
        -1,
        ffi::DIRECTONLY,
        move |connection, arguments| {
            let (arguments, in_stream) = or_stream(arguments);
            let (seq, until) = asked("densite_wait", &arguments)?;
            let Some(database_log) = own.database_log(connection)? else {
                return match seq {
                    None | Some(0) => Ok(Value::Integer(0)),
                    Some(_) => Err(no_log()),
                };
            };
            let mine = own.last().unwrap_or(0);
            let mut last = database_log
                .log()
                .last()
                .map_err(|e| database_log.failed(e))?;
            if last < mine && seq.is_none_or(|seq| seq > last) {
                database_log.wait_visible(mine)?;
                last = database_log
                    .log()
                    .last()
                    .map_err(|e| database_log.failed(e))?;
            }
            let seq = seq.unwrap_or(last);
            if seq > last {
                return Err(refused(format!(
                    "densite_wait: row {seq} is not in the log, which ends at {last}; give the number of a row that was appended, or none for the last one"
                )));
            }
            let reached = match in_stream {
                true => streams()?.wait(
                    database_log.open(),
                    database_log.worker(),
                    connection,
                    seq,
                    until,
                ),
                false => database_log.wait_applied(connection, seq, until),
            };
            reached.map(number)
        },
    )
}

/// The arguments of `densite_wait([seq [, seconds]])`, or of another function of this name: the row
/// (`None` and NULL: the last one), and the deadline.
pub(super) fn asked(name: &str, arguments: &[ValueRef<'_>]) -> Result<(Option<Seq>, Deadline)> {
    let seq = match arguments.first() {
        None | Some(ValueRef::Null) => Some(None),
        Some(ValueRef::Integer(seq)) => u64::try_from(*seq).ok().map(Some),
        Some(_) => None,
    };
    match (seq, deadline(arguments.get(1))) {
        (Some(seq), Some(until)) if arguments.len() <= 2 => Ok((seq, until)),
        _ => Err(refused(format!(
            "{name} takes a sequence number (NULL: the last one), and then for how many seconds it waits at most; or nothing"
        ))),
    }
}

/// The arguments of `densite_wait` without the word `'stream'` behind the row, and whether it was
/// there.
fn or_stream<'a>(arguments: &[ValueRef<'a>]) -> (Vec<ValueRef<'a>>, bool) {
    let mut arguments = arguments.to_vec();
    let in_stream = arguments.get(1).and_then(|word| word.as_str()) == Some("stream");
    if in_stream {
        arguments.remove(1);
    }
    (arguments, in_stream)
}
