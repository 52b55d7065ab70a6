//! The next clustered apply: a thread with a connection of its own reads it and puts it in order,
//! while the last quarter of this one is applied.
//!
//! It only saves time: nothing of it is written before it begins, and then the schema is looked at
//! as ever ([`super::clustered_begin`]). What cannot be had in this way, and why, the worker finds
//! by itself. And it takes memory, that of a second clustered apply: where this process has many
//! rows in memory for its readers, the worker does without.

use super::Applying;
use super::planner::{Planner, Waiting, limits};
use crate::clustered::{ClusteredBatch, Definition};
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
    thread: Option<JoinHandle<Result<Waiting>>>,
}

impl Following {
    /// Of `all` places so many are done of a clustered apply that ends at `last`: begins with the
    /// next one when it is time.
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
        let read_max = applying.open.storage().clustered_limits().read_max;
        if applying.open.unapplied().has_more_than(read_max) {
            return Ok(());
        }
        let Some(limits) = limits(applying, last)? else {
            return Ok(());
        };
        let open = Arc::clone(&applying.open);
        let (spec, ends) = (applying.spec.clone(), self.ends.clone());
        let inside = gate::beside();
        let find = move || {
            let _inside = inside;
            let connection = spec.open()?;
            let mut plans = Vec::new();
            let mut planner = Planner {
                connection: &connection,
                plans: &mut plans,
            };
            planner.plan(&open, last, limits, || !ends.load(Ordering::Acquire))
        };
        let builder = std::thread::Builder::new().name("densite-planner".into());
        self.thread = builder.spawn(find).ok();
        Ok(())
    }

    /// What it found behind this row, if it is that.
    pub(super) fn take(&mut self, before: Seq) -> Option<(Definition, ClusteredBatch)> {
        if self.before != Some(before) {
            self.end();
            return None;
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(Waiting::Clustered(definition, batch)))) => Some((definition, batch)),
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
