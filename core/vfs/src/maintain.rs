//! Maintenance: drops free pages, turns dead bytes into free units, and cuts free units off the
//! file (docs/decisions/maintenance.md).
//!
//! `trim` selects the pages, the store selects the units. This module has the limits, and
//! `main_file/at_rest_and_close.rs` does the work. While writing, a transaction reclaims its share
//! ([`Handle::reclaim_share`](densite_store::Handle::reclaim_share)) above `densite_dead_limit`. At
//! rest, the last close and the `worker` reclaim down to [`REST_LIMIT`], and the PRAGMA down to
//! [`ASKED_LIMIT`], in slices (`slice`) with locks of their own (rule S3).

use densite_store::{Damage, RelearnWhen};

/// The per cent of the file that can be dead or free at rest.
const REST_LIMIT: u8 = 5;
/// The same after `densite_maintain`: its caller wants a small file and waits for it.
const ASKED_LIMIT: u8 = 3;
/// The same while writing, unless `densite_dead_limit` sets another value.
pub(crate) const DEAD_LIMIT: u8 = 25;
/// The last close begins at the dead limit divided by this. It does not begin at [`REST_LIMIT`]:
/// otherwise programs that open, write a little and close would pay at each close for the last per
/// cent.
const CLOSE_PART: u8 = 2;

/// When a file is maintained at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The last close.
    Close,
    /// No connection writes; whether the worker has begun to reclaim space.
    Idle { begun: bool },
    /// Others write, and leave more to reclaim than they can do themselves.
    Busy,
    /// `densite_maintain`.
    Asked,
}

impl Occasion {
    /// When the database is learned from again, and pages that were hot are encoded well.
    pub(crate) fn relearns(self) -> Option<RelearnWhen> {
        match self {
            Occasion::Close => Some(RelearnWhen::Closing),
            Occasion::Idle { .. } => Some(RelearnWhen::Idle),
            Occasion::Asked => Some(RelearnWhen::Asked),
            Occasion::Busy => None,
        }
    }

    /// Whether space is reclaimed below the limit where that begins by itself.
    pub(crate) fn has_begun(self) -> bool {
        self != Occasion::Idle { begun: false }
    }
}

/// What a connection knows about due maintenance.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// The per cent of the file that can be dead or free while writing.
    dead_limit: u8,
    /// The share of the last commit or checkpoint left more to do.
    behind: bool,
    /// What slices found damaged since `densite_maintain` began.
    damaged: Vec<Damage>,
}

impl Default for Maintenance {
    fn default() -> Self {
        Maintenance {
            dead_limit: DEAD_LIMIT,
            behind: false,
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

    /// Notes that the share of a commit or checkpoint left more to do.
    pub(crate) fn falls_behind(&mut self) {
        self.behind = true;
    }

    /// Whether it did, since this was last asked.
    pub(crate) fn take_behind(&mut self) -> bool {
        std::mem::take(&mut self.behind)
    }

    /// The per cent of the file that can be dead or free before reclamation at rest begins by
    /// itself.
    pub(crate) fn rest_begins(&self) -> u8 {
        (self.dead_limit / CLOSE_PART).max(REST_LIMIT)
    }

    /// The per cent of the file that can be dead or free after that occasion.
    pub(crate) fn limit(&self, occasion: Occasion) -> u8 {
        match occasion {
            Occasion::Asked => ASKED_LIMIT,
            Occasion::Close | Occasion::Idle { .. } => REST_LIMIT,
            Occasion::Busy => self.rest_begins(),
        }
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
