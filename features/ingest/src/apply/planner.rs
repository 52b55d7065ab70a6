//! Reads a batch of the log and orders its rows, with a connection that knows how the keys of their
//! table compare.

use super::Applying;
use super::batch::{UNDIVIDED, has_all_keys};
use super::plan::{Action, Plan, plan_index};
use crate::clustered::{
    ClusteredBatch, ClusteredLimits, Definition, Kept, Permutation, Second, permutation,
};
use crate::database::open_log::OpenLog;
use densite_log::{Record, Seq};
use densite_sqlite::{Connection, Result};

/// The limit of waiting bytes, divided by this, can be ordered together: writers that wait for room
/// wait until all of it is applied.
const OF_UNAPPLIED: u64 = 4;

/// An order, and its basis.
type Permuted = Option<(String, Permutation)>;

/// What to do with the rows behind a position.
pub(super) enum Waiting {
    /// They are worth a clustered apply.
    Clustered(Definition, ClusteredBatch),
    /// They are applied in the order of the log, at least up to here.
    InLogOrder(Seq),
}

/// See the module.
pub(super) struct Planner<'a> {
    pub(super) connection: &'a Connection,
    pub(super) plans: &'a mut Vec<Plan>,
}

/// The basis of the order of a plan's rows: while it is unchanged, rows of different keys can be
/// applied in any order. `None` if they cannot.
pub(super) fn basis(plan: &Plan) -> Option<String> {
    let is_run = matches!(plan.action, Action::Run(_));
    (is_run && plan.independent && !plan.sort.is_empty()).then(|| {
        let names: Vec<&str> = plan.sort.iter().map(|how| how.name()).collect();
        format!("{}: {}", plan.table.name().to_lowercase(), names.join(", "))
    })
}

/// Limits of a clustered apply of the rows behind `before`; `None` if too few rows wait.
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
    /// Plans the rows behind `before`. Stops early if `goes_on` is false.
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
            // Rows in front of a place that cannot be read are applied in the log's order. Then the
            // error is reported.
            return Ok(Waiting::InLogOrder(last));
        };
        batch.end_with_transaction(limits.least, UNDIVIDED);
        let permuted = match batch.rows >= limits.least && goes_on() {
            true => self.permutation(&batch, Kept::default(), limits.together)?,
            false => None,
        };
        let Some((basis, permutation)) = permuted else {
            // These rows are applied in the log's order. Rows behind them are planned later.
            return Ok(Waiting::InLogOrder(batch.last.max(before + 1)));
        };
        let definition = Definition::new(basis, permutation).map_err(failed)?;
        Ok(Waiting::Clustered(definition, batch))
    }

    /// Whether a record can be ordered together with a batch.
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

    /// An order of the batch's rows behind the kept ones, and its basis; `None` if no order is
    /// better than the log's.
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
