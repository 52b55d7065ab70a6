//! A slice of maintenance at rest: its locks, and what remains to be done
//! (docs/decisions/maintenance.md, A slice).
//!
//! SHARED, under which bytes 18 and 19 of page 1 give the mode. In a rollback mode no journal may
//! be hot; then RESERVED. In WAL mode the checkpoint lock. If this connection has not mapped the
//! WAL's index yet, EXCLUSIVE, which proves that no connection uses the WAL; the worker does not do
//! this. No lock is held while the file is synced: a slice ends where a sync is due
//! ([`Rest::Sync`]), and the next one continues from there.

use crate::checkpoint::Checkpoint;
use crate::connection_role::ConnectionRole;
use crate::named_file::NamedFile;
use densite_sqlite::ffi;
use densite_sqlite_format::wal_index::{CHECKPOINT_LOCK, REGION_LEN};

/// What remains after a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// No space is left to reclaim.
    Done,
    /// Another slice is needed.
    More,
    /// A sync without any lock is needed, then another slice.
    Sync,
    /// Another slice is needed, after threads of this process have trained for a while.
    Wait,
}

/// The lock that a slice holds besides SHARED.
pub(crate) enum Slice {
    Reserved,
    Checkpoint,
    Exclusive,
}

impl Slice {
    /// Takes SHARED, the first lock of a slice, unless SQLite holds it. Returns whether it is held.
    pub(crate) fn share(file: &NamedFile, role: &ConnectionRole) -> bool {
        role.level() >= ffi::LOCK_SHARED || file.host().lock(ffi::LOCK_SHARED).is_ok()
    }

    /// Takes the other locks of a slice, or none, and then releases SHARED. `in_rollback_mode` is
    /// the mode of the newest commit under SHARED, if it can be read.
    pub(crate) fn lock(
        file: &NamedFile,
        role: &ConnectionRole,
        checkpoint: &mut Checkpoint,
        in_rollback_mode: Option<bool>,
    ) -> Option<Slice> {
        let host = file.host();
        let lock_checkpoint = || {
            let flags = ffi::SHM_LOCK | ffi::SHM_EXCLUSIVE;
            host.shm_lock(CHECKPOINT_LOCK, 1, flags).is_ok()
        };
        let reserve = || host.lock(ffi::LOCK_RESERVED).is_ok();
        let slice = match in_rollback_mode {
            Some(true) if !file.journal_may_be_hot() => reserve().then_some(Slice::Reserved),
            Some(false) if role.is_worker() && !map_index(file, role, checkpoint) => None,
            Some(false) if checkpoint.uses_wal() => lock_checkpoint().then_some(Slice::Checkpoint),
            Some(false) => {
                (reserve() && host.lock(ffi::LOCK_EXCLUSIVE).is_ok()).then_some(Slice::Exclusive)
            }
            _ => None,
        };
        if slice.is_none() {
            back_to_level(file, role, checkpoint);
        }
        slice
    }

    /// Releases the locks of the slice.
    pub(crate) fn unlock(
        self,
        file: &NamedFile,
        role: &ConnectionRole,
        checkpoint: &mut Checkpoint,
    ) {
        if matches!(self, Slice::Checkpoint) {
            let flags = ffi::SHM_UNLOCK | ffi::SHM_EXCLUSIVE;
            // Nothing can be done if the release fails; SQLite ignores this error too.
            let _ = file.host().shm_lock(CHECKPOINT_LOCK, 1, flags);
        }
        back_to_level(file, role, checkpoint);
    }
}

/// Releases what a slice took beyond SQLite's own lock.
fn back_to_level(file: &NamedFile, role: &ConnectionRole, checkpoint: &mut Checkpoint) {
    if role.is_worker() && checkpoint.uses_wal() {
        // A connection that closes the WAL must be its only user.
        checkpoint.forget_index();
        let _ = file.host().shm_unmap(false);
    }
    let _ = file.host().unlock(role.level());
}

/// For the worker: maps the WAL's index for this slice, if a connection of this process has it
/// mapped.
fn map_index(file: &NamedFile, role: &ConnectionRole, checkpoint: &mut Checkpoint) -> bool {
    let is_used = role
        .open_file()
        .is_some_and(|file| file.idle().has_wal_users());
    if !is_used {
        return false;
    }
    let (_, address) = file.host().shm_map(0, REGION_LEN, false);
    checkpoint.set_index(address, REGION_LEN);
    if !checkpoint.uses_wal() {
        let _ = file.host().shm_unmap(false);
    }
    checkpoint.uses_wal()
}
