//! Checks the database that a crash left.

use densite_sim_disk::{Capture, SimDisk};
use rusqlite::Connection;

use super::stand::Stand;
use super::state::{Digest, digest, partial};

/// The state of a database after a crash.
#[derive(Debug)]
pub(super) enum Found {
    /// Sound, and in this state.
    State(usize),
    /// Something is wrong, in words.
    Broken(String),
}

/// Opens what survived on `disk`, checks it, writes to it once more and checks again.
///
/// With a seed, the power is cut a second time during recovery, and the resulting disk is returned
/// too.
pub(super) fn verify(
    stand: &Stand<'_>,
    disk: &SimDisk,
    states: &[Digest],
    second_cut: Option<u64>,
) -> (Found, Vec<SimDisk>) {
    if let Some(seed) = second_cut {
        disk.capture_at(1 + seed % 7, Capture::Cut(seed));
    }
    stand.boot(disk);
    let found = look(stand, states);
    let found = found.unwrap_or_else(Found::Broken);
    let again = disk.take_captures().into_iter().map(|c| c.disk).collect();
    if let Found::State(_) = found
        && let Err(e) = go_on(stand)
    {
        return (Found::Broken(format!("after recovery: {e}")), again);
    }
    (found, again)
}

fn look(stand: &Stand<'_>, states: &[Digest]) -> Result<Found, String> {
    let db = stand.connect().map_err(|e| format!("open: {e}"))?;
    let now = digest(&db).map_err(|e| format!("reading all rows: {e}"))?;
    integrity(&db)?;
    let state = states.iter().rposition(|s| *s == now);
    let found = match state {
        Some(state) => Found::State(state),
        None => {
            let part = partial(&db).map_err(|e| format!("reading all rows: {e}"))?;
            let part = part.unwrap_or_else(|| "each transaction by itself is whole".to_owned());
            Found::Broken(format!("the state after no transaction: {part}"))
        }
    };
    db.close().map_err(|(_, e)| format!("close: {e}"))?;
    Ok(found)
}

fn integrity(db: &Connection) -> Result<(), String> {
    let answer: String = db
        .query_row("PRAGMA integrity_check", [], |r| r.get(0))
        .map_err(|e| format!("integrity_check: {e}"))?;
    if answer == "ok" {
        Ok(())
    } else {
        Err(format!("integrity_check: {answer}"))
    }
}

/// Checks that a recovered database can be written.
fn go_on(stand: &Stand<'_>) -> Result<(), String> {
    let db = stand.connect().map_err(|e| format!("open: {e}"))?;
    db.execute_batch(
        "BEGIN; CREATE TABLE more(x); INSERT INTO more VALUES (hex(randomblob(3000))); COMMIT",
    )
    .map_err(|e| format!("writing: {e}"))?;
    integrity(&db)?;
    db.close().map_err(|(_, e)| format!("close: {e}"))
}
