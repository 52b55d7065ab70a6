//! The transactions of a sweep ([`crate::sweep`]), on the worker's side.

use super::Applying;
use super::batch::{Unit, sort};
use super::outcome::{Did, Failed};
use super::round::{Round, Tried};
use super::rows::{Poison, Work};
use crate::error::{from_log, refused};
use crate::position::{Position, Sweep};
use crate::sweep::{Definition, NOWHERE, Part};
use densite_log::Seq;
use densite_sqlite::Result;

/// What the worker knows of a sweep.
pub(super) struct Sweeping {
    pub(super) definition: Definition,
    pub(super) part: Part,
    /// Numbers, counted from the part's first, by their place.
    order: Vec<u32>,
    /// The plan of each record, in this version of the schema.
    pub(super) of: Vec<usize>,
    pub(super) schema: Option<i64>,
    poison: Poison,
}

impl Sweeping {
    pub(super) fn new(definition: Definition, part: Part) -> Sweeping {
        let last = definition.places.iter().filter(|p| **p != NOWHERE).max();
        let mut order = vec![NOWHERE; last.map_or(0, |last| *last as usize + 1)];
        for (number, place) in (0..).zip(definition.places.iter()) {
            if let Some(at) = order.get_mut(*place as usize) {
                *at = number;
            }
        }
        Sweeping {
            definition,
            part,
            order,
            of: Vec::new(),
            schema: None,
            poison: Poison::default(),
        }
    }

    /// The rows with these places. One that the log lost is left out.
    fn units(&self, from: usize, count: usize) -> Vec<Unit> {
        let some = self.order.iter().skip(from).take(count);
        some.filter_map(|number| self.part.unit(*number)).collect()
    }

    fn seq(&self, unit: Unit) -> Option<Seq> {
        let record = self.part.records.get(unit.record as usize)?;
        Some(record.first + u64::from(unit.row))
    }
}

impl Round {
    /// Goes on with a sweep, or begins one; `None` where rows are to be applied in the log's order.
    pub(super) fn sweep(&mut self, applying: &Applying, named: Position) -> Result<Option<Did>> {
        if let Some(sweep) = named.sweep {
            return self.go_on(applying, named, sweep).map(Some);
        }
        let is_prepared = |s: &Sweeping| s.part.before == named.seq;
        if !self.sweeping.as_ref().is_some_and(is_prepared) {
            self.sweeping = None;
            if !self.prepare(applying, named)? {
                return Ok(None);
            }
        }
        self.define(applying, named).map(Some)
    }

    /// What another worker began, or this one with another connection.
    fn load(&mut self, applying: &Applying, named: Position, sweep: Sweep) -> Result<Sweeping> {
        if let Some(known) = self.sweeping.take_if(|s| s.definition.id == sweep.id) {
            return Ok(known);
        }
        self.sweeping = None;
        self.queue.forget();
        let definition = Definition::load(&self.connection, sweep.id)?;
        let part = Part::read(&applying.log, named.seq, |_, record| {
            record.first <= sweep.last
        });
        let part = part.map_err(|e| from_log(&applying.dir, e))?;
        if part.reached < sweep.last {
            // They were there when the order was made: what cannot be read now is not to be taken for lost.
            return Err(refused(format!(
                "{}: rows up to {} are being applied, and the log ends at {}",
                applying.dir.display(),
                sweep.last,
                part.reached
            )));
        }
        Ok(Sweeping::new(definition, part))
    }

    /// The next transaction of a sweep.
    fn go_on(&mut self, applying: &Applying, named: Position, sweep: Sweep) -> Result<Did> {
        self.tidy.set_synchronous(&self.connection)?;
        if let Some(error) = self.tidy.held_up(&self.connection, applying)? {
            return Ok(Did::Waits(error));
        }
        let mut sweeping = self.load(applying, named, sweep)?;
        if !self.stands(&mut sweeping)? {
            self.arrange_anew(applying, sweeping, sweep.done)?;
            return self.define(applying, named);
        }
        let done = sweep.done as usize;
        let left = sweeping.order.len().saturating_sub(done);
        let most = self.pace.rows(self.tidy.is_beside());
        let most = most.min(applying.medium.sweeps().at_once);
        let rows = left.min(most.max(1));
        let next = match rows == left {
            true => Position::at(named.id, sweep.last),
            false => Position {
                sweep: Some(Sweep {
                    done: sweep
                        .done
                        .saturating_add(u32::try_from(rows).unwrap_or(u32::MAX)),
                    ..sweep
                }),
                ..named
            },
        };
        let mut units = sweeping.units(done, rows);
        let plan = sweeping.of.first().and_then(|p| self.plans.get(*p));
        if let Some(plan) = plan.filter(|_| !sweeping.definition.basis.is_empty()) {
            sort(&mut units, &sweeping.part.records, &plan.sort);
        }
        let work = Work::new(
            &sweeping.part.records,
            &sweeping.of,
            &sweeping.poison,
            &units,
        );
        let first = units.first().and_then(|u| sweeping.seq(*u));
        match self.transaction(applying, &work, &units, named, next, rows > 1) {
            Ok(held) => {
                let all = sweeping.order.len();
                self.following
                    .prepare(applying, sweep.last, (done + rows, all))?;
                self.sweeping = next.sweep.is_some().then_some(sweeping);
                let is_full = rows < left;
                self.committed(
                    applying,
                    Tried {
                        next,
                        rows,
                        held,
                        is_full,
                    },
                )
            }
            Err(failed) => {
                let told = self.failed(failed);
                match &told {
                    Ok(Some(Failed::Poison(seq, reason))) => {
                        sweeping.poison.insert(*seq, reason.clone());
                    }
                    // A constraint that came meanwhile, and is judged at the end.
                    Ok(Some(Failed::Commit(e))) if rows == 1 => {
                        sweeping
                            .poison
                            .extend(first.map(|seq| (seq, e.message.clone())));
                    }
                    Ok(Some(Failed::Commit(_))) => self.pace.slow(rows),
                    _ => {}
                }
                self.sweeping = Some(sweeping);
                told.map(|_| Did::Applied(named.seq))
            }
        }
    }
}
