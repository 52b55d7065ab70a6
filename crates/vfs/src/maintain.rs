//! Maintenance: free pages are dropped, dead bytes become free units, free units leave the file.
//!
//! `trim` says which pages, the store says which units. This module says down to what, and
//! `main_file/rest.rs` does it at the right moments:
//!
//! - **While writing.** A connection that commits in a rollback mode, or checkpoints, has the
//!   writer's right anyway. When more of the file than `densite_dead_limit` is dead or free, each
//!   such transaction moves a part in proportion to what it stored, until the limit is kept. The
//!   store says how much, and for how long
//!   ([`Handle::reclaim_share`](densite_store::Handle::reclaim_share)). Nothing is synced for it.
//! - **At rest**: `PRAGMA densite_maintain`; the last close and the background worker (`worker`)
//!   from half of the dead limit on. Down to [`REST_LIMIT`], or [`ASKED_LIMIT`] if asked for, in
//!   slices (`slice`). Each has locks of its own, so that no connection waits longer than one takes
//!   (rule 3). A close gives up after some time.

use densite_store::Damage;

/// Per cent of the file that can be dead or free at rest.
pub(crate) const REST_LIMIT: u8 = 5;
/// The same after `densite_maintain`: a caller that asks for it wants a small file, and waits.
pub(crate) const ASKED_LIMIT: u8 = 3;
/// The same while writing, unless `densite_dead_limit` says otherwise.
pub(crate) const DEAD_LIMIT: u8 = 25;
/// The last close begins at the dead limit divided by this. Not at [`REST_LIMIT`]: programs that
/// open, write a little and close would pay at each close for the last per cent of the file.
const CLOSE_PART: u8 = 2;

/// What a connection knows of the maintenance that is due.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// Per cent of the file that can be dead or free while writing.
    dead_limit: u8,
    /// What the slices found damaged since `densite_maintain` was asked for.
    damaged: Vec<Damage>,
}

impl Default for Maintenance {
    fn default() -> Self {
        Maintenance {
            dead_limit: DEAD_LIMIT,
            damaged: Vec::new(),
        }
    }
}

impl Maintenance {
    /// Per cent of the file that can be dead or free while writing.
    pub(crate) fn dead_limit(&self) -> u8 {
        self.dead_limit
    }

    /// Sets that limit.
    pub(crate) fn set_dead_limit(&mut self, limit: u8) {
        self.dead_limit = limit;
    }

    /// Per cent of the file that can be dead or free before giving back at rest begins by itself.
    pub(crate) fn rest_begins(&self) -> u8 {
        (self.dead_limit / CLOSE_PART).max(REST_LIMIT)
    }

    /// Forgets what was found damaged.
    pub(crate) fn forget_damage(&mut self) {
        self.damaged.clear();
    }

    /// Notes what a slice found damaged.
    pub(crate) fn note_damage(&mut self, damaged: Vec<Damage>) {
        self.damaged.extend(damaged);
    }

    /// What was found damaged.
    pub(crate) fn damaged(&self) -> &[Damage] {
        &self.damaged
    }
}

/// Reads `densite_dead_limit`.
pub(crate) fn dead_limit(value: &str) -> Result<u8, String> {
    let parsed = value.trim().parse().ok();
    parsed.filter(|n: &u8| (1..=90).contains(n)).ok_or_else(|| {
        format!("densite_dead_limit={value}: use a whole number of per cent from 1 to 90")
    })
}
