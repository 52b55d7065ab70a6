//! The thread that sends requests and receives answers.

use crate::counters::Counters;
use crate::error::Problem;
use crate::remote::Remote;
use densite_disk::sync::Mutex;
use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// How much longer a caller waits than the request, which ends itself in time.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// What all remote files of a process share: one thread, which is started when it is first needed.
///
/// A forked child has no such thread, so it needs a client of its own. In the child, a file of the
/// parent's client answers with [`Problem::Forked`].
#[derive(Debug)]
pub struct Client {
    process: u32,
    thread: Mutex<Option<Handle>>,
    /// The files that are open.
    open: Mutex<Vec<Weak<Remote>>>,
}

impl Default for Client {
    fn default() -> Client {
        Client {
            process: std::process::id(),
            thread: Mutex::default(),
            open: Mutex::default(),
        }
    }
}

impl Client {
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

    /// What reading the files that are open has cost.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let open = self.open.lock();
        let all = open.iter().filter_map(Weak::upgrade);
        all.fold(Counters::default(), |sum, file| sum.and(file.counters()))
    }

    /// Returns the same file if it is open already, or this one, which others find from now on.
    pub(crate) fn share(&self, opened: Remote) -> Arc<Remote> {
        let mut open = self.open.lock();
        open.retain(|other| other.strong_count() > 0);
        let mut others = open.iter().filter_map(Weak::upgrade);
        if let Some(same) = others.find(|other| other.is_same(&opened)) {
            same.count_opening(&opened);
            return same;
        }
        let opened = Arc::new(opened);
        open.push(Arc::downgrade(&opened));
        opened
    }

    /// Whether this process, and not its parent, made the client.
    pub(crate) fn is_of_this_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Starts a task on the thread.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Problem> {
        if !self.is_of_this_process() {
            return Err(Problem::Forked);
        }
        self.handle()?.spawn(task);
        Ok(())
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
