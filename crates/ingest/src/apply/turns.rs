//! The life of the worker: processes take turns in having the right to apply.
//!
//! While another process has it, the worker waits for it, and sees how far the rows are that this
//! process keeps for its readers.

use super::pruning::RetryTime;
use super::{Applying, RETRY};
use crate::position::Position;
use densite_log::{self as log, Seq};
use densite_sqlite::{Code, Error, gate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a process that does not lead asks how far the rows are that it keeps for its readers.
const WATCH: Duration = Duration::from_secs(1);
/// How often it looks where somebody waits for the answer.
const WATCH_ASKED: Duration = Duration::from_millis(50);
/// How often a process that does not lead looks whether it may, where nothing tells it that the one
/// that leads has ended.
const TAKEOVER: Duration = Duration::from_secs(1);
/// How often it does something else: reads on for its readers, or looks whether anybody leads if it
/// may not lead itself.
const FOLLOW: Duration = Duration::from_millis(250);
/// Pause after a panic: long enough for another process to take over.
const AFTER_PANIC: Duration = Duration::from_millis(500);
/// How long the right to apply is left to others by who could not use it: they look more often than
/// that.
const VACANT: Duration = Duration::from_millis(250);
/// How often a worker that waits for rows looks what else there is to do,
const IDLE: Duration = Duration::from_secs(1);
/// and where something is known to be left.
const BUSY: Duration = Duration::from_millis(250);
/// How long nobody may lead before who cannot do it himself says so: another process may be about
/// to.
const ALONE: Duration = Duration::from_secs(1);
impl Applying {
    /// Runs until the end of this worker, also beyond a panic: who waits is told of it, another
    /// process may lead meanwhile, and after a pause it begins anew.
    pub(super) fn live(&self) {
        while !self.stops() {
            let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run())) else {
                return;
            };
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            let error = Error::new(
                Code::INTERNAL,
                format!(
                    "the worker panicked ({}) and will try again; this is a fault of Densite: nothing that was acknowledged is lost, it waits in the log",
                    said.unwrap_or("without a word")
                ),
            );
            self.tell(|s| {
                s.leads = false;
                s.broken = Some(error);
            });
            self.pause(AFTER_PANIC);
        }
    }

    fn run(&self) {
        let (mut watched, mut alone) = (Instant::now(), None);
        loop {
            // First: whoever has something for this thread says so before it rings.
            let rings = self.open.log().rings();
            if self.stops() {
                return;
            }
            let has_none_left = !self.open.log().retry_rollbacks();
            let lead = match self.only_watches() {
                true => self.check_leader(&mut alone).map(|()| None),
                false => self.open.log().try_lead(),
            };
            match lead {
                Ok(Some(lead)) => {
                    self.tell(|s| s.leads = true);
                    self.lead();
                    self.tell(|s| s.leads = false);
                    drop(lead);
                    self.pause(VACANT);
                }
                Ok(None) => {
                    // Another process has it; what this one met is over.
                    self.tell(|s| {
                        s.broken = None;
                        if !self.only_watches() {
                            s.trouble = None;
                        }
                    });
                    let asked = self.asked.load(Ordering::Acquire);
                    let often = if asked { WATCH_ASKED } else { WATCH };
                    if watched.elapsed() >= often && (asked || self.open.unapplied().is_kept()) {
                        self.asked.store(false, Ordering::Release);
                        watched = Instant::now();
                        self.watch();
                    }
                    let follows = self.open.unapplied().keep_up(self.open.log());
                    let time = match self.asked.load(Ordering::Acquire) {
                        true => WATCH_ASKED,
                        false if follows || self.only_watches() || !has_none_left => FOLLOW,
                        false => TAKEOVER,
                    };
                    let waited = rings.and_then(|rings| self.open.log().wait_to_lead(time, rings));
                    if waited.is_err() {
                        self.pause(FOLLOW);
                    }
                }
                Err(e) => {
                    let error = self.open.failed(e);
                    if !self.open.log().is_led().unwrap_or(false) {
                        self.tell(|s| s.trouble = Some((Instant::now(), error)));
                    }
                    self.pause(FOLLOW);
                }
            }
        }
    }

    /// Whether somebody applies, since nobody does in this process. `alone`: since when nobody is
    /// known to.
    fn check_leader(&self, alone: &mut Option<Instant>) -> log::Result<()> {
        if self.open.log().is_led()? {
            *alone = None;
            self.tell(|s| s.trouble = None);
            return Ok(());
        }
        if alone.get_or_insert_with(Instant::now).elapsed() >= ALONE {
            let error = Error::new(
                Code::READONLY,
                "no process applies them: this one has opened the database for reading only; they wait in the log for one that uses ingest and may write",
            );
            self.tell(|s| s.trouble = Some((Instant::now(), error)));
        }
        Ok(())
    }

    /// Asks the database how far another process is: somebody here waits for it, or keeps rows of
    /// the log, and with them its segments.
    fn watch(&self) {
        let _inside = gate::enter();
        let position = self.spec.open().and_then(|c| Position::read(&c));
        if let Ok(Some(position)) = position
            && position.id == self.open.id()
        {
            self.open.unapplied().applied(position.seq);
            self.tell(|s| s.applied = s.applied.max(position.seq));
        }
    }

    /// Waits for rows after `seq`, for somebody who waits although all is applied (the database may
    /// have gone back), or until pruning is to be tried again.
    pub(super) fn wait_for_rows(&self, seq: Seq, at_most: Option<Duration>) {
        let until = at_most.map(|time| Instant::now() + time);
        loop {
            // First: who says that there is something to do says so before it rings.
            let rings = self.open.log().rings();
            if self.stops() {
                return;
            }
            let has_none_left = !self.open.log().retry_rollbacks();
            let idle = if has_none_left { IDLE } else { BUSY };
            let idle = idle.min(self.pruning.due().unwrap_or(IDLE));
            let left = until.map_or(idle, |until| {
                until.saturating_duration_since(Instant::now())
            });
            let waits = |rings| (self.open.log()).wait_after_or_ring(seq, left.min(idle), rings);
            match rings.and_then(waits) {
                Ok(true) => return,
                Ok(false) if self.asked.swap(false, Ordering::AcqRel) => return,
                Ok(false) if self.pruning.retry_time() == RetryTime::Now => return,
                Ok(false) if until.is_some_and(|until| Instant::now() >= until) => return,
                Ok(false) => {}
                Err(_) => return self.pause(RETRY),
            }
        }
    }
}
