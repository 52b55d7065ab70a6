//! Empties units: copies their live records elsewhere, as they are stored.
//!
//! At rest, whole units are emptied. Map nodes, dictionaries, chunks and trailers can be moved only
//! by a fold, which is made at once. While others write, a step delays a commit. So a unit is
//! emptied in parts: what was found in it is kept ([`Begun`]), and a step copies as much as its
//! budget allows. A fold is left to the next commit that makes one anyway, and that also moves what
//! it can for these units (`later`). A step folds only if much waits for it (`plan`).

use super::copy::{Moving, Part};
use super::live::{Found, Look};
use super::{ReclaimBudget, ReclaimStep, Reclaimer};
use crate::error::{Damage, Result};
use crate::format::UNIT_LEN;
use crate::publish::{self, CommitOptions};
use crate::reclaim_state::{Begun, MOST, Pace, Recoding, is_at_rest, targets};
use crate::shared::Shared;
use crate::transaction::Transaction;

impl Reclaimer<'_> {
    /// Empties units within the pending commit, as far as the budget allows, and publishes it.
    /// Units that were begun come first.
    pub(super) fn empty_units(
        &mut self,
        shared: &Shared,
        pending: &mut Option<Transaction>,
        (units, below): (&[u64], u64),
        (budget, pace): (&ReclaimBudget<'_>, Pace),
        step: &mut ReclaimStep,
    ) -> Result<()> {
        let Some(transaction) = pending.as_mut() else {
            debug_assert!(false, "a step begins a transaction before it empties units");
            return Ok(());
        };
        let in_parts = !is_at_rest(u64::from(budget.dead_limit));
        let late = |moved: u64| moved >= pace.least && (budget.stop)();
        let enough = |moved: u64| late(moved) || in_parts && moved >= budget.bytes;
        let part = |leave: bool| {
            in_parts.then_some(Part {
                enough: &enough,
                leave,
            })
        };
        transaction.moves_frames(below, in_parts);
        let emptying = below == u64::MAX;
        let pays = emptying.then(|| targets(u64::from(budget.dead_limit)));
        let mut moving = Moving::default();
        let mut emptied: Vec<Begun> = Vec::new();
        let mut begun = shared.writer.lock().reclaiming.take_begun();
        if emptying {
            let target = (shared, &mut *transaction);
            self.go_on(target, &mut begun, &mut moving, &mut emptied, |_| {
                part(pace.patient)
            })?;
        }
        // From the end: a file can be cut only after the last unit that stays.
        for unit in units.iter().rev() {
            // A step that leaves work to the pool looks for the next units too.
            let over = match pace.patient && emptying {
                true => late(moving.moved) && !begun.is_empty() || begun.len() >= MOST,
                false => !emptied.is_empty() && enough(moving.moved),
            };
            if over {
                break;
            }
            let before = begun.iter().position(|begun| begun.unit == *unit);
            let now = match before.map(|at| begun.remove(at)) {
                Some(before) => Some(Begun { below, ..before }),
                None => {
                    let ahead = in_parts && pace.patient;
                    let target = (shared, &*transaction);
                    self.begin_unit(target, *unit, (below, ahead), pays, step)?
                }
            };
            let Some(mut now) = now else {
                if pays.is_none() {
                    break;
                }
                continue;
            };
            let target = (shared, &mut *transaction);
            if self.copy(target, &mut now, &mut moving, part(pace.patient))? {
                emptied.push(now);
            } else {
                begun.push(now);
                if !(pace.patient && emptying) {
                    break;
                }
            }
        }
        if pace.patient && !enough(moving.moved) {
            let target = (shared, &mut *transaction);
            self.go_on(target, &mut begun, &mut moving, &mut emptied, |begun| {
                begun.is_overdue().then(|| part(false)).flatten()
            })?;
        }
        let mut besides = CommitOptions {
            reclaim: true,
            ..CommitOptions::default()
        };
        {
            let mut writer = shared.writer.lock();
            for unit in &emptied {
                besides.fold |= !in_parts && (unit.trailers || !unit.by_fold.is_empty());
                // If this commit fails, another fold moves them needlessly, which does no harm.
                writer.reclaiming.fold_later(&unit.by_fold);
            }
        }
        if !moving.frames.is_empty() || besides.fold {
            step.written_bytes = publish::publish(self.connection, pending, &besides)?;
        }
        step.moved_bytes = moving.moved;
        let mut writer = shared.writer.lock();
        let writer = &mut *writer;
        writer.reclaiming.moved(moving.moved, emptying);
        writer.stored.moved_bytes += moving.moved;
        if pace.patient && !enough(moving.moved) {
            let undone = budget.bytes.saturating_sub(moving.moved);
            let mut waits = false;
            for begun in &mut begun {
                waits |= begun.waits(undone);
            }
            if waits {
                writer.reclaiming.share().put_off(undone);
            }
        }
        writer.reclaiming.put_begun(begun);
        let Some(space) = writer.accounting.space() else {
            return Ok(());
        };
        for unit in emptied {
            let live = space.live(unit.unit);
            if live == 0 {
                step.freed_units += 1;
            } else if u64::from(live) <= unit.by_fold_bytes {
                writer.reclaiming.note_left(unit.unit, live);
            }
        }
        Ok(())
    }

    /// Continues units that were begun. `part` returns the limits for each; a unit with `None` is
    /// skipped.
    fn go_on<'a>(
        &mut self,
        (shared, transaction): (&Shared, &mut Transaction),
        begun: &mut Vec<Begun>,
        moving: &mut Moving,
        emptied: &mut Vec<Begun>,
        part: impl Fn(&Begun) -> Option<Part<'a>>,
    ) -> Result<()> {
        for mut now in std::mem::take(begun) {
            let part = part(&now);
            let target = (shared, &mut *transaction);
            if part.is_some() && self.copy(target, &mut now, moving, part)? {
                emptied.push(now);
            } else {
                begun.push(now);
            }
        }
        Ok(())
    }

    /// Finds the live records of the unit, and with `ahead` queues in the pool the runs to be
    /// encoded again. `None` if they cannot all be copied, or if that does not pay (`pays`: the
    /// number of units that may be moved to win one).
    fn begin_unit(
        &mut self,
        (shared, transaction): (&Shared, &Transaction),
        unit: u64,
        (below, ahead): (u64, bool),
        pays: Option<u64>,
        step: &mut ReclaimStep,
    ) -> Result<Option<Begun>> {
        let live = match shared.writer.lock().accounting.space() {
            Some(space) if space.is_known(unit) => space.live(unit),
            _ => return Ok(None),
        };
        let found = {
            let state = shared.state.read();
            let look = Look {
                shared,
                file: self.connection.open.file(),
                state: &state,
            };
            look.unit(unit, live)?
        };
        let found = match found {
            Some(found) if found.damage.is_empty() => found,
            other => {
                let damage = other.map(|f| f.damage).unwrap_or_else(|| {
                    vec![Damage {
                        what: "unit of 64 KiB".to_owned(),
                        offset: unit * UNIT_LEN,
                        page: None,
                        problem: "not all live records of the unit were found".to_owned(),
                    }]
                });
                step.damaged.extend(damage);
                shared.writer.lock().reclaiming.note_stuck(unit, live);
                return Ok(None);
            }
        };
        let won = UNIT_LEN - found.taken.min(UNIT_LEN);
        if pays.is_some_and(|targets| won * 2 * (targets + 1) < UNIT_LEN) {
            shared.writer.lock().reclaiming.note_dense(unit, live);
            return Ok(None);
        }
        let Found {
            frames,
            by_fold,
            by_fold_bytes,
            trailers,
            ..
        } = found;
        let recoding = match ahead {
            true => self.recode_ahead((shared, transaction), frames.iter())?,
            false => Recoding::default(),
        };
        Ok(Some(Begun {
            by_fold,
            by_fold_bytes,
            trailers,
            ..Begun::new(unit, below, recoding, frames)
        }))
    }
}
