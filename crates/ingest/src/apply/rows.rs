//! Applying rows within a transaction, one by one.

use super::batch::Unit;
use super::outcome::Failed;
use super::plan::{Action, Plan};
use super::reject::{is_of_the_row, reject};
use densite_log::{Record, Seq};
use densite_sqlite::Connection;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Rows to be rejected without another try, and why.
pub(super) type Poison = BTreeMap<Seq, String>;

/// Where the rows of a transaction are.
pub(super) struct Work<'a> {
    pub(super) records: &'a [Record],
    /// The plan of each record.
    pub(super) of: &'a [usize],
    pub(super) poison: &'a Poison,
}

impl Work<'_> {
    /// Applies these rows, in this order. `begun` and `limit`: since when the lock is held, and how long that may be, where fewer rows can be tried.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        plans: &mut [Plan],
        units: &[Unit],
        begun: Instant,
        limit: Option<Duration>,
    ) -> Result<(), Failed> {
        for (i, unit) in units.iter().enumerate() {
            if i > 0 && limit.is_some_and(|limit| begun.elapsed() > limit) {
                return Err(Failed::Slow(i));
            }
            self.unit(connection, plans, *unit)?;
        }
        Ok(())
    }

    /// Applies one row, or rejects it.
    fn unit(&self, connection: &Connection, plans: &mut [Plan], unit: Unit) -> Result<(), Failed> {
        let record = self.records.get(unit.record as usize);
        let plan = self
            .of
            .get(unit.record as usize)
            .and_then(|p| plans.get_mut(*p));
        let (Some(record), Some(plan)) = (record, plan) else {
            return Ok(());
        };
        let row = unit.row as usize;
        let seq = record.first + u64::from(unit.row);
        if let Some(reason) = self.poison.get(&seq) {
            return Ok(reject(connection, record, row, reason)?);
        }
        if let Action::Reject(reason) = &plan.action {
            return Ok(reject(connection, record, row, reason)?);
        }
        if plan.guarded {
            connection.exec("SAVEPOINT densite_row")?;
        }
        let done = plan.run(connection, &record.rows, row);
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
            Ok(true) => Ok(()),
            Ok(false) => Ok(reject(
                connection,
                record,
                row,
                "there is no row with this key to update",
            )?),
            Err(e) => Ok(reject(connection, record, row, &e.message)?),
        }
    }
}
