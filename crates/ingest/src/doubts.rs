//! Whether what was written is on the disk.

use densite_sqlite::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A sync of the database or of its WAL has failed. What it should have written may be lost although later ones succeed: systems forget it, and tell of it once. So from then on the log keeps its rows, as
/// long as this process has the database open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubts(Arc<AtomicU64>);

impl Doubts {
    /// Whatever may have synced the database or its WAL passes by here.
    pub(crate) fn heeds<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(e) = &done {
            self.heed(e);
        }
        done
    }

    /// An error that may be one of a sync.
    pub(crate) fn heed(&self, e: &Error) {
        if matches!(
            e.code,
            Code::IOERR | Code::IOERR_FSYNC | Code::IOERR_DIR_FSYNC
        ) {
            self.arise();
        }
    }

    /// One has failed.
    pub(crate) fn arise(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// How many have failed, and what may have been one.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Whether one has failed.
    pub(crate) fn are_there(&self) -> bool {
        self.count() > 0
    }
}
