//! The transactions of a sweep ([`crate::sweep`]), on the worker's side.

use super::Applying;
use super::batch::Unit;
use super::outcome::{Did, Failed};
use super::round::{Round, Tried};
use super::rows::{Poison, Work};
use super::values::Values;
use crate::error::{from_log, refused};
use crate::position::{Position, Sweep};
use crate::sweep::{Definition, Lookup, NOWHERE, Part};
use densite_log::Seq;
use densite_sqlite::Result;

/// What the worker knows of a sweep.
pub(super) struct Sweeping {
    pub(super) definition: Definition,
    pub(super) part: Part,
    /// The numbers of its rows, counted from the part's first, by their place; [`NOWHERE`] where there is none.
    order: Vec<u32>,
    lookup: Lookup,
    /// The plan of each record, in this version of the schema.
    pub(super) of: Vec<usize>,
    pub(super) schema: Option<i64>,
    /// It is in the order of the log, and has all that is left of each of its transactions.
    pub(super) whole: bool,
    poison: Poison,
}

impl Sweeping {
    pub(super) fn new(definition: Definition, part: Part) -> Sweeping {
        let last = definition.places.iter().filter(|p| **p != NOWHERE).max();
        let mut order = vec![NOWHERE; last.map_or(0, |last| *last as usize + 1)];
        for number in part.each() {
            let place = definition.places.get(number as usize);
            if let Some(at) = place.and_then(|p| order.get_mut(*p as usize)) {
                *at = number;
            }
        }
        Sweeping {
            whole: definition.basis.is_empty() && part.is_whole(),
            definition,
            lookup: Lookup::of(&part),
            part,
            order,
            of: Vec::new(),
            schema: None,
            poison: Poison::default(),
        }
    }

    /// The rows with these places, in the order of the log: those that are applied in another one are sorted by their keys anyway. One that the log lost is left out.
    fn units(&self, from: usize, count: usize) -> Vec<Unit> {
        let some = self.order.iter().skip(from).take(count);
        let mut numbers: Vec<u32> = some.copied().filter(|n| *n != NOWHERE).collect();
        numbers.sort_unstable();
        self.lookup.units(&self.part, numbers.into_iter()).collect()
    }

    /// How many places behind the first `done` are those of whole transactions, of so many at most; of one at least.
    fn whole_places(&self, done: usize, most: usize) -> usize {
        let (mut before, mut whole) = (None, 0);
        let left = self.order.get(done..).unwrap_or_default().iter();
        let left = left.copied().enumerate().filter(|(_, n)| *n != NOWHERE);
        let units = self.lookup.units(&self.part, left.clone().map(|(_, n)| n));
        for ((count, _), unit) in left.zip(units) {
            let record = unit.record as usize;
            let since = self.part.records.get(before.unwrap_or(record)..record);
            before = Some(record);
            if since.is_some_and(|some| some.iter().any(|r| r.ends_transaction)) {
                if count > most {
                    return if whole > 0 { whole } else { count };
                }
                whole = count;
            }
        }
        let all = self.order.len().saturating_sub(done);
        if all <= most || whole == 0 {
            all
        } else {
            whole
        }
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
        let part = Part::read(&applying.log, named.seq, usize::MAX, |_, record| {
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
        let whole = self.queue.whole;
        let least = if whole {
            sweeping.whole_places(done, 1)
        } else {
            1
        };
        let fits = left.min(most.max(1));
        let rows = match (whole, sweeping.whole) {
            (true, _) => sweeping.whole_places(done, most),
            (false, true) => Some(sweeping.whole_places(done, most))
                .filter(|rows| *rows <= fits)
                .unwrap_or(fits),
            (false, false) => fits,
        };
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
        if whole {
            // Those of tables that no foreign key reaches are not judged, and come last.
            let is_free = |unit: &Unit| {
                let plan = sweeping.of.get(unit.record as usize);
                plan.and_then(|p| self.plans.get(*p))
                    .is_some_and(|p| p.independent)
            };
            units.sort_by_key(is_free);
        }
        let plan = sweeping.of.first().and_then(|p| self.plans.get(*p));
        let sorted = plan.filter(|_| !sweeping.definition.basis.is_empty());
        let key = sorted.map_or(&[][..], |plan| &plan.sort);
        let values = Values::sorted(&sweeping.part.records, &mut units, key);
        let work = Work::new(
            &sweeping.part.records,
            &sweeping.of,
            &sweeping.poison,
            values,
            whole,
        );
        match self.transaction(applying, &work, &units, named, next, rows > least) {
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
                        asked: most,
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
                    // From now on, should the schema not have told.
                    Ok(Some(Failed::Commit(_))) if !whole => self.queue.whole = true,
                    Ok(Some(Failed::Commit(e))) if rows <= least => {
                        let seqs = units.iter().filter_map(|u| sweeping.seq(*u));
                        let poison: Poison = seqs.map(|seq| (seq, e.message.clone())).collect();
                        sweeping.poison.extend(poison);
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
