//! Other contents are written over an open file: `cp` over it, or a restored backup.
//!
//! The store detects it ([`Error::Overwritten`](densite_store::Error::Overwritten)): the commit in
//! the file is not a successor of the known one. Then the file is judged again, but only when
//! SQLite compares or drops its cached pages, because pages of two databases must not mix
//! (docs/decisions/sqlite-calls.md). At all other times, and while the new contents are still
//! incomplete, the answer is an error. An empty file is an empty database.

use densite_sqlite_format::header::CHANGE_COUNTER;
use densite_store::Handle;
use std::time::{Duration, Instant};

/// The first bytes of a Densite file.
const MAGIC: &[u8] = b"Densite";
/// How often a connection checks the contents when a snapshot begins that is the same as before. In
/// between SQLite can answer from its cached pages.
const AGE: Duration = Duration::from_millis(10);

/// What a connection knows about contents that replaced others.
#[derive(Default)]
pub(crate) struct Overwritten {
    /// The file was judged again, and its contents are not complete yet.
    unsettled: bool,
    /// SQLite can have cached pages of the old contents.
    kept: bool,
    /// When the contents were last checked.
    looked: Option<Instant>,
}

impl Overwritten {
    /// The file has other contents and is judged again.
    pub(crate) fn begins(&mut self) {
        self.unsettled = true;
        self.kept = true;
    }

    /// SQLite can have cached pages of other contents.
    pub(crate) fn keeps_pages(&mut self) {
        self.kept = true;
    }

    /// Whether the opened contents are still incomplete.
    pub(crate) fn awaits(&self, handle: &Handle) -> bool {
        self.unsettled && handle.is_cut()
    }

    /// The file was judged, and its contents are complete.
    pub(crate) fn set_whole(&mut self) {
        self.unsettled = false;
    }

    /// A snapshot begins. `resets`: SQLite drops its cached pages for it. Returns whether to check
    /// the contents now.
    pub(crate) fn is_due(&mut self, resets: bool) -> bool {
        let now = Instant::now();
        let is_recent = |at: Instant| now.duration_since(at) < AGE;
        if !resets && self.looked.is_some_and(is_recent) {
            return false;
        }
        self.looked = Some(now);
        true
    }

    /// SQLite has read the change counter. If it can have cached pages of other contents, this
    /// changes the counter in `buf` once, so that SQLite drops them.
    pub(crate) fn forces_reset(&mut self, buf: &mut [u8]) {
        if std::mem::take(&mut self.kept) {
            for byte in buf {
                *byte = !*byte;
            }
        }
    }
}

/// Whether this is SQLite's read of the change counter.
pub(crate) fn reads_version(buf: &[u8], offset: u64) -> bool {
    offset == CHANGE_COUNTER.start as u64 && buf.len() == CHANGE_COUNTER.len()
}

/// Whether these bytes are the beginning of a Densite file.
pub(crate) fn begins_as_store(buf: &[u8], offset: u64) -> bool {
    offset == 0 && buf.starts_with(MAGIC)
}
