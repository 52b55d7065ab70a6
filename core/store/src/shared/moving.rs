//! Reads all of a commit while others publish.
//!
//! That takes time, in which records are moved and their places reused. So if something looks
//! damaged, it is read again in the commit that is the newest by then. It is damage only if no
//! commit was published since the read began (rule S6).

use crate::error::{Error, Result};
use crate::format::tip::Tip;
use crate::shared::Shared;
use densite_disk::File;
use densite_disk::wait::pause;
use std::time::Duration;

/// The most reads that other commits can disturb, before the result counts as damage.
const TRIES: u32 = 100;
/// The number of reads without a pause between them.
const HASTY: u32 = 10;

impl Shared {
    /// Runs `look` on the newest commit, and again while it finds damage and there is a newer
    /// commit.
    ///
    /// # Errors
    /// Those of the last `look`; I/O.
    pub(crate) fn while_it_moves<T>(
        &self,
        file: &dyn File,
        mut look: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        for attempt in 1..TRIES {
            self.refresh(file)?;
            let tip = self.state.read().tip();
            match look() {
                Err(Error::Corrupt(_)) if self.has_moved_on(file, &tip)? => {}
                done => return done,
            }
            if attempt > HASTY {
                pause(Duration::from_micros(u64::from(attempt) * 10));
            }
        }
        self.refresh(file)?;
        look()
    }

    /// Whether there is a newer commit than that of `tip`.
    pub(crate) fn has_moved_on(&self, file: &dyn File, tip: &Tip) -> Result<bool> {
        Ok(self.refresh(file)? || self.state.read().tip() != *tip)
    }
}
