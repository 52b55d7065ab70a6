//! The transactions of a clustered apply ([`crate::clustered`]), on the worker's side.

use super::Applying;
use super::outcome::{Did, Failed};
use super::round::{Round, Tried};
use super::rows::{Poison, Work};
use super::values::Values;
use crate::clustered::{ClusteredBatch, Definition, Lookup, NOWHERE};
use crate::error::refused;
use crate::position::{ClusteredPosition, Position};
use crate::unit::Unit;
use densite_log::Seq;
use densite_sqlite::Result;

/// What the worker knows of a clustered apply.
pub(super) struct ClusteredApply {
    pub(super) definition: Definition,
    pub(super) batch: ClusteredBatch,
    /// The numbers of its rows, counted from the batch's first, by their place; [`NOWHERE`] where there is none.
    order: Vec<u32>,
    lookup: Lookup,
    /// The plan of each record, in this version of the schema.
    pub(super) of: Vec<usize>,
    pub(super) schema: Option<i64>,
    /// It is in the order of the log, and has all that is left of each of its transactions.
    pub(super) whole: bool,
    poison: Poison,
}

impl ClusteredApply {
    pub(super) fn new(definition: Definition, batch: ClusteredBatch) -> ClusteredApply {
        let last = definition
            .permutation
            .iter()
            .filter(|p| **p != NOWHERE)
            .max();
        let mut order = vec![NOWHERE; last.map_or(0, |last| *last as usize + 1)];
        for number in batch.each() {
            let place = definition.permutation.get(number as usize);
            if let Some(at) = place.and_then(|p| order.get_mut(*p as usize)) {
                *at = number;
            }
        }
        ClusteredApply {
            whole: definition.basis.is_empty() && batch.is_whole(),
            definition,
            lookup: Lookup::of(&batch),
            batch,
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
        self.lookup
            .units(&self.batch, numbers.into_iter())
            .collect()
    }

    /// How many places behind the first `done` are those of whole transactions, of so many at most; of one at least.
    fn whole_places(&self, done: usize, most: usize) -> usize {
        let (mut before, mut whole) = (None, 0);
        let left = self.order.get(done..).unwrap_or_default().iter();
        let left = left.copied().enumerate().filter(|(_, n)| *n != NOWHERE);
        let units = self.lookup.units(&self.batch, left.clone().map(|(_, n)| n));
        for ((count, _), unit) in left.zip(units) {
            let record = unit.record as usize;
            let since = self.batch.records.get(before.unwrap_or(record)..record);
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
        let record = self.batch.records.get(unit.record as usize)?;
        Some(record.first + u64::from(unit.row))
    }
}

impl Round {
    /// Goes on with a clustered apply, or begins one; `None` where rows are to be applied in the
    /// log's order.
    pub(super) fn apply_clustered(
        &mut self,
        applying: &Applying,
        named: Position,
    ) -> Result<Option<Did>> {
        if let Some(clustered) = named.clustered {
            return self.go_on(applying, named, clustered).map(Some);
        }
        let is_prepared = |s: &ClusteredApply| s.batch.before == named.seq;
        if !self.clustered.as_ref().is_some_and(is_prepared) {
            self.clustered = None;
            if !self.prepare(applying, named)? {
                return Ok(None);
            }
        }
        self.define(applying, named).map(Some)
    }

    /// What another worker began, or this one with another connection.
    fn load(
        &mut self,
        applying: &Applying,
        named: Position,
        clustered: ClusteredPosition,
    ) -> Result<ClusteredApply> {
        if let Some(known) = self.clustered.take_if(|s| s.definition.id == clustered.id) {
            return Ok(known);
        }
        self.clustered = None;
        self.queue.forget();
        let definition = Definition::load(&self.connection, clustered.id)?;
        let batch =
            ClusteredBatch::read(applying.open.log(), named.seq, usize::MAX, |_, record| {
                record.first <= clustered.last
            });
        let batch = batch.map_err(|e| applying.open.failed(e))?;
        if batch.reached < clustered.last {
            // They were there when the order was made: what cannot be read now is not to be taken for lost.
            return Err(refused(format!(
                "{}: rows up to {} are being applied, and the log ends at {}",
                applying.open.dir().display(),
                clustered.last,
                batch.reached
            )));
        }
        Ok(ClusteredApply::new(definition, batch))
    }

    /// The next transaction of a clustered apply.
    fn go_on(
        &mut self,
        applying: &Applying,
        named: Position,
        clustered: ClusteredPosition,
    ) -> Result<Did> {
        self.scheduler.set_synchronous(&self.connection)?;
        if let Some(error) = self.scheduler.held_up(&self.connection, applying)? {
            return Ok(Did::Waits(error));
        }
        let mut apply = self.load(applying, named, clustered)?;
        if !self.is_still_valid(&mut apply)? {
            self.replan(applying, apply, clustered.done)?;
            return self.define(applying, named);
        }
        let done = clustered.done as usize;
        let left = apply.order.len().saturating_sub(done);
        let most = self.pace.rows(self.scheduler.is_beside());
        let most = most.min(applying.open.storage().clustered_limits().at_once);
        let whole = self.queue.whole;
        let least = if whole {
            apply.whole_places(done, 1)
        } else {
            1
        };
        let fits = left.min(most.max(1));
        let rows = match (whole, apply.whole) {
            (true, _) => apply.whole_places(done, most),
            (false, true) => Some(apply.whole_places(done, most))
                .filter(|rows| *rows <= fits)
                .unwrap_or(fits),
            (false, false) => fits,
        };
        let next = match rows == left {
            true => Position::at(named.id, clustered.last),
            false => Position {
                clustered: Some(ClusteredPosition {
                    done: clustered
                        .done
                        .saturating_add(u32::try_from(rows).unwrap_or(u32::MAX)),
                    ..clustered
                }),
                ..named
            },
        };
        let mut units = apply.units(done, rows);
        if whole {
            // Those of tables that no foreign key reaches are not judged, and come last.
            let is_free = |unit: &Unit| {
                let plan = apply.of.get(unit.record as usize);
                plan.and_then(|p| self.plans.get(*p))
                    .is_some_and(|p| p.independent)
            };
            units.sort_by_key(is_free);
        }
        let plan = apply.of.first().and_then(|p| self.plans.get(*p));
        let sorted = plan.filter(|_| !apply.definition.basis.is_empty());
        let key = sorted.map_or(&[][..], |plan| &plan.sort);
        let values = Values::sorted(&apply.batch.records, &mut units, key);
        let work = Work::new(
            &apply.batch.records,
            &apply.of,
            &apply.poison,
            values,
            whole,
        );
        match self.transaction(applying, &work, &units, named, next, rows > least) {
            Ok(held) => {
                let all = apply.order.len();
                self.following
                    .prepare(applying, clustered.last, (done + rows, all))?;
                self.clustered = next.clustered.is_some().then_some(apply);
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
                        apply.poison.insert(*seq, reason.clone());
                    }
                    // From now on, should the schema not have told.
                    Ok(Some(Failed::Commit(_))) if !whole => self.queue.whole = true,
                    Ok(Some(Failed::Commit(e))) if rows <= least => {
                        let seqs = units.iter().filter_map(|u| apply.seq(*u));
                        let poison: Poison = seqs.map(|seq| (seq, e.message.clone())).collect();
                        apply.poison.extend(poison);
                    }
                    Ok(Some(Failed::Commit(_))) => self.pace.slow(rows),
                    _ => {}
                }
                self.clustered = Some(apply);
                told.map(|_| Did::Applied(named.seq))
            }
        }
    }
}
