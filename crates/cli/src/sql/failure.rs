//! Failures of SQL, with the place of the statement and the exit code.

use super::split::Piece;
use crate::failure::Failure;
use densite_sqlite::Code;
use serde_json::json;

const FREE_SPACE: &str = "; free some disk space and try again";
const RESTORE: &str = "; run densite check and restore it from a backup";

/// Whether SQLite's result code says that the disk is full.
fn is_no_space(sqlite_code: Option<i32>) -> bool {
    sqlite_code.is_some_and(|code| code & 0xff == Code::FULL.0 || code == Code::IOERR_SHMSIZE.0)
}

/// Where a failure happened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At<'a> {
    /// At the database, and not in a statement.
    Database,
    /// In the statement with this number.
    Statement(u64, &'a Piece),
    /// In the statement that the user has just typed.
    Prompt,
}

/// A failure that names the statement, with the exit code for SQLite's result code.
pub(crate) fn failure(db: &str, at: At<'_>, e: &rusqlite::Error) -> Failure {
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
        (At::Database, Some(said)) => {
            let (kind, code, advice) = match sqlite_code.map(|code| code & 0xff) {
                _ if is_no_space(sqlite_code) => ("no_space", 4, FREE_SPACE),
                Some(11) => ("damaged", 5, RESTORE),
                _ => ("sql", 1, ""),
            };
            return Failure::Other(
                kind,
                code,
                format!("{said}{advice}"),
                json!({ "path": db, "sqlite_code": sqlite_code }),
            );
        }
        (_, Some(said)) => format!("{message}: {said}"),
        (_, None) => message,
    };
    // It would be a path, whose directory is missing.
    let mistaken = densite_vfs::mistaken_url(db).filter(|_| matches!(at, At::Database));
    if let (Some(why), Some(14)) = (mistaken, sqlite_code.map(|c| c & 0xff)) {
        let fields = json!({ "path": db, "sqlite_code": sqlite_code });
        return Failure::Other("sql", 1, format!("{db}: {why}"), fields);
    }
    // SQLite says no more of a format that another program made of its own.
    if let (Some(26), Ok(api)) = (sqlite_code.map(|c| c & 0xff), crate::sqlite::api())
        && let Err(e @ densite_tools::Error::OtherFormat { .. }) =
            densite_tools::info(api, std::path::Path::new(db))
    {
        return e.into();
    }
    let (kind, code, advice) = match sqlite_code.map(|c| c & 0xff) {
        Some(9) => ("interrupted", 130, ""),
        // Messages of our own already say what to do.
        Some(14) if message.contains("too many open files") => ("sql", 1, ""),
        Some(5 | 6) if message.ends_with("; end it first") => ("locked", 3, ""),
        Some(5 | 6) => ("locked", 3, "; another connection uses it, try again later"),
        _ if is_no_space(sqlite_code) => ("no_space", 4, FREE_SPACE),
        Some(11) if message.contains("densite log check") => ("damaged", 5, ""),
        Some(11) => ("damaged", 5, RESTORE),
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
        At::Prompt => Failure::Other(
            kind,
            code,
            format!("{message}{advice}"),
            json!({ "path": db, "sqlite_code": sqlite_code }),
        ),
        At::Database => Failure::Other(
            kind,
            code,
            format!("{db}: {message}{advice}"),
            json!({ "path": db, "sqlite_code": sqlite_code }),
        ),
        At::Statement(number, piece) => Failure::Other(
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

/// Completes an error of the output with its place and with what was `lost`. If nothing was lost,
/// a closed output is no error: the reader got all it wanted.
pub(crate) fn unprinted(e: Failure, place: &str, lost: &[&str]) -> Failure {
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

/// A failure of a verb that runs SQL, which SQLite has no code for.
pub(crate) fn other(text: String) -> Failure {
    Failure::Other("sql", 1, text, json!({}))
}
