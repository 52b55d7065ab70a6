//! The status of a connection that follows a replica, as JSON.

use crate::replica::time_text;
use densite_sqlite::{Connection, Result};
use serde_json::{Value, json};

/// The object of `densite_replica_status`; `None` if the main database is not a replica.
///
/// # Errors
/// SQLite's.
pub(super) fn status(connection: &Connection) -> Result<Option<Value>> {
    let followed = densite_vfs::followed(connection)?;
    Ok(followed.map(|f| {
        json!({
            "role": "follower",
            "replica": f.url,
            "generation": f.generation,
            "restore_point": f.n,
            "time": time_text(f.time_ms),
            "lag_seconds": f.age.as_secs_f64(),
            "restore_points_behind": f.behind,
        })
    }))
}
