//! The shell at a terminal: a prompt with editing, history and completion.
//!
//! An error of a statement is printed, and the shell continues. It ends with .quit, .exit or
//! Ctrl-D.

mod helper;
mod history;
mod keywords;

use super::script::{self, Then};
use super::session::Session;
use crate::failure::Failure;
use crate::out::{self, Object};
use crate::sql::split::Splitter;
use helper::Names;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io;

const FIRST: &str = "densite> ";
const NEXT: &str = "    ...> ";

pub(crate) fn run(session: &mut Session) -> Result<Then, Failure> {
    let signals = [signal_hook::consts::SIGINT];
    session.interrupts.catch(&session.connection, &signals)?;
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .history_ignore_space(true)
        .build();
    let mut editor: Editor<Names, FileHistory> =
        Editor::with_config(config).map_err(|e| terminal(&e))?;
    editor.set_helper(Some(Names::new(&session.connection)));
    let mut history = history::File::load(&mut editor);
    out::message(
        session.common,
        &format!(
            "{}, SQLite {}; type .help for help",
            session.db,
            rusqlite::version()
        ),
    );
    let mut splitter = Splitter::new();
    // The lines of the statement that is being typed.
    let mut typed = String::new();
    loop {
        let is_first = splitter.is_blank();
        let line = match editor.readline(if is_first { FIRST } else { NEXT }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                // What was typed is dropped, as in the sqlite3 shell.
                (splitter, typed) = (Splitter::new(), String::new());
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(Then::Next),
            Err(e) => return Err(terminal(&e)),
        };
        typed += &line;
        typed.push('\n');
        session.interrupts.clear();
        // Text that was pasted, or comes from the history, can have several lines.
        let mut flow = Ok(Then::Next);
        for line in line.split('\n') {
            flow = script::line(session, &mut splitter, &format!("{line}\n"));
            if !matches!(flow, Ok(Then::Next)) {
                break;
            }
        }
        if let Some(names) = editor.helper_mut() {
            names.follow(&session.connection);
        }
        let flow = flow.map_err(|(e, _)| e);
        let flow = flow.and_then(|flow| Ok(session.output.flush().map(|()| flow)?));
        if flow.is_err() {
            splitter = Splitter::new();
        }
        if !splitter.has_begun() {
            history.add(&mut editor, typed.trim_end());
            typed.clear();
        }
        match flow {
            Ok(Then::Next) => {}
            Ok(end) => return Ok(end),
            Err(e @ (Failure::Closed | Failure::Output(_))) if session.output.file().is_none() => {
                return Err(e);
            }
            Err(e) => {
                e.report(Object::None);
            }
        }
    }
}

fn terminal(e: &ReadlineError) -> Failure {
    Failure::Output(io::Error::other(format!("the terminal failed: {e}")))
}
