//! Applying, while this process has the right to.
//!
//! Who cannot apply gives that right up again and again for a moment: another process, or another
//! connection of this one to what is the database now, may be able to. A file may have been
//! replaced by one of another form, a quota, a limit of descriptors or a library too old may be one
//! process's own; which error means that is not for us to know, and where all meet the same nothing
//! is lost by taking turns.

use super::applier::Applier;
use super::outcome::Did;
use super::pruning::RetryTime;
use super::{Applying, RETRY};
use crate::error::unnamed;
use densite_log::Seq;
use densite_sqlite::{Error, gate};
use std::time::{Duration, Instant};

/// How long an idle worker keeps its connection: after that nobody is kept from EXCLUSIVE or
/// another journal mode.
const LINGER: Duration = Duration::from_millis(300);
/// How long nothing but failures lets others have a turn. A lock that somebody has is none: it is
/// in everybody's way.
const IN_VAIN: Duration = Duration::from_millis(500);

impl Applying {
    /// All is well, and applied up to here.
    fn got_to(&self, seq: Seq) {
        self.open.unapplied().applied(seq);
        self.tell(|s| {
            s.applied = s.applied.max(seq);
            s.trouble = None;
            s.broken = None;
        });
    }

    /// Nothing is applied for the moment, and this is why: so it was when that was tried.
    fn is_stopped_by(&self, error: Error, begun: Instant) {
        self.tell(|s| s.trouble = Some((begun, error)));
        self.open.unapplied().keep_up(self.open.log());
        self.pause(RETRY);
    }

    /// Whether there is nothing else to do: all up to `seq` is applied, and no rows follow.
    fn has_only_to_prune(&self, seq: Seq) -> bool {
        self.pruning.retry_time() == RetryTime::Now
            && self.open.log().last().is_ok_and(|last| last <= seq)
    }

    /// Applies until the end of this worker, or until it has failed for so long that others have a
    /// turn.
    pub(super) fn lead(&self) {
        let mut applier: Option<Applier> = None;
        let (mut active, mut last) = (Instant::now(), 0);
        let mut fails_since: Option<Instant> = None;
        // All is applied, up to here.
        let mut idle: Option<Seq> = None;
        // Where this worker has left the database; `None` where it may have committed before it
        // failed.
        let mut known: Option<Seq> = None;
        while !self.stops() {
            let inside = gate::enter();
            let begun = Instant::now();
            let done = match &mut applier {
                Some(applier) => applier.run(self, known),
                None => {
                    Applier::open(self).and_then(|fresh| applier.insert(fresh).run(self, known))
                }
            };
            // Nobody waits for pruning: what is in its way, a lock too, is not met again and again.
            let idle_at = match &done {
                Err(_) => idle.filter(|seq| self.has_only_to_prune(*seq)),
                Ok(_) => None,
            };
            // Closed while it is inside.
            let is_over = match &done {
                Ok(Did::Nothing(_)) => active.elapsed() > LINGER,
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
                    // It only ends early if there is something new; an error shows in the next
                    // round.
                    self.wait_for_rows(seq, applier.is_some().then_some(LINGER));
                }
                Ok(Did::Waits(error)) => self.is_stopped_by(error, begun),
                Ok(Did::Unnamed) => self.is_stopped_by(unnamed(self.open.dir()), begun),
                Err(error) => {
                    known = None;
                    // COMMIT syncs, too.
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
        let _inside = gate::enter();
        if let Some(mut applier) = applier {
            self.finish(&mut applier, last, known);
        }
    }
}
