//! Restore points: commits of the store that are the state of a transaction.
//!
//! Not every commit is one. In WAL mode, a checkpoint that readers hold back stores only some of
//! the pages. In a rollback mode, the store commits before SQLite removes its journal. A restore
//! point is the commit at the end of a checkpoint that stored all of the WAL that it knew, or the
//! newest commit under SHARED in a rollback mode: SQLite has rolled back a hot journal before.

use crate::codes::code_of;
use crate::main_file::{take_checkpoint_end, with_handle};
use densite_sqlite::{Connection, Error, Result, Value};
use densite_store::CommitId;

/// Checkpoints the main database, if it is in WAL mode, and returns its newest restore point.
/// `None` if other connections hold the checkpoint back, or the database is empty. Call it outside
/// of a transaction, with a connection of Densite's VFS.
///
/// # Errors
/// SQLite's. A lock that is held for longer than the busy timeout is
/// [`Code::BUSY`](densite_sqlite::Code::BUSY).
pub fn restore_point(connection: &Connection) -> Result<Option<CommitId>> {
    // A connection that has not read the database does not know its mode.
    connection.query_i64("SELECT count(*) FROM main.sqlite_schema")?;
    take_checkpoint_end(connection)?;
    let row = connection.query_row("PRAGMA main.wal_checkpoint(PASSIVE)", &[])?;
    match row.as_deref() {
        // Without a WAL, SQLite counts -1 frames.
        Some([_, Value::Integer(-1), _]) => under_shared(connection),
        // `all` is the length of the WAL at the beginning of the checkpoint.
        Some([Value::Integer(0), all, done]) if all == done => take_checkpoint_end(connection),
        _ => Ok(None),
    }
}

/// The newest commit in a rollback mode; `None` if the mode has changed.
fn under_shared(connection: &Connection) -> Result<Option<CommitId>> {
    connection.exec("BEGIN")?;
    let schema = connection.query_i64("SELECT count(*) FROM main.sqlite_schema");
    let mark = schema.and_then(|_| {
        with_handle(connection, c"main", |handle| {
            let is_rollback = handle.in_rollback_mode();
            handle.mark().map(|mark| mark.filter(|_| is_rollback))
        })
    });
    // Nothing was written, so this only releases the lock.
    connection.exec("COMMIT")?;
    match mark? {
        None => Ok(None),
        Some(Ok(mark)) => Ok(mark),
        Some(Err(error)) => Err(Error::new(code_of(&error), error.to_string())),
    }
}
