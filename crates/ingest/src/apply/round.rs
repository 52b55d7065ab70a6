//! One transaction of the worker: rows and position together, so that each row is applied exactly once whatever crashes.
//!
//! What can be done without the write lock is done before it is taken: reading, decoding, planning, sorting. If it is held for too long nevertheless, the transaction is rolled back and
//! tried with half of what it got through.

use super::Applying;
use super::batch::ordered;
use super::checkpoint_scheduler::CheckpointScheduler;
use super::clustered::ClusteredApply;
use super::connection;
use super::following::Following;
use super::outcome::{Did, Failed};
use super::pace::{HOLD_MAX, Pace};
use super::plan::{Plan, plan_index};
use super::queue::Queue;
use super::rows::{Means, Work};
use super::source::Source;
use super::values::Values;
use crate::clustered::Definition;
use crate::database_file::still_has_its_name;
use crate::position::Position;
use crate::unit::Unit;
use densite_log::{Record, Seq};
use densite_sqlite::{Code, Connection, Error, Result};
use std::time::{Duration, Instant};

/// The worker's connection, and what it has read of the log.
pub(super) struct Round {
    // Statements go before their connection.
    pub(super) plans: Vec<Plan>,
    pub(super) schema: i64,
    pub(super) queue: Queue,
    /// What is applied in another order at the moment, or is about to be.
    pub(super) clustered: Option<ClusteredApply>,
    /// What comes after it.
    pub(super) following: Following,
    /// Up to here rows are applied in the log's order: it was tried.
    pub(super) clustered_from: Seq,
    pub(super) pace: Pace,
    /// Until when the write lock is left free.
    free_until: Instant,
    pub(super) scheduler: CheckpointScheduler,
    /// Where statements for many rows find them.
    source: Source,
    /// Rows are applied one by one: such a statement failed, and rows have been rejected since in each transaction.
    singly: bool,
    pub(super) connection: Connection,
}

/// A transaction that was committed.
pub(super) struct Tried {
    /// Where the database is now.
    pub(super) next: Position,
    pub(super) rows: usize,
    /// So many it could have had.
    pub(super) asked: usize,
    /// How long it held the lock.
    pub(super) held: Duration,
    /// More rows wait.
    pub(super) is_full: bool,
}

impl Round {
    pub(super) fn open(applying: &Applying) -> Result<Round> {
        let (cache, _) = applying.open.storage().cache_kib();
        let connection = connection::open(&applying.spec, cache)?;
        Ok(Round {
            plans: Vec::new(),
            schema: -1,
            queue: Queue::default(),
            clustered: None,
            following: Following::default(),
            clustered_from: 0,
            pace: Pace::default(),
            free_until: Instant::now(),
            scheduler: CheckpointScheduler::new(applying.open.storage().wal_bytes()),
            source: Source::of(&connection)?,
            singly: false,
            connection,
        })
    }

    /// Applies some rows. `known`: where this worker has left the database.
    ///
    /// # Errors
    /// SQLite's, the log's; when the connection's file is not the one of the database's name any more: the next round opens that one.
    pub(super) fn run(&mut self, applying: &Applying, known: Option<Seq>) -> Result<Did> {
        still_has_its_name(&self.connection)?;
        let named = Position::read(&self.connection)?;
        applying.open.overwritten().set_named(named.is_some());
        let Some(named) = named else {
            return Ok(Did::Unnamed);
        };
        applying.is_of(named)?;
        let position = named.seq;
        if let Some(error) = applying.open.overwritten().check_position(known, position) {
            return Ok(Did::Waits(error));
        }
        applying.tell(|s| s.applied = s.applied.max(position));
        self.check_schema(applying)?;
        if let Some(did) = self.apply_clustered(applying, named)? {
            return Ok(did);
        }
        let room = self.pace.room(self.scheduler.is_beside());
        self.queue.fill(applying, position, room)?;
        if self.queue.len() == 0 {
            let end = self.queue.end().unwrap_or(position);
            if end > position {
                return self.pass(applying, named, end);
            }
            self.scheduler
                .when_idle(&self.connection, applying, position)?;
            return Ok(Did::Nothing(position));
        }
        self.scheduler.set_synchronous(&self.connection)?;
        if let Some(error) = self.scheduler.held_up(&self.connection, applying)? {
            return Ok(Did::Waits(error));
        }
        let rows = self.queue.batch(room);
        let is_full = !self.queue.is_at_end() || rows < self.queue.len();
        let (units, of) = self.plan(rows)?;
        let last = self.queue.reach(rows).unwrap_or(position);
        let next = Position::at(named.id, last);
        // A single row may cost any time, and so may a transaction that is not divided.
        let divisible = rows > self.queue.least();
        let queue = std::mem::take(&mut self.queue);
        let values = Values::of(queue.records(), &units);
        let work = Work::new(queue.records(), &of, queue.poison(), values, queue.whole);
        let done = self.transaction(applying, &work, &units, named, next, divisible);
        self.queue = queue;
        match done {
            Ok(held) => {
                self.queue.passed(rows, last);
                let tried = Tried {
                    next,
                    rows,
                    asked: room.rows,
                    held,
                    is_full,
                };
                let did = self.committed(applying, tried)?;
                if !is_full && self.queue.len() == 0 {
                    // Where rows keep coming there may be no other time.
                    self.scheduler.when_idle(&self.connection, applying, last)?;
                }
                Ok(did)
            }
            Err(failed) => {
                if matches!(failed, Failed::Slow(_)) {
                    self.queue.was_slow(rows);
                }
                match self.failed(failed)? {
                    Some(Failed::Poison(seq, reason)) => self.queue.add_poison(seq, reason),
                    Some(Failed::Commit(e)) => self.refused_commit(rows, &e),
                    _ => {}
                }
                Ok(Did::Applied(position))
            }
        }
    }

    /// After a transaction: what comes before the next one.
    pub(super) fn committed(&mut self, applying: &Applying, tried: Tried) -> Result<Did> {
        let Tried {
            next,
            rows,
            asked,
            held,
            is_full,
        } = tried;
        self.pace.held(rows, asked, held, is_full);
        self.leave_free(held);
        self.scheduler
            .after(&self.connection, applying, next.seq, rows)?;
        Ok(Did::Applied(next.seq))
    }

    /// Others ask for the write lock now and then only: they must be able to find it free after it was held for so long. Meanwhile the next transaction is prepared.
    pub(super) fn leave_free(&mut self, held: Duration) {
        self.free_until = Instant::now() + Pace::gap(held);
    }

    /// After one that failed; answers what is about its rows.
    pub(super) fn failed(&mut self, failed: Failed) -> Result<Option<Failed>> {
        self.roll_back();
        match failed {
            Failed::Again => {}
            Failed::Slow(done) => {
                self.pace.slow(done);
                self.leave_free(HOLD_MAX);
            }
            Failed::Together => {
                self.singly = true;
                self.leave_free(HOLD_MAX);
            }
            Failed::Other(e) => return Err(e),
            about_rows => return Ok(Some(about_rows)),
        }
        Ok(None)
    }

    /// The log ends with numbers that no row has: they were rolled back, or are lost. The position goes past them, or it would be waited for for ever.
    fn pass(&mut self, applying: &Applying, named: Position, end: Seq) -> Result<Did> {
        self.scheduler.set_synchronous(&self.connection)?;
        let done = self
            .begin(applying, named)
            .and_then(|_| self.finish(applying, Position::at(named.id, end)));
        if done.is_err() {
            self.roll_back();
        }
        match done {
            Ok(()) => {
                self.queue.jump(end);
                self.scheduler.after(&self.connection, applying, end, 0)?;
                Ok(Did::Applied(end))
            }
            Err(Failed::Other(e) | Failed::Commit(e)) => Err(e),
            Err(_) => Ok(Did::Applied(named.seq)),
        }
    }

    /// Which plan a record has; it is made if there is none.
    pub(super) fn plan_index_of(&mut self, record: &Record) -> Result<usize> {
        plan_index(&self.connection, &mut self.plans, record)
    }

    fn check_schema(&mut self, applying: &Applying) -> Result<()> {
        let schema = self
            .connection
            .query_i64("PRAGMA main.schema_version")?
            .unwrap_or(0);
        if schema != self.schema {
            self.plans.clear();
            // Not before something was read: it is kept as a number of pages, of the size that is known.
            let (_, changed) = applying.open.storage().cache_kib();
            self.connection
                .exec(&format!("PRAGMA main.cache_spill = -{changed}"))?;
            let deferred =
                "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%DEFERRED%'";
            self.queue.whole = self.connection.query_i64(deferred)?.is_some();
            self.schema = schema;
        }
        Ok(())
    }

    /// The first rows of the queue in order, and the plan of each record.
    fn plan(&mut self, rows: usize) -> Result<(Vec<Unit>, Vec<usize>)> {
        let queue = std::mem::take(&mut self.queue);
        let mut of = Vec::with_capacity(queue.records().len());
        let mut left = rows;
        let planned: Result<()> = queue.records().iter().try_for_each(|record| {
            if left > 0 {
                left = left.saturating_sub(record.rows.len() - record.skip);
                of.push(self.plan_index_of(record)?);
            }
            Ok(())
        });
        self.queue = queue;
        planned?;
        let records = self.queue.records().get(..of.len()).unwrap_or_default();
        Ok((ordered(records, &of, &self.plans, rows), of))
    }

    /// Applies rows and notes what is applied then; answers how long the lock was held. `divisible`: fewer rows can be tried.
    pub(super) fn transaction(
        &mut self,
        applying: &Applying,
        work: &Work<'_>,
        units: &[Unit],
        named: Position,
        next: Position,
        divisible: bool,
    ) -> std::result::Result<Duration, Failed> {
        let begun = self.begin(applying, named)?;
        let limit = divisible.then(|| self.pace.limit(units.len(), self.scheduler.is_beside()));
        let means = Means {
            connection: &self.connection,
            plans: &mut self.plans,
            source: (!self.singly).then_some(&self.source),
        };
        let has_rejected = work.apply(means, units, begun, limit)?;
        if named.clustered.is_some() && next.clustered.is_none() {
            Definition::clear(&self.connection)?;
        }
        let inserted = begun.elapsed();
        self.finish(applying, next)?;
        let held = begun.elapsed();
        self.pace
            .committed(units.len(), held.saturating_sub(inserted));
        self.singly &= has_rejected;
        Ok(held)
    }

    /// Takes the write lock; answers since when it is held.
    pub(super) fn begin(
        &mut self,
        applying: &Applying,
        named: Position,
    ) -> std::result::Result<Instant, Failed> {
        let gap = self.free_until.saturating_duration_since(Instant::now());
        if !gap.is_zero() {
            applying.pause(gap);
        }
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
    pub(super) fn finish(
        &mut self,
        applying: &Applying,
        next: Position,
    ) -> std::result::Result<(), Failed> {
        next.write(&self.connection)?;
        // Else the numbers that were read may be those of other rows by now.
        let in_place = applying.open.log().is_in_place();
        in_place.map_err(|e| applying.open.failed(e))?;
        self.connection
            .exec("COMMIT")
            .map_err(|e| match e.code.primary() {
                Code::CONSTRAINT => Failed::Commit(e),
                _ => Failed::Other(e),
            })
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

    /// Whether rows wait that it knows of.
    pub(super) fn has_more(&self) -> bool {
        self.clustered.is_some() || self.queue.len() > 0 || !self.queue.is_at_end()
    }

    pub(super) fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            self.connection.exec("ROLLBACK").ok();
        }
    }
}
