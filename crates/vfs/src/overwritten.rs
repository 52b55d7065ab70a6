//! Other contents are written over a file that is open: `cp` over it, a backup that is put back in
//! place.
//!
//! The store tells ([`Error::Overwritten`](densite_store::Error::Overwritten)): the commit in the
//! file does not stand on the one that was known. Then the file is judged again, as if it had been
//! opened just now. But SQLite keeps pages, and pages of two databases must not meet. So that is
//! done only where SQLite keeps nothing that it would not compare or drop:
//!
//! - *In a rollback mode* when a transaction begins. SQLite then compares 16 bytes of page 1 and
//!   drops its pages if they differ. They can be the same in both files: that one time we make sure
//!   that they differ ([`Overwritten::forces_reset`]).
//! - *In WAL mode* when a snapshot begins for which SQLite drops its pages. The header of the WAL
//!   index is another one than last time, or this connection has just rebuilt it.
//!
//! Everywhere else the answer is an error, until one of these moments comes. So it is while the new
//! contents are still being written: what the newest slot and the tip say must be there before they
//! are taken. An empty file is an empty database.

use densite_store::Handle;
use std::time::{Duration, Instant};

/// How Densite's files begin.
const MAGIC: &[u8] = b"Densite";
/// How often a connection looks at the beginning of a snapshot that is the one it had before: from
/// there on SQLite can answer from its own pages.
const AGE: Duration = Duration::from_millis(10);
/// SQLite's look at the change counter and what follows it, at the begin of a transaction in a
/// rollback mode.
const VERSION: (u64, usize) = (24, 16);

/// What a connection knows of contents that came in the place of others.
#[derive(Default)]
pub(crate) struct Overwritten {
    /// The file was judged again, and what is in it is not whole yet.
    unsettled: bool,
    /// SQLite can have pages of the old contents.
    kept: bool,
    /// When it was last checked whether the contents are the same.
    looked: Option<Instant>,
}

impl Overwritten {
    /// Other contents have come: the file is judged again.
    pub(crate) fn begins(&mut self) {
        self.unsettled = true;
        self.kept = true;
    }

    /// SQLite can have pages of other contents.
    pub(crate) fn keeps_pages(&mut self) {
        self.kept = true;
    }

    /// Whether what was opened is to be waited for.
    pub(crate) fn awaits(&self, handle: &Handle) -> bool {
        self.unsettled && handle.is_cut()
    }

    /// The file was judged, and is whole.
    pub(crate) fn set_whole(&mut self) {
        self.unsettled = false;
    }

    /// A snapshot begins, for which SQLite drops its pages or not (`resets`). Whether to check now
    /// that the contents are the same.
    pub(crate) fn is_due(&mut self, resets: bool) -> bool {
        let now = Instant::now();
        let is_recent = |at: Instant| now.duration_since(at) < AGE;
        if !resets && self.looked.is_some_and(is_recent) {
            return false;
        }
        self.looked = Some(now);
        true
    }

    /// SQLite has looked at the change counter. If it can have pages of other contents, it sees
    /// another counter than there is, once, and drops them.
    pub(crate) fn forces_reset(&mut self, buf: &mut [u8]) {
        if std::mem::take(&mut self.kept) {
            for byte in buf {
                *byte = !*byte;
            }
        }
    }
}

/// Whether a read is SQLite's look at the change counter.
pub(crate) fn reads_version(buf: &[u8], offset: u64) -> bool {
    (offset, buf.len()) == VERSION
}

/// Whether what was read is the begin of a file of the store.
pub(crate) fn begins_as_store(buf: &[u8], offset: u64) -> bool {
    offset == 0 && buf.starts_with(MAGIC)
}
