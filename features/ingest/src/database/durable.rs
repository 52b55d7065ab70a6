//! How far the database durably holds applied rows (rule L4): only these can be pruned.
//!
//! A connection can run with synchronous=OFF, so a commit proves nothing. After a checkpoint that
//! reached the end of the WAL, committed pages are in the database file. They are durable once the
//! file and the WAL are synced: after a power cut SQLite reads the WAL again, and older states in
//! it would override the file. With a rollback journal, a commit is the removal of the journal,
//! which the directory's sync makes durable.

use crate::database::connection_spec::ConnectionSpec;
use crate::database::database_file::still_has_its_name;
use crate::database::position::Position;
use crate::error::refused;
use crate::storage::{StorageBackend, host, sync_parent, sync_wal};
use densite_disk::wait::Retry;
use densite_log::Seq;
use densite_sqlite::{Checkpointed, Connection, Result, ffi};
use std::time::Duration;

/// How long to wait for another connection's checkpoint.
const PATIENCE: Duration = Duration::from_secs(10);

/// The last row that is applied durably; 0 if readers hold the WAL, so that it is unknown.
///
/// # Errors
/// An error within a transaction. SQLite's; busy if another connection's checkpoint takes more than
/// ten seconds.
pub fn position(connection: &Connection) -> Result<Seq> {
    position_on(connection, host().as_ref())
}

/// As [`position`], for a database on this storage backend.
pub(crate) fn position_on(connection: &Connection, storage: &dyn StorageBackend) -> Result<Seq> {
    if !connection.is_autocommit() {
        return Err(refused(
            "which rows are durable is unknown within a transaction; end it first",
        ));
    }
    let Some(position) = Position::read(connection)? else {
        return Ok(0);
    };
    let mode = connection.query_string("PRAGMA main.journal_mode")?;
    if mode.as_deref() == Some("wal") {
        let done = checkpoint(connection)?;
        if done.checkpointed != done.wal_frames {
            return Ok(0);
        }
    }
    sync(connection, storage)?;
    // The file that has the name now may be another one.
    still_has_its_name(connection)?;
    Ok(position.seq)
}

/// A passive checkpoint. SQLite does not wait for a running checkpoint, for example the worker's,
/// which ends by itself. So the wait is here.
fn checkpoint(connection: &Connection) -> Result<Checkpointed> {
    let retry = Retry::within(PATIENCE);
    loop {
        match connection.checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE) {
            Err(e) if e.is_busy() && retry.again() => {}
            done => return done,
        }
    }
}

/// Makes the database file, its WAL and the removal of its rollback journals durable, whichever
/// process wrote or removed them.
pub(crate) fn sync(connection: &Connection, storage: &dyn StorageBackend) -> Result<()> {
    let path = connection.filename(c"main").unwrap_or_default();
    // Opening it separately is safe: the WAL has no locks that closing a descriptor would drop.
    sync_wal(storage, &path)?;
    match connection.shares_cache(c"main") {
        // A descriptor that was open before a failed write gets its error.
        false => connection.sync_file(c"main")?,
        // Another thread can be using this connection's file.
        true => ConnectionSpec::of(connection, &path)
            .open()?
            .sync_file(c"main")?,
    }
    sync_parent(storage, &path)
}
