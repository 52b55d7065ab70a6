//! Beginning a clustered apply ([`crate::clustered`]): whether one is worth it, its order, and its definition in the database.

use super::Applying;
use super::clustered::ClusteredApply;
use super::outcome::{Did, Failed};
use super::planner::{Planner, Waiting, basis, limits};
use super::round::Round;
use crate::clustered::{Definition, Kept, log_order};
use crate::position::{ClusteredPosition, Position};
use densite_sqlite::Result;

impl Round {
    /// Puts what waits in order, if that is much and may be done.
    pub(super) fn prepare(&mut self, applying: &Applying, named: Position) -> Result<bool> {
        if named.seq < self.clustered_from || self.queue.whole {
            return Ok(false);
        }
        let found = self.following.take(named.seq);
        let found = match found {
            Some((definition, batch)) => Waiting::Clustered(definition, batch),
            None => {
                let Some(limits) = limits(applying, named.seq)? else {
                    return Ok(false);
                };
                self.queue.forget();
                self.planner()
                    .plan(&applying.open, named.seq, limits, || !applying.stops())?
            }
        };
        match found {
            Waiting::Clustered(definition, batch) => {
                self.queue.forget();
                self.clustered = Some(ClusteredApply::new(definition, batch));
                Ok(true)
            }
            Waiting::InLogOrder(last) => {
                self.clustered_from = last;
                Ok(false)
            }
        }
    }

    fn planner(&mut self) -> Planner<'_> {
        Planner {
            connection: &self.connection,
            plans: &mut self.plans,
        }
    }

    /// Writes the order of a clustered apply before the first row of it is applied.
    pub(super) fn define(&mut self, applying: &Applying, named: Position) -> Result<Did> {
        self.scheduler.set_synchronous(&self.connection)?;
        let Some(apply) = &self.clustered else {
            return Ok(Did::Applied(named.seq));
        };
        let (definition, last) = (apply.definition.clone(), apply.batch.last);
        let next = Position {
            clustered: Some(ClusteredPosition {
                id: definition.id,
                last,
                done: named.clustered.map_or(0, |s| s.done),
            }),
            ..named
        };
        let done = self.begin(applying, named).and_then(|begun| {
            definition.store(&self.connection)?;
            self.finish(applying, next)?;
            Ok(begun.elapsed())
        });
        match done {
            Ok(held) => {
                applying.open.unapplied().keep_permutation(
                    definition.id,
                    named.seq,
                    definition.permutation,
                );
                self.leave_free(held);
                Ok(Did::Applied(named.seq))
            }
            Err(failed) => {
                self.roll_back();
                match failed {
                    Failed::Other(e) | Failed::Commit(e) => Err(e),
                    _ => Ok(Did::Applied(named.seq)),
                }
            }
        }
    }

    /// Whether the order that was made still is one: the schema may have changed. Where it is that of the log it always is, of whole transactions where those are judged.
    pub(super) fn is_still_valid(&mut self, apply: &mut ClusteredApply) -> Result<bool> {
        if self.queue.whole && !apply.whole {
            return Ok(false);
        }
        if apply.schema == Some(self.schema) {
            return Ok(true);
        }
        apply.of.clear();
        for record in &apply.batch.records {
            apply.of.push(self.plan_index_of(record)?);
        }
        let made_of = &apply.definition.basis;
        let is_same = |p: &usize| self.plans.get(*p).and_then(basis).as_ref() == Some(made_of);
        let stands = made_of.is_empty() || apply.of.iter().all(is_same);
        apply.schema = stands.then_some(self.schema);
        Ok(stands)
    }

    /// Orders the remaining rows again after a schema change invalidated their order. Where no other order is allowed, it is that of the log.
    pub(super) fn replan(
        &mut self,
        applying: &Applying,
        old: ClusteredApply,
        done: u32,
    ) -> Result<()> {
        let was = old.definition.permutation.clone();
        let kept = Kept {
            permutation: &was,
            done,
        };
        let mut batch = old.batch;
        let whole = self.queue.whole;
        if whole {
            batch
                .make_whole(applying.open.log())
                .map_err(|e| applying.open.failed(e))?;
        }
        let mut is_one = !whole;
        for record in &batch.records {
            is_one = is_one && self.planner().fits(&batch, record)?;
        }
        let together = applying.open.storage().clustered_limits().together;
        let permuted = match is_one {
            true => self.planner().permutation(&batch, kept, together)?,
            false => None,
        };
        let (basis, permutation) =
            permuted.unwrap_or_else(|| (String::new(), log_order(&batch, kept)));
        let definition = Definition::new(basis, permutation);
        let definition = definition.map_err(|e| applying.open.failed(e))?;
        let mut apply = ClusteredApply::new(definition, batch);
        apply.whole |= whole;
        self.clustered = Some(apply);
        Ok(())
    }
}
