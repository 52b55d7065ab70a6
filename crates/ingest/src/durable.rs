//! Up to where the database holds durably what was applied (rule 4): only that may be pruned.
//!
//! Any connection may run with synchronous=OFF, so a commit says nothing. What was committed before a checkpoint that reached the WAL's end is in the database's file, and durable
//! once that is synced, and the WAL with it: SQLite reads that again after a power cut, as far as it reached the disk, and what it has of older states would come before what the file has. With a
//! rollback journal a commit is the journal's removal, which the directory's sync makes durable.

use crate::connection_spec::ConnectionSpec;
use crate::database_file::still_has_its_name;
use crate::error::refused;
use crate::position::Position;
use crate::storage::{StorageBackend, host, sync_beside, sync_parent};
use densite_log::Seq;
use densite_sqlite::{Checkpointed, Connection, Result, ffi};
use std::time::{Duration, Instant};

/// How long the end of another's checkpoint is waited for, looked for in steps.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(5);

/// The last row that is applied durably; 0 if that cannot be told now, because readers hold the WAL.
///
/// # Errors
/// Within a transaction; SQLite's, busy among them if another's checkpoint takes more than ten seconds.
pub fn position(connection: &Connection) -> Result<Seq> {
    position_on(connection, host().as_ref())
}

/// As [`position`], of a database on this storage backend.
pub(crate) fn position_on(connection: &Connection, storage: &dyn StorageBackend) -> Result<Seq> {
    if !connection.is_autocommit() {
        return Err(refused(
            "what is durable cannot be told within a transaction; end it first",
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
    // Of the file that has the name now it says nothing.
    still_has_its_name(connection)?;
    Ok(position.seq)
}

/// A passive checkpoint. SQLite does not wait for another one that is under way, the worker's for example, which comes to its end by itself: that is done here.
fn checkpoint(connection: &Connection) -> Result<Checkpointed> {
    let begun = Instant::now();
    loop {
        match connection.checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE) {
            Err(e) if e.is_busy() && begun.elapsed() < PATIENCE => std::thread::sleep(STEP),
            done => return done,
        }
    }
}

/// Makes durable what is in the database's file and its WAL, and that its rollback journals are gone, whoever wrote and removed them.
pub(crate) fn sync(connection: &Connection, storage: &dyn StorageBackend) -> Result<()> {
    let path = connection.filename(c"main").unwrap_or_default();
    // It has no locks that closing a descriptor would drop.
    sync_beside(storage, &path, "-wal")?;
    match connection.shares_cache(c"main") {
        // One that is older than an error is told of it.
        false => connection.sync_file(c"main")?,
        // Another thread may be at that one.
        true => ConnectionSpec::of(connection, &path)
            .open()?
            .sync_file(c"main")?,
    }
    sync_parent(storage, &path)
}
