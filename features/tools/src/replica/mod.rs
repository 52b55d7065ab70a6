//! Replicas: a database in a bucket or in a directory on another disk.

mod bucket;
mod doubts;
mod figures;
mod file_stamps;
mod first_pages;
mod gated;
mod in_process;
mod object;
mod open_state;
mod owner;
mod replicate;
mod restore;
mod restore_all;
mod restored_log;
mod shipped_database;
mod shipped_log;
mod traffic;

pub use densite_replica::{At, GenerationInfo, ReplicaInfo, Restored, time_text};
pub use figures::{Figures, PointInBucket};
pub(crate) use in_process::create_functions;
pub use replicate::{Replicas, ReplicateOptions, Shipped};
pub use restore::{RestoreOptions, RestoreReport, can_replace, restore, verify};
pub use restore_all::{RestoredAll, restore_all, verify_all};

use crate::error::Result;
use bucket::Place;
use std::path::{Path, PathBuf};

/// What a replica has: its generations and restore points.
///
/// # Errors
/// [`Error::Remote`](crate::Error::Remote) with a sentence that says what to do.
pub fn replicas(url: &Path) -> Result<ReplicaInfo> {
    let place = Place::of_replica(url)?;
    densite_replica::replicas(place.bucket()).map_err(|e| place.unread(url, &e))
}

/// What to do about a directory that was named as a database and has replicas right below it. `None`
/// if it has none, or is a replica itself.
#[must_use]
pub fn below(directory: &Path) -> Option<String> {
    if Place::to_read(directory)
        .ok()?
        .has_replica()
        .unwrap_or(true)
    {
        return None;
    }
    let below = Place::below(directory).ok()?;
    // A replica is read like a database by its name with a slash.
    bucket::named(directory, &below, "/")
}

/// What a message calls a place that is shipped to: a URL without secrets, or a directory with its
/// whole path.
#[must_use]
pub fn described(url: &Path) -> String {
    Place::described(url)
}

/// The name of a place for messages: a URL without secrets, or the directory.
#[must_use]
pub fn shown(url: &Path) -> PathBuf {
    Place::shown_name(url)
}
