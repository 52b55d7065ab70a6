//! Beginning a sweep ([`crate::sweep`]): whether one is worth it, its order, and its definition in the database.

use super::Applying;
use super::batch::has_all_keys;
use super::outcome::{Did, Failed};
use super::pace::Pace;
use super::plan::{Action, Plan};
use super::round::Round;
use super::sweeping::Sweeping;
use crate::error::from_log;
use crate::position::{Position, Sweep};
use crate::sweep::{Definition, Part, Second, Sweeps, arranged, places};
use densite_log::Record;
use densite_sqlite::Result;

/// Of the bytes that may wait, one in so many may be put in order together: writers that wait for room wait for the end of it.
const OF_UNAPPLIED: u64 = 4;

/// The wanted rows in order, and what the order is based on.
type Arranged = Option<(String, Vec<u32>)>;

/// What the order of rows of a plan is based on: as long as it is the same, rows of different keys may be applied in any order. `None` where they may not.
fn basis(plan: &Plan) -> Option<String> {
    let is_run = matches!(plan.action, Action::Run(_));
    (is_run && plan.independent && !plan.sort.is_empty()).then(|| {
        let names: Vec<&str> = plan.sort.iter().map(|how| how.name()).collect();
        format!("{}: {}", plan.table.name().to_lowercase(), names.join(", "))
    })
}

impl Round {
    /// Puts what waits in order, if that is much and may be done.
    pub(super) fn prepare(&mut self, applying: &Applying, named: Position) -> Result<bool> {
        let failed = |e| from_log(&applying.dir, e);
        let sweeps = applying.medium.sweeps();
        let last = applying.log.last().map_err(failed)?;
        let waiting = last.saturating_sub(named.seq);
        let is_much = usize::try_from(waiting).is_ok_and(|n| n >= sweeps.least);
        if !is_much || named.seq < self.swept_from || self.queue.whole {
            return Ok(false);
        }
        let limit = applying.log.config().map_err(failed)?.max_unapplied_bytes / OF_UNAPPLIED;
        let bytes = match limit {
            0 => sweeps.bytes,
            limit => sweeps
                .bytes
                .min(usize::try_from(limit).unwrap_or(usize::MAX)),
        };
        self.queue.forget();
        let mut error = None;
        let part = Part::read(&applying.log, named.seq, |part, record| {
            !applying.stops()
                && part.numbers_with(record) <= sweeps.most.min(Sweeps::MOST)
                && part.bytes_with(record) <= bytes
                && self.fits(part, record).unwrap_or_else(|e| {
                    error = Some(e);
                    false
                })
        });
        if let Some(error) = error {
            return Err(error);
        }
        let Ok(part) = part else {
            // Rows in front of what cannot be read are applied as ever, and then that is told.
            self.swept_from = last;
            return Ok(false);
        };
        let placed = match part.rows >= sweeps.least {
            true => self.arranged(&part, |_| true, sweeps.together)?,
            false => None,
        };
        let Some((basis, order)) = placed else {
            // What is there is applied as ever, and what is behind it looked at then.
            self.swept_from = part.last.max(named.seq + 1);
            return Ok(false);
        };
        let definition = Definition::new(basis, places(&part, &order, &[], 0)).map_err(failed)?;
        self.sweeping = Some(Sweeping::new(definition, part));
        Ok(true)
    }

    /// Whether a record may be put in order with what a part has.
    fn fits(&mut self, part: &Part, record: &Record) -> Result<bool> {
        let place = self.place_of_plan(record)?;
        let first = match part.records.first() {
            Some(first) => self.place_of_plan(first)?,
            None => place,
        };
        let (plan, first) = (self.plans.get(place), self.plans.get(first));
        Ok(plan.zip(first).is_some_and(|(plan, first)| {
            basis(plan).is_some_and(|b| basis(first) == Some(b))
                && has_all_keys(record, plan.sort.len())
        }))
    }

    /// The wanted rows of a part in order, and what that order is based on; `None` where there is no better one than the log's.
    fn arranged(
        &mut self,
        part: &Part,
        wanted: impl Fn(u32) -> bool,
        together: usize,
    ) -> Result<Arranged> {
        let Some(first) = part.records.first() else {
            return Ok(None);
        };
        let place = self.place_of_plan(first)?;
        let Some((plan, basis)) = self.plans.get(place).and_then(|p| Some((p, basis(p)?))) else {
            return Ok(None);
        };
        let (table, key) = (&plan.table, &plan.sort);
        let second = Second::of(&self.connection, table.name(), table.columns().first())?;
        let order = arranged(part, wanted, key, second.as_ref(), together);
        Ok(order.map(|order| (basis, order)))
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
        let done = self.begin(named).and_then(|begun| {
            definition.store(&self.connection)?;
            self.finish(next)?;
            Ok(begun.elapsed())
        });
        match done {
            Ok(held) => {
                applying
                    .unapplied
                    .keep_places(definition.id, named.seq, definition.places);
                applying.pause(Pace::gap(held));
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

    /// Whether the order that was made still is one: the schema may have changed. Where it is that of the log it always is.
    pub(super) fn stands(&mut self, sweeping: &mut Sweeping) -> Result<bool> {
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
        let is_left = |number: u32| was.get(number as usize).is_some_and(|p| *p >= done);
        let part = old.part;
        let mut is_one = true;
        for record in &part.records {
            is_one &= self.fits(&part, record)?;
        }
        let together = applying.medium.sweeps().together;
        let placed = match is_one {
            true => self.arranged(&part, is_left, together)?,
            false => None,
        };
        let (basis, order) = placed.unwrap_or_else(|| {
            let left = part.each().map(|(number, ..)| number);
            (String::new(), left.filter(|n| is_left(*n)).collect())
        });
        let placed = places(&part, &order, &was, done);
        let definition = Definition::new(basis, placed);
        let definition = definition.map_err(|e| from_log(&applying.dir, e))?;
        self.sweeping = Some(Sweeping::new(definition, part));
        Ok(())
    }
}
