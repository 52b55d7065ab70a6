//! Ingest tables as a setting of the database: `densite_config('ingest', 'vote', 'on_conflict=ignore')`.
//!
//! The table `densite_ingest_tables` has the options of each. A connection that an application opens
//! makes these tables in temp before its first statement. Options are parsed and written again, so
//! no text of the database is run as SQL.

use crate::database::position::Position;
use crate::error::refused;
use crate::log::database_log::DatabaseLog;
use crate::schema::names::between_commas;
use crate::schema::own_tables::{PERSISTENT, refuse_foreign};
use crate::schema::target::Target;
use crate::vtab::Arguments;
use crate::vtab::session::Session;
use densite_disk::wait::Retry;
use densite_sqlite::{
    Code, Connection, Error, Result, Value, ValueRef, create_table_function, is_opened_by_densite,
    quoted,
};
use std::time::Duration;

/// How long opening waits for a locked database.
const PATIENCE: Duration = Duration::from_secs(2);

/// `densite_config('ingest', table [, options])`: reads, sets or, with NULL, removes the setting.
/// Returns the options, NULL without a setting.
pub(crate) fn config(
    session: &Session,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let usage = || {
        refused(
            "densite_config('ingest', …) wants a table's name, and then its options to set them, as in densite_config('ingest', 'vote', 'on_conflict=ignore'), or NULL to remove the setting",
        )
    };
    let name = given.first().and_then(|v| v.as_str()).ok_or_else(usage)?;
    match given.get(1) {
        None => {}
        Some(ValueRef::Null) if !has_settings(connection)? => {}
        Some(ValueRef::Null) => {
            let delete = "DELETE FROM main.densite_ingest_tables WHERE \"table\" = ?1";
            connection.query_row(delete, &[Value::from(name)])?;
        }
        Some(options) => {
            let options = options.as_str().ok_or_else(usage)?;
            set(session, connection, name, options)?;
        }
    }
    if !has_settings(connection)? {
        return Ok(Value::Null);
    }
    let known = "SELECT options FROM main.densite_ingest_tables WHERE \"table\" = ?1";
    let row = connection.query_row(known, &[Value::from(name)])?;
    Ok(row.and_then(|mut row| row.pop()).unwrap_or(Value::Null))
}

fn set(session: &Session, connection: &Connection, name: &str, options: &str) -> Result<()> {
    let target = Target::read(connection, name)?
        .ok_or_else(|| refused(format!("there is no table {name} in the main database")))?;
    refuse_foreign(&target.name)?;
    let arguments = parse(&target.name, options)?;
    arguments.check(connection, &target)?;
    let visible = arguments.visible_name();
    if arguments.shadow() != Some(true)
        && Target::read(connection, &visible).is_ok_and(|t| t.is_some())
    {
        return Err(refused(format!(
            "the database has a table {visible}, which the ingest table of {name} would hide; rename that table, or use shadow=on"
        )));
    }
    DatabaseLog::open_or_create(connection, session.storage())?;
    let last_row = connection.last_insert_rowid();
    connection.exec(PERSISTENT)?;
    let insert = "INSERT OR REPLACE INTO main.densite_ingest_tables VALUES (?1, ?2)";
    let values = [target.name.as_str(), arguments.options().as_str()].map(Value::from);
    connection.query_row(insert, &values)?;
    connection.set_last_insert_rowid(last_row);
    Ok(())
}

/// The arguments of the ingest table of a table with these options.
fn parse(table: &str, options: &str) -> Result<Arguments> {
    let words = between_commas(options).into_iter().map(str::trim);
    let words = words.filter(|word| !word.is_empty()).map(str::to_owned);
    Arguments::parse(&[quoted(table)].into_iter().chain(words).collect::<Vec<_>>())
}

fn has_settings(connection: &Connection) -> Result<bool> {
    let known =
        "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_ingest_tables'";
    Ok(connection.query_i64(known)?.is_some())
}

/// Makes the ingest tables that the database asks for. A table that cannot be made gives its error
/// to the statements that name it. A database without a log is not read.
///
/// # Errors
/// SQLite's, if there is not enough memory.
pub(crate) fn make(connection: &Connection, session: &Session) -> Result<()> {
    let path = connection.filename(c"main").unwrap_or_default();
    let has_log = || session.storage().file_info(&format!("{path}-log")).is_ok();
    if is_opened_by_densite() || path.is_empty() || !has_log() {
        return Ok(());
    }
    let made = make_all(connection);
    start_member(connection, session);
    // SQLite takes the connection's newest error as the result of opening. This one succeeds.
    connection.exec("SELECT 1").and(made)
}

fn make_all(connection: &Connection) -> Result<()> {
    // A database that cannot be read is reported by the application's first statement.
    let wanted = patiently(|| read(connection)).unwrap_or_default();
    for (table, options) in wanted {
        let made = parse(&table, &options).and_then(|arguments| {
            let sql = arguments.declaration();
            patiently(|| connection.exec(&sql))
        });
        if let Err(e) = made {
            unavailable(connection, &table, e)?;
        }
    }
    Ok(())
}

/// Starts the worker of a member of a stream: rows of other members come without a writer here. An
/// error comes again with the first wait or row.
fn start_member(connection: &Connection, session: &Session) {
    if let Ok(Some(position)) = patiently(|| Position::read(connection))
        && position.stream.is_some()
        && let Ok(Some(log)) = session.database_log(connection)
    {
        log.worker().applying(connection).ok();
    }
}

/// The tables and their options.
fn read(connection: &Connection) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    if !has_settings(connection)? {
        return Ok(found);
    }
    let mut rows = connection
        .prepare("SELECT \"table\", options FROM main.densite_ingest_tables ORDER BY \"table\"")?;
    while rows.step()? {
        let text = |i| rows.column(i).as_str().unwrap_or_default().to_owned();
        found.push((text(0), text(1)));
    }
    Ok(found)
}

/// Waits while the database is locked. The connection's own busy handler is not touched.
fn patiently<T>(mut what: impl FnMut() -> Result<T>) -> Result<T> {
    let retry = Retry::within(PATIENCE);
    loop {
        match what() {
            Err(e) if e.code.primary() == Code::BUSY && retry.again() => {}
            done => return done,
        }
    }
}

/// Gives the error to statements that read the ingest table. With `shadow=on`, they read the table
/// itself.
fn unavailable(connection: &Connection, table: &str, error: Error) -> Result<()> {
    let name = format!("{table}_in");
    create_table_function(connection, &name, &["error"], &[], move |_, _| {
        Err(error.clone())
    })
}
