//! A thread that makes the WAL durable while the worker writes it.
//!
//! A transaction of the worker is tens of MiB in the WAL. If the disk gets them all at once, at the
//! checkpoint, COMMITs of the log wait for that: hundreds of milliseconds. The worker itself cannot
//! sync them in small pieces, for it holds the write lock. Nothing depends on this thread but the
//! waiting of others: what has to be durable, SQLite and [`crate::durable`] sync as ever. But the
//! system may tell of a page that it could not write to one caller of a sync, and to no later one; so
//! if that is this thread nothing is pruned any more.

use super::Applying;
use crate::sync_failed::SyncFailed;
use densite_disk::{File, OpenMode, SyncKind};
use densite_log::LogDir;
use densite_sqlite::{Connection, WalProgress};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread does not see that it is to end.
const STEP: Duration = Duration::from_millis(50);

/// The running thread; it ends with this value.
pub(super) struct IncrementalSync {
    progress: Arc<WalProgress>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl IncrementalSync {
    /// Starts it, for a connection in WAL mode; `None` if there is nothing to be done for this
    /// connection, or no thread could be started.
    pub(super) fn start(connection: &Connection, applying: &Applying) -> Option<IncrementalSync> {
        let progress = densite_sqlite::wal_progress(connection)?;
        let path = connection.filename(c"main")?;
        let path = Path::new(&path);
        let dir = applying.open.storage().dir(path.parent()?);
        let name = format!("{}-wal", path.file_name()?.to_string_lossy());
        let ends = Arc::new(AtomicBool::new(false));
        let (written, end) = (progress.clone(), ends.clone());
        let sync_failed = applying.open.sync_failed().clone();
        let thread = std::thread::Builder::new()
            .name("densite-walsync".into())
            .spawn(move || run(&written, &dir, &name, &end, &sync_failed))
            .ok()?;
        Some(IncrementalSync {
            progress,
            ends,
            thread: Some(thread),
        })
    }

    /// What the worker's connection tells of its WAL.
    pub(super) fn progress(&self) -> &WalProgress {
        &self.progress
    }
}

fn run(
    progress: &WalProgress,
    dir: &LogDir,
    name: &str,
    ends: &AtomicBool,
    sync_failed: &SyncFailed,
) {
    let mut wal: Option<Box<dyn File>> = None;
    while !ends.load(Ordering::Acquire) {
        if !progress.wait(STEP) {
            continue;
        }
        if wal.is_none() {
            // A WAL has no locks that closing a descriptor would drop.
            wal = dir.open(name, OpenMode::Read).ok();
        }
        let Some(file) = &wal else { return };
        if file.sync(SyncKind::Data).is_err() {
            sync_failed.record_one();
            return;
        }
    }
}

impl Drop for IncrementalSync {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        self.progress.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
