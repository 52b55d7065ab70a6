//! The thread of one stream, which talks to the server.

use crate::{Error, Result};
use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How much longer a caller waits than its task, which ends itself in time.
const GRACE: Duration = Duration::from_secs(5);

/// A thread with a runtime, which ends with this value. A forked child does not have it.
pub(super) struct Thread {
    process: u32,
    handle: Handle,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Thread {
    pub(super) fn start() -> Result<Thread> {
        let failed = |e: std::io::Error| Error::TryAgain(format!("no thread for the stream: {e}"));
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("densite-stream".into())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
            })
            .map_err(failed)?;
        Ok(Thread {
            process: std::process::id(),
            handle,
            _stop: stop,
        })
    }

    /// Runs a task on the thread, and waits for its result for at most this time.
    pub(super) fn run<T: Send + 'static>(
        &self,
        time: Duration,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.is_ours()?;
        let late = || Error::TryAgain(format!("the server did not answer in {time:?}"));
        let (send, result) = sync_channel(1);
        let running = self.handle.spawn(async move {
            let done = tokio::time::timeout(time, task).await;
            // The caller can have given up.
            let _ = send.send(done);
        });
        match result.recv_timeout(time + GRACE) {
            Ok(done) => done.unwrap_or_else(|_| Err(late())),
            Err(e) => {
                running.abort();
                Err(match e {
                    RecvTimeoutError::Timeout => late(),
                    // The task panicked, in a library.
                    RecvTimeoutError::Disconnected => {
                        Error::TryAgain("the request could not be sent".into())
                    }
                })
            }
        }
    }

    /// # Errors
    /// [`Error::Forked`] in a child of the process that started it.
    pub(super) fn is_ours(&self) -> Result<()> {
        match std::process::id() == self.process {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }

    /// Starts a task and does not wait for it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if std::process::id() == self.process {
            self.handle.spawn(task);
        }
    }
}
