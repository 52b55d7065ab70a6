//! Beginning a sweep ([`crate::sweep`]): whether one is worth it, its order, and its definition in the database.

use super::Applying;
use super::arranger::{Arranger, Found, basis, limits};
use super::outcome::{Did, Failed};
use super::round::Round;
use super::sweeping::Sweeping;
use crate::error::from_log;
use crate::position::{Position, Sweep};
use crate::sweep::{Definition, Kept, as_logged};
use densite_sqlite::Result;

impl Round {
    /// Puts what waits in order, if that is much and may be done.
    pub(super) fn prepare(&mut self, applying: &Applying, named: Position) -> Result<bool> {
        if named.seq < self.swept_from || self.queue.whole {
            return Ok(false);
        }
        let found = self.following.take(named.seq);
        let found = match found {
            Some((definition, part)) => Found::Sweep(definition, part),
            None => {
                let Some(sweeps) = limits(applying, named.seq)? else {
                    return Ok(false);
                };
                self.queue.forget();
                let log = (&applying.log, applying.dir.as_path());
                self.arranger()
                    .find(log, named.seq, sweeps, || !applying.stops())?
            }
        };
        match found {
            Found::Sweep(definition, part) => {
                self.queue.forget();
                self.sweeping = Some(Sweeping::new(definition, part));
                Ok(true)
            }
            Found::AsItIs(last) => {
                self.swept_from = last;
                Ok(false)
            }
        }
    }

    fn arranger(&mut self) -> Arranger<'_> {
        Arranger {
            connection: &self.connection,
            plans: &mut self.plans,
        }
    }

    /// Writes the order of a sweep before the first row of it is applied.
    pub(super) fn define(&mut self, applying: &Applying, named: Position) -> Result<Did> {
        self.tidy.set_synchronous(&self.connection)?;
        let Some(sweeping) = &self.sweeping else {
            return Ok(Did::Applied(named.seq));
        };
        let (definition, last) = (sweeping.definition.clone(), sweeping.part.last);
        let next = Position {
            sweep: Some(Sweep {
                id: definition.id,
                last,
                done: named.sweep.map_or(0, |s| s.done),
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
                applying
                    .unapplied
                    .keep_places(definition.id, named.seq, definition.places);
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
    pub(super) fn stands(&mut self, sweeping: &mut Sweeping) -> Result<bool> {
        if self.queue.whole && !sweeping.whole {
            return Ok(false);
        }
        if sweeping.schema == Some(self.schema) {
            return Ok(true);
        }
        sweeping.of.clear();
        for record in &sweeping.part.records {
            sweeping.of.push(self.place_of_plan(record)?);
        }
        let made_of = &sweeping.definition.basis;
        let is_same = |p: &usize| self.plans.get(*p).and_then(basis).as_ref() == Some(made_of);
        let stands = made_of.is_empty() || sweeping.of.iter().all(is_same);
        sweeping.schema = stands.then_some(self.schema);
        Ok(stands)
    }

    /// The rows that are left of a sweep whose order is none any more get another one: where nothing better is allowed, that of the log.
    pub(super) fn arrange_anew(
        &mut self,
        applying: &Applying,
        old: Sweeping,
        done: u32,
    ) -> Result<()> {
        let was = old.definition.places.clone();
        let kept = Kept { places: &was, done };
        let mut part = old.part;
        let whole = self.queue.whole;
        if whole {
            part.make_whole(&applying.log)
                .map_err(|e| from_log(&applying.dir, e))?;
        }
        let mut is_one = !whole;
        for record in &part.records {
            is_one = is_one && self.arranger().fits(&part, record)?;
        }
        let together = applying.medium.sweeps().together;
        let placed = match is_one {
            true => self.arranger().arranged(&part, kept, together)?,
            false => None,
        };
        let (basis, places) = placed.unwrap_or_else(|| (String::new(), as_logged(&part, kept)));
        let definition = Definition::new(basis, places);
        let definition = definition.map_err(|e| from_log(&applying.dir, e))?;
        let mut sweeping = Sweeping::new(definition, part);
        sweeping.whole |= whole;
        self.sweeping = Some(sweeping);
        Ok(())
    }
}
