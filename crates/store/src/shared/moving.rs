//! Looking at the whole of a commit while others publish.
//!
//! A look takes time; meanwhile records are moved, and their places used again. So what looks damaged is looked for anew, in what is the newest
//! commit then, and is damage only if nobody has published since the look began (rule 6).

use crate::error::{Error, Result};
use crate::format::tip::Tip;
use crate::shared::Shared;
use densite_disk::File;
use std::time::Duration;

/// Looks that others may spoil before what was found counts as damage.
const TRIES: u32 = 100;
/// Looks without a pause between them.
const HASTY: u32 = 10;

impl Shared {
    /// Does what `look` does to the newest commit, and again as long as it finds damage and there is a newer commit.
    ///
    /// # Errors
    /// What the last `look` says; I/O.
    pub(crate) fn while_it_moves<T>(
        &self,
        file: &dyn File,
        mut look: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        for attempt in 1..TRIES {
            self.refresh(file)?;
            let tip = self.state.read().tip;
            match look() {
                Err(Error::Corrupt(_)) if self.has_moved_on(file, &tip)? => {}
                done => return done,
            }
            if attempt > HASTY {
                std::thread::sleep(Duration::from_micros(u64::from(attempt) * 10));
            }
        }
        self.refresh(file)?;
        look()
    }

    /// Whether there is a newer commit than that of `tip`.
    pub(crate) fn has_moved_on(&self, file: &dyn File, tip: &Tip) -> Result<bool> {
        Ok(self.refresh(file)? || self.state.read().tip != *tip)
    }
}
