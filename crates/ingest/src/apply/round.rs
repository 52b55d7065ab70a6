//! One transaction of the worker: rows and position together, so that each row is applied exactly once whatever crashes.
//!
//! What can be done without the write lock is done before it is taken: reading, decoding, planning, sorting. If it is held for too long nevertheless, the transaction is rolled back and
//! tried with half of what it got through.

use super::Applying;
use super::batch::{Unit, ordered};
use super::outcome::{Did, Failed};
use super::pace::{HOLD_MAX, Pace};
use super::plan::{Action, Plan};
use super::queue::Queue;
use super::reject::{is_of_the_row, reject};
use super::tidy::Tidy;
use crate::position::Position;
use densite_log::Seq;
use densite_sqlite::{Code, Connection, Error, Result, Value};
use std::time::{Duration, Instant};

/// A lock of others is waited for in steps, so that the worker can be ended.
pub(super) const BUSY_MS: i32 = 100;

/// The worker's connection, and what it has read of the log.
pub(super) struct Round {
    // Statements go before their connection.
    plans: Vec<Plan>,
    schema: i64,
    queue: Queue,
    pace: Pace,
    tidy: Tidy,
    connection: Connection,
}

impl Round {
    pub(super) fn open(applying: &Applying) -> Result<Round> {
        let connection = applying.recipe.open_to_write()?;
        connection.busy_timeout(BUSY_MS)?;
        connection.exec(
            "PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -262144",
        )?;
        Ok(Round {
            plans: Vec::new(),
            schema: -1,
            queue: Queue::default(),
            pace: Pace::default(),
            tidy: Tidy::default(),
            connection,
        })
    }

    /// Applies some rows.
    pub(super) fn run(&mut self, applying: &Applying) -> Result<Did> {
        let Some(named) = Position::read(&self.connection)? else {
            return Ok(Did::Unnamed);
        };
        applying.is_of(named)?;
        let position = named.seq;
        applying.tell(|s| s.applied = s.applied.max(position));
        self.look_at_schema()?;
        self.queue.fill(applying, position, self.pace.rows())?;
        if self.queue.len() == 0 {
            let end = self.queue.end().unwrap_or(position);
            if end > position {
                return self.pass(applying, named, end);
            }
            self.tidy.rest(&self.connection, applying, position)?;
            return Ok(Did::Nothing(position));
        }
        self.tidy.set_synchronous(&self.connection)?;
        if let Some(error) = self.tidy.held_up(&self.connection, applying)? {
            return Ok(Did::Waits(error));
        }
        let rows = self.queue.batch(self.pace.rows());
        let is_full = self.queue.len() >= self.pace.rows();
        let (units, of) = self.plan(rows)?;
        match self.transaction(&units, &of, named, rows) {
            Ok((last, held)) => {
                self.queue.passed(rows, last);
                self.pace.held(rows, held, is_full);
                let begun = Instant::now();
                self.tidy.after(&self.connection, applying, last, rows)?;
                if !is_full && self.queue.len() == 0 {
                    // Where rows keep coming there may be no other time.
                    self.tidy.rest(&self.connection, applying, last)?;
                }
                // Others ask for the write lock now and then only: they must be able to find it free.
                let gap = Pace::gap(held).saturating_sub(begun.elapsed());
                if !gap.is_zero() {
                    applying.pause(gap);
                }
                Ok(Did::Applied(last))
            }
            Err(failed) => {
                self.roll_back();
                match failed {
                    Failed::Again => {}
                    Failed::Slow(done) => {
                        self.pace.slow(done);
                        applying.pause(Pace::gap(HOLD_MAX));
                    }
                    Failed::Poison(seq, reason) => {
                        self.queue.add_poison(seq, reason);
                    }
                    Failed::Commit(e) => self.refused_commit(rows, &e),
                    Failed::Other(e) => return Err(e),
                }
                Ok(Did::Applied(position))
            }
        }
    }

    /// The log ends with numbers that no row has: they were rolled back, or are lost. The position goes past them, or it would be waited for for ever.
    fn pass(&mut self, applying: &Applying, named: Position, end: Seq) -> Result<Did> {
        self.tidy.set_synchronous(&self.connection)?;
        let done = self.begin(named).and_then(|_| self.finish(end));
        if done.is_err() {
            self.roll_back();
        }
        match done {
            Ok(()) => {
                self.queue.jump(end);
                self.tidy.after(&self.connection, applying, end, 0)?;
                Ok(Did::Applied(end))
            }
            Err(Failed::Other(e) | Failed::Commit(e)) => Err(e),
            Err(_) => Ok(Did::Applied(named.seq)),
        }
    }

    fn look_at_schema(&mut self) -> Result<()> {
        let schema = self
            .connection
            .query_i64("PRAGMA main.schema_version")?
            .unwrap_or(0);
        if schema != self.schema {
            self.plans.clear();
            let deferred =
                "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%DEFERRED%'";
            self.queue.whole = self.connection.query_i64(deferred)?.is_some();
            self.schema = schema;
        }
        Ok(())
    }

    /// The first rows of the queue in order, and the plan of each record.
    fn plan(&mut self, rows: usize) -> Result<(Vec<Unit>, Vec<usize>)> {
        let mut of = Vec::with_capacity(self.queue.records().len());
        let mut left = rows;
        for record in self.queue.records() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(record.rows.len() - record.skip);
            let known = self.plans.iter().position(|p| {
                p.op == record.op
                    && (std::sync::Arc::ptr_eq(&p.table, &record.table) || p.table == record.table)
            });
            of.push(match known {
                Some(i) => i,
                None => {
                    self.plans
                        .push(Plan::new(&self.connection, &record.table, record.op)?);
                    self.plans.len() - 1
                }
            });
        }
        let records = self.queue.records().get(..of.len()).unwrap_or_default();
        Ok((ordered(records, &of, &self.plans, rows), of))
    }

    fn transaction(
        &mut self,
        units: &[Unit],
        of: &[usize],
        named: Position,
        rows: usize,
    ) -> std::result::Result<(Seq, Duration), Failed> {
        let begun = self.begin(named)?;
        // A single row may cost any time, and so may a transaction that has to be judged as a whole.
        let divisible = rows > self.queue.least();
        let limit = self.pace.limit(rows);
        for (i, unit) in units.iter().enumerate() {
            if divisible && i > 0 && begun.elapsed() > limit {
                return Err(Failed::Slow(i));
            }
            self.unit(*unit, of)?;
        }
        let last = self.queue.reach(rows).unwrap_or(named.seq);
        let inserted = begun.elapsed();
        self.finish(last)?;
        let held = begun.elapsed();
        self.pace.committed(rows, held.saturating_sub(inserted));
        Ok((last, held))
    }

    /// Takes the write lock; answers since when it is held.
    fn begin(&mut self, named: Position) -> std::result::Result<Instant, Failed> {
        self.connection.exec("BEGIN IMMEDIATE")?;
        let begun = Instant::now();
        // Between reading and the lock another worker or a restored database may have come.
        let now = Position::read(&self.connection)?;
        let schema = self.connection.query_i64("PRAGMA main.schema_version")?;
        if now != Some(named) || schema != Some(self.schema) {
            self.schema = -1;
            return Err(Failed::Again);
        }
        Ok(begun)
    }

    /// Notes the position and commits.
    fn finish(&mut self, last: Seq) -> std::result::Result<(), Failed> {
        let mut update = self
            .connection
            .prepare("UPDATE main.densite_applied SET seq = ?1")?;
        update.bind(1, &Value::Integer(i64::try_from(last).unwrap_or(i64::MAX)))?;
        update.step()?;
        drop(update);
        self.connection
            .exec("COMMIT")
            .map_err(|e| match e.code.primary() {
                Code::CONSTRAINT => Failed::Commit(e),
                _ => Failed::Other(e),
            })
    }

    /// Applies one row, or rejects it.
    fn unit(&mut self, unit: Unit, of: &[usize]) -> std::result::Result<(), Failed> {
        let record = self.queue.records().get(unit.record as usize);
        let plan = of
            .get(unit.record as usize)
            .and_then(|p| self.plans.get_mut(*p));
        let (Some(record), Some(plan)) = (record, plan) else {
            return Ok(());
        };
        let row = unit.row as usize;
        let seq = record.first + u64::from(unit.row);
        let connection = &self.connection;
        if let Some(reason) = self.queue.poison(seq) {
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

    /// A commit that a deferred constraint refuses: rows of one transaction belong together, so fewer transactions are tried, and one alone is rejected.
    fn refused_commit(&mut self, rows: usize, e: &Error) {
        // From now on, should the schema not have told.
        self.queue.whole = true;
        if rows != self.queue.first_transaction() {
            self.pace.slow(rows);
            return;
        }
        self.queue.poison_first(rows, &e.message);
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            self.connection.exec("ROLLBACK").ok();
        }
    }
}
