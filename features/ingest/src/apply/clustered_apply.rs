//! The rows of a clustered apply ([`crate::clustered`]) in their order, and the choice of rows for
//! each transaction.

use super::Applying;
use super::planner::basis;
use super::round::{Batch, Round, Turn};
use super::rows::{Poison, Rows};
use super::values::Values;
use crate::clustered::{ClusteredBatch, Definition, Kept, Lookup, NOWHERE, log_order};
use crate::database::position::{ClusteredPosition, Position};
use crate::rows::unit::Unit;
use densite_log::Seq;
use densite_sqlite::Result;

/// A clustered apply in the worker's memory.
pub(super) struct ClusteredApply {
    pub(super) definition: Definition,
    pub(super) batch: ClusteredBatch,
    /// For each place the number of its row, counted from the batch's first number; [`NOWHERE`] for
    /// a place without a row.
    order: Vec<u32>,
    lookup: Lookup,
    /// The index of each record's plan, in this version of the schema.
    of: Vec<usize>,
    /// That version, if the order is valid in it.
    schema: Option<i64>,
    /// It is in the order of the log, and has all remaining rows of each of its transactions.
    whole: bool,
    pub(super) poison: Poison,
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

    /// The rows with these places, in the order of the log. Rows that are applied in another order
    /// are sorted by their keys later. A row that the log has lost is left out.
    fn units(&self, from: usize, count: usize) -> Vec<Unit> {
        let some = self.order.iter().skip(from).take(count);
        let mut numbers: Vec<u32> = some.copied().filter(|n| *n != NOWHERE).collect();
        numbers.sort_unstable();
        self.lookup
            .units(&self.batch, numbers.into_iter())
            .collect()
    }

    /// Number of places behind the first `done` that form whole transactions: at most `most`, and
    /// at least one transaction.
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

    /// Sequence number of a row in the log.
    pub(super) fn seq(&self, unit: Unit) -> Option<Seq> {
        let record = self.batch.records.get(unit.record as usize)?;
        Some(record.first + u64::from(unit.row))
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            records: &self.batch.records,
            of: &self.of,
            poison: &self.poison,
        }
    }

    /// The rows of the next transaction.
    pub(super) fn batch(
        &self,
        round: &Round,
        turn: &Turn<'_>,
        clustered: ClusteredPosition,
    ) -> Batch {
        let done = clustered.done as usize;
        let left = self.order.len().saturating_sub(done);
        let most = round.pace.rows(turn.is_beside);
        let most = most.min(turn.applying.open.storage().clustered_limits().at_once);
        let whole = round.whole;
        let least = if whole { self.whole_places(done, 1) } else { 1 };
        let fits = left.min(most.max(1));
        let rows = match (whole, self.whole) {
            (true, _) => self.whole_places(done, most),
            (false, true) => Some(self.whole_places(done, most))
                .filter(|rows| *rows <= fits)
                .unwrap_or(fits),
            (false, false) => fits,
        };
        let next = match rows == left {
            true => Position::at(turn.named.id, clustered.last),
            false => Position {
                clustered: Some(ClusteredPosition {
                    done: clustered
                        .done
                        .saturating_add(u32::try_from(rows).unwrap_or(u32::MAX)),
                    ..clustered
                }),
                ..turn.named
            },
        };
        let mut units = self.units(done, rows);
        let plan_of = |record: usize| self.of.get(record).and_then(|p| round.plans().get(*p));
        if whole {
            // Rows of independent tables are not judged, and come last.
            units.sort_by_key(|unit| plan_of(unit.record as usize).is_some_and(|p| p.independent));
        }
        let sorted = plan_of(0).filter(|_| !self.definition.basis.is_empty());
        let key = sorted.map_or(&[][..], |plan| &plan.sort);
        Batch {
            state: None,
            values: Values::sorted(&self.batch.records, &mut units, key),
            units,
            next,
            rows,
            asked: most,
            least,
            is_full: rows < left,
        }
    }

    /// Whether its order is still valid: the schema can have changed. The order of the log is
    /// always valid. If transactions are judged as a whole, it must have whole transactions.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn is_still_valid(&mut self, round: &mut Round) -> Result<bool> {
        if round.whole && !self.whole {
            return Ok(false);
        }
        if self.schema == Some(round.schema()) {
            return Ok(true);
        }
        self.of.clear();
        for record in &self.batch.records {
            self.of.push(round.plan_index_of(record)?);
        }
        let made_of = &self.definition.basis;
        let is_same = |p: &usize| round.plans().get(*p).and_then(basis).as_ref() == Some(made_of);
        let stands = made_of.is_empty() || self.of.iter().all(is_same);
        self.schema = stands.then_some(round.schema());
        Ok(stands)
    }

    /// Orders the rows behind the first `done` places again, after a schema change invalidated the
    /// order. If no other order is allowed, the result is the order of the log.
    ///
    /// # Errors
    /// SQLite's, the log's.
    pub(super) fn ordered_again(
        self,
        round: &mut Round,
        applying: &Applying,
        done: u32,
    ) -> Result<ClusteredApply> {
        let kept = Kept {
            permutation: &self.definition.permutation,
            done,
        };
        let mut batch = self.batch;
        let whole = round.whole;
        if whole {
            batch
                .make_whole(applying.open.log())
                .map_err(|e| applying.open.failed(e))?;
        }
        let mut is_one = !whole;
        for record in &batch.records {
            is_one = is_one && round.planner().fits(&batch, record)?;
        }
        let together = applying.open.storage().clustered_limits().together;
        let permuted = match is_one {
            true => round.planner().permutation(&batch, kept, together)?,
            false => None,
        };
        let (basis, permutation) =
            permuted.unwrap_or_else(|| (String::new(), log_order(&batch, kept)));
        let definition = Definition::new(basis, permutation);
        let definition = definition.map_err(|e| applying.open.failed(e))?;
        let mut apply = ClusteredApply::new(definition, batch);
        apply.whole |= whole;
        Ok(apply)
    }
}
