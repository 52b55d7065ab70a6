//! The next sweep: a thread with a connection of its own reads it and puts it in order, while the last quarter of this one is applied.
//!
//! It only saves time: nothing of it is written before it begins, and then the schema is looked at as ever ([`super::arranging`]). What cannot be had in this way, and why, the worker
//! finds by itself. And it takes memory, that of a second sweep: where this process has many rows in memory for its readers, the worker does without.

use super::Applying;
use super::arranger::{Arranger, Found, limits};
use crate::sweep::{Definition, Part};
use densite_log::Seq;
use densite_sqlite::{Result, gate};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The thread ends with this value.
#[derive(Default)]
pub(super) struct Following {
    /// What it finds is behind this one.
    before: Option<Seq>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Found>>>,
}

impl Following {
    /// Of `all` places so many are done of a sweep that ends at `last`: begins with the next one when it is time.
    ///
    /// # Errors
    /// The log's.
    pub(super) fn prepare(
        &mut self,
        applying: &Applying,
        last: Seq,
        (done, all): (usize, usize),
    ) -> Result<()> {
        if done < all / 4 * 3 || self.before == Some(last) {
            return Ok(());
        }
        self.end();
        self.before = Some(last);
        self.ends = Arc::default();
        let read_max = applying.medium.sweeps().read_max;
        if applying.unapplied.has_more_than(read_max) {
            return Ok(());
        }
        let Some(sweeps) = limits(applying, last)? else {
            return Ok(());
        };
        let (log, dir) = (applying.log.clone(), applying.dir.clone());
        let (recipe, ends) = (applying.recipe.clone(), self.ends.clone());
        let inside = gate::beside();
        let find = move || {
            let _inside = inside;
            let connection = recipe.open()?;
            let mut plans = Vec::new();
            let mut arranger = Arranger {
                connection: &connection,
                plans: &mut plans,
            };
            arranger.find((&log, &dir), last, sweeps, || !ends.load(Ordering::Acquire))
        };
        let builder = std::thread::Builder::new().name("densite-arrange".into());
        self.thread = builder.spawn(find).ok();
        Ok(())
    }

    /// What it found behind this row, if it is that.
    pub(super) fn take(&mut self, before: Seq) -> Option<(Definition, Part)> {
        if self.before != Some(before) {
            self.end();
            return None;
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(Found::Sweep(definition, part)))) => Some((definition, part)),
            _ => None,
        }
    }

    /// Ends it: nobody wants what it found.
    fn end(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        self.before = None;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.end();
    }
}
