//! Applying rows within a transaction, one by one.

use super::batch::Unit;
use super::outcome::Failed;
use super::plan::{Action, Plan};
use super::reject::{is_of_the_row, reject};
use super::whole::Whole;
use densite_log::{Record, Seq, Value};
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
    /// The units are those of whole transactions of the log, and each of those is judged at its end.
    whole: bool,
    values: Values<'a>,
}

/// The most values that are taken out of their records beforehand.
const VALUES: usize = 1 << 18;

/// The values of the rows of a transaction, one after the other, where those are not too many: records lie apart in memory, and are better looked for before the write lock is taken.
#[derive(Default)]
struct Values<'a> {
    all: Vec<Value<'a>>,
    /// Where those of each row end.
    ends: Vec<usize>,
}

impl<'a> Values<'a> {
    fn of(records: &'a [Record], units: &[Unit]) -> Values<'a> {
        let mut values = Values::default();
        for unit in units {
            if let Some(record) = records.get(unit.record as usize) {
                values.all.extend(record.rows.row(unit.row as usize));
            }
            values.ends.push(values.all.len());
            if values.all.len() > VALUES {
                break;
            }
        }
        values
    }

    /// Those of a row; `None` where it has to be asked itself.
    fn row(&self, i: usize) -> Option<&[Value<'a>]> {
        let from = match i.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.all.get(from..*self.ends.get(i)?)
    }
}

impl<'a> Work<'a> {
    /// Of these units.
    pub(super) fn new(
        records: &'a [Record],
        of: &'a [usize],
        poison: &'a Poison,
        units: &[Unit],
        whole: bool,
    ) -> Work<'a> {
        let values = Values::of(records, units);
        Work {
            records,
            of,
            poison,
            whole,
            values,
        }
    }

    /// Applies these rows, in this order. `begun` and `limit`: since when the lock is held, and how long that may be, where fewer rows can be tried.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        plans: &mut [Plan],
        units: &[Unit],
        begun: Instant,
        limit: Option<Duration>,
    ) -> Result<(), Failed> {
        let mut judge = self.whole.then(|| Whole::new(self.records));
        for (i, unit) in units.iter().enumerate() {
            if i > 0 && limit.is_some_and(|limit| begun.elapsed() > limit) {
                return Err(Failed::Slow(i));
            }
            let refused = match &mut judge {
                Some(judge) => judge.turn(connection, (self, plans), units, i)?,
                None => None,
            };
            self.unit(connection, plans, i, *unit, refused)?;
        }
        if let Some(judge) = &mut judge {
            judge.turn(connection, (self, plans), units, units.len())?;
        }
        Ok(())
    }

    /// Applies one row, or rejects it: where it is `refused`, for that reason.
    fn unit(
        &self,
        connection: &Connection,
        plans: &mut [Plan],
        i: usize,
        unit: Unit,
        refused: Option<&str>,
    ) -> Result<(), Failed> {
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
        if let Some(reason) = refused.or(self.poison.get(&seq).map(String::as_str)) {
            return Ok(reject(connection, record, row, reason)?);
        }
        if let Action::Reject(reason) = &plan.action {
            return Ok(reject(connection, record, row, reason)?);
        }
        if plan.guarded {
            connection.exec("SAVEPOINT densite_row")?;
        }
        let done = match self.values.row(i) {
            Some(values) => plan.run(connection, values.iter().copied()),
            None => plan.run(connection, record.rows.row(row)),
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
