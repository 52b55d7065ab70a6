//! `densite sql DB [SQL]`
//!
//! Runs statement by statement and stops at the first error. Results are printed as they arrive.

use crate::args::{Common, Format, SqlArgs};
use crate::exit::exit_code;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Fetching;
use crate::shown;
use crate::sql::format::{Csv, Json, Sink, Tables, Wrapped};
use crate::sql::split::{Piece, Splitter};
use crate::sqlite;
use densite_sqlite::Code;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, OpenFlags, Rows};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// How long a statement waits for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run(common: Common, args: &SqlArgs) -> Outcome {
    sqlite::api()?;
    let connection = open(&args.db, args.create)?;
    let db = shown_name(&args.db);
    let is_remote = densite_vfs::is_url(args.db.strip_prefix("file:").unwrap_or(&args.db));
    let mut run = Run {
        db: &db,
        common,
        is_remote,
        connection,
        sink: match (common.json, args.format) {
            (true, _) => Box::new(Wrapped::default()),
            (false, Format::Table) => Box::new(Tables::default()),
            (false, Format::Csv) => Box::new(Csv),
            (false, Format::Json) => Box::new(Json::default()),
        },
        out: BufWriter::new(io::stdout().lock()),
        statements: 0,
        line: 1,
    };
    if common.json {
        write!(
            run.out,
            "{{\"path\":{},\"results\":[",
            shown::json(&Value::String(db.clone()))
        )?;
    }
    let done = match &args.sql {
        Some(sql) => run.text(sql.as_bytes()),
        None => run.text(io::stdin().lock()),
    };
    let done = done.and_then(|()| run.close());
    run.finish(common.json, done)
}

/// Opens the database. A missing database is created if `create` is set. Problems with the path are
/// reported in our words, because SQLite only says that it cannot open the file.
pub(super) fn open(db: &str, create: bool) -> Result<Connection, Failure> {
    let uri = db.starts_with("file:");
    if !uri && db != ":memory:" && !densite_vfs::is_url(db) && !densite_vfs::is_replica(db) {
        let path = Path::new(db);
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                return Err(densite_tools::Error::IsDirectory {
                    path: path.to_path_buf(),
                }
                .into());
            }
            Ok(_) => {}
            Err(_) => {
                let dir = densite_tools::parent_of(path);
                if !dir.is_dir() {
                    return Err(densite_tools::Error::NotFound { path: dir }.into());
                }
                if !create {
                    return Err(Failure::Other(
                        "not_found",
                        1,
                        format!(
                            "{db}: there is no such file; check the path, or give --create to create a new database"
                        ),
                        json!({ "path": db }),
                    ));
                }
            }
        }
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    if uri {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    let name = match uri {
        true => with_our_vfs(db),
        false => db.to_owned(),
    };
    let ready = Connection::open_with_flags_and_vfs(name, flags, sqlite::VFS).and_then(|c| {
        c.busy_timeout(BUSY_TIMEOUT)?;
        // SQLite's own default; the linked library was built with another one.
        c.pragma_update(None, "foreign_keys", false)?;
        Ok(c)
    });
    ready.map_err(|e| failure(&shown_name(db), None, &without_name(e, db)))
}

/// An error of opening without the name that SQLite was given, which can have secrets.
fn without_name(e: rusqlite::Error, db: &str) -> rusqlite::Error {
    let shown = shown_name(db);
    match e {
        rusqlite::Error::SqliteFailure(code, Some(said)) if shown != db => {
            let said = said.replace(&with_our_vfs(db), &shown).replace(db, &shown);
            rusqlite::Error::SqliteFailure(code, Some(said))
        }
        other => other,
    }
}

/// A database's name for messages. A URL can have secrets, which are left out.
fn shown_name(db: &str) -> String {
    let path = db.strip_prefix("file:").unwrap_or(db);
    match densite_vfs::is_url(path) {
        // In a URI the URL's own query is escaped.
        true => {
            let escaped = path.find("%3F").or_else(|| path.find("%3f"));
            densite_vfs::shown_url(path.get(..escaped.unwrap_or(path.len())).unwrap_or(path))
        }
        false => db.to_owned(),
    }
}

/// The URI with our VFS added. If it names a VFS itself, unknown parameters are an error.
fn with_our_vfs(uri: &str) -> String {
    let (uri, fragment) = match uri.split_once('#') {
        Some((uri, fragment)) => (uri, format!("#{fragment}")),
        None => (uri, String::new()),
    };
    let parameters = uri.split_once('?').map(|(_, parameters)| parameters);
    let mut keys = parameters.into_iter().flat_map(|p| p.split('&'));
    if keys.any(|p| p.starts_with("vfs=")) {
        return format!("{uri}{fragment}");
    }
    let between = match parameters {
        Some(_) => '&',
        None => '?',
    };
    format!("{uri}{between}vfs={}{fragment}", sqlite::VFS)
}

struct Run<'a> {
    db: &'a str,
    common: Common,
    is_remote: bool,
    connection: Connection,
    sink: Box<dyn Sink>,
    out: BufWriter<io::StdoutLock<'static>>,
    statements: u64,
    /// The line in which the last statement that was run begins.
    line: u64,
}

impl Run<'_> {
    /// Runs all statements of a text.
    fn text(&mut self, mut text: impl BufRead) -> Result<(), Failure> {
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
            if line.contains('\0') {
                return Err(other(
                    "the SQL text has a zero byte, at which SQLite would stop; remove it"
                        .to_string(),
                ));
            }
            if splitter.is_blank() && line.trim_start().starts_with('.') {
                return Err(other(format!(
                    "{}: commands with a dot work only in the sqlite3 shell; use SQL statements and --format",
                    line.trim()
                )));
            }
            let pieces = splitter.push(&line);
            let count = pieces.len();
            for (piece, number) in pieces.iter().zip(1..) {
                if let Err(e) = self.piece(piece) {
                    let later = || number < count || has_more(splitter, text);
                    return Err(self.stopped(e, later));
                }
            }
            if count > 0
                // A program that writes our stdin can wait for the answer before it writes more.
                && let Err(e) = self.out.flush()
            {
                return Err(self.stopped(e.into(), || has_more(splitter, text)));
            }
        }
        let done = match splitter.finish() {
            Some(piece) => self.piece(&piece),
            None => Ok(()),
        };
        done.map_err(|e| self.stopped(e, || false))
    }

    /// Adds to an error of the output what was not run. `later` tells whether the text has more
    /// statements.
    fn stopped(&self, e: Failure, later: impl FnOnce() -> bool) -> Failure {
        let mut lost = Vec::new();
        if matches!(e, Failure::Closed | Failure::Output(_)) {
            lost.extend(later().then_some("later statements were not run"));
            let is_open = !self.connection.is_autocommit();
            lost.extend(is_open.then_some("the open transaction was rolled back"));
        }
        unprinted(
            e,
            &format!(
                "{}: statement {}, line {}: ",
                self.db, self.statements, self.line
            ),
            &lost,
        )
    }

    fn piece(&mut self, piece: &Piece) -> Result<(), Failure> {
        let Run {
            db,
            common,
            is_remote,
            connection,
            sink,
            out,
            statements,
            line,
        } = self;
        *statements += 1;
        *line = piece.line;
        // Clears a message of the VFS from an earlier statement that succeeded after all.
        let _ = densite_vfs::take_last_error();
        let number = *statements;
        let failed = |e: rusqlite::Error| failure(db, Some((number, piece)), &e);
        let mut batch = Batch::new(connection, &piece.sql);
        let fetching = Fetching::new(*common, *is_remote);
        while let Some(mut statement) = batch.next().map_err(failed)? {
            let columns: Vec<String> = statement.column_names().map(str::to_string).collect();
            let is_readonly = statement.readonly();
            let mut rows = statement.raw_query();
            if columns.is_empty() {
                while rows.next().map_err(failed)?.is_some() {}
                continue;
            }
            match print(sink.as_mut(), out, &columns, &mut rows, &fetching) {
                Ok(done) => done.map_err(failed)?,
                Err(e) => {
                    // A change counts only if the statement ends without an error.
                    while !is_readonly && rows.next().map_err(failed)?.is_some() {}
                    return Err(e.into());
                }
            }
        }
        Ok(())
    }

    /// Rolls back an open transaction and returns an error, because its changes are lost.
    fn close(&mut self) -> Result<(), Failure> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        Err(other(
            "the text ends inside a transaction, which was rolled back; end it with COMMIT"
                .to_string(),
        ))
    }

    fn finish(self, json: bool, done: Result<(), Failure>) -> Outcome {
        let Run {
            db,
            connection,
            mut out,
            statements,
            ..
        } = self;
        let changes = connection.total_changes();
        // The last close finishes the work of WAL mode. An error there is an error of the command.
        let done = match (done, connection.close()) {
            (Ok(()) | Err(Failure::Closed), Err((_, e))) => Err(failure(db, None, &e)),
            (done, _) => done,
        };
        let error = match done {
            Ok(()) => None,
            Err(Failure::Other(kind, code, text, details)) => Some((kind, code, text, details)),
            Err(Failure::Library(e)) => {
                let details = densite_tools::json::details(&e);
                Some((e.kind(), exit_code(&e), e.to_string(), details))
            }
            Err(e) => return Err(e),
        };
        let mut end = String::new();
        if json {
            end = format!("],\"statements\":{statements},\"changes\":{changes}");
            if let Some((kind, code, text, details)) = &error {
                let described = out::error(kind, *code, text, details.clone());
                end += ",\"error\":";
                end += &shown::json_text(&described.to_string());
            }
            end += "}\n";
        }
        let printed = out.write_all(end.as_bytes()).and_then(|()| out.flush());
        match (error, printed) {
            // The error counts, even if the output is closed.
            (Some((kind, code, text, details)), _) => {
                out::failure(out::Object::None, kind, code, &text, details);
                Err(Failure::Reported(code))
            }
            (None, Err(e)) => Err(unprinted(e.into(), &format!("{db}: "), &[])),
            (None, Ok(())) => Ok(0),
        }
    }
}

/// Prints the result of a statement. The outer error is one of the output, the inner one is
/// SQLite's.
fn print(
    sink: &mut dyn Sink,
    out: &mut dyn Write,
    columns: &[String],
    rows: &mut Rows<'_>,
    fetching: &Fetching,
) -> io::Result<rusqlite::Result<()>> {
    // Fetches the first row before the header is printed, so a statement that fails at once prints
    // no header.
    let mut row = match rows.next() {
        Ok(row) => row,
        Err(e) => return Ok(Err(e)),
    };
    fetching.end();
    sink.begin(out, columns)?;
    let mut done = Ok(());
    while let Some(r) = row {
        let values: Result<Vec<ValueRef<'_>>, _> =
            (0..columns.len()).map(|i| r.get_ref(i)).collect();
        match values {
            Ok(values) => sink.row(out, &values)?,
            Err(e) => {
                done = Err(e);
                break;
            }
        }
        match rows.next() {
            Ok(next) => row = next,
            Err(e) => {
                done = Err(e);
                break;
            }
        }
    }
    sink.end(out)?;
    Ok(done)
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

/// Completes an error of the output with its place and with what was `lost`. If nothing was lost,
/// a closed output is no error: the reader got all it wanted.
fn unprinted(e: Failure, place: &str, lost: &[&str]) -> Failure {
    let lost = lost.join(", and ");
    match &e {
        Failure::Closed if !lost.is_empty() => Failure::Unprinted(format!(
            "{place}the reader closed the output; {lost}; read the whole output, or run the rest again"
        )),
        Failure::Output(io) => {
            let lost = match lost.is_empty() {
                true => "all statements were run",
                false => &lost,
            };
            Failure::Unprinted(format!("{place}cannot write the output: {io}; {lost}"))
        }
        _ => e,
    }
}

fn other(text: String) -> Failure {
    Failure::Other("sql", 1, text, json!({}))
}

const FREE_SPACE: &str = "; free some disk space and try again";

/// Whether SQLite's result code says that the disk is full.
fn is_no_space(sqlite_code: Option<i32>) -> bool {
    sqlite_code.is_some_and(|code| code & 0xff == Code::FULL.0 || code == Code::IOERR_SHMSIZE.0)
}

/// A failure that names the statement, with the exit code for SQLite's result code.
pub(super) fn failure(db: &str, at: Option<(u64, &Piece)>, e: &rusqlite::Error) -> Failure {
    let (sqlite_code, message) = match e {
        rusqlite::Error::SqliteFailure(error, Some(message)) => {
            (Some(error.extended_code), message.clone())
        }
        rusqlite::Error::SqliteFailure(error, None) => {
            (Some(error.extended_code), error.to_string())
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            (Some(error.extended_code), msg.clone())
        }
        other => (None, other.to_string()),
    };
    // SQLite has only a few messages for errors of our VFS. The VFS keeps the full message, with
    // the path.
    let message = match (at, densite_vfs::take_last_error()) {
        (None, Some(said)) => {
            let (kind, code, advice) = match is_no_space(sqlite_code) {
                true => ("no_space", 4, FREE_SPACE),
                false => ("sql", 1, ""),
            };
            return Failure::Other(
                kind,
                code,
                format!("{said}{advice}"),
                json!({ "path": db, "sqlite_code": sqlite_code }),
            );
        }
        (Some(_), Some(said)) => format!("{message}: {said}"),
        (_, None) => message,
    };
    let (kind, code, advice) = match sqlite_code.map(|c| c & 0xff) {
        // Messages of our own already say what to do.
        Some(14) if message.contains("too many open files") => ("sql", 1, ""),
        Some(5 | 6) if message.ends_with("; end it first") => ("locked", 3, ""),
        Some(5 | 6) => ("locked", 3, "; another connection uses it, try again later"),
        _ if is_no_space(sqlite_code) => ("no_space", 4, FREE_SPACE),
        Some(11) if message.contains("densite log check") => ("damaged", 5, ""),
        Some(11) => (
            "damaged",
            5,
            "; run densite check and restore it from a backup",
        ),
        Some(26) => ("not_a_database", 5, "; check the path"),
        Some(8) => (
            "sql",
            1,
            "; it was opened for reading only, or check owner and mode of the file and its directory",
        ),
        Some(14) => (
            "sql",
            1,
            "; check the path, and owner and mode of the file and its directory",
        ),
        _ => ("sql", 1, ""),
    };
    match at {
        None => Failure::Other(
            kind,
            code,
            format!("{db}: {message}{advice}"),
            json!({ "path": db, "sqlite_code": sqlite_code }),
        ),
        Some((number, piece)) => Failure::Other(
            kind,
            code,
            format!(
                "{db}: statement {number}, line {} ({}): {message}{advice}",
                piece.line,
                short(&piece.sql)
            ),
            json!({ "path": db, "sqlite_code": sqlite_code, "statement": number, "line": piece.line }),
        ),
    }
}

/// A statement shortened to one line.
fn short(sql: &str) -> String {
    const MOST: usize = 60;
    let mut words = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|c| !c.is_control());
    if words.chars().count() > MOST {
        words = words.chars().take(MOST).collect::<String>() + "...";
    }
    words
}
