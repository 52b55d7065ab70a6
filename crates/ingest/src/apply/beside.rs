//! Checkpoints beside the applying: what the WAL has is copied into the database's file, and synced there, by a thread and a connection of its own, while the next rows are applied.
//!
//! They are passive ones, so nobody waits for them and they hold no lock that a writer needs. SQLite begins the WAL anew only when a writer comes and nothing is left to copy; so the last bit is done
//! by the worker between two batches ([`super::tidy`]). What is known of durability is what that one finds: nothing is pruned for a checkpoint of this thread.

use crate::recipe::Recipe;
use densite_sqlite::{Checkpointed, Connection, Result, ffi};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the end of a checkpoint is waited for before it is looked whether the thread is still there.
const STEP: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Asked,
    Done(Checkpointed),
    End,
}

struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

/// The thread. It ends, and its connection is closed, with this value.
pub(super) struct Beside {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Beside {
    /// Starts it; `None` when there can be no more threads: then the worker does everything.
    pub(super) fn start(recipe: Recipe) -> Option<Beside> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Idle),
            news: Condvar::new(),
        });
        let body = shared.clone();
        let thread = std::thread::Builder::new()
            .name("densite-copy".into())
            .spawn(move || body.live(&recipe))
            .ok()?;
        Some(Beside {
            shared,
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    /// Asks for a checkpoint, unless one is under way. Answers whether it is the first to ask.
    pub(super) fn ask(&self) -> bool {
        let mut state = self.shared.state.lock();
        if *state != State::Idle {
            return false;
        }
        *state = State::Asked;
        self.shared.news.notify_all();
        true
    }

    /// What a checkpoint did that is over, once.
    pub(super) fn done(&self) -> Option<Checkpointed> {
        let mut state = self.shared.state.lock();
        let State::Done(done) = *state else {
            return None;
        };
        *state = State::Idle;
        Some(done)
    }

    /// Waits until none is under way, or until `stops`.
    pub(super) fn wait(&self, stops: impl Fn() -> bool) {
        let mut state = self.shared.state.lock();
        let gone = || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        while *state == State::Asked && !gone() && !stops() {
            self.shared.news.wait_for(&mut state, STEP);
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // A child of the process that started it has no such thread, and a mutex that may be held for ever.
        if self.process != std::process::id() {
            return;
        }
        *self.shared.state.lock() = State::End;
        self.shared.news.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn live(&self, recipe: &Recipe) {
        let mut connection: Option<Connection> = None;
        loop {
            let mut state = self.state.lock();
            while matches!(*state, State::Idle | State::Done(_)) {
                self.news.wait(&mut state);
            }
            if *state == State::End {
                return;
            }
            drop(state);
            let done = match &connection {
                Some(connection) => pass(connection),
                None => open(recipe).and_then(|fresh| pass(connection.insert(fresh))),
            };
            // The worker meets the same error, and tells it.
            let next = done.map_or(State::Idle, State::Done);
            if next == State::Idle {
                connection = None;
            }
            let mut state = self.state.lock();
            if *state == State::Asked {
                *state = next;
            }
            self.news.notify_all();
        }
    }
}

fn open(recipe: &Recipe) -> Result<Connection> {
    let connection = recipe.open()?;
    // Whatever this build of SQLite does by itself: the WAL is synced before anything is copied.
    connection.exec("PRAGMA main.synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0")?;
    // Some SQLites checkpoint only a WAL that the connection has read.
    connection.query_i64("PRAGMA main.schema_version")?;
    Ok(connection)
}

/// What it copied is synced at once, so that the worker's own checkpoint finds little to sync.
fn pass(connection: &Connection) -> Result<Checkpointed> {
    let done = connection.checkpoint(Some(c"main"), ffi::CHECKPOINT_PASSIVE)?;
    connection.sync_file(c"main")?;
    Ok(done)
}
