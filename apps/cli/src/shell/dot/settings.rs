//! The commands that change how the shell works, and those that run or print something.

use super::super::session::{Flow, Session, Text};
use super::words::unescaped;
use crate::args::Format;
use crate::failure::Failure;
use crate::out;
use crate::shown;
use crate::sql::failure::other;
use crate::sql::literal::literal;
use crate::sql::pipe::{self, FromCommand, command_of};
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
    let mut style = session.output.style().clone();
    style.header = Some(on_or_off(arguments)?);
    session.output.set_style(style);
    Ok(Flow::Next)
}

pub(super) fn nullvalue(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let mut style = session.output.style().clone();
    argument(arguments, 0).clone_into(&mut style.null);
    session.output.set_style(style);
    Ok(Flow::Next)
}

pub(super) fn separator(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let mut given = arguments.iter().map(|text| unescaped(text));
    let separators = (given.next(), given.next());
    let format = session.output.format();
    let is_byte = separators.0.as_ref().is_some_and(|s| s.len() == 1);
    if matches!(format, Format::Csv | Format::Tsv) && (!is_byte || separators.1.is_some()) {
        return Err(other(
            "CSV has one ASCII character between values, and a line for each row; use .mode list"
                .to_owned(),
        ));
    }
    if !matches!(format, Format::Csv | Format::Tsv | Format::List) {
        return Err(other(format!(
            "results in the format {} have no separators; use .mode list or .mode csv first",
            format.name()
        )));
    }
    let mut style = session.output.style().clone();
    style.separators = separators;
    session.output.set_style(style);
    Ok(Flow::Next)
}

pub(super) fn bail(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.settings.bail = on_or_off(arguments)?;
    Ok(Flow::Next)
}

pub(super) fn changes(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.settings.changes = on_or_off(arguments)?;
    Ok(Flow::Next)
}

pub(super) fn echo(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.settings.echo = on_or_off(arguments)?;
    Ok(Flow::Next)
}

pub(super) fn timer(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.settings.timer = on_or_off(arguments)?;
    Ok(Flow::Next)
}

pub(super) fn version(session: &mut Session, _arguments: &[String]) -> Result<Flow, Failure> {
    let (ours, sqlite) = (env!("CARGO_PKG_VERSION"), rusqlite::version());
    let text = format!("Densite {ours}\nSQLite {sqlite}\n");
    session.output.text(&text)?;
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

pub(super) fn mode(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let Some(text) = arguments.first() else {
        let text = format!("current output mode: {}\n", session.output.format().name());
        session.output.text(&text)?;
        return Ok(Flow::Next);
    };
    let format = Format::from_str(text, true).map_err(|_| {
        let names: Vec<String> = Format::value_variants().iter().map(|f| f.name()).collect();
        other(format!(
            "there is no mode {text}; the modes are {}",
            names.join(", ")
        ))
    })?;
    let table = arguments.get(1).cloned();
    if table.is_some() && format != Format::Insert {
        return Err(other(format!(
            "the mode {} has no table; .mode insert has one",
            format.name()
        )));
    }
    let mut style = session.output.style().clone();
    style.table = table;
    session.output.set_style(style);
    session.output.set_format(format);
    Ok(Flow::Next)
}

pub(super) fn output(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    send(session, argument(arguments, 0), false)
}

pub(super) fn once(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    send(session, argument(arguments, 0), true)
}

/// Sends the following results to what a name stands for, or only the next one.
fn send(session: &mut Session, name: &str, is_once: bool) -> Result<Flow, Failure> {
    let output = &mut session.output;
    match (name, command_of(name)) {
        ("" | "stdout" | "-", _) => output.restore()?,
        ("off", _) => output.redirect(Path::new("/dev/null"), is_once)?,
        (_, Some(command)) => output.pipe(command, is_once)?,
        // A typing error, rather than the name of a file.
        (option, _) if option.starts_with('-') => {
            return Err(other(format!(
                "{option} is no option here; a file of this name is ./{option}"
            )));
        }
        (file, _) => output.redirect(Path::new(file), is_once)?,
    }
    Ok(Flow::Next)
}

pub(super) fn system(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    // What was printed before comes first.
    session.output.flush()?;
    // At the prompt the command can read the terminal. Otherwise stdin is the script.
    let is_prompt = session.interrupts.are_caught();
    let done = pipe::run(argument(arguments, 0), is_prompt);
    let status = done.map_err(|e| other(e.to_string()))?;
    if !status.success() {
        out::message(session.common, &format!("the command failed: {status}"));
    }
    Ok(Flow::Next)
}

pub(super) fn print(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    session.output.text(&format!("{}\n", arguments.join(" ")))?;
    Ok(Flow::Next)
}

pub(super) fn read(_session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let name = argument(arguments, 0).to_owned();
    let text = match command_of(&name) {
        Some(command) => FromCommand::start(command).map(Text::Command),
        None => File::open(&name).map(Text::File),
    };
    let text = text.map_err(|e| other(format!("{name} cannot be opened: {e}")))?;
    Ok(Flow::Read { name, text })
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
    let style = session.output.style();
    let settings = session.settings;
    let quoted = |text: &str| literal(rusqlite::types::ValueRef::Text(text.as_bytes()));
    let separator = style.separators.0.as_deref().map(quoted);
    let text = format!(
        " database: {}\n     mode: {}\n  headers: {}\nnullvalue: {}\nseparator: {}\n   output: {}\n    \
         timer: {}\n     echo: {}\n  changes: {}\n     bail: {}\n",
        shown::shown(&session.db),
        session.output.format().name(),
        style.header.map_or("by mode", on_off),
        shown::shown(&quoted(&style.null)),
        shown::shown(&separator.unwrap_or_else(|| "by mode".to_owned())),
        shown::shown(&file.unwrap_or_else(|| "stdout".to_owned())),
        on_off(settings.timer),
        on_off(settings.echo),
        on_off(settings.changes),
        on_off(settings.bail),
    );
    session.output.text(&text)?;
    Ok(Flow::Next)
}
