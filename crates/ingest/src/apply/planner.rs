//! Reads a batch of the log and puts its rows in order, with a connection that tells how their
//! table's keys compare.

use super::Applying;
use super::batch::has_all_keys;
use super::pace::UNDIVIDED;
use super::plan::{Action, Plan, plan_index};
use crate::clustered::{
    ClusteredBatch, ClusteredLimits, Definition, Kept, Permutation, Second, permutation,
};
use crate::open_log::OpenLog;
use densite_log::{Record, Seq};
use densite_sqlite::{Connection, Result};

/// Of the bytes that may wait, one in so many may be put in order together: writers that wait for
/// room wait for the end of it.
const OF_UNAPPLIED: u64 = 4;

/// An order, and what it is based on.
type Permuted = Option<(String, Permutation)>;

/// What waits behind a position.
pub(super) enum Waiting {
    /// It is worth a clustered apply.
    Clustered(Definition, ClusteredBatch),
    /// It is applied in the order of the log, up to here at least.
    InLogOrder(Seq),
}

/// See the module.
pub(super) struct Planner<'a> {
    pub(super) connection: &'a Connection,
    pub(super) plans: &'a mut Vec<Plan>,
}

/// What the order of rows of a plan is based on: as long as it is the same, rows of different keys
/// may be applied in any order. `None` where they may not.
pub(super) fn basis(plan: &Plan) -> Option<String> {
    let is_run = matches!(plan.action, Action::Run(_));
    (is_run && plan.independent && !plan.sort.is_empty()).then(|| {
        let names: Vec<&str> = plan.sort.iter().map(|how| how.name()).collect();
        format!("{}: {}", plan.table.name().to_lowercase(), names.join(", "))
    })
}

/// What a clustered apply of what waits behind `before` may have; `None` where too little waits.
pub(super) fn limits(applying: &Applying, before: Seq) -> Result<Option<ClusteredLimits>> {
    let failed = |e| applying.open.failed(e);
    let limits = applying.open.storage().clustered_limits();
    let waiting = applying
        .open
        .log()
        .last()
        .map_err(failed)?
        .saturating_sub(before);
    if usize::try_from(waiting).map_or(true, |n| n < limits.least) {
        return Ok(None);
    }
    let limit = applying
        .open
        .log()
        .config()
        .map_err(failed)?
        .max_unapplied_bytes
        / OF_UNAPPLIED;
    let bytes = match limit {
        0 => limits.bytes,
        limit => limits
            .bytes
            .min(usize::try_from(limit).unwrap_or(usize::MAX)),
    };
    Ok(Some(ClusteredLimits { bytes, ..limits }))
}

impl Planner<'_> {
    /// What waits behind `before`, as long as `goes_on` says so.
    pub(super) fn plan(
        &mut self,
        open: &OpenLog,
        before: Seq,
        limits: ClusteredLimits,
        goes_on: impl Fn() -> bool,
    ) -> Result<Waiting> {
        let failed = |e| open.failed(e);
        let last = open.log().last().map_err(failed)?;
        let mut error = None;
        let batch = ClusteredBatch::read(open.log(), before, limits.bytes, |batch, record| {
            goes_on()
                && batch.numbers_with(record) <= limits.most.min(ClusteredLimits::MOST)
                && self.fits(batch, record).unwrap_or_else(|e| {
                    error = Some(e);
                    false
                })
        });
        if let Some(error) = error {
            return Err(error);
        }
        let Ok(mut batch) = batch else {
            // Rows in front of what cannot be read are applied as ever, and then that is told.
            return Ok(Waiting::InLogOrder(last));
        };
        batch.end_with_transaction(limits.least, UNDIVIDED);
        let permuted = match batch.rows >= limits.least && goes_on() {
            true => self.permutation(&batch, Kept::default(), limits.together)?,
            false => None,
        };
        let Some((basis, permutation)) = permuted else {
            // What is there is applied as ever, and what is behind it looked at then.
            return Ok(Waiting::InLogOrder(batch.last.max(before + 1)));
        };
        let definition = Definition::new(basis, permutation).map_err(failed)?;
        Ok(Waiting::Clustered(definition, batch))
    }

    /// Whether a record may be put in order with what a batch has.
    pub(super) fn fits(&mut self, batch: &ClusteredBatch, record: &Record) -> Result<bool> {
        let place = plan_index(self.connection, self.plans, record)?;
        let first = match batch.records.first() {
            Some(first) => plan_index(self.connection, self.plans, first)?,
            None => place,
        };
        let (plan, first) = (self.plans.get(place), self.plans.get(first));
        Ok(plan.zip(first).is_some_and(|(plan, first)| {
            basis(plan).is_some_and(|b| basis(first) == Some(b))
                && has_all_keys(record, plan.sort.len())
        }))
    }

    /// An order of the rows of a batch behind what is kept, and what it is based on; `None` where
    /// there is no better one than the log's.
    pub(super) fn permutation(
        &mut self,
        batch: &ClusteredBatch,
        kept: Kept<'_>,
        together: usize,
    ) -> Result<Permuted> {
        let Some(first) = batch.records.first() else {
            return Ok(None);
        };
        let place = plan_index(self.connection, self.plans, first)?;
        let Some((plan, basis)) = self.plans.get(place).and_then(|p| Some((p, basis(p)?))) else {
            return Ok(None);
        };
        let (table, key) = (&plan.table, &plan.sort);
        let second = Second::of(self.connection, table.name(), table.columns().first())?;
        let permutation = permutation(batch, kept, key, second.as_ref(), together);
        Ok(permutation.map(|permutation| (basis, permutation)))
    }
}
