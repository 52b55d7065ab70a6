//! What statements and dot commands share: the connection, the output, parameters, and settings.

use crate::args::{Common, Format, SqlArgs};
use crate::failure::Failure;
use crate::out::Object;
use crate::progress::Fetching;
use crate::sql::failure::{At, failure, other, with_nearest};
use crate::sql::format::{Column, Wrapped};
use crate::sql::interrupt::Interrupts;
use crate::sql::open::{Access, Opened, shown_name};
use crate::sql::output::Output;
use crate::sql::params::Params;
use crate::sql::pipe::FromCommand;
use crate::sql::split::Piece;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection};
use std::fs::File;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::Instant;

/// What follows after a command.
#[derive(Debug)]
pub(crate) enum Flow {
    /// The next command.
    Next,
    /// The commands of a text, then the next one.
    Read { name: String, text: Text },
    /// The end, with this exit code.
    End(u8),
}

/// A text of statements and commands.
#[derive(Debug)]
pub(crate) enum Text {
    File(File),
    Command(FromCommand),
}

impl Read for Text {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Text::File(file) => file.read(bytes),
            Text::Command(command) => command.read(bytes),
        }
    }
}

/// A place in a text: the number of a statement, and the line in which it begins, both from 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) statement: u64,
    pub(crate) line: u64,
}

/// What dot commands turn on and off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Whether a text ends at its first error.
    pub(crate) bail: bool,
    /// Whether the number of changed rows is printed after each statement.
    pub(crate) changes: bool,
    /// Whether statements and commands are printed before they run.
    pub(crate) echo: bool,
    /// Whether the time of each statement is printed.
    pub(crate) timer: bool,
}

/// A run of statements and dot commands.
pub(crate) struct Session {
    pub(crate) common: Common,
    /// The name of the database for messages.
    pub(crate) db: String,
    is_remote: bool,
    pub(crate) connection: Rc<Connection>,
    opened: Opened,
    pub(crate) output: Output,
    pub(crate) params: Params,
    pub(crate) settings: Settings,
    /// The exit code of the first error after which the run went on.
    pub(crate) failed: Option<u8>,
    pub(crate) interrupts: Interrupts,
    /// The statement or command that runs.
    pub(crate) place: Place,
}

impl Session {
    pub(crate) fn new(common: Common, args: &SqlArgs) -> Result<Session, Failure> {
        let access = match args.create {
            true => Access::Create,
            false => Access::ExistingUnlessAsked,
        };
        let opened = Opened::new(&args.db, access)?;
        let by_name = args.output.as_deref().and_then(Format::of_name);
        let format = args.format.or(by_name).unwrap_or(Format::Table);
        let mut output = Output::new(format);
        if common.json {
            output = output.with_sink(Box::new(Wrapped::default()));
        } else if let Some(file) = &args.output {
            output.redirect(file, false)?;
        }
        Ok(Session {
            common,
            db: shown_name(&args.db),
            is_remote: is_remote(&args.db),
            connection: opened.get()?,
            opened,
            output,
            params: Params::new(&args.param),
            settings: Settings {
                bail: true,
                changes: false,
                echo: false,
                timer: false,
            },
            failed: None,
            interrupts: Interrupts::default(),
            place: Place::default(),
        })
    }

    /// Closes the database and opens another one in its place. If that fails, the first one stays
    /// open. Returns whether the other one was created.
    pub(crate) fn reopen(&mut self, db: &str, access: Access) -> Result<bool, Failure> {
        if !self.connection.is_autocommit() {
            let text = "a transaction is open; end it with COMMIT or ROLLBACK first";
            return Err(other(text.to_owned()));
        }
        let opened = Opened::new(db, access)?;
        let is_new = opened.is_new();
        self.connection = opened.get()?;
        self.interrupts.follow(&self.connection);
        let before = std::mem::replace(&mut self.opened, opened);
        let name = std::mem::replace(&mut self.db, shown_name(db));
        self.is_remote = is_remote(db);
        let closed = before.keep();
        closed.map_err(|e| failure(&name, At::Database, &e))?;
        Ok(is_new)
    }

    /// Reports a failure if the run goes on after it; otherwise returns it.
    pub(crate) fn go_on(&mut self, failure: Failure) -> Result<(), Failure> {
        match failure {
            Failure::Library(_) | Failure::Other(..) if !self.settings.bail => {
                self.output.flush()?;
                let code = failure.report(Object::None);
                // At the prompt an error is no failure of the shell.
                if !self.interrupts.are_caught() {
                    self.failed.get_or_insert(code);
                }
                Ok(())
            }
            failure => Err(failure),
        }
    }

    /// Runs a statement and prints its result.
    pub(crate) fn statement(&mut self, piece: &Piece) -> Result<(), Failure> {
        self.place.statement += 1;
        self.place.line = piece.line;
        let begin = Instant::now();
        if self.settings.echo {
            self.output.text(&format!("{}\n", piece.sql.trim()))?;
        }
        self.run(piece)?;
        self.output.end_of_command()?;
        if self.settings.changes {
            let (last, all) = (self.connection.changes(), self.connection.total_changes());
            let text = format!("changes: {last:3}   total_changes: {all}\n");
            self.output.text(&text)?;
        }
        if self.settings.timer {
            let seconds = begin.elapsed().as_secs_f64();
            self.output
                .text(&format!("Run Time: real {seconds:.6}\n"))?;
        }
        Ok(())
    }

    fn run(&mut self, piece: &Piece) -> Result<(), Failure> {
        // Clears a message of the VFS from an earlier statement that succeeded after all.
        let _ = densite_vfs::take_last_error();
        let at = match self.interrupts.are_caught() {
            true => At::Prompt,
            false => At::Statement(self.place.statement, piece),
        };
        let failed = |e: rusqlite::Error| failure(&self.db, at, &with_nearest(&self.connection, e));
        let mut batch = Batch::new(&self.connection, &piece.sql);
        let fetching = Fetching::new(self.common, self.is_remote);
        while let Some(mut statement) = batch.next().map_err(failed)? {
            self.params.bind(&mut statement).map_err(failed)??;
            let column = |column: rusqlite::Column<'_>| Column {
                name: column.name().to_owned(),
                declared: column.decl_type().map(str::to_owned),
            };
            let columns: Vec<Column> = statement.columns().map(column).collect();
            let is_readonly = statement.readonly();
            let mut rows = statement.raw_query();
            if columns.is_empty() {
                while rows.next().map_err(failed)?.is_some() {}
                continue;
            }
            match self.output.print(&columns, &mut rows, || fetching.end()) {
                Ok(done) => {
                    done.map_err(failed)?;
                    // The command that reads the rows can have ended before.
                    while !is_readonly && rows.next().map_err(failed)?.is_some() {}
                }
                Err(e) => {
                    // A change counts only if the statement ends without an error.
                    while !is_readonly && rows.next().map_err(failed)?.is_some() {}
                    return Err(e.into());
                }
            }
        }
        Ok(())
    }

    /// An open transaction is rolled back at the end, which is an error, because its changes are
    /// lost.
    pub(crate) fn check_closed(&self) -> Result<(), Failure> {
        match self.connection.is_autocommit() {
            true => Ok(()),
            false => Err(other(
                "the text ends inside a transaction, which was rolled back; end it with COMMIT"
                    .to_string(),
            )),
        }
    }

    /// Closes the database, after `done`. Returns the output for the end of a JSON object, the
    /// number of changed rows, and the result.
    pub(crate) fn close<T>(self, done: Result<T, Failure>) -> (Output, u64, Result<T, Failure>) {
        let Session {
            db,
            connection,
            opened,
            output,
            ..
        } = self;
        let changes = connection.total_changes();
        drop(connection);
        let closed = match &done {
            Ok(_) | Err(Failure::Closed) => opened.keep(),
            // A database that the failed run created, and that has nothing, is removed.
            Err(_) => {
                drop(opened);
                Ok(())
            }
        };
        // The last close finishes the work of WAL mode. An error there is an error of the command.
        let done = closed.map_err(|e| failure(&db, At::Database, &e)).and(done);
        (output, changes, done)
    }
}

fn is_remote(db: &str) -> bool {
    densite_vfs::is_url(db.strip_prefix("file:").unwrap_or(db))
}
