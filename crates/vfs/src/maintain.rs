//! Maintenance: drops free pages, turns dead bytes into free units, and cuts free units off the
//! file.
//!
//! `trim` selects the pages, the store selects the units. This module has the limits, and
//! `main_file/rest.rs` does the work at the right moments:
//!
//! - **While writing.** A connection that commits in a rollback mode, or checkpoints, has the right
//!   to write anyway. If more of the file than `densite_dead_limit` is dead or free, each such
//!   transaction moves records in proportion to what it stored, until the limit is kept. The store
//!   decides how much, and for how long
//!   ([`Handle::reclaim_share`](densite_store::Handle::reclaim_share)). This needs no sync.
//! - **At rest**: `PRAGMA densite_maintain`; the last close and the background worker (`worker`)
//!   above half of the dead limit. They go down to [`REST_LIMIT`], or [`ASKED_LIMIT`] for the
//!   PRAGMA, in slices (`slice`). Each slice takes its own locks, so no connection waits longer
//!   than one slice takes (rule 3). A close gives up after some time.

use densite_store::Damage;

/// The per cent of the file that can be dead or free at rest.
pub(crate) const REST_LIMIT: u8 = 5;
/// The same after `densite_maintain`: its caller wants a small file and waits for it.
pub(crate) const ASKED_LIMIT: u8 = 3;
/// The same while writing, unless `densite_dead_limit` sets another value.
pub(crate) const DEAD_LIMIT: u8 = 25;
/// The last close begins at the dead limit divided by this. It does not begin at [`REST_LIMIT`]:
/// otherwise programs that open, write a little and close would pay at each close for the last per
/// cent.
const CLOSE_PART: u8 = 2;

/// What a connection knows about due maintenance.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// The per cent of the file that can be dead or free while writing.
    dead_limit: u8,
    /// What slices found damaged since `densite_maintain` began.
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
    /// The per cent of the file that can be dead or free while writing.
    pub(crate) fn dead_limit(&self) -> u8 {
        self.dead_limit
    }

    /// Sets that limit.
    pub(crate) fn set_dead_limit(&mut self, limit: u8) {
        self.dead_limit = limit;
    }

    /// The per cent of the file that can be dead or free before reclamation at rest begins by
    /// itself.
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
