//! How large the WAL is, and how large it may become; and a thread that makes it durable while the
//! worker writes it.

use super::Applying;
use super::connection::LOCK_STEP;
use crate::database::open_log::SyncFailed;
use crate::storage::FORMS;
use densite_disk::{File, OpenMode, SyncKind};
use densite_log::LogDir;
use densite_sqlite::{Checkpointed, Connection, Result, WalProgress, ffi};
use densite_sqlite_format::wal::FRAME_HEADER_LEN;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The assumed number of frames for each row before the first measurement.
const FRAMES_PER_ROW: f64 = 4.0;
/// How long to wait for the end of other connections' reads, milliseconds.
const RESTART: Duration = Duration::from_millis(100);

/// The longest time until the thread notices that it must end.
const STEP: Duration = Duration::from_millis(50);

/// How large the WAL is, and how large it may become.
///
/// A page that several batches change is copied back only once if no checkpoint comes between them.
/// So the WAL can grow to the size of the database, within bounds. SQLite reports its length only
/// at a checkpoint. In between, the VFS below the worker's connection reports its writes. If
/// another build of this library owns the name of that VFS, there are no reports. Then the size is
/// estimated from the number of rows, roughly: many rows can change one page, or one row many
/// pages.
pub(super) struct Wal {
    /// A checkpoint is due when the WAL is as large as the database, but not below the first and
    /// not above the second bound, in bytes.
    bounds: (u64, u64),
    page: u64,
    /// Frames at which a checkpoint is due.
    due: u64,
    /// Frames at the last checkpoint.
    frames: u64,
    /// The most frames since the file was truncated, which is its length.
    longest: u64,
    /// Frames at the last checkpoint that stay, because a reader needs them.
    kept: u64,
    rows: u64,
    /// Of `rows`, those that were applied when a checkpoint began beside the worker.
    rows_ahead: u64,
    per_row: f64,
    /// Frames up to which the worker has written; 0 if there are no reports.
    reached: u64,
}

impl Wal {
    /// A WAL of unknown size.
    pub(super) fn new(bounds: (u64, u64)) -> Wal {
        Wal {
            bounds,
            page: 4096,
            due: bounds.0 >> 12,
            frames: 0,
            longest: 0,
            kept: 0,
            rows: 0,
            rows_ahead: 0,
            per_row: FRAMES_PER_ROW,
            reached: 0,
        }
    }

    /// Records that rows were applied.
    pub(super) fn grew(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// Records that the worker has written up to here, in bytes; see
    /// [`densite_sqlite::WalProgress::reached`].
    pub(super) fn reaches(&mut self, bytes: u64) {
        self.reached = bytes / (self.page + FRAME_HEADER_LEN as u64);
    }

    fn now(&self) -> u64 {
        match self.reached {
            0 => self.kept + (self.rows as f64 * self.per_row) as u64,
            told => told,
        }
    }

    /// Whether a checkpoint is due.
    pub(super) fn is_due(&self) -> bool {
        self.now() >= self.due
    }

    /// Whether a checkpoint can begin beside the worker, so that less is left when one is due.
    /// While the file still grows it cannot: the writer and the syncing thread would wait for each
    /// other.
    pub(super) fn is_half_due(&self) -> bool {
        self.now() >= self.due / 2 && self.longest >= self.due
    }

    /// Records that a checkpoint begins beside the worker.
    pub(super) fn begins_ahead(&mut self) {
        self.rows_ahead = self.rows;
    }

    /// Evaluates the result of that checkpoint. Its frames stay, because the worker wrote
    /// meanwhile.
    pub(super) fn was_ahead(&mut self, done: Checkpointed) {
        let frames = u64::try_from(done.wal_frames).unwrap_or(0);
        let grown = frames.saturating_sub(self.kept);
        if self.rows_ahead > 0 && grown > 0 {
            self.per_row = grown as f64 / self.rows_ahead as f64;
        }
        self.longest = self.longest.max(frames);
        self.kept = frames;
        self.rows -= self.rows_ahead;
        self.rows_ahead = 0;
    }

    /// Whether these rows are all that came since a checkpoint began beside the worker. Then the
    /// remaining work is as small as it gets.
    pub(super) fn is_little(&self, rows: usize) -> bool {
        self.kept > 0 && self.rows <= rows as u64
    }

    /// Evaluates the result of a checkpoint.
    pub(super) fn is(&mut self, connection: &Connection, done: Checkpointed) -> Result<()> {
        let number = |sql: &str| -> Result<Option<u64>> {
            Ok(connection
                .query_i64(sql)?
                .and_then(|n| u64::try_from(n).ok()))
        };
        self.page = number("PRAGMA main.page_size")?.unwrap_or(4096).max(512);
        let pages = number("PRAGMA main.page_count")?.unwrap_or(0);
        let (least, most) = self.bounds;
        self.due = pages.clamp(least / self.page, most / self.page);
        let frames = u64::try_from(done.wal_frames).unwrap_or(0);
        let grown = frames.checked_sub(self.kept).unwrap_or(frames);
        if self.rows > 0 && grown > 0 {
            self.per_row = grown as f64 / self.rows as f64;
        }
        self.frames = frames;
        self.longest = self.longest.max(frames);
        // After a complete checkpoint, the next writer begins at the start of the WAL.
        self.kept = if done.wal_frames == done.checkpointed {
            0
        } else {
            frames
        };
        self.rows = 0;
        self.rows_ahead = 0;
        self.reached = 0;
        Ok(())
    }

    /// Bytes of the frames at the last checkpoint.
    pub(super) fn bytes(&self) -> u64 {
        self.frames * self.page
    }

    /// Whether it is twice as large as it should become.
    pub(super) fn is_too_large(&self) -> bool {
        self.frames >= 2 * self.due
    }

    /// Called after a complete checkpoint. If a new reader always begins before the previous one
    /// ends, no writer can restart the WAL. So new readers are sent to the database file, and the
    /// old ones are waited for.
    pub(super) fn restart(&mut self, connection: &Connection) -> Result<()> {
        if self.frames > self.due + self.due / 2 {
            in_time(connection, RESTART, ffi::CHECKPOINT_RESTART)?;
        }
        Ok(())
    }

    /// Whether the file is long enough to be worth truncating. More can have been written since the
    /// last checkpoint.
    pub(super) fn is_long(&self) -> bool {
        self.longest.max(self.now()) * self.page >= self.bounds.0
    }

    /// Called at rest after a complete checkpoint: truncates the file. Returns false if another
    /// connection reads it or has one of its locks.
    pub(super) fn cut(&mut self, connection: &Connection) -> Result<bool> {
        let is_cut = in_time(connection, Duration::ZERO, ffi::CHECKPOINT_TRUNCATE)?;
        if is_cut {
            self.longest = 0;
        }
        Ok(is_cut)
    }
}

/// A checkpoint that blocks other connections for a short time. Returns false if the database is
/// busy.
fn in_time(connection: &Connection, time: Duration, mode: i32) -> Result<bool> {
    connection.set_busy_timeout(time)?;
    let done = connection.checkpoint(Some(c"main"), mode);
    connection.set_busy_timeout(LOCK_STEP)?;
    match done {
        Ok(_) => Ok(true),
        Err(e) if e.is_busy() => Ok(false),
        Err(e) => Err(e),
    }
}

/// A thread that makes the WAL durable while the worker writes it, and ends with this value.
///
/// A transaction of the worker is tens of MiB in the WAL. If the disk gets them all at once, at the
/// checkpoint, COMMITs of the log wait for hundreds of milliseconds. The worker cannot sync them in
/// small pieces, because it holds the write lock. Durability does not depend on this thread: SQLite
/// and [`crate::database::durable`] sync as always. But the system may report a failed write to
/// only one caller of a sync. So if this thread gets that error, nothing is pruned any more.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wal_frames: i32, checkpointed: i32) -> Checkpointed {
        Checkpointed {
            wal_frames,
            checkpointed,
        }
    }

    /// One frame for each row. A checkpoint is due at a thousand frames.
    #[test]
    fn a_checkpoint_begins_beside_the_worker_once_the_file_stops_growing() {
        let mut wal = Wal {
            due: 1000,
            per_row: 1.0,
            ..Wal::new((1 << 20, 1 << 30))
        };
        wal.grew(900);
        assert!(!wal.is_half_due(), "the file grows");
        wal.longest = 1000;
        wal.rows = 400;
        assert!(!wal.is_half_due());
        wal.grew(200);
        assert!(wal.is_half_due() && !wal.is_due());
        wal.begins_ahead();
        wal.grew(100);
        wal.was_ahead(told(600, 600));
        assert!(
            wal.is_little(100),
            "one transaction was committed meanwhile"
        );
        assert!(!wal.is_little(50));
        assert!(!wal.is_due());
        wal.grew(299);
        assert!(!wal.is_due());
        wal.grew(1);
        assert!(wal.is_due(), "copied frames stay in the file");
        // Two frames for each of the 50 rows since then.
        wal.rows = 50;
        wal.begins_ahead();
        wal.grew(10);
        wal.was_ahead(told(700, 700));
        assert_eq!(wal.now(), 720);
        // If rows cost almost nothing, or a lot, the reported writes decide.
        wal.per_row = 0.001;
        wal.grew(1000);
        assert!(!wal.is_due());
        wal.reaches(1000 * (4096 + FRAME_HEADER_LEN as u64));
        assert!(wal.is_due());
        wal.per_row = 1000.0;
        wal.reaches(900 * (4096 + FRAME_HEADER_LEN as u64));
        assert!(!wal.is_due());
    }
}
