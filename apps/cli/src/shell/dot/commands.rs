//! The list of dot commands.

use super::super::session::{Flow, Session};
use super::{backup, dump, import, listing, settings};
use crate::failure::Failure;

/// A dot command.
pub(crate) struct Command {
    /// Without its dot.
    pub(crate) name: &'static str,
    /// Its arguments, for the help.
    pub(super) arguments: &'static str,
    pub(super) help: &'static str,
    /// The least and the greatest number of arguments.
    pub(super) takes: (usize, usize),
    pub(super) run: fn(&mut Session, &[String]) -> Result<Flow, Failure>,
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
        "backup",
        "[SCHEMA] FILE",
        "Copy the database into a file",
        (1, 2),
        backup::backup
    ),
    command!(
        "bail",
        "on|off",
        "Stop a script at its first error (the default)",
        (1, 1),
        settings::bail
    ),
    command!(
        "changes",
        "on|off",
        "Print how many rows each statement changes",
        (1, 1),
        settings::changes
    ),
    command!(
        "databases",
        "",
        "List the database and attached ones",
        (0, 0),
        listing::databases
    ),
    command!(
        "dump",
        "[TABLE]...",
        "Print the database as SQL; TABLE can have % and _",
        (0, 99),
        dump::run
    ),
    command!(
        "echo",
        "on|off",
        "Print statements and commands before they run",
        (1, 1),
        settings::echo
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
        "Print column names in tables, CSV and lists",
        (1, 1),
        settings::headers
    ),
    command!(
        "help",
        "[COMMAND]",
        "List the commands, or one of them",
        (0, 1),
        super::help
    ),
    command!(
        "import",
        "[--csv] [--schema NAME] [--skip N] FILE TABLE",
        "Load a file, or '|COMMAND', into a table",
        (2, 8),
        import::run
    ),
    command!(
        "indexes",
        "[TABLE]",
        "List the names of indexes",
        (0, 1),
        listing::indexes
    ),
    command!(
        "mode",
        "[MODE] [TABLE]",
        "Set the format of results, or show it",
        (0, 2),
        settings::mode
    ),
    command!(
        "nullvalue",
        "TEXT",
        "Print this text for NULL",
        (1, 1),
        settings::nullvalue
    ),
    command!(
        "once",
        "FILE",
        "Write the next result to a file, or to |COMMAND",
        (1, 1),
        settings::once
    ),
    command!(
        "open",
        "[--readonly] [FILE]",
        "Close the database and open another, or one in memory",
        (0, 2),
        backup::open
    ),
    command!(
        "output",
        "[FILE]",
        "Write results to a file, |COMMAND, off, or to stdout again",
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
        "Run the statements and commands of a file, or of |COMMAND",
        (1, 1),
        settings::read
    ),
    command!(
        "save",
        "FILE",
        "Copy the database into a file, as .backup does",
        (1, 1),
        backup::backup
    ),
    command!(
        "schema",
        "[TABLE]",
        "Print CREATE statements; TABLE can have % and _",
        (0, 1),
        listing::schema
    ),
    command!(
        "separator",
        "BETWEEN [AFTER]",
        "Set what lists and CSV print between values, and lists after rows",
        (1, 2),
        settings::separator
    ),
    command!(
        "shell",
        "COMMAND",
        "Run a command of the system",
        (1, 1),
        settings::system
    ),
    command!("show", "", "Show the settings", (0, 0), settings::show),
    command!(
        "system",
        "COMMAND",
        "Run a command of the system",
        (1, 1),
        settings::system
    ),
    command!(
        "tables",
        "[TABLE]",
        "List the names of tables and views; TABLE can have % and _",
        (0, 1),
        listing::tables
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
    command!(
        "version",
        "",
        "Print the versions of Densite and SQLite",
        (0, 0),
        settings::version
    ),
];
