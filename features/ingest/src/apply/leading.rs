//! Applying, while this process has the right to.
//!
//! A worker that cannot apply gives that right up for a moment, again and again. Another process
//! can perhaps apply: a quota, a limit of descriptors or an old library can concern one process
//! only. So can another connection of this process, if the file was replaced. The error does not
//! show which of these it is. If all processes get the same error, taking turns loses nothing.

use super::applier::Applier;
use super::outcome::Did;
use super::pruning::RetryTime;
use super::{Applying, RETRY};
use crate::error::unnamed;
use densite_log::Seq;
use densite_sqlite::{Error, fork_gate};
use std::time::{Duration, Instant};

/// How long an idle worker keeps its connection. Without it, others can get EXCLUSIVE or change the
/// journal mode.
const LINGER: Duration = Duration::from_millis(300);
/// After this long with only failures, other processes get a turn. A lock of another connection is
/// not such a failure: it stops all workers.
const IN_VAIN: Duration = Duration::from_millis(500);

impl Applying {
    /// Records that rows are applied up to `seq` without trouble.
    fn got_to(&self, seq: Seq) {
        self.open.unapplied().applied(seq);
        self.tell(|s| {
            s.applied = s.applied.max(seq);
            s.trouble = None;
            s.broken = None;
        });
    }

    /// Records that no rows are applied now, for this reason, which was found at `begun`.
    fn is_stopped_by(&self, error: Error, begun: Instant) {
        self.tell(|s| s.trouble = Some((begun, error)));
        self.open.unapplied().keep_up(self.open.log());
        self.pause(RETRY);
    }

    /// Whether only pruning is left: everything up to `seq` is applied, and no rows follow.
    fn has_only_to_prune(&self, seq: Seq) -> bool {
        self.pruning.retry_time() == RetryTime::Now
            && self.open.log().last().is_ok_and(|last| last <= seq)
    }

    /// Applies rows until this worker ends, or has failed for so long that other processes get a
    /// turn.
    pub(super) fn lead(&self) {
        let mut applier: Option<Applier> = None;
        let (mut active, mut last) = (Instant::now(), 0);
        let mut fails_since: Option<Instant> = None;
        // Where the log ended, if all of it was applied.
        let mut idle: Option<Seq> = None;
        // Where this worker has left the database; `None` if it failed and can have committed
        // before.
        let mut known: Option<Seq> = None;
        while !self.stops() {
            let inside = fork_gate::enter();
            let begun = Instant::now();
            let done = match &mut applier {
                Some(applier) => applier.run(self, known),
                None => {
                    Applier::open(self).and_then(|fresh| applier.insert(fresh).run(self, known))
                }
            };
            // No connection waits for pruning. So after an error of pruning, even a lock, the
            // worker does not try again at once.
            let idle_at = match &done {
                Err(_) => idle.filter(|seq| self.has_only_to_prune(*seq)),
                Ok(_) => None,
            };
            // Closed before `inside` is dropped.
            let is_over = match &done {
                Ok(Did::Nothing(_) | Did::AwaitsStream(_)) => active.elapsed() > LINGER,
                Err(error) => !error.is_busy() || idle_at.is_some(),
                _ => false,
            };
            if is_over {
                applier = None;
            }
            drop(inside);
            if done.is_ok() {
                fails_since = None;
            }
            match done {
                Ok(Did::Applied(seq)) => {
                    (idle, known) = (None, Some(seq));
                    active = Instant::now();
                    self.got_to(seq);
                    self.open.unapplied().keep_up(self.open.log());
                    if seq > last {
                        last = seq;
                        if !applier.as_ref().is_some_and(Applier::has_more) {
                            self.delay_next_batch(seq);
                        }
                    }
                }
                Ok(Did::Nothing(seq)) => {
                    (idle, known) = (Some(seq), Some(seq));
                    self.got_to(seq);
                    // The wait ends early only if there is news. An error shows in the next round.
                    self.wait_for_rows(seq, applier.is_some().then_some(LINGER));
                }
                Ok(Did::AwaitsStream(seq)) => {
                    (idle, known) = (Some(seq), Some(seq));
                    self.got_to(seq);
                    self.open.unapplied().keep_up(self.open.log());
                    self.wait_for_messages(applier.is_some().then_some(LINGER));
                }
                Ok(Did::Waits(error)) => self.is_stopped_by(error, begun),
                Ok(Did::Unnamed) => self.is_stopped_by(unnamed(self.open.dir()), begun),
                Err(error) => {
                    known = None;
                    // COMMIT also syncs.
                    self.open.sync_failed().record_error(&error);
                    if let Some(seq) = idle_at {
                        self.pruning.put_off();
                        self.wait_for_rows(seq, None);
                        continue;
                    }
                    let is_in_vain =
                        !error.is_busy() && fails_since.get_or_insert(begun).elapsed() >= IN_VAIN;
                    self.is_stopped_by(error, begun);
                    if is_in_vain {
                        break;
                    }
                }
            }
        }
        let _inside = fork_gate::enter();
        if let Some(mut applier) = applier {
            self.finish(&mut applier, last, known);
        }
        self.end_member();
    }
}
