//! `densite sql DB [SQL]`
//!
//! At a terminal it is a shell. Otherwise it runs statement by statement and stops at the first
//! error. Results are printed as they arrive.

use crate::args::{Common, SqlArgs};
use crate::exit::exit_code;
use crate::failure::{Failure, Outcome};
use crate::shell::prompt;
use crate::shell::script::{self, Then};
use crate::shell::session::Session;
use crate::sql::failure::unprinted;
use crate::{out, shown, sqlite};
use serde_json::Value;
use std::io::{self, IsTerminal};

pub(crate) fn run(common: Common, args: &SqlArgs) -> Outcome {
    sqlite::api()?;
    let mut session = Session::new(common, args)?;
    if common.json {
        let path = shown::json(&Value::String(session.db.clone()));
        let begin = format!("{{\"path\":{path},\"results\":[");
        session.output.text(&begin)?;
    }
    let is_terminal = || io::stdin().is_terminal() && io::stdout().is_terminal();
    let done = match &args.sql {
        Some(sql) => script::run(&mut session, sql.as_bytes()),
        None if !common.json && is_terminal() => prompt::run(&mut session),
        None => script::run(&mut session, io::stdin().lock()),
    };
    let done = done.and_then(|flow| session.check_closed().map(|()| flow));
    finish(session, done)
}

/// Closes the database, ends the output, and reports the failure.
fn finish(session: Session, done: Result<Then, Failure>) -> Outcome {
    let (common, db, statements) = (session.common, session.db.clone(), session.place.statement);
    let failed = session.failed.unwrap_or(0);
    let (mut output, changes, done) = session.close(done);
    let (code, error) = match done {
        Ok(Then::End(code)) => (code, None),
        Ok(Then::Next) => (failed, None),
        Err(Failure::Other(kind, code, text, details)) => (code, Some((kind, code, text, details))),
        Err(Failure::Library(e)) => {
            let details = densite_tools::json::details(&e);
            let code = exit_code(&e);
            (code, Some((e.kind(), code, e.to_string(), details)))
        }
        Err(e) => return Err(e),
    };
    let mut end = String::new();
    if common.json {
        end = format!("],\"statements\":{statements},\"changes\":{changes}");
        if let Some((kind, code, text, details)) = &error {
            let described = out::error(kind, *code, text, details.clone());
            end += ",\"error\":";
            end += &shown::json_text(&described.to_string());
        }
        end += "}\n";
    }
    let printed = output.text(&end).and_then(|()| output.flush());
    match (error, printed) {
        // The error counts, even if the output is closed.
        (Some((kind, code, text, details)), _) => {
            out::failure(out::Object::None, kind, code, &text, details);
            Err(Failure::Reported(code))
        }
        (None, Err(e)) => Err(unprinted(e.into(), &format!("{db}: "), &[])),
        (None, Ok(())) => Ok(code),
    }
}
