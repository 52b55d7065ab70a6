//! Failures of SQL, with the place of the statement and the exit code.

use super::split::Piece;
use crate::failure::Failure;
use densite_sqlite::{Code, CompileError};
use rusqlite::Connection;
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// The error, with the table whose name is nearest if SQLite knows no such table.
pub(crate) fn with_nearest(connection: &Connection, e: rusqlite::Error) -> rusqlite::Error {
    let hint = |said: &str| -> Option<String> {
        let Some(CompileError::NoTable(name)) = CompileError::of(said) else {
            return None;
        };
        let name = name.split_once('.').map_or(name, |(_, name)| name);
        let nearest = nearest_table(connection, name)?;
        Some(format!("{said}; did you mean {nearest}?"))
    };
    match e {
        rusqlite::Error::SqliteFailure(code, Some(said)) => {
            rusqlite::Error::SqliteFailure(code, hint(&said).or(Some(said)))
        }
        rusqlite::Error::SqlInputError {
            error,
            msg,
            sql,
            offset,
        } => rusqlite::Error::SqlInputError {
            error,
            msg: hint(&msg).unwrap_or(msg),
            sql,
            offset,
        },
        other => other,
    }
}

/// The table or view with the nearest name, if it differs by one to three letters.
pub(crate) fn nearest_table(connection: &Connection, name: &str) -> Option<String> {
    let sql = "SELECT DISTINCT name FROM pragma_table_list WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut query = connection.prepare(sql).ok()?;
    let names = query.query_map([], |row| row.get::<_, String>(0)).ok()?;
    let slips =
        |other: &str| strsim::damerau_levenshtein(&other.to_lowercase(), &name.to_lowercase());
    let nearest = names.filter_map(Result::ok).min_by_key(|n| slips(n))?;
    let most = (name.chars().count() / 3).clamp(1, 3);
    (slips(&nearest) <= most).then_some(nearest)
}

/// The places of SQLite's temporary files, in its order.
fn temporary() -> impl Iterator<Item = PathBuf> {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter();
    let usual = ["/var/tmp", "/usr/tmp", "/tmp"].into_iter();
    (named.filter_map(std::env::var_os).map(PathBuf::from)).chain(usual.map(PathBuf::from))
}

/// The first of these places, if it is on another disk than the database: that one can be full.
fn elsewhere(db: &str, mut places: impl Iterator<Item = PathBuf>) -> String {
    let device = |path: &Path| std::fs::metadata(path).map(|about| about.dev()).ok();
    match places.find(|place| place.is_dir()) {
        Some(place) if device(&place) != device(Path::new(db)) => format!(
            ": the database's, or that of temporary files, {}; SQLITE_TMPDIR names another place for these",
            place.display()
        ),
        _ => String::new(),
    }
}

/// Who has a lock on the database, as far as the system shows it.
fn used_by(db: &str) -> String {
    let by = densite_tools::holders(Path::new(db));
    let by: Vec<String> = by.iter().map(ToString::to_string).collect();
    match by.is_empty() {
        true => "; another connection uses it, try again later".to_owned(),
        false => format!("; {} uses it, try again later", by.join(" and ")),
    }
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
    let said = densite_vfs::take_last_error();
    let extended = Code(sqlite_code.unwrap_or_default());
    let is_explained = said.is_some() || extended.is_explained();
    let message = match (at, said) {
        (At::Database, Some(said)) => {
            let (kind, code, advice) = match extended.primary() {
                _ if is_no_space(sqlite_code) => ("no_space", 4, FREE_SPACE),
                Code::CORRUPT => ("damaged", 5, ""),
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
    if let (Some(why), Code::CANTOPEN) = (mistaken, extended.primary()) {
        let fields = json!({ "path": db, "sqlite_code": sqlite_code });
        return Failure::Other("sql", 1, format!("{db}: {why}"), fields);
    }
    // SQLite says no more of a format that another program made of its own, or of a Densite file
    // without its beginning.
    if let (Code::NOTADB, Ok(api)) = (extended.primary(), crate::sqlite::api())
        && let Err(
            e @ (densite_tools::Error::OtherFormat { .. } | densite_tools::Error::Damaged { .. }),
        ) = densite_tools::info(api, Path::new(db))
    {
        return e.into();
    }
    // LOCKED means that the connection's own statement or transaction is in the way.
    let is_locked_by_others =
        extended.primary() == Code::BUSY || extended == Code::LOCKED_SHAREDCACHE;
    let used = match is_locked_by_others {
        true => used_by(db),
        false => String::new(),
    };
    let no_space = format!("{FREE_SPACE}{}", elsewhere(db, temporary()));
    let (kind, code, advice) = match extended.primary() {
        Code::INTERRUPT => ("interrupted", 130, ""),
        Code::BUSY | Code::LOCKED => ("locked", 3, used.as_str()),
        _ if is_no_space(sqlite_code) => ("no_space", 4, no_space.as_str()),
        // Densite's own message says what to do.
        Code::CORRUPT if is_explained => ("damaged", 5, ""),
        Code::CANTOPEN if is_explained => ("sql", 1, ""),
        Code::CORRUPT => ("damaged", 5, RESTORE),
        Code::NOTADB => ("not_a_database", 5, "; check the path"),
        Code::READONLY if densite_vfs::is_url(db) => (
            "sql",
            1,
            "; a remote database can only be read: change the original, and publish it again",
        ),
        Code::READONLY => (
            "sql",
            1,
            "; it was opened for reading only, or check owner and mode of the file and its directory (if no program changes it, file:PATH?immutable=1 needs no right to write)",
        ),
        Code::CANTOPEN => (
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_on_another_disk_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = dir.path().join("a.db");
        std::fs::write(&db, "").expect("written");
        let db = db.to_str().expect("a name");
        let missing = dir.path().join("missing");
        let own = dir.path().to_path_buf();
        assert_eq!(elsewhere(db, [missing.clone(), own].into_iter()), "");
        // The kernel's file system is no disk's.
        let other = elsewhere(db, [missing, PathBuf::from("/proc")].into_iter());
        assert!(other.contains("that of temporary files, /proc;"), "{other}");
    }
}
