//! The order of a clustered apply ([`crate::clustered`]), as the applier sees it.

use super::clustered_apply::ClusteredApply;
use super::clustered_begin::Beginning;
use super::order::{Define, Next, Order, Prepared};
use super::outcome::Failed;
use super::round::{Batch, Round, Turn};
use super::rows::{Poison, Rows};
use crate::clustered::{ClusteredBatch, Definition};
use crate::database::position::{ClusteredPosition, Position};
use crate::error::refused;
use densite_sqlite::Result;

/// The order of the running clustered apply, or of the next one.
#[derive(Default)]
pub(super) struct ClusteredOrder {
    /// The clustered apply that is running or about to begin.
    apply: Option<ClusteredApply>,
    beginning: Beginning,
}

impl ClusteredOrder {
    /// Whether a clustered apply is running, or enough rows wait for one.
    ///
    /// # Errors
    /// The log's.
    pub(super) fn is_due(&mut self, round: &Round, turn: &Turn<'_>) -> Result<bool> {
        let before = turn.named.seq;
        let is_prepared = |apply: &ClusteredApply| apply.batch.before == before;
        if turn.named.clustered.is_some() || self.apply.as_ref().is_some_and(is_prepared) {
            return Ok(true);
        }
        self.apply = None;
        self.beginning.is_due(round, turn)
    }

    /// Whether it knows of waiting rows.
    pub(super) fn has_more(&self) -> bool {
        self.apply.is_some()
    }

    /// The clustered apply that the database names. If another worker began it, or this one with
    /// another connection, it is read again.
    fn load(
        &mut self,
        turn: &Turn<'_>,
        round: &Round,
        clustered: ClusteredPosition,
    ) -> Result<ClusteredApply> {
        if let Some(known) = self.apply.take_if(|s| s.definition.id == clustered.id) {
            return Ok(known);
        }
        self.apply = None;
        let (open, before) = (&turn.applying.open, turn.named.seq);
        let definition = Definition::load(round.connection(), clustered.id)?;
        let batch = ClusteredBatch::read(open.log(), before, usize::MAX, |_, record| {
            record.first <= clustered.last
        });
        let batch = batch.map_err(|e| open.failed(e))?;
        if batch.reached < clustered.last {
            // These rows were in the log when the order was made. If they cannot be read now, that
            // is an error and not a loss to accept.
            return Err(refused(format!(
                "{}: rows up to {} are being applied, and the log ends at {}",
                open.dir().display(),
                clustered.last,
                batch.reached
            )));
        }
        Ok(ClusteredApply::new(definition, batch))
    }

    /// The order to write to the database, and how far it is applied.
    fn definition(&self, named: Position) -> Result<Define> {
        let apply = self.apply.as_ref();
        let apply = apply.ok_or_else(|| refused("no clustered apply was prepared"))?;
        let definition = apply.definition.clone();
        let next = Position {
            clustered: Some(ClusteredPosition {
                id: definition.id,
                last: apply.batch.last,
                done: named.clustered.map_or(0, |s| s.done),
            }),
            ..named
        };
        Ok(Define { definition, next })
    }
}

impl Order for ClusteredOrder {
    fn next(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Option<Next>> {
        if turn.named.clustered.is_some() {
            return Ok(Some(Next::Rows));
        }
        if self.apply.is_none() {
            self.apply = self.beginning.prepare(round, turn)?;
        }
        if self.apply.is_none() {
            return Ok(None);
        }
        self.definition(turn.named).map(Next::Definition).map(Some)
    }

    fn batch(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Prepared> {
        let clustered = turn.named.clustered;
        let clustered = clustered.ok_or_else(|| refused("no clustered apply is under way"))?;
        let mut apply = self.load(turn, round, clustered)?;
        if !apply.is_still_valid(round)? {
            let again = apply.ordered_again(round, turn.applying, clustered.done)?;
            self.apply = Some(again);
            return self.definition(turn.named).map(Prepared::Definition);
        }
        let batch = apply.batch(round, turn, clustered);
        self.apply = Some(apply);
        Ok(Prepared::Rows(batch))
    }

    fn rows(&self) -> Rows<'_> {
        match &self.apply {
            Some(apply) => apply.rows(),
            None => Rows::none(),
        }
    }

    fn committed(&mut self, batch: &Batch) -> bool {
        if batch.next.clustered.is_none() {
            self.apply = None;
        }
        false
    }

    fn failed(&mut self, round: &mut Round, batch: &Batch, failed: &Failed) {
        let Some(apply) = &mut self.apply else { return };
        match failed {
            Failed::Poison(seq, reason) => {
                apply.poison.insert(*seq, reason.clone());
            }
            // The schema did not show the deferred constraint.
            Failed::Commit(_) if !round.whole => round.whole = true,
            Failed::Commit(e) if batch.rows <= batch.least => {
                let seqs = batch.units.iter().filter_map(|u| apply.seq(*u));
                let poison: Poison = seqs.map(|seq| (seq, e.message.clone())).collect();
                apply.poison.extend(poison);
            }
            Failed::Commit(_) => round.pace.slow(batch.rows),
            _ => {}
        }
    }
}
