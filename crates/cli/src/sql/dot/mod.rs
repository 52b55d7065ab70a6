//! Dot commands: a line that begins with a dot where a statement could begin.
//!
//! Names, arguments and effects are those of the sqlite3 shell. A name can be shortened while it
//! stands for one command.

mod dump;
mod import;
mod names;
mod settings;
mod words;

use super::failure::other;
use super::session::{Flow, Session};
use crate::failure::Failure;
use serde_json::json;
use std::fmt::Write;

/// A dot command.
pub(crate) struct Command {
    /// Without its dot.
    pub(crate) name: &'static str,
    /// Its arguments, for the help.
    arguments: &'static str,
    help: &'static str,
    /// The least and the greatest number of arguments.
    takes: (usize, usize),
    run: fn(&mut Session, &[String]) -> Result<Flow, Failure>,
}

macro_rules! command {
    ($name:literal, $arguments:literal, $help:literal, $takes:expr, $run:path) => {
        Command {
            name: $name,
            arguments: $arguments,
            help: $help,
            takes: $takes,
            run: $run,
        }
    };
}

/// All dot commands, by name.
pub(crate) const COMMANDS: &[Command] = &[
    command!(
        "databases",
        "",
        "List the database and attached ones",
        (0, 0),
        names::databases
    ),
    command!(
        "dump",
        "[TABLE]...",
        "Print the database as SQL; TABLE can have % and _",
        (0, 99),
        dump::run
    ),
    command!(
        "exit",
        "[CODE]",
        "End, with this exit code",
        (0, 1),
        settings::quit
    ),
    command!(
        "headers",
        "on|off",
        "Print column names in tables and CSV",
        (1, 1),
        settings::headers
    ),
    command!(
        "help",
        "[COMMAND]",
        "List the commands, or one of them",
        (0, 1),
        help
    ),
    command!(
        "import",
        "[--csv] [--skip N] FILE TABLE",
        "Load a file into a table",
        (2, 6),
        import::run
    ),
    command!(
        "indexes",
        "[TABLE]",
        "List the names of indexes",
        (0, 1),
        names::indexes
    ),
    command!(
        "mode",
        "[MODE]",
        "Set the format of results, or show it",
        (0, 1),
        settings::mode
    ),
    command!(
        "once",
        "FILE",
        "Write the next result to a file",
        (1, 1),
        settings::once
    ),
    command!(
        "output",
        "[FILE]",
        "Write results to a file, or to stdout again",
        (0, 1),
        settings::output
    ),
    command!(
        "parameter",
        "set NAME VALUE|unset NAME|list|clear",
        "Change the values of parameters",
        (1, 3),
        settings::parameter
    ),
    command!(
        "print",
        "[TEXT]...",
        "Print a text",
        (0, 99),
        settings::print
    ),
    command!("quit", "", "End", (0, 0), settings::quit),
    command!(
        "read",
        "FILE",
        "Run the statements and commands of a file",
        (1, 1),
        settings::read
    ),
    command!(
        "schema",
        "[TABLE]",
        "Print CREATE statements; TABLE can have % and _",
        (0, 1),
        names::schema
    ),
    command!("show", "", "Show the settings", (0, 0), settings::show),
    command!(
        "tables",
        "[TABLE]",
        "List the names of tables and views; TABLE can have % and _",
        (0, 1),
        names::tables
    ),
    command!(
        "timeout",
        "MILLISECONDS",
        "Set how long a statement waits for a lock",
        (1, 1),
        settings::timeout
    ),
    command!(
        "timer",
        "on|off",
        "Print how long each statement takes",
        (1, 1),
        settings::timer
    ),
];

/// Runs a line that begins with a dot.
pub(crate) fn run(session: &mut Session, line: &str) -> Result<Flow, Failure> {
    let words =
        words::split(line.trim_start_matches('.')).map_err(|why| at(session, line, &why))?;
    let Some((name, arguments)) = words.split_first() else {
        return Err(at(session, line, "a dot alone is no command; type .help"));
    };
    let command = find(name).map_err(|why| at(session, line, &why))?;
    if session.common.json {
        let why = "dot commands do not work with --json; leave one of them out";
        return Err(at(session, line, why));
    }
    let (least, most) = command.takes;
    if !(least..=most).contains(&arguments.len()) {
        let usage = format!("the command is .{} {}", command.name, command.arguments);
        return Err(at(session, line, usage.trim_end()));
    }
    let mut done = (command.run)(session, arguments);
    // .once means the next command, or the next statement.
    if command.name != "once" && done.is_ok() {
        done = session.output.end_of_command().and(done);
    }
    done.map_err(|e| match e {
        Failure::Other("sql", _, why, _) if session.interrupts.has_come() => {
            Failure::Other("interrupted", 130, why, json!({}))
        }
        Failure::Other("sql", 1, why, _) => at(session, line, &why),
        e => e,
    })
}

/// A failure with its place, which the user knows at the prompt.
fn at(session: &Session, line: &str, why: &str) -> Failure {
    match session.interrupts.are_caught() {
        true => other(why.to_owned()),
        false => other(format!("line {} ({line}): {why}", session.place.line)),
    }
}

/// The command of a name, or of the beginning of one.
fn find(name: &str) -> Result<&'static Command, String> {
    let name = name.to_ascii_lowercase();
    if let Some(command) = COMMANDS.iter().find(|c| c.name == name) {
        return Ok(command);
    }
    let begins = COMMANDS.iter().filter(|c| c.name.starts_with(&name));
    let begins: Vec<&Command> = begins.collect();
    match begins.as_slice() {
        [command] => Ok(command),
        [] => {
            let slips = |c: &&Command| strsim::damerau_levenshtein(c.name, &name);
            let nearest = COMMANDS.iter().min_by_key(slips).map_or("help", |c| c.name);
            Err(format!(
                "there is no command .{name}: did you mean .{nearest}? .help lists all"
            ))
        }
        several => {
            let names: Vec<String> = several.iter().map(|c| format!(".{}", c.name)).collect();
            Err(format!(
                ".{name} can be {}; type more of it",
                names.join(" or ")
            ))
        }
    }
}

fn help(session: &mut Session, arguments: &[String]) -> Result<Flow, Failure> {
    let mut text = String::new();
    let one = match arguments.first() {
        Some(name) => Some(find(name.trim_start_matches('.')).map_err(other)?.name),
        None => None,
    };
    for command in COMMANDS
        .iter()
        .filter(|c| one.is_none_or(|one| one == c.name))
    {
        let usage = format!(".{} {}", command.name, command.arguments);
        let _ = writeln!(text, "{usage:<36} {}", command.help);
    }
    if one.is_none() {
        text +=
            "Statements end with a semicolon. Ctrl-C stops a statement, Ctrl-D ends the shell.\n";
    }
    session.output.text(&text)?;
    Ok(Flow::Next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_shortened_and_misspelled() {
        assert!(COMMANDS.is_sorted_by_key(|c| c.name));
        for (typed, name) in [
            ("tables", "tables"),
            ("TAB", "tables"),
            ("q", "quit"),
            ("sch", "schema"),
        ] {
            assert_eq!(find(typed).map(|c| c.name), Ok(name), "{typed}");
        }
        let said = find("talbes").map(|c| c.name).expect_err("misspelled");
        assert!(said.contains("did you mean .tables?"), "{said}");
        let said = find("h").map(|c| c.name).expect_err("two commands");
        assert!(said.contains(".headers or .help"), "{said}");
    }
}
