//! Dot commands: a line that begins with a dot where a statement could begin.
//!
//! Names, arguments and effects are those of the sqlite3 shell. A name can be shortened while it
//! stands for one command.

mod backup;
mod commands;
mod dump;
mod import;
mod instead;
mod listing;
mod settings;
mod words;

pub(crate) use commands::COMMANDS;

use super::session::{Flow, Session};
use crate::failure::Failure;
use crate::sql::failure::other;
use commands::Command;
use serde_json::json;
use std::fmt::Write;

/// Commands whose only argument can be `|` and a command of the system.
const PIPES: [&str; 3] = ["once", "output", "read"];
/// Commands that are a command of the system.
const SYSTEM: [&str; 2] = ["shell", "system"];
/// Commands whose arguments are names. Those of the sqlite3 shell have options.
const NAMES: [&str; 4] = ["dump", "indexes", "schema", "tables"];

/// Runs a line that begins with a dot.
pub(crate) fn run(session: &mut Session, line: &str) -> Result<Flow, Failure> {
    let words = words_of(line).map_err(|why| at(session, line, &why))?;
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
    let option = arguments.iter().find(|word| word.starts_with("--"));
    if let Some(option) = option.filter(|_| NAMES.contains(&command.name)) {
        let why = format!("{option} is no option of .{}, which has none", command.name);
        return Err(at(session, line, &why));
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

/// The words of a line. A command of the system is one word: its quotes are those of its own shell.
fn words_of(line: &str) -> Result<Vec<String>, String> {
    let line = line.trim_start_matches('.');
    let two = line.split_once(char::is_whitespace);
    let two = two.map(|(name, rest)| (name, rest.trim()));
    let is_one = |name, rest: &str| {
        find(name).is_ok_and(|c| {
            SYSTEM.contains(&c.name) || PIPES.contains(&c.name) && rest.starts_with('|')
        })
    };
    match two {
        Some((name, rest)) if !rest.is_empty() && is_one(name, rest) => {
            Ok(vec![name.to_owned(), rest.to_owned()])
        }
        _ => words::split(line),
    }
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
            if let Some(instead) = instead::of(&name) {
                return Err(format!(".{name} does not exist here: {instead}"));
            }
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
