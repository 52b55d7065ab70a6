//! The commands that change how the shell works, and those that run or print something.

use super::super::failure::other;
use super::super::literal::literal;
use super::super::session::{Flow, Session};
use crate::args::Format;
use crate::failure::Failure;
use crate::shown;
use clap::ValueEnum;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

fn argument(arguments: &[String], index: usize) -> &str {
    arguments.get(index).map_or("", String::as_str)
}

fn on_or_off(arguments: &[String]) -> Result<bool, Failure> {
    match argument(arguments, 0).to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "1" => Ok(true),
        "off" | "no" | "false" | "0" => Ok(false),
        text => Err(other(format!("{text} is neither on nor off"))),
    }
}

pub(super) fn quit(_session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    match arguments.first() {
        None => Ok(Flow::End(0)),
        Some(text) => match text.parse() {
            Ok(code) => Ok(Flow::End(code)),
            Err(_) => Err(other(format!(
                "{text} is no exit code, which goes from 0 to 255"
            ))),
        },
    }
}

pub(super) fn headers(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.output.set_header(on_or_off(arguments)?);
    Ok(Flow::Next)
}

pub(super) fn timer(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.is_timed = on_or_off(arguments)?;
    Ok(Flow::Next)
}

pub(super) fn timeout(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let text = argument(arguments, 0);
    let millis: u32 = text
        .parse()
        .map_err(|_| other(format!("{text} is no number of milliseconds")))?;
    let set = session
        .connection
        .busy_timeout(Duration::from_millis(millis.into()));
    set.map_err(|e| other(e.to_string()))?;
    Ok(Flow::Next)
}

fn name_of(format: Format) -> String {
    let value = format.to_possible_value();
    value
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

pub(super) fn mode(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let Some(text) = arguments.first() else {
        let text = format!(
            "current output mode: {}\n",
            name_of(session.output.format())
        );
        session.output.text(&text)?;
        return Ok(Flow::Next);
    };
    let format = Format::from_str(text, true).map_err(|_| {
        let names: Vec<String> = Format::value_variants()
            .iter()
            .map(|f| name_of(*f))
            .collect();
        other(format!(
            "there is no mode {text}; the modes are {}",
            names.join(", ")
        ))
    })?;
    session.output.set_format(format);
    Ok(Flow::Next)
}

pub(super) fn output(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    match argument(arguments, 0) {
        "" | "stdout" | "-" => session.output.restore()?,
        file => session.output.redirect(Path::new(file), false)?,
    }
    Ok(Flow::Next)
}

pub(super) fn once(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session
        .output
        .redirect(Path::new(argument(arguments, 0)), true)?;
    Ok(Flow::Next)
}

pub(super) fn print(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.output.text(&format!("{}\n", arguments.join(" ")))?;
    Ok(Flow::Next)
}

pub(super) fn read(_session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let name = argument(arguments, 0).to_owned();
    let file = File::open(&name);
    let file = file.map_err(|e| other(format!("{name} cannot be opened: {e}")))?;
    Ok(Flow::Read { name, file })
}

pub(super) fn parameter(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    match (argument(arguments, 0), arguments.len()) {
        ("set", 3) => {
            let connection = std::rc::Rc::clone(&session.connection);
            let (name, value) = (argument(arguments, 1), argument(arguments, 2));
            session.params.set(name, value, &connection);
        }
        ("unset", 2) => session.params.unset(argument(arguments, 1)),
        ("clear", 1) => session.params.clear(),
        // The sqlite3 shell makes a table for them first.
        ("init", 1) => {}
        ("list", 1) => {
            let lines: String = session
                .params
                .list()
                .map(|(name, value)| format!("{} {}\n", shown::shown(name), literal(value.into())))
                .collect();
            session.output.text(&lines)?;
        }
        _ => {
            return Err(other(
                "the command is .parameter set NAME VALUE, unset NAME, list or clear".to_owned(),
            ));
        }
    }
    Ok(Flow::Next)
}

pub(super) fn show(session: &mut Session, _arguments: &[String]) -> Result<Flow, Failure> {
    let on_off = |is_on| if is_on { "on" } else { "off" };
    let file = session.output.file().map(|file| file.display().to_string());
    let text = format!(
        "database: {}\n    mode: {}\n headers: {}\n  output: {}\n   timer: {}\n",
        shown::shown(&session.db),
        name_of(session.output.format()),
        on_off(session.output.has_header()),
        shown::shown(&file.unwrap_or_else(|| "stdout".to_owned())),
        on_off(session.is_timed),
    );
    session.output.text(&text)?;
    Ok(Flow::Next)
}
