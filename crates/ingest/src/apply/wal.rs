//! How large the WAL is, and how large it may become.
//!
//! A page that several batches change is written back once if there is no checkpoint between them.
//! So the WAL may become as large as the database, within bounds. SQLite tells its length at a
//! checkpoint only; in between the VFS below the worker's connection tells how far that has
//! written. Where another build of this library has the name of that VFS there is none, and the WAL
//! is taken to grow with rows as it did before: no more than a guess, for many rows may change one
//! page, or one many pages.

use super::connection::BUSY_MS;
use densite_sqlite::{Checkpointed, Connection, Result, ffi};

/// Frames for each row before anything is known.
const FRAMES_PER_ROW: f64 = 4.0;
/// Bytes before each page (fileformat2.html, section 4.1).
const FRAME_HEADER: u64 = 24;
/// Milliseconds that the end of others' reading is waited for.
const RESTART_MS: i32 = 100;

/// See the module.
pub(super) struct Wal {
    /// A checkpoint is due when it is as large as the database, but neither before the first nor
    /// after the second of these, in bytes.
    bounds: (u64, u64),
    page: u64,
    /// Frames at which a checkpoint is due.
    due: u64,
    /// At the last checkpoint.
    frames: u64,
    /// The most there were since the file was cut: it is as long.
    longest: u64,
    /// Frames then that were before it and stay, for someone reads them.
    kept: u64,
    rows: u64,
    /// Of these, rows that were there when a checkpoint began beside the worker.
    rows_ahead: u64,
    per_row: f64,
    /// Frames up to which the worker has written; 0 where nobody tells.
    reached: u64,
}

impl Wal {
    /// Nothing is known of it.
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

    /// So many rows were applied.
    pub(super) fn grew(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// The worker has written up to here, in bytes; see [`densite_sqlite::WalProgress::reached`].
    pub(super) fn reaches(&mut self, bytes: u64) {
        self.reached = bytes / (self.page + FRAME_HEADER);
    }

    fn now(&self) -> u64 {
        match self.reached {
            0 => self.kept + (self.rows as f64 * self.per_row) as u64,
            told => told,
        }
    }

    /// Whether a checkpoint is to come.
    pub(super) fn is_due(&self) -> bool {
        self.now() >= self.due
    }

    /// Whether one may begin beside the worker, so that less is left when it is due. Not while the
    /// file still grows: then the writer and the thread that syncs wait for each other.
    pub(super) fn is_half_due(&self) -> bool {
        self.now() >= self.due / 2 && self.longest >= self.due
    }

    /// A checkpoint begins beside the worker.
    pub(super) fn begins_ahead(&mut self) {
        self.rows_ahead = self.rows;
    }

    /// What that one said. Its frames stay, since the worker wrote meanwhile.
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

    /// Whether these rows are all that came since a checkpoint began beside the worker: the rest is
    /// as little as it will be.
    pub(super) fn is_little(&self, rows: usize) -> bool {
        self.kept > 0 && self.rows <= rows as u64
    }

    /// What a checkpoint said.
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
        // Where all is checkpointed the next writer begins at the front.
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

    /// Bytes of the frames that the last checkpoint found.
    pub(super) fn bytes(&self) -> u64 {
        self.frames * self.page
    }

    /// Whether it is twice as large as it should become.
    pub(super) fn is_too_large(&self) -> bool {
        self.frames >= 2 * self.due
    }

    /// After a complete checkpoint. While one reader comes before the other goes, no writer begins
    /// at the front: then new readers are sent to the database's file, and the old ones are waited
    /// for.
    pub(super) fn restart(&mut self, connection: &Connection) -> Result<()> {
        if self.frames > self.due + self.due / 2 {
            in_time(connection, RESTART_MS, ffi::CHECKPOINT_RESTART)?;
        }
        Ok(())
    }

    /// Whether the file is so long that its room is worth giving back. More may have been written
    /// since a checkpoint told.
    pub(super) fn is_long(&self) -> bool {
        self.longest.max(self.now()) * self.page >= self.bounds.0
    }

    /// At rest, after a complete checkpoint: gives the file's room back, if nobody reads it.
    pub(super) fn cut(&mut self, connection: &Connection) -> Result<()> {
        in_time(connection, 0, ffi::CHECKPOINT_TRUNCATE)?;
        self.longest = 0;
        Ok(())
    }
}

/// A checkpoint that holds others up for a short time. That somebody is in the way is no error.
fn in_time(connection: &Connection, ms: i32, mode: i32) -> Result<()> {
    connection.busy_timeout(ms)?;
    let done = connection.checkpoint(Some(c"main"), mode);
    connection.busy_timeout(BUSY_MS)?;
    match done {
        Err(e) if !e.is_busy() => Err(e),
        _ => Ok(()),
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

    /// A frame for each row, a thousand of them when a checkpoint is due.
    #[test]
    fn one_begins_beside_where_the_file_need_not_grow() {
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
        assert!(wal.is_due(), "what was copied stays in the file");
        // Two frames for each of 50 rows that came since.
        wal.rows = 50;
        wal.begins_ahead();
        wal.grew(10);
        wal.was_ahead(told(700, 700));
        assert_eq!(wal.now(), 720);
        // A row took next to nothing, or a lot: it is as long as the worker says.
        wal.per_row = 0.001;
        wal.grew(1000);
        assert!(!wal.is_due());
        wal.reaches(1000 * (4096 + FRAME_HEADER));
        assert!(wal.is_due());
        wal.per_row = 1000.0;
        wal.reaches(900 * (4096 + FRAME_HEADER));
        assert!(!wal.is_due());
    }
}
