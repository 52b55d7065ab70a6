//! What all users of an open log share: its directory, its writer, and how far it can be read.

use crate::batch::TxnId;
use crate::measure::Measured;
use crate::open_dir::OpenDir;
use crate::takeover::Takeover;
use crate::times::Noted;
use crate::visibility::{Visibility, Visible};
use crate::wakeups::Wakeups;
use crate::writer::Writer;
use crate::{Error, Options, Result};
use densite_disk::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. [`Log`](crate::Log)s and [`Reader`](crate::Reader)s share it; the last one that
/// goes closes the log.
pub(crate) struct Shared {
    /// `None` in a log that is open for reading only. It is dropped before the rest.
    writer: Option<Writer>,
    pub(crate) dir: Arc<OpenDir>,
    pub(crate) options: Options,
    visibility: Mutex<Visibility>,
    /// Wakes the threads that wait for rows.
    pub(crate) news: Arc<Wakeups>,
    pub(crate) takeover: Takeover,
    /// Number of the next transaction.
    txn_next: AtomicU64,
    /// Places of recent calls of [`Log::bytes_after`](crate::Log::bytes_after).
    pub(crate) measured: Measured,
    /// When the time was noted, see [`Log::note_time`](crate::Log::note_time).
    pub(crate) noted: Noted,
}

impl Shared {
    pub(crate) fn new(
        writer: Option<Writer>,
        dir: Arc<OpenDir>,
        options: Options,
        visibility: Visibility,
        news: Arc<Wakeups>,
        txn_next: u64,
    ) -> Shared {
        Shared {
            writer,
            dir,
            options,
            visibility: Mutex::new(visibility),
            news,
            takeover: Takeover::default(),
            txn_next: AtomicU64::new(txn_next),
            measured: Measured::default(),
            noted: Noted::default(),
        }
    }

    /// A name for a transaction; see [`Log::new_txn`](crate::Log::new_txn).
    pub(crate) fn new_txn(&self) -> TxnId {
        TxnId(self.txn_next.fetch_add(1, Ordering::Relaxed))
    }

    /// What this process has to write the log.
    ///
    /// # Errors
    /// `Forked`, `ReadOnly`.
    pub(crate) fn writer(&self) -> Result<&Writer> {
        self.dir.is_ours()?;
        self.writer.as_ref().ok_or(Error::ReadOnly)
    }

    /// Checks that this process can change the log through this handle.
    ///
    /// # Errors
    /// `Forked`, `ReadOnly`, `Replaced`; `Io`.
    pub(crate) fn may_write(&self) -> Result<()> {
        self.writer()?;
        self.dir.is_in_place()
    }

    /// How far the log can be read now.
    ///
    /// # Errors
    /// `Forked`, `Replaced`; `Io`, `Damaged`.
    pub(crate) fn visible(&self) -> Result<Visible> {
        self.dir.is_ours()?;
        let own = self.writer.as_ref().map(Writer::decisions);
        let visible = self.visibility.lock().current(&self.dir.files, own)?;
        // A writer's slot keeps a repair away. A reader has no slot, so it looks at the name.
        if self.writer.is_none() {
            self.dir.is_in_place()?;
        }
        Ok(visible)
    }
}
