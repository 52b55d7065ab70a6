//! The worker's life: processes take turns in having the right to apply.
//!
//! While another process has it, the worker waits. Meanwhile it reads now and then how far rows are
//! applied, so that this process drops rows that it keeps for its readers.

use super::pruning::RetryTime;
use super::{Applying, RETRY};
use crate::database::position::Position;
use densite_disk::wait::Deadline;
use densite_log::{self as log, Seq};
use densite_sqlite::{Code, Error, fork_gate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a process that is not the applier reads the position, if it keeps rows for its
/// readers.
const WATCH: Duration = Duration::from_secs(1);
/// The same, while a connection waits for the answer.
const WATCH_ASKED: Duration = Duration::from_millis(50);
/// How often a process that is not the applier tries to become it, if the system does not report
/// that the applier ended.
const TAKEOVER: Duration = Duration::from_secs(1);
/// How often it reads more of the log for its readers. If it is not allowed to apply, also how
/// often it checks for an applier.
const FOLLOW: Duration = Duration::from_millis(250);
/// Pause after a panic: long enough for another process to take over.
const AFTER_PANIC: Duration = Duration::from_millis(500);
/// How long a worker that could not use the right to apply leaves it to other processes. They check
/// more often.
const VACANT: Duration = Duration::from_millis(250);
/// How often a worker that waits for rows checks for other work.
const IDLE: Duration = Duration::from_secs(1);
/// The same, if other work is known to be waiting.
const BUSY: Duration = Duration::from_millis(250);
/// If there is no applier for this long, a process that is not allowed to apply reports it. Before
/// that, another process can be about to take over.
const ALONE: Duration = Duration::from_secs(1);

impl Applying {
    /// Runs until this worker ends. After a panic it reports an error to waiting connections,
    /// pauses so that another process can take over, and begins again.
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
                    said.unwrap_or("without a message")
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
            // Read before the checks: other threads set their requests before they ring.
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
                    // Another process has it, so the errors of this one no longer matter.
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

    /// Checks that another process applies, because this one is not allowed to. `alone`: since when
    /// no process is known to lead.
    fn check_leader(&self, alone: &mut Option<Instant>) -> log::Result<()> {
        if self.open.log().is_led()? {
            *alone = None;
            self.tell(|s| s.trouble = None);
            return Ok(());
        }
        if alone.get_or_insert_with(Instant::now).elapsed() >= ALONE {
            let error = Error::new(
                Code::READONLY,
                "no process applies them: this one has opened the database for reading only; the rows wait in the log for a process that uses ingest and can write",
            );
            self.tell(|s| s.trouble = Some((Instant::now(), error)));
        }
        Ok(())
    }

    /// Reads from the database how far another process has applied rows. A connection of this
    /// process waits for that, or this process keeps rows and segments of the log.
    fn watch(&self) {
        let _inside = fork_gate::enter();
        let position = self.spec.open().and_then(|c| Position::read(&c));
        if let Ok(Some(position)) = position
            && position.id == self.open.id()
        {
            self.open.unapplied().applied(position.seq);
            self.tell(|s| s.applied = s.applied.max(position.seq));
        }
    }

    /// Waits until messages come from the stream, until the member at work was ended, or as
    /// [`Applying::wait_for_rows`] does.
    pub(super) fn wait_for_messages(&self, at_most: Option<Duration>) {
        self.wait(Seq::MAX, at_most, || {
            self.member().is_none_or(|member| member.has_news())
        });
    }

    /// Waits until there are rows after `seq`, until it is time to prune again, or until a
    /// connection waits although all rows are applied: the database can have gone back.
    pub(super) fn wait_for_rows(&self, seq: Seq, at_most: Option<Duration>) {
        self.wait(seq, at_most, || false);
    }

    fn wait(&self, seq: Seq, at_most: Option<Duration>, has_news: impl Fn() -> bool) {
        let until = at_most.map_or(Deadline::NEVER, Deadline::after);
        loop {
            // Read before the checks: other threads set their requests before they ring.
            let rings = self.open.log().rings();
            if self.stops() || has_news() {
                return;
            }
            let has_none_left = !self.open.log().retry_rollbacks();
            let idle = if has_none_left { IDLE } else { BUSY };
            let idle = idle.min(self.pruning.due().unwrap_or(IDLE));
            let time = until.left().min(idle);
            let waits = |rings| (self.open.log()).wait_after_or_ring(seq, time, rings);
            match rings.and_then(waits) {
                Ok(true) => return,
                Ok(false) if self.asked.swap(false, Ordering::AcqRel) => return,
                Ok(false) if self.pruning.retry_time() == RetryTime::Now => return,
                Ok(false) if until.is_over() => return,
                Ok(false) => {}
                Err(_) => return self.pause(RETRY),
            }
        }
    }
}
