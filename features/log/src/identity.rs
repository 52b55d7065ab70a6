//! Ids of logs: making a new id, and reading the id of a log in a directory.

use crate::files::{Files, LogDir, segment_name};
use crate::format::segment::{HEADER_LEN, SegmentHeader};
use crate::state::State;
use crate::{LogId, Result};
use densite_disk::OpenMode;

impl LogId {
    /// A new random id.
    ///
    /// # Errors
    /// `Io` if the host has no source of randomness.
    pub fn random() -> Result<LogId> {
        let mut id = [0; 16];
        densite_disk::random::random_bytes(&mut id)?;
        Ok(LogId(id))
    }
}

/// The id of the log in a directory; `None` if there is no log, or no file with a readable id.
///
/// # Errors
/// `Io`.
pub fn id_in(dir: LogDir) -> Result<Option<LogId>> {
    let files = Files {
        dir,
        id: LogId([0; 16]),
    };
    if let Some(bytes) = files.state_bytes()?
        && let Ok(state) = State::decode(&bytes)
    {
        return Ok(Some(state.id));
    }
    for number in files.numbers(0)? {
        if let Some(file) = files.open(&segment_name(number), OpenMode::Read)? {
            let mut bytes = [0; HEADER_LEN];
            file.read_at(&mut bytes, 0)?;
            if let Ok(header) = SegmentHeader::decode(&bytes) {
                return Ok(Some(header.id));
            }
        }
    }
    Ok(None)
}
