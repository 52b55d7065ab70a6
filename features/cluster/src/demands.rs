//! What a database must be like to become a member: all members compute the same from the same
//! messages.

use super::reached;
use densite_ingest::parts::{self, refused, tables_of};
use densite_sqlite::{Connection, Result};
use densite_stream::{Durability, SyncInterval};

/// What stands against joining, one sentence for each; empty if nothing does. The rejects of a member,
/// or of a copy of one, have numbers of the stream and stay. The connection is one of Densite's own.
///
/// # Errors
/// SQLite's.
pub(crate) fn unmet(connection: &Connection, is_member: bool) -> Result<Vec<String>> {
    let mut unmet = Vec::new();
    let rejects = parts::rejects(connection)?;
    if rejects > 0 && !is_member {
        unmet.push(format!(
            "densite_rejects has {rejects} rows: apply them (densite_replay_rejects) or delete them"
        ));
    }
    unmet.extend(reached::different(connection)?);
    Ok(unmet)
}

/// Whether the database has no table of the application.
///
/// # Errors
/// SQLite's.
pub(crate) fn is_empty(connection: &Connection) -> Result<bool> {
    Ok(tables_of(connection)?.is_empty())
}

/// Refuses servers that can lose what they acknowledged.
///
/// # Errors
/// What to set on the server.
pub(crate) fn trusted(durability: Durability) -> Result<()> {
    if durability.survives_a_power_cut() {
        return Ok(());
    }
    let why = match durability.sync {
        SyncInterval::Unknown => "a client cannot see whether this server syncs messages before it acknowledges them: name its monitoring port (--monitor http://host:8222)".to_owned(),
        SyncInterval::Every(time) => format!(
            "the server syncs messages every {} seconds, so a power cut loses some that it acknowledged: set sync_interval to always, or use three replicas",
            time.as_secs()
        ),
        SyncInterval::Always => return Ok(()),
    };
    Err(refused(format!(
        "{why}; or say that you trust it (--trust-server)"
    )))
}
