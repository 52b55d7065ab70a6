//! One transaction of the worker: rows and position together. So each row is applied exactly once,
//! whatever crashes.
//!
//! Reading, decoding, planning and sorting are done before the write lock is taken. If the lock is
//! still held for too long, the transaction is rolled back and tried again with half the rows that
//! it got through.

use super::batch::{HOLD_MAX, Pace};
use super::outcome::Failed;
use super::plan::{Plan, plan_index};
use super::planner::Planner;
use super::queue::SourceState;
use super::rows::{Means, Work};
use super::values::{Source, Values};
use super::{Applying, connection};
use crate::changes;
use crate::clustered::Definition;
use crate::database::database_file::still_has_its_name;
use crate::database::position::Position;
use crate::rows::unit::Unit;
use crate::schema::own_triggers;
use densite_log::Record;
use densite_sqlite::{Code, Connection, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The state of a round of the worker.
pub(super) struct Turn<'a> {
    pub(super) applying: &'a Applying,
    /// The position in the database.
    pub(super) named: Position,
    /// A checkpoint is running beside the worker.
    pub(super) is_beside: bool,
}

/// Rows that are applied in one transaction.
pub(super) struct Batch {
    pub(super) units: Vec<Unit>,
    pub(super) values: Values,
    /// The position after this batch.
    pub(super) next: Position,
    /// What the source of the rows has to remember then.
    pub(super) state: Option<Arc<dyn SourceState>>,
    /// Number of rows that it takes from the order.
    pub(super) rows: usize,
    /// Number of rows that it could have had.
    pub(super) asked: usize,
    /// The fewest rows of a smaller attempt.
    pub(super) least: usize,
    /// More rows wait.
    pub(super) is_full: bool,
}

/// So many plans are kept for the next batch.
const MOST_PLANS: usize = 256;

/// The worker's connection, and its knowledge of the schema and of the cost of rows.
pub(super) struct Round {
    // Declared before the connection, so that statements are dropped first.
    plans: Vec<Plan>,
    /// The schema version of the plans.
    schema: i64,
    /// The transactions take part in recording without triggers.
    records: bool,
    /// A constraint may be deferred to COMMIT: batches have whole transactions of the log, however
    /// long they take.
    pub(super) whole: bool,
    pub(super) pace: Pace,
    /// The write lock is left free until then.
    free_until: Instant,
    /// The table from which statements for many rows read them.
    source: Source,
    /// Rows are applied one by one: a statement for many rows failed, and since then each
    /// transaction has rejected rows.
    singly: bool,
    connection: Connection,
}

impl Round {
    /// Opens a connection for the worker.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn open(applying: &Applying) -> Result<Round> {
        let (cache, _) = applying.open.storage().cache_kib();
        let connection = connection::open(&applying.spec, cache)?;
        Ok(Round {
            plans: Vec::new(),
            schema: -1,
            records: false,
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

    /// The position in the database; `None` if it names no log.
    ///
    /// # Errors
    /// SQLite's; an error if the connection's file no longer has the database's name.
    pub(super) fn position(&self) -> Result<Option<Position>> {
        still_has_its_name(&self.connection)?;
        Position::read(&self.connection)
    }

    pub(super) fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// The schema version of the plans.
    pub(super) fn schema(&self) -> i64 {
        self.schema
    }

    /// A planner with this connection.
    pub(super) fn planner(&mut self) -> Planner<'_> {
        Planner {
            connection: &self.connection,
            plans: &mut self.plans,
        }
    }

    /// Call it after the commit of a batch that held the write lock for `held`.
    pub(super) fn committed(&mut self, batch: &Batch, held: Duration) {
        self.pace.held(batch.rows, batch.asked, held, batch.is_full);
        self.leave_free(held);
    }

    /// Leaves the write lock free for a while after it was held for `held`, because other
    /// connections poll for it. Meanwhile the next transaction is prepared.
    pub(super) fn leave_free(&mut self, held: Duration) {
        self.free_until = Instant::now() + Pace::gap(held);
    }

    /// Rolls back a transaction that failed.
    ///
    /// # Errors
    /// An error that does not concern the rows.
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

    /// Runs a transaction that moves the position and applies no rows. `write` makes its other
    /// changes. Returns how long it held the write lock. A failed transaction is rolled back.
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
            self.finish(turn.applying, next, 0)?;
            Ok(begun.elapsed())
        });
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    /// The index of a record's plan. Makes the plan if there is none.
    pub(super) fn plan_index_of(&mut self, record: &Record) -> Result<usize> {
        plan_index(&self.connection, &mut self.plans, record)
    }

    /// Forgets the plans if there are many: each text of an expression has its own.
    pub(super) fn forget_many_plans(&mut self) {
        if self.plans.len() > MOST_PLANS {
            self.plans.clear();
        }
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
            // Set after the schema was read: SQLite converts it to pages, with the page size that
            // it knows by then.
            let (_, changed) = applying.open.storage().cache_kib();
            self.connection
                .exec(&format!("PRAGMA main.cache_spill = -{changed}"))?;
            let deferred =
                "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%DEFERRED%'";
            self.whole = self.connection.query_i64(deferred)?.is_some();
            self.records = own_triggers::without_triggers(&self.connection)?;
            self.schema = schema;
        }
        Ok(())
    }

    /// Applies rows and moves the position. Returns how long the write lock was held.
    ///
    /// # Errors
    /// The reason to roll the transaction back ([`Round::give_up`]).
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
        if let Some(state) = &batch.state {
            state.write(&self.connection)?;
        }
        let inserted = begun.elapsed();
        self.finish(turn.applying, batch.next, rows)?;
        let held = begun.elapsed();
        self.pace.committed(rows, held.saturating_sub(inserted));
        self.singly &= has_rejected;
        Ok(held)
    }

    /// Takes the write lock. Returns when it was taken.
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
        if self.records {
            changes::join(&self.connection)?;
        }
        Ok(begun)
    }

    /// Writes the position and commits. `rows`: how many rows were applied.
    fn finish(
        &mut self,
        applying: &Applying,
        next: Position,
        rows: usize,
    ) -> std::result::Result<(), Failed> {
        next.write(&self.connection, rows)?;
        // If the log was replaced, its numbers can belong to other rows.
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
