//! The thread that sends requests and receives answers.

use crate::error::Problem;
use densite_disk::sync::Mutex;
use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;

/// How much longer a caller waits than the request, which ends itself in time.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// One thread for a process, which is started when it is first needed.
///
/// A forked child has no such thread, so it needs one of its own. In the child, a file of the
/// parent's thread answers with [`Problem::Forked`].
#[derive(Debug)]
pub(crate) struct Thread {
    process: u32,
    thread: Mutex<Option<Handle>>,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread {
            process: std::process::id(),
            thread: Mutex::default(),
        }
    }
}

impl Thread {
    /// Runs a task on the thread, and waits for its result for at most this time.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        time: Duration,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        if !self.is_of_this_process() {
            return Err(Problem::Forked);
        }
        let (send, result) = sync_channel(1);
        let running = self.handle()?.spawn(async move {
            let done = tokio::time::timeout(time, task).await;
            // The caller may have given up.
            let _ = send.send(done.map_err(|_| Problem::Timeout(time, None)));
        });
        result.recv_timeout(time + GRACE).unwrap_or_else(|e| {
            running.abort();
            Err(match e {
                RecvTimeoutError::Timeout => Problem::Timeout(time, None),
                // The task panicked, in a library.
                RecvTimeoutError::Disconnected => {
                    Problem::Other("the request could not be sent".into())
                }
            })
        })
    }

    /// Whether this process, and not its parent, made it.
    pub(crate) fn is_of_this_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Starts a task on the thread.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<AbortHandle, Problem> {
        if !self.is_of_this_process() {
            return Err(Problem::Forked);
        }
        Ok(self.handle()?.spawn(task).abort_handle())
    }

    fn handle(&self) -> Result<Handle, Problem> {
        let mut thread = self.thread.lock();
        if let Some(handle) = &*thread {
            return Ok(handle.clone());
        }
        let failed = |e: std::io::Error| Problem::Other(format!("no thread for requests: {e}"));
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("densite-remote".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .map_err(failed)?;
        Ok(thread.insert(handle).clone())
    }
}
