//! A request whose answer is still arriving: readers take its blocks as they come.

use crate::error::Result;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;

/// A request for blocks. Only threads of the process that sent it use it.
#[derive(Debug)]
pub(crate) struct Flight {
    blocks: Range<u64>,
    progress: Mutex<Progress>,
    changed: Condvar,
    task: OnceLock<AbortHandle>,
}

#[derive(Debug, Default)]
struct Progress {
    /// How many of the blocks have arrived.
    arrived: u64,
    /// Set when no more blocks come.
    end: Option<Result<()>>,
}

impl Flight {
    /// A request for these blocks.
    pub(crate) fn new(blocks: Range<u64>) -> Flight {
        Flight {
            blocks,
            progress: Mutex::default(),
            changed: Condvar::new(),
            task: OnceLock::new(),
        }
    }

    /// Whether a block was asked for and has not arrived yet.
    pub(crate) fn is_coming(&self, block: u64) -> bool {
        let now = self.progress();
        let coming = self.blocks.start + now.arrived..self.blocks.end;
        now.end.is_none() && coming.contains(&block)
    }

    /// The blocks that were asked for.
    pub(crate) fn blocks(&self) -> Range<u64> {
        self.blocks.clone()
    }

    /// Whether no more blocks come.
    pub(crate) fn is_over(&self) -> bool {
        self.progress().end.is_some()
    }

    /// Notes the task that receives the answer.
    pub(crate) fn is_done_by(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// Ends the request, whose blocks no reader wants any more.
    pub(crate) fn abort(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// The next blocks have arrived, so many.
    pub(crate) fn arrive(&self, blocks: u64) {
        self.progress().arrived += blocks;
        self.changed.notify_all();
    }

    /// No more blocks come. Only the first call counts.
    pub(crate) fn end(&self, end: Result<()>) {
        self.progress().end.get_or_insert(end);
        self.changed.notify_all();
    }

    /// Waits until a block has arrived, for at most this time. Returns whether it has.
    ///
    /// # Errors
    /// Those of the request.
    pub(crate) fn wait(&self, block: u64, time: Duration) -> Result<bool> {
        let is_here = |now: &Progress| block < self.blocks.start + now.arrived;
        let waited = self
            .changed
            .wait_timeout_while(self.progress(), time, |now| {
                !is_here(now) && now.end.is_none()
            });
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &now.end {
            _ if is_here(&now) => Ok(true),
            Some(Err(e)) => Err(e.clone()),
            _ => Ok(false),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Problem};

    const SHORT: Duration = Duration::from_millis(10);

    #[test]
    fn blocks_are_there_when_they_arrive_and_errors_are_for_the_others() {
        let flight = Flight::new(10..20);
        assert_eq!(flight.wait(10, SHORT), Ok(false));
        flight.arrive(3);
        assert_eq!(flight.wait(12, SHORT), Ok(true));
        // It may have left memory since: it is asked for again.
        assert!(!flight.is_coming(12) && flight.is_coming(13) && !flight.is_coming(20));
        assert_eq!(flight.wait(13, SHORT), Ok(false));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| flight.wait(13, Duration::from_secs(10)));
            flight.arrive(1);
            assert_eq!(waiting.join().expect("no panic"), Ok(true));
        });
        let error = Error::new("http://h/a", Problem::Changed);
        flight.end(Err(error.clone()));
        flight.end(Ok(()));
        assert!(flight.is_over() && !flight.is_coming(15));
        assert_eq!(flight.wait(13, SHORT), Ok(true));
        assert_eq!(flight.wait(14, SHORT), Err(error));
    }
}
