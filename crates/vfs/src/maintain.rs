//! Maintenance: free pages are dropped, dead bytes become free units, free units leave the file. `trim` says which pages, the store
//! which units; this module says when, and down to what.
//!
//! - **While writing.** Whoever commits in a rollback mode, or checkpoints, has the writer's right anyway. When more of the file than
//!   `densite_dead_limit` is dead or free, each such transaction moves a part in proportion to what it stored, until the limit is
//!   kept: how much, and for how long, the store says ([`Handle::reclaim_share`](densite_store::Handle::reclaim_share)). Nothing is synced for it.
//! - **At rest**: `PRAGMA densite_maintain`; the last close and the background worker (`worker`) from half of the dead limit on. Down to [`REST_LIMIT`], or [`ASKED_LIMIT`] if asked for, in slices (`slice`),
//!   each under locks of its own, so that nobody waits longer than one takes (rule 3); a close gives up after [`CLOSE_TIME`].

use crate::codes::code_of;
use crate::main_file::{MainFile, State};
use crate::neighbours::{Closing, Neighbours};
use crate::pause;
use crate::slice::{Rest, Slice};
use densite_sqlite::{Code, Error as Wrong, ffi};
use densite_store::{Damage, Error};
use std::time::{Duration, Instant};

/// Per cent of the file that may be dead or free at rest.
const REST_LIMIT: u8 = 5;
/// The same after `densite_maintain`: who asks for it wants a small file, and waits.
const ASKED_LIMIT: u8 = 3;
/// The last close begins at the dead limit divided by this. Not at [`REST_LIMIT`]: programs that open, write a little and close would pay
/// at each close for keeping the file within its last per cent.
const CLOSE_PART: u8 = 2;
/// The same while writing, unless `densite_dead_limit` says otherwise.
pub(crate) const DEAD_LIMIT: u8 = 25;
/// How long the last close goes on.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// How often and after how long the last close tries again to be alone. Of two processes that close at the same time each may meet the other's lock.
const CLOSE_TRIES: u32 = 3;
const CLOSE_PAUSE: Duration = Duration::from_millis(1);
/// How long `densite_maintain` waits for a lock that may be another maintenance's. Then it waits as the connection's busy handler says.
const LOCK_WAIT: Duration = Duration::from_millis(100);

/// What a connection knows of the maintenance that is due.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// Per cent of the file that may be dead or free while writing.
    pub(crate) dead_limit: u8,
    /// What the last slices found damaged.
    pub(crate) damaged: Vec<Damage>,
}

impl Default for Maintenance {
    fn default() -> Self {
        Maintenance {
            dead_limit: DEAD_LIMIT,
            damaged: Vec::new(),
        }
    }
}

impl MainFile {
    /// A commit of rollback mode is over, or a checkpoint; the writer's right is still held. An error is logged, and nothing has changed.
    pub(crate) fn maintain_a_little(&mut self) {
        if self.settings.maintain_off || self.settings.options.read_only {
            return;
        }
        let State::Store(handle) = &mut self.state else {
            return;
        };
        // In WAL mode whoever commits has no right to write here; who checkpoints has. Without locks the right is the application's to give.
        let right = self.level == ffi::LOCK_EXCLUSIVE || self.settings.unlocked;
        if !right && !self.checkpoint.uses_wal() {
            return;
        }
        let begin = Instant::now();
        let limit = self.maintenance.dead_limit;
        if let Err(error) = handle.reclaim_share(limit, &|| begin.elapsed()) {
            self.report(code_of(&error), &format!("giving space back: {error}"));
        }
    }

    /// Whether the last close has something to give back. Without locks nothing tells it whether another connection is writing.
    ///
    /// A process that has only read gives back what one that was killed has left: the file is not closed, and beyond the limit that is kept while writing.
    /// Another process that has it open still keeps that limit by itself.
    pub(crate) fn restless(&mut self) -> bool {
        let settings = &self.settings;
        if settings.maintain_off || settings.options.read_only || settings.unlocked {
            return false;
        }
        let (at_rest, while_writing) = (self.rest_begins(), self.maintenance.dead_limit);
        let State::Store(handle) = &mut self.state else {
            return false;
        };
        let has_written = handle.has_written();
        if !has_written && !handle.is_unclosed() {
            return false;
        }
        let limit = if has_written { at_rest } else { while_writing };
        handle
            .space()
            .is_ok_and(|space| space.over(limit) || space.has_leftovers())
    }

    /// The last close, after what it must do: slices, until nothing is left to give back or somebody comes.
    pub(crate) fn rest_before_close(&mut self) {
        let Some(neighbours) = self.neighbours.clone() else {
            return;
        };
        let until = Instant::now() + CLOSE_TIME;
        let mut tries = CLOSE_TRIES;
        while Instant::now() < until && !neighbours.others_hold(self.level) {
            let Some(closing) = neighbours.begin_closing() else {
                return;
            };
            let alone = self.lock_alone();
            if alone {
                self.committed_without_wal();
            }
            // An error was logged; it ends the giving back, not the closing.
            let rest = if alone {
                self.slice(REST_LIMIT, true)
            } else {
                Ok(Rest::Done)
            };
            if self.host.unlock(ffi::LOCK_NONE).is_ok() {
                self.set_level(ffi::LOCK_NONE);
            }
            drop(closing);
            match rest {
                _ if !alone && tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(CLOSE_PAUSE);
                }
                Ok(Rest::More) => {}
                Ok(Rest::Sync) if self.sync_unlocked().is_ok() => {}
                _ => return,
            }
        }
    }

    /// A slice of the background worker's; `begun` after the first. `None`: it did not get its locks.
    pub(crate) fn idle_slice(&mut self, begun: bool) -> Option<Rest> {
        let neighbours = self.neighbours.clone()?;
        let closing = neighbours.begin_closing()?;
        let lock = self.lock_slice()?;
        pause::at("maintaining");
        let done = self.slice(REST_LIMIT, begun);
        self.unlock_slice(&lock);
        drop(closing);
        // An error was noted; it ends the session.
        let rest = done.unwrap_or(Rest::Done);
        if rest == Rest::Sync && self.sync_unlocked().is_err() {
            return Some(Rest::Done);
        }
        Some(rest)
    }

    /// `PRAGMA densite_maintain`: the steps that are due now. Answers by how many bytes the file is shorter.
    ///
    /// # Errors
    /// With a sentence: a transaction is open; [`Code::BUSY`], the database is locked for longer than the busy handler waits; the store's own (a full disk, a failed
    /// read). What was given back until then stays given back.
    pub(crate) fn maintain_now(&mut self) -> Result<u64, Wrong> {
        let refused = |why: &str| Err(Wrong::new(Code::ERROR, format!("densite_maintain: {why}")));
        if !matches!(self.state, State::Store(_)) {
            return Ok(0);
        }
        if self.settings.options.read_only {
            return refused("the database is open for reading only");
        }
        if self.settings.unlocked {
            return refused(
                "the database is open without locks (nolock); open it with them, when nobody else uses it",
            );
        }
        if self.level > ffi::LOCK_SHARED || self.has_pending() {
            return refused("a transaction is open; end it first");
        }
        let before = self.file_bytes();
        self.maintenance.damaged.clear();
        loop {
            let Some(neighbours) = self.neighbours.clone() else {
                return Ok(0);
            };
            let (lock, closing) = self.wait_for_slice(&neighbours)?;
            pause::at("maintaining");
            let done = self.slice(ASKED_LIMIT, true);
            self.unlock_slice(&lock);
            drop(closing);
            let failed =
                |error: Error| Wrong::new(code_of(&error), format!("densite_maintain: {error}"));
            match done.map_err(failed)? {
                Rest::More => pause::at("between-slices"),
                Rest::Sync => self.sync_unlocked().map_err(failed)?,
                Rest::Done => break,
            }
        }
        let given = before.saturating_sub(self.file_bytes());
        match self.maintenance.damaged.first() {
            None => Ok(given),
            Some(first) => refused(&format!(
                "{given} bytes were given back, and {} places are damaged and stay as they are; run `densite check` ({first})",
                self.maintenance.damaged.len(),
            )),
        }
    }

    /// The locks of a slice that was asked for. Called by SQLite, for the connection's PRAGMA.
    fn wait_for_slice<'n>(
        &mut self,
        neighbours: &'n Neighbours,
    ) -> Result<(Slice, Option<Closing<'n>>), Wrong> {
        let until = Instant::now() + LOCK_WAIT;
        let mut is_waiting = false;
        loop {
            let closing = neighbours.begin_closing();
            if closing.is_some()
                && let Some(lock) = self.lock_slice()
            {
                return Ok((lock, closing));
            }
            drop(closing);
            if Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            // SAFETY: SQLite compiles the PRAGMA, on the connection that has this file open.
            let goes_on = unsafe {
                if !std::mem::replace(&mut is_waiting, true) {
                    self.busy.begin(self.api);
                }
                self.busy.waits()
            };
            if !goes_on {
                let why = "densite_maintain: the database is locked; try again later, or set a longer busy_timeout";
                return Err(Wrong::new(Code::BUSY, why));
            }
        }
    }

    fn has_pending(&self) -> bool {
        matches!(&self.state, State::Store(handle) if handle.has_pending())
    }

    fn file_bytes(&self) -> u64 {
        match &self.state {
            State::Store(handle) => handle.end_bytes(),
            _ => 0,
        }
    }

    /// Per cent of the file that may be dead or free before giving back at rest begins by itself.
    pub(crate) fn rest_begins(&self) -> u8 {
        (self.maintenance.dead_limit / CLOSE_PART).max(REST_LIMIT)
    }
}

/// Reads `densite_dead_limit`.
pub(crate) fn dead_limit(value: &str) -> Result<u8, String> {
    let parsed = value.trim().parse().ok();
    parsed.filter(|n: &u8| (1..=90).contains(n)).ok_or_else(|| {
        format!("densite_dead_limit={value}: use a whole number of per cent from 1 to 90")
    })
}
