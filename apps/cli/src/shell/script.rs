//! Runs the statements and dot commands of a text, up to the first error, or all with `.bail off`.

use super::dot;
use super::session::{Flow, Session, Text};
use crate::failure::Failure;
use crate::sql::failure::{other, unprinted};
use crate::sql::split::Splitter;
use std::io::{self, BufRead, BufReader};

/// How deep files can read others, as in the sqlite3 shell.
const DEPTH: usize = 25;

/// What follows after a text or a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next one.
    Next,
    /// The end, with this exit code.
    End(u8),
}

/// Runs all statements and dot commands of a text.
pub(crate) fn run(session: &mut Session, text: impl BufRead) -> Result<Then, Failure> {
    run_at(session, text, 0)
}

/// Runs the statements that end in a line, or the dot command that it is. An error has the number
/// of later statements of the line, which were not run.
pub(crate) fn line(
    session: &mut Session,
    splitter: &mut Splitter,
    line: &str,
) -> Result<Then, (Failure, usize)> {
    line_at(session, splitter, line, 0)
}

/// The same, in a file that `depth` files read.
fn line_at(
    session: &mut Session,
    splitter: &mut Splitter,
    line: &str,
    depth: usize,
) -> Result<Then, (Failure, usize)> {
    if line.contains('\0') {
        let text = "the SQL text has a zero byte, at which SQLite would stop; remove it";
        return Err((other(text.to_owned()), 0));
    }
    if splitter.is_blank() && line.trim_start().starts_with('.') {
        session.place.line = splitter.line();
        splitter.skip(line);
        if session.settings.echo {
            let printed = session.output.text(&format!("{}\n", line.trim()));
            printed.map_err(|e| (e.into(), 0))?;
        }
        return match dot::run(session, line.trim()) {
            Ok(Flow::Next) => Ok(Then::Next),
            Ok(Flow::End(code)) => Ok(Then::End(code)),
            Ok(Flow::Read { name, text }) => read(session, &name, text, depth + 1),
            Err(e) => session.go_on(e).map(|()| Then::Next),
        }
        .map_err(|e| (e, 0));
    }
    // The sqlite3 shell takes such a line for a comment.
    if splitter.is_blank() && line.starts_with('#') {
        splitter.skip(line);
        return Ok(Then::Next);
    }
    let pieces = splitter.push(line);
    let count = pieces.len();
    for (piece, number) in pieces.iter().zip(1..) {
        let done = session.statement(piece).or_else(|e| session.go_on(e));
        done.map_err(|e| (e, count - number))?;
    }
    Ok(Then::Next)
}

/// Runs the text of a file or command, which its errors name.
fn read(session: &mut Session, name: &str, text: Text, depth: usize) -> Result<Then, Failure> {
    if depth > DEPTH {
        return Err(other(format!(
            "{name}: more than {DEPTH} files read each other"
        )));
    }
    let done = run_at(session, BufReader::new(text), depth);
    done.map_err(|e| match e {
        Failure::Other(kind, code, text, details) => {
            Failure::Other(kind, code, format!("{name}: {text}"), details)
        }
        e => e,
    })
}

fn run_at(session: &mut Session, mut text: impl BufRead, depth: usize) -> Result<Then, Failure> {
    let mut splitter = Splitter::new();
    let mut line = String::new();
    loop {
        line.clear();
        match text.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                return Err(other(
                    "the SQL text is not UTF-8; convert it first".to_string(),
                ));
            }
            Err(e) => return Err(other(format!("cannot read the SQL text: {e}"))),
        }
        match line_at(session, &mut splitter, &line, depth) {
            Ok(Then::Next) => {}
            Ok(end) => return Ok(end),
            Err((e, left)) => {
                return Err(stopped(session, e, || left > 0 || has_more(splitter, text)));
            }
        }
        // A program that writes our stdin can wait for the answer before it writes more.
        if let Err(e) = session.output.flush() {
            return Err(stopped(session, e.into(), || has_more(splitter, text)));
        }
    }
    if let Some(piece) = splitter.finish() {
        let done = session.statement(&piece).or_else(|e| session.go_on(e));
        done.map_err(|e| stopped(session, e, || false))?;
    }
    Ok(Then::Next)
}

/// Adds to an error of the output what was not run. `later` tells whether the text has more
/// statements.
fn stopped(session: &Session, e: Failure, later: impl FnOnce() -> bool) -> Failure {
    let mut lost = Vec::new();
    if matches!(e, Failure::Closed | Failure::Output(_)) {
        lost.extend(later().then_some("later statements were not run"));
        let is_open = !session.connection.is_autocommit();
        lost.extend(is_open.then_some("the open transaction was rolled back"));
    }
    let place = &session.place;
    unprinted(
        e,
        &format!(
            "{}: statement {}, line {}: ",
            session.db, place.statement, place.line
        ),
        &lost,
    )
}

/// Whether the rest of a text has a statement.
fn has_more(mut splitter: Splitter, mut text: impl BufRead) -> bool {
    let mut line = String::new();
    loop {
        if splitter.has_begun() {
            return true;
        }
        line.clear();
        match text.read_line(&mut line) {
            Ok(0) => return false,
            Ok(_) if splitter.push(&line).is_empty() => {}
            // A line that cannot be read would have been an error.
            Ok(_) | Err(_) => return true,
        }
    }
}
