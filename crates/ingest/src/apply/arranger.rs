//! Reads a part of the log and puts its rows in order, with a connection that tells how their table's keys compare.

use super::Applying;
use super::batch::has_all_keys;
use super::pace::UNDIVIDED;
use super::plan::{Action, Plan, place_of};
use crate::error::from_log;
use crate::sweep::{Definition, Kept, Part, Places, Second, Sweeps, arranged};
use densite_log::{Log, Record, Seq};
use densite_sqlite::{Connection, Result};
use std::path::Path;

/// Of the bytes that may wait, one in so many may be put in order together: writers that wait for room wait for the end of it.
const OF_UNAPPLIED: u64 = 4;

/// An order, and what it is based on.
type Arranged = Option<(String, Places)>;

/// What waits behind a position.
pub(super) enum Found {
    /// It is worth a sweep.
    Sweep(Definition, Part),
    /// It is applied in the order of the log, up to here at least.
    AsItIs(Seq),
}

/// See the module.
pub(super) struct Arranger<'a> {
    pub(super) connection: &'a Connection,
    pub(super) plans: &'a mut Vec<Plan>,
}

/// What the order of rows of a plan is based on: as long as it is the same, rows of different keys may be applied in any order. `None` where they may not.
pub(super) fn basis(plan: &Plan) -> Option<String> {
    let is_run = matches!(plan.action, Action::Run(_));
    (is_run && plan.independent && !plan.sort.is_empty()).then(|| {
        let names: Vec<&str> = plan.sort.iter().map(|how| how.name()).collect();
        format!("{}: {}", plan.table.name().to_lowercase(), names.join(", "))
    })
}

/// What a sweep of what waits behind `before` may have; `None` where too little waits.
pub(super) fn limits(applying: &Applying, before: Seq) -> Result<Option<Sweeps>> {
    let failed = |e| from_log(&applying.dir, e);
    let sweeps = applying.medium.sweeps();
    let waiting = applying.log.last().map_err(failed)?.saturating_sub(before);
    if usize::try_from(waiting).map_or(true, |n| n < sweeps.least) {
        return Ok(None);
    }
    let limit = applying.log.config().map_err(failed)?.max_unapplied_bytes / OF_UNAPPLIED;
    let bytes = match limit {
        0 => sweeps.bytes,
        limit => sweeps
            .bytes
            .min(usize::try_from(limit).unwrap_or(usize::MAX)),
    };
    Ok(Some(Sweeps { bytes, ..sweeps }))
}

impl Arranger<'_> {
    /// What waits behind `before`, as long as `goes_on` says so.
    pub(super) fn find(
        &mut self,
        (log, dir): (&Log, &Path),
        before: Seq,
        sweeps: Sweeps,
        goes_on: impl Fn() -> bool,
    ) -> Result<Found> {
        let failed = |e| from_log(dir, e);
        let last = log.last().map_err(failed)?;
        let mut error = None;
        let part = Part::read(log, before, sweeps.bytes, |part, record| {
            goes_on()
                && part.numbers_with(record) <= sweeps.most.min(Sweeps::MOST)
                && self.fits(part, record).unwrap_or_else(|e| {
                    error = Some(e);
                    false
                })
        });
        if let Some(error) = error {
            return Err(error);
        }
        let Ok(mut part) = part else {
            // Rows in front of what cannot be read are applied as ever, and then that is told.
            return Ok(Found::AsItIs(last));
        };
        part.end_with_transaction(sweeps.least, UNDIVIDED);
        let placed = match part.rows >= sweeps.least && goes_on() {
            true => self.arranged(&part, Kept::default(), sweeps.together)?,
            false => None,
        };
        let Some((basis, places)) = placed else {
            // What is there is applied as ever, and what is behind it looked at then.
            return Ok(Found::AsItIs(part.last.max(before + 1)));
        };
        let definition = Definition::new(basis, places).map_err(failed)?;
        Ok(Found::Sweep(definition, part))
    }

    /// Whether a record may be put in order with what a part has.
    pub(super) fn fits(&mut self, part: &Part, record: &Record) -> Result<bool> {
        let place = place_of(self.connection, self.plans, record)?;
        let first = match part.records.first() {
            Some(first) => place_of(self.connection, self.plans, first)?,
            None => place,
        };
        let (plan, first) = (self.plans.get(place), self.plans.get(first));
        Ok(plan.zip(first).is_some_and(|(plan, first)| {
            basis(plan).is_some_and(|b| basis(first) == Some(b))
                && has_all_keys(record, plan.sort.len())
        }))
    }

    /// An order of the rows of a part behind what is kept, and what it is based on; `None` where there is no better one than the log's.
    pub(super) fn arranged(
        &mut self,
        part: &Part,
        kept: Kept<'_>,
        together: usize,
    ) -> Result<Arranged> {
        let Some(first) = part.records.first() else {
            return Ok(None);
        };
        let place = place_of(self.connection, self.plans, first)?;
        let Some((plan, basis)) = self.plans.get(place).and_then(|p| Some((p, basis(p)?))) else {
            return Ok(None);
        };
        let (table, key) = (&plan.table, &plan.sort);
        let second = Second::of(self.connection, table.name(), table.columns().first())?;
        let places = arranged(part, kept, key, second.as_ref(), together);
        Ok(places.map(|places| (basis, places)))
    }
}
