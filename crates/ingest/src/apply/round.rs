//! One transaction of the worker: rows and position together. So each row is applied exactly once,
//! whatever crashes.
//!
//! Reading, decoding, planning and sorting are done before the write lock is taken. If the lock is
//! held for too long nevertheless, the transaction is rolled back. It is tried again with half the
//! rows that it got through.

use super::Applying;
use super::connection;
use super::outcome::Failed;
use super::pace::{HOLD_MAX, Pace};
use super::plan::{Plan, plan_index};
use super::planner::Planner;
use super::rows::{Means, Work};
use super::source::Source;
use super::values::Values;
use crate::clustered::Definition;
use crate::database_file::still_has_its_name;
use crate::position::Position;
use crate::unit::Unit;
use densite_log::Record;
use densite_sqlite::{Code, Connection, Result};
use std::time::{Duration, Instant};

/// Where a round of the worker stands.
pub(super) struct Turn<'a> {
    pub(super) applying: &'a Applying,
    /// What the database says of the log.
    pub(super) named: Position,
    /// A checkpoint is under way beside the worker.
    pub(super) is_beside: bool,
}

/// Rows that are applied in one transaction.
pub(super) struct Batch {
    pub(super) units: Vec<Unit>,
    pub(super) values: Values,
    /// What the database then says of the log.
    pub(super) next: Position,
    /// How many rows of the order it takes.
    pub(super) rows: usize,
    /// How many it could have had.
    pub(super) asked: usize,
    /// The fewest that can be tried instead.
    pub(super) least: usize,
    /// More rows wait.
    pub(super) is_full: bool,
}

/// The worker's connection, and what it knows of the schema and of the time that rows take.
pub(super) struct Round {
    // Statements go before their connection.
    plans: Vec<Plan>,
    /// The version that the plans are for.
    schema: i64,
    /// A constraint may be deferred to COMMIT: batches have whole transactions of the log, however
    /// long one takes.
    pub(super) whole: bool,
    pub(super) pace: Pace,
    /// Until when the write lock is left free.
    free_until: Instant,
    /// Where statements for many rows find them.
    source: Source,
    /// Rows are applied one by one: such a statement failed, and rows have been rejected since in
    /// each transaction.
    singly: bool,
    connection: Connection,
}

impl Round {
    /// With a connection of its own.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn open(applying: &Applying) -> Result<Round> {
        let (cache, _) = applying.open.storage().cache_kib();
        let connection = connection::open(&applying.spec, cache)?;
        Ok(Round {
            plans: Vec::new(),
            schema: -1,
            whole: false,
            pace: Pace::default(),
            free_until: Instant::now(),
            source: Source::of(&connection)?,
            singly: false,
            connection,
        })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What the database says of the log; `None` if it names none.
    ///
    /// # Errors
    /// SQLite's; when the connection's file no longer has the database's name.
    pub(super) fn position(&self) -> Result<Option<Position>> {
        still_has_its_name(&self.connection)?;
        Position::read(&self.connection)
    }

    pub(super) fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// The version of the schema.
    pub(super) fn schema(&self) -> i64 {
        self.schema
    }

    /// Puts rows in order.
    pub(super) fn planner(&mut self) -> Planner<'_> {
        Planner {
            connection: &self.connection,
            plans: &mut self.plans,
        }
    }

    /// A batch is committed, and held the write lock for so long.
    pub(super) fn committed(&mut self, batch: &Batch, held: Duration) {
        self.pace.held(batch.rows, batch.asked, held, batch.is_full);
        self.leave_free(held);
    }

    /// Others try to get the write lock only now and then. So it stays free for a while after it
    /// was held for so long. Meanwhile the next transaction is prepared.
    pub(super) fn leave_free(&mut self, held: Duration) {
        self.free_until = Instant::now() + Pace::gap(held);
    }

    /// Rolls back a transaction that failed.
    ///
    /// # Errors
    /// An error that has nothing to do with its rows.
    pub(super) fn give_up(&mut self, failed: Failed) -> Result<()> {
        self.roll_back();
        match failed {
            Failed::Slow(done) => {
                self.pace.slow(done);
                self.leave_free(HOLD_MAX);
            }
            Failed::Together => {
                self.singly = true;
                self.leave_free(HOLD_MAX);
            }
            Failed::Again | Failed::Poison(..) | Failed::Commit(_) => {}
            Failed::Other(e) => return Err(e),
        }
        Ok(())
    }

    /// A transaction that moves the position and applies no row; `write` writes what else there is.
    /// Returns how long it held the write lock. If it fails, it is rolled back.
    ///
    /// # Errors
    /// Those of a transaction, and of `write`.
    pub(super) fn move_position(
        &mut self,
        turn: &Turn<'_>,
        next: Position,
        write: impl FnOnce(&Connection) -> Result<()>,
    ) -> std::result::Result<Duration, Failed> {
        let done = self.begin(turn).and_then(|begun| {
            write(&self.connection)?;
            self.finish(turn.applying, next)?;
            Ok(begun.elapsed())
        });
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    /// Which plan a record has. A missing plan is made.
    pub(super) fn plan_index_of(&mut self, record: &Record) -> Result<usize> {
        plan_index(&self.connection, &mut self.plans, record)
    }

    /// Forgets the plans if the schema has changed.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn check_schema(&mut self, applying: &Applying) -> Result<()> {
        let schema = self
            .connection
            .query_i64("PRAGMA main.schema_version")?
            .unwrap_or(0);
        if schema != self.schema {
            self.plans.clear();
            // Not before something was read: it is kept as a number of pages, of the size that is
            // known.
            let (_, changed) = applying.open.storage().cache_kib();
            self.connection
                .exec(&format!("PRAGMA main.cache_spill = -{changed}"))?;
            let deferred =
                "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%DEFERRED%'";
            self.whole = self.connection.query_i64(deferred)?.is_some();
            self.schema = schema;
        }
        Ok(())
    }

    /// Applies rows and notes what is applied then. Returns how long the write lock was held.
    ///
    /// # Errors
    /// Why the transaction is to be rolled back ([`Round::give_up`]).
    pub(super) fn transaction(
        &mut self,
        turn: &Turn<'_>,
        work: &Work<'_>,
        batch: &Batch,
    ) -> std::result::Result<Duration, Failed> {
        let begun = self.begin(turn)?;
        let rows = batch.units.len();
        let limit = self.pace.limit(rows, turn.is_beside);
        let limit = (batch.rows > batch.least).then_some(limit);
        let means = Means {
            connection: &self.connection,
            plans: &mut self.plans,
            source: (!self.singly).then_some(&self.source),
        };
        let has_rejected = work.apply(means, &batch.units, begun, limit)?;
        if turn.named.clustered.is_some() && batch.next.clustered.is_none() {
            Definition::clear(&self.connection)?;
        }
        let inserted = begun.elapsed();
        self.finish(turn.applying, batch.next)?;
        let held = begun.elapsed();
        self.pace.committed(rows, held.saturating_sub(inserted));
        self.singly &= has_rejected;
        Ok(held)
    }

    /// Takes the write lock. Returns since when it is held.
    fn begin(&mut self, turn: &Turn<'_>) -> std::result::Result<Instant, Failed> {
        let gap = self.free_until.saturating_duration_since(Instant::now());
        if !gap.is_zero() {
            turn.applying.pause(gap);
        }
        self.connection.exec("BEGIN IMMEDIATE")?;
        let begun = Instant::now();
        // Since the position was read, another worker can have applied rows, or the database can
        // have been restored.
        let now = Position::read(&self.connection)?;
        let schema = self.connection.query_i64("PRAGMA main.schema_version")?;
        if now != Some(turn.named) || schema != Some(self.schema) {
            self.schema = -1;
            return Err(Failed::Again);
        }
        Ok(begun)
    }

    /// Notes the position and commits.
    fn finish(&mut self, applying: &Applying, next: Position) -> std::result::Result<(), Failed> {
        next.write(&self.connection)?;
        // Otherwise the numbers that were read can belong to other rows by now.
        let in_place = applying.open.log().is_in_place();
        in_place.map_err(|e| applying.open.failed(e))?;
        self.connection
            .exec("COMMIT")
            .map_err(|e| match e.code.primary() {
                Code::CONSTRAINT => Failed::Commit(e),
                _ => Failed::Other(e),
            })
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            self.connection.exec("ROLLBACK").ok();
        }
    }
}
