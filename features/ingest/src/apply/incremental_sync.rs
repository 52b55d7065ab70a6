//! A thread that makes the WAL durable while the worker writes it.
//!
//! A transaction of the worker is tens of MiB in the WAL. If the disk gets them all at once, at the
//! checkpoint, COMMITs of the log wait for hundreds of milliseconds. The worker cannot sync them in
//! small pieces, because it holds the write lock. Durability does not depend on this thread: SQLite
//! and [`crate::database::durable`] sync as always. But the system may report a failed write to
//! only one caller of a sync. So if this thread gets that error, nothing is pruned any more.

use super::Applying;
use crate::database::sync_failed::SyncFailed;
use crate::storage::FORMS;
use densite_disk::{File, OpenMode, SyncKind};
use densite_log::LogDir;
use densite_sqlite::{Connection, WalProgress};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time until the thread notices that it must end.
const STEP: Duration = Duration::from_millis(50);

/// The running thread, which ends with this value.
pub(super) struct IncrementalSync {
    progress: Arc<WalProgress>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl IncrementalSync {
    /// Starts the thread for a connection in WAL mode. `None` if the connection does not report its
    /// WAL writes, or no thread can be started.
    pub(super) fn start(connection: &Connection, applying: &Applying) -> Option<IncrementalSync> {
        let progress = densite_sqlite::wal_progress(connection)?;
        let path = connection.filename(c"main")?;
        let path = Path::new(&path);
        let dir = applying.open.storage().dir(path.parent()?);
        let name = path.file_name()?.to_string_lossy().into_owned();
        let names = FORMS.map(|form| format!("{name}{}", form.wal));
        let ends = Arc::new(AtomicBool::new(false));
        let (written, end) = (progress.clone(), ends.clone());
        let sync_failed = applying.open.sync_failed().clone();
        let thread = std::thread::Builder::new()
            .name("densite-walsync".into())
            .spawn(move || run(&written, &dir, &names, &end, &sync_failed))
            .ok()?;
        Some(IncrementalSync {
            progress,
            ends,
            thread: Some(thread),
        })
    }

    /// What the worker's connection reports of its WAL writes.
    pub(super) fn progress(&self) -> &WalProgress {
        &self.progress
    }
}

fn run(
    progress: &WalProgress,
    dir: &LogDir,
    names: &[String],
    ends: &AtomicBool,
    sync_failed: &SyncFailed,
) {
    let mut wals: Vec<Box<dyn File>> = Vec::new();
    while !ends.load(Ordering::Acquire) {
        if !progress.wait(STEP) {
            continue;
        }
        if wals.is_empty() {
            // Opening it separately is safe: a WAL has no locks that closing a descriptor would
            // drop.
            let open = |name: &String| dir.open(name, OpenMode::Read).ok();
            wals = names.iter().filter_map(open).collect();
        }
        if wals.is_empty() {
            return;
        }
        if wals.iter().any(|file| file.sync(SyncKind::Data).is_err()) {
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
