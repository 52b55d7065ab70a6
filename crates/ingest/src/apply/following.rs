//! Planning the next clustered apply: a thread with its own connection reads and orders it, while
//! the last quarter of the running one is applied.
//!
//! It only saves time. None of it is written before it begins, and then the schema is checked as
//! always ([`super::clustered_begin`]). If the thread fails, the worker plans by itself and meets
//! the same error. It takes the memory of a second clustered apply. So the worker does without it
//! while this process holds many rows in memory for its readers.

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
    /// The plan is for the rows behind this one.
    before: Option<Seq>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Waiting>>>,
}

impl Following {
    /// Begins to plan the next clustered apply when it is time. The running one ends at `last`, and
    /// `done` of its `all` places are done.
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

    /// The plan for the rows behind this one, if there is one.
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

    /// Ends the thread and drops its plan.
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
