//! A Densite file: its handle, and what the VFS knows about its current contents.

use crate::late_truncate::sync_journal;
use crate::maintain::{Maintenance, Occasion};
use crate::named_file::NamedFile;
use crate::open_files::OpenFile;
use crate::slice::Rest;
use crate::trim::{Reach, Trim, Trimmed};
use densite_disk::SyncKind;
use densite_store::{Error, Handle, Options, ReclaimBudget, RelearnStep};
use std::time::Instant;

/// The most bytes that a slice moves.
const SLICE_BYTES: u64 = 1 << 20;
/// The most pages that a slice encodes because they were stored raw.
const SETTLED_PAGES: usize = 64;

/// An open Densite file.
pub(crate) struct Stored {
    handle: Box<Handle>,
    trim: Trim,
    /// SQLite synced the file and has not written to it since.
    synced: bool,
    /// The store is announced to the connections that write the WAL.
    announced: bool,
    /// The last value of [`Handle::unproved`].
    unproved: u64,
}

impl Stored {
    /// Opens the store in a file that is a Densite file or empty; `identity` is the file's.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn open(
        file: &NamedFile,
        identity: &str,
        options: Options,
    ) -> Result<Stored, Error> {
        let host = Box::new(file.host().clone());
        let handle = Box::new(Handle::open(host, identity, options)?);
        Ok(Stored {
            unproved: handle.unproved(),
            handle,
            trim: Trim::default(),
            synced: false,
            announced: false,
        })
    }

    /// Whether SQLite can have cached pages of other contents, as far as the store can tell. True
    /// if the store has since failed to prove that its pages are of the same contents.
    pub(crate) fn is_unproved(&mut self) -> bool {
        let now = self.handle.unproved();
        std::mem::replace(&mut self.unproved, now) != now
    }

    /// The handle, for reading its state.
    pub(crate) fn view(&self) -> &Handle {
        &self.handle
    }

    /// The handle. SQLite's writes and syncs go through [`Stored::write`] and [`Stored::sync`]
    /// instead.
    pub(crate) fn handle(&mut self) -> &mut Handle {
        &mut self.handle
    }

    /// SQLite's xWrite.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn write(&mut self, buf: &[u8], offset: u64) -> Result<(), Error> {
        self.synced = false;
        self.trim.wrote();
        self.handle.write_at(buf, offset)
    }

    /// SQLite's xSync, with the right to write.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn sync(&mut self, kind: SyncKind) -> Result<(), Error> {
        let done = self.handle.sync(kind);
        self.synced = done.is_ok();
        done
    }

    /// Whether SQLite synced the file and has not written to it since, and yet a change is pending:
    /// the database was truncated.
    pub(crate) fn is_cut_late(&self) -> bool {
        self.synced && self.handle.has_pending()
    }

    /// Makes the store known to the connections that write the file's WAL, once it can pre-encode
    /// pages.
    pub(crate) fn announce(&mut self, file: &OpenFile) {
        if !self.announced
            && let Some(preencoded) = self.handle.preencoded()
        {
            file.announce(&preencoded);
            self.announced = true;
        }
    }

    /// As [`Trim::is_committed`].
    pub(crate) fn is_committed(&mut self) {
        self.trim.is_committed(&mut self.handle);
    }

    /// As [`Trim::committed_without_wal`].
    pub(crate) fn committed_without_wal(&mut self) {
        self.trim.committed_without_wal(&mut self.handle);
    }

    /// As [`Trim::step`].
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn trim(&mut self, reach: Reach) -> Result<Trimmed, Error> {
        self.trim.step(&mut self.handle, reach)
    }

    /// Keeps what was trimmed at rest for the next publish. In a rollback mode it first makes the
    /// end of the last journal durable (`trim`). If that fails, all pending changes are forgotten.
    pub(crate) fn keep_trimmed(&mut self, trimmed: Trimmed, file: &NamedFile) -> Trimmed {
        if trimmed.pages == 0 || trimmed.again {
            return trimmed;
        }
        if self.handle.in_rollback_mode() && sync_journal(file).is_err() {
            self.trim.forget();
            self.handle.discard();
            return Trimmed::default();
        }
        trimmed
    }

    /// The part of a slice after its trim. Publishes, encodes again what becomes smaller, and moves
    /// records until `until` if more is dead or free than on this occasion. Before the worker has
    /// begun to reclaim, it moves nothing below the limit where reclamation starts.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn reclaim(
        &mut self,
        trimmed: Trimmed,
        maintenance: &mut Maintenance,
        occasion: Occasion,
        until: Instant,
    ) -> Result<Rest, Error> {
        self.handle.publish()?;
        let unsettled = occasion.relearns().is_some() && self.handle.settle(SETTLED_PAGES)?;
        let mut rest = if unsettled || trimmed.left && Instant::now() >= until {
            Rest::More
        } else {
            Rest::Done
        };
        // Encoding again leaves dead frames. They do not make the file larger than writing does.
        let is_over = self.handle.space()?.over(maintenance.dead_limit());
        if rest == Rest::Done && is_over {
            rest = self.move_records(maintenance, occasion, until)?;
        }
        if rest == Rest::Done {
            rest = self.relearn(occasion, until)?;
        }
        if rest == Rest::Done
            && !is_over
            && (occasion.has_begun() || self.handle.space()?.over(maintenance.rest_begins()))
        {
            rest = self.move_records(maintenance, occasion, until)?;
        }
        if rest == Rest::Done && trimmed.left {
            rest = Rest::More;
        }
        self.trim.goes_on(&mut self.handle);
        Ok(rest)
    }

    /// Whether [`Stored::relearn`] has something to do. Without threads it does nothing, because
    /// training takes longer than locks can be held.
    pub(crate) fn wants_relearning(&self, occasion: Occasion) -> bool {
        let wants = |when| self.handle.wants_relearning(when);
        self.handle.options().threads > 0 && occasion.relearns().is_some_and(wants)
    }

    /// Learns again from the whole database, and encodes again what becomes smaller.
    fn relearn(&mut self, occasion: Occasion, until: Instant) -> Result<Rest, Error> {
        let Some(when) = occasion
            .relearns()
            .filter(|_| self.wants_relearning(occasion))
        else {
            return Ok(Rest::Done);
        };
        let stop = || Instant::now() >= until;
        Ok(match self.handle.relearn(when, &stop)? {
            RelearnStep::Done => Rest::Done,
            RelearnStep::More => Rest::More,
            RelearnStep::Waits => Rest::Wait,
        })
    }

    /// Moves records until `until`, if more is dead or free than can be after this occasion.
    fn move_records(
        &mut self,
        maintenance: &mut Maintenance,
        occasion: Occasion,
        until: Instant,
    ) -> Result<Rest, Error> {
        let budget = ReclaimBudget {
            bytes: SLICE_BYTES,
            dead_limit: maintenance.limit(occasion),
            stop: &|| Instant::now() >= until,
        };
        let given = self.handle.reclaim_unsynced(&budget)?;
        maintenance.note_damage(given.damaged);
        Ok(match (given.done, given.wants_sync) {
            (_, true) => Rest::Sync,
            (true, false) => Rest::Done,
            (false, false) => Rest::More,
        })
    }
}
