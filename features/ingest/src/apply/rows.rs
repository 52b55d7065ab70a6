//! Applying rows within a transaction: many by one statement if that is allowed, otherwise one by
//! one.
//!
//! The statement for many rows has the same result or fails. If it fails, the transaction is rolled
//! back and the rows are applied one by one, which shows the failing row. So what a failed
//! statement leaves behind does not matter.

use super::deferred_constraints::DeferredConstraints;
use super::outcome::Failed;
use super::plan::{Action, Plan};
use super::reject::{is_of_the_row, reject};
use super::values::{Source, Values};
use crate::rows::unit::Unit;
use crate::schema::affinity::from_log;
use densite_log::{Record, Seq};
use densite_sqlite::{Connection, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows to reject without another attempt, with the reasons.
pub(super) type Poison = BTreeMap<Seq, String>;

/// The records of a batch's rows. A unit names a record and a row.
pub(super) struct Rows<'a> {
    pub(super) records: &'a [Record],
    /// The plan of each record.
    pub(super) of: &'a [usize],
    /// Rows to reject without another attempt.
    pub(super) poison: &'a Poison,
}

static NO_POISON: Poison = Poison::new();

impl Rows<'static> {
    /// No rows.
    pub(super) fn none() -> Rows<'static> {
        Rows {
            records: &[],
            of: &[],
            poison: &NO_POISON,
        }
    }
}

/// The rows of a transaction.
pub(super) struct Work<'a> {
    rows: Rows<'a>,
    /// The units form whole transactions of the log, and each is judged at its end.
    whole: bool,
    values: Arc<Values>,
}

/// Number of rows for one statement: enough to spread its fixed cost. It is limited because the
/// time is checked only between statements, and a row whose pages are not in memory takes 0.2 ms.
const TOGETHER: usize = 64;
/// Fewer rows than this are run one by one.
const LEAST: usize = 4;

/// The tools for applying rows.
pub(super) struct Means<'a> {
    pub(super) connection: &'a Connection,
    pub(super) plans: &'a mut [Plan],
    /// `None`: rows are applied one by one.
    pub(super) source: Option<&'a Source>,
}

impl<'a> Work<'a> {
    /// Work on units of these rows, with their values.
    pub(super) fn new(rows: Rows<'a>, values: Values, whole: bool) -> Work<'a> {
        Work {
            rows,
            whole,
            values: Arc::new(values),
        }
    }

    /// Applies these rows in this order. The lock is held since `begun`, and `limit` bounds that
    /// time if fewer rows can be tried. Returns whether rows were rejected.
    pub(super) fn apply(
        &self,
        mut means: Means<'_>,
        units: &[Unit],
        begun: Instant,
        limit: Option<Duration>,
    ) -> Result<bool, Failed> {
        let mut judge = self
            .whole
            .then(|| DeferredConstraints::new(self.rows.records, self.rows.of));
        if self.whole {
            means.source = None;
        }
        let (mut done, mut passed, mut has_rejected) = (0, false, false);
        while let Some(unit) = units.get(done) {
            if done > 0 && limit.is_some_and(|limit| begun.elapsed() > limit) {
                return Err(Failed::Slow(done));
            }
            let refused = match &mut judge {
                Some(judge) => judge.turn(means.connection, means.plans, units, done)?,
                None => None,
            };
            if self.is_replaced(&means, units, done) {
                (done, passed) = (done + 1, true);
                continue;
            }
            let together = self.together(&mut means, units, done)?;
            if together == 0 {
                has_rejected |= !self.unit(&mut means, done, *unit, refused)?;
            }
            if has_rejected && passed {
                // The rejected row may be one that replaced another.
                return Err(Failed::Together);
            }
            done += together.max(1);
        }
        if let Some(judge) = &mut judge {
            judge.turn(means.connection, means.plans, units, units.len())?;
        }
        Ok(has_rejected)
    }

    /// Whether the next row replaces this one completely.
    fn is_replaced(&self, means: &Means<'_>, units: &[Unit], i: usize) -> bool {
        let plan = |i: usize| self.rows.of.get(units.get(i)?.record as usize);
        let (Some(place), Some(_)) = (plan(i).filter(|p| plan(i + 1) == Some(p)), means.source)
        else {
            return false;
        };
        let plan = means.plans.get(*place);
        let Some((plan, never_null)) = plan.and_then(|p| Some((p, p.replaced.as_ref()?))) else {
            return false;
        };
        let has = |column| self.values.get(i, column).filter(|v| *v != ValueRef::Null);
        let is_same =
            |column| has(column).is_some_and(|v| self.values.get(i + 1, column) == Some(v));
        self.rows.poison.is_empty()
            && (0..plan.sort.len()).all(is_same)
            && never_null.iter().all(|column| has(*column).is_some())
    }

    /// Applies several rows from this one on with one statement. Returns their number; 0 if that is
    /// not possible.
    fn together(
        &self,
        means: &mut Means<'_>,
        units: &[Unit],
        from: usize,
    ) -> Result<usize, Failed> {
        let place = |unit: &Unit| self.rows.of.get(unit.record as usize);
        let some = units.get(from..).unwrap_or_default();
        let (Some(source), Some(plan)) = (means.source, some.first().and_then(place)) else {
            return Ok(0);
        };
        let count = some
            .iter()
            .take(TOGETHER)
            .take_while(|u| place(u) == Some(plan))
            .count();
        let count = count.min(self.values.rows().saturating_sub(from));
        if count < LEAST || !self.rows.poison.is_empty() {
            return Ok(0);
        }
        let plan = means.plans.get_mut(*plan);
        let Some(statement) = plan.and_then(|p| p.together(means.connection)) else {
            return Ok(0);
        };
        let ran = source.lend(&self.values, from..from + count, || {
            let done = statement.step();
            statement.reset();
            done.map(|_| ())
        });
        match ran {
            Ok(true) => Ok(count),
            Ok(false) => Err(Failed::Together),
            Err(e) if is_of_the_row(&e) => Err(Failed::Together),
            Err(e) => Err(Failed::Other(e)),
        }
    }

    /// Applies one row and returns true, or rejects it and returns false. `refused` is a reason to
    /// reject it.
    fn unit(
        &self,
        means: &mut Means<'_>,
        i: usize,
        unit: Unit,
        refused: Option<&str>,
    ) -> Result<bool, Failed> {
        let connection = means.connection;
        let record = self.rows.records.get(unit.record as usize);
        let plan = self
            .rows
            .of
            .get(unit.record as usize)
            .and_then(|p| means.plans.get_mut(*p));
        let (Some(record), Some(plan)) = (record, plan) else {
            return Ok(true);
        };
        let reject = |reason: &str| reject(connection, record, unit.row as usize, reason);
        let row = unit.row as usize;
        let seq = record.first + u64::from(unit.row);
        if let Some(reason) = refused.or(self.rows.poison.get(&seq).map(String::as_str)) {
            return Ok(reject(reason).map(|()| false)?);
        }
        if let Action::Reject(reason) = &plan.action {
            return Ok(reject(reason).map(|()| false)?);
        }
        if plan.guarded {
            connection.exec("SAVEPOINT densite_row")?;
        }
        let done = match self.values.row(i) {
            Some(values) => plan.run(connection, values),
            None => plan.run(connection, record.rows.row(row).map(from_log)),
        };
        if let Err(e) = &done
            && !is_of_the_row(e)
        {
            return Err(Failed::Other(e.clone()));
        }
        if connection.is_autocommit() {
            let reason = done.err().map_or_else(String::new, |e| e.message);
            return Err(Failed::Poison(seq, reason));
        }
        if plan.guarded {
            if done.is_err() {
                connection.exec("ROLLBACK TO densite_row")?;
            }
            connection.exec("RELEASE densite_row")?;
        }
        match done {
            Ok(true) => return Ok(true),
            Ok(false) => {
                let is_passed_over = match self.values.row(i) {
                    Some(values) => plan.is_passed_over(connection, values),
                    None => {
                        let values = record.rows.row(row).map(from_log);
                        plan.is_passed_over(connection, values)
                    }
                };
                if is_passed_over? {
                    return Ok(true);
                }
                reject("there is no row with this key to update")?;
            }
            Err(e) => reject(&e.message)?,
        }
        Ok(false)
    }
}
