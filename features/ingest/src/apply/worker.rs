//! The worker's thread, and the one worker that a process has for each database.

use super::Applying;
use crate::database::connection_spec::ConnectionSpec;
use crate::database::open_log::OpenLog;
use crate::error::refused;
use densite_disk::sync::Mutex;
use densite_sqlite::{Code, Connection, Error, Result, fork_gate};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// The worker of this process for one database. It does not exist before a connection needs it.
pub struct DatabaseWorker {
    open: Arc<OpenLog>,
    worker: Mutex<Option<Worker>>,
}

impl DatabaseWorker {
    /// For the database of this log.
    pub(crate) fn new(open: Arc<OpenLog>) -> DatabaseWorker {
        DatabaseWorker {
            open,
            worker: Mutex::new(None),
        }
    }

    /// The worker, which is started if there is none. It applies rows if no other process does, and
    /// only after a connection that can write has called this.
    ///
    /// # Errors
    /// An error if the thread cannot start.
    pub fn applying(&self, connection: &Connection) -> Result<Arc<Applying>> {
        let may_write = connection.is_readonly(c"main") != Some(true);
        // No code that runs under this mutex waits for a worker that applies.
        let mut worker = self.worker.lock();
        if may_write {
            worker.take_if(|w| w.applying.only_watches());
        }
        if worker.is_none() {
            let spec = ConnectionSpec::of(connection, &self.open.file().path);
            *worker = Some(Worker::start(Applying::new(self.open.clone(), spec))?);
        }
        let applying = worker.as_ref().map(|w| w.applying.clone());
        applying
            .ok_or_else(|| refused("the thread that applies rows ended; open the database again"))
    }

    /// The worker, if there is one.
    pub fn known(&self) -> Option<Arc<Applying>> {
        let worker = self.worker.lock();
        worker.as_ref().map(|w| w.applying.clone())
    }
}

/// The running thread, which ends with this value.
struct Worker {
    applying: Arc<Applying>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Worker {
    fn start(applying: Applying) -> Result<Worker> {
        // If the handlers cannot be installed, a fork is as safe as beside any other thread that
        // uses SQLite.
        fork_gate::guard_forks();
        let applying = Arc::new(applying);
        let body = applying.clone();
        let thread = std::thread::Builder::new()
            .name("densite-apply".into())
            .spawn(move || body.live())
            .map_err(|e| {
                Error::new(
                    Code::NOMEM,
                    format!("the thread that applies rows cannot start: {e}; end some programs, or raise the limit of threads (ulimit -u)"),
                )
            })?;
        Ok(Worker {
            applying,
            thread: Some(thread),
            process: std::process::id(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.applying.stop.store(true, Ordering::Release);
        self.applying.tell(|s| s.wanted = true);
        self.applying.hurry.notify_all();
        self.applying.open.log().ring();
        // A forked child does not have this thread.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|_| self.process == std::process::id())
        {
            thread.join().ok();
            self.applying.pruning.end();
        }
    }
}
