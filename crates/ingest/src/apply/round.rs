//! One transaction of the worker: rows and position together, so that each row is applied exactly once whatever crashes.
//!
//! What can be done without the write lock is done before it is taken: reading, decoding, planning, sorting. If it is held for too long nevertheless, the transaction is rolled back and
//! tried with half of what it got through.

use super::Applying;
use super::batch::{Unit, ordered};
use super::plan::{Action, Plan};
use super::tidy::Tidy;
use crate::affinity::from_log;
use crate::error::from_log as log_error;
use crate::json;
use crate::position::Position;
use densite_log::{Reader, Record, Seq};
use densite_sqlite::{Code, Connection, Error, Result, Value};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The write lock is held no longer; half a second is promised.
const HOLD_MAX: Duration = Duration::from_millis(350);
/// What batches aim at.
const HOLD_GOAL: Duration = Duration::from_millis(200);
/// A batch that held the lock for longer is followed by a pause of a tenth of that.
const GAP_FROM: Duration = Duration::from_millis(30);
const ROWS_FIRST: usize = 4 << 10;
const ROWS_MAX: usize = 512 << 10;
/// A lock of others is waited for in steps, so that the worker can be ended.
const BUSY_MS: i32 = 100;

/// What a round did.
pub(super) enum Did {
    /// Rows are applied up to here.
    Applied(Seq),
    /// There was nothing; all is applied up to here.
    Nothing(Seq),
    /// The database does not name the log: the transaction that makes it do so is not committed yet.
    Unnamed,
}

/// How a transaction failed.
enum Failed {
    /// It takes too long: so many rows were done in the time there is.
    Slow(usize),
    /// Something changed between reading and the lock.
    Again,
    /// This row ended the whole transaction (RAISE(ROLLBACK)): again, without it.
    Poison(Seq, String),
    /// COMMIT was refused (a deferred foreign key): fewer transactions; one alone is rejected.
    Commit(Error),
    /// Nothing to do with the rows: later again.
    Other(Error),
}

impl From<Error> for Failed {
    fn from(e: Error) -> Failed {
        Failed::Other(e)
    }
}

/// The worker's connection, and what it has read of the log.
pub(super) struct Round {
    // Statements go before their connection.
    plans: Vec<Plan>,
    schema: i64,
    reader: Option<Reader>,
    /// What was read and is not applied, in order. The first one's `skip` says how much of it is.
    queue: Vec<Record>,
    queued_rows: usize,
    /// The last row before the queue.
    before: Seq,
    rows_goal: usize,
    /// A constraint may be deferred to COMMIT: batches have whole transactions of the log, however long one takes.
    whole: bool,
    /// Rows to be rejected without another try.
    poison: BTreeMap<Seq, String>,
    tidy: Tidy,
    connection: Connection,
}

impl Round {
    pub(super) fn open(applying: &Applying) -> Result<Round> {
        let connection = applying.recipe.open()?;
        connection.busy_timeout(BUSY_MS)?;
        connection.exec(
            "PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -65536",
        )?;
        Ok(Round {
            plans: Vec::new(),
            schema: -1,
            reader: None,
            queue: Vec::new(),
            queued_rows: 0,
            before: 0,
            rows_goal: ROWS_FIRST,
            whole: false,
            poison: BTreeMap::new(),
            tidy: Tidy::default(),
            connection,
        })
    }

    /// Applies some rows.
    pub(super) fn run(&mut self, applying: &Applying) -> Result<Did> {
        let Some(position) = Position::read(&self.connection)? else {
            return Ok(Did::Unnamed);
        };
        let position = position.seq;
        applying.tell(|s| s.applied = s.applied.max(position));
        self.look_at_schema()?;
        self.fill(applying, position)?;
        if self.queue.is_empty() {
            let end = self.reader.as_ref().map_or(position, Reader::position);
            if end > position {
                return self.pass(applying, position, end);
            }
            self.tidy.rest(&self.connection, applying, position)?;
            return Ok(Did::Nothing(position));
        }
        self.tidy.set_synchronous(&self.connection)?;
        let rows = self.batch_rows();
        let is_full = self.queued_rows >= self.rows_goal;
        let (units, of) = self.plan(rows)?;
        match self.transaction(&units, &of, position, rows) {
            Ok((last, held)) => {
                self.passed(rows, last);
                if held > HOLD_MAX {
                    self.rows_goal = (rows / 2).max(1);
                } else if held < HOLD_GOAL / 2 && is_full {
                    self.rows_goal = (self.rows_goal * 2).min(ROWS_MAX);
                } else if held > HOLD_GOAL {
                    self.rows_goal = (rows * 3 / 4).max(1);
                }
                self.tidy.after(&self.connection, applying, last, rows)?;
                // Others ask for the write lock now and then only: they must be able to find it free.
                if held > GAP_FROM {
                    applying.pause(held / 10);
                }
                Ok(Did::Applied(last))
            }
            Err(failed) => {
                self.roll_back();
                match failed {
                    Failed::Again => {}
                    Failed::Slow(done) => {
                        self.rows_goal = (done / 2).max(1);
                        applying.pause(HOLD_MAX / 10);
                    }
                    Failed::Poison(seq, reason) => {
                        self.poison.insert(seq, reason);
                    }
                    Failed::Commit(e) => self.refused_commit(rows, &e),
                    Failed::Other(e) => return Err(e),
                }
                Ok(Did::Applied(position))
            }
        }
    }

    /// The log ends with numbers that no row has: they were rolled back, or are lost. The position goes past them, or it would be waited for for ever.
    fn pass(&mut self, applying: &Applying, position: Seq, end: Seq) -> Result<Did> {
        self.tidy.set_synchronous(&self.connection)?;
        let done = self.begin(position).and_then(|_| self.finish(end));
        if done.is_err() {
            self.roll_back();
        }
        match done {
            Ok(()) => {
                self.before = end;
                self.tidy.after(&self.connection, applying, end, 0)?;
                Ok(Did::Applied(end))
            }
            Err(Failed::Other(e) | Failed::Commit(e)) => Err(e),
            Err(_) => Ok(Did::Applied(position)),
        }
    }

    /// Reads on, until there is enough for a batch or the log ends.
    fn fill(&mut self, applying: &Applying, position: Seq) -> Result<()> {
        let failed = |e| log_error(&applying.dir, e);
        if self.reader.is_none() || position != self.before {
            // The first time, or the database went on or back without us.
            self.queue.clear();
            self.queued_rows = 0;
            self.poison.clear();
            self.before = position;
            self.reader = Some(applying.log.read_after(position).map_err(failed)?);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let has_end = |queue: &[Record]| queue.iter().any(|r| r.ends_transaction);
        while self.queued_rows < self.rows_goal || (self.whole && !has_end(&self.queue)) {
            match reader.next().map_err(failed)? {
                Some(record) => {
                    self.queued_rows += record.rows.len() - record.skip;
                    self.queue.push(record);
                }
                None => break,
            }
        }
        Ok(())
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
            self.whole = self.connection.query_i64(deferred)?.is_some();
            self.schema = schema;
        }
        Ok(())
    }

    /// Rows of the first transaction of the queue, or of all of it if that has no end yet.
    fn first_transaction(&self) -> usize {
        let ends = self.queue.iter().position(|r| r.ends_transaction);
        let records = ends.map_or(self.queue.len(), |i| i + 1);
        let rows = self.queue.iter().take(records);
        rows.map(|r| r.rows.len() - r.skip).sum()
    }

    /// The least that a batch may have.
    fn least(&self) -> usize {
        match self.whole {
            true => self.first_transaction(),
            false => 1,
        }
    }

    /// Rows of the next batch.
    fn batch_rows(&self) -> usize {
        let goal = self.queued_rows.min(self.rows_goal);
        if !self.whole {
            return goal;
        }
        let (mut rows, mut whole) = (0, 0);
        for record in &self.queue {
            rows += record.rows.len() - record.skip;
            if rows > goal {
                break;
            }
            if record.ends_transaction {
                whole = rows;
            }
        }
        whole.max(self.first_transaction())
    }

    /// The first rows of the queue in order, and the plan of each record.
    fn plan(&mut self, rows: usize) -> Result<(Vec<Unit>, Vec<usize>)> {
        let mut of = Vec::with_capacity(self.queue.len());
        let mut left = rows;
        for record in &self.queue {
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
        let records = self.queue.get(..of.len()).unwrap_or_default();
        Ok((ordered(records, &of, &self.plans, rows), of))
    }

    fn transaction(
        &mut self,
        units: &[Unit],
        of: &[usize],
        position: Seq,
        rows: usize,
    ) -> std::result::Result<(Seq, Duration), Failed> {
        let begun = self.begin(position)?;
        // A single row may cost any time, and so may a transaction that has to be judged as a whole.
        let divisible = rows > self.least();
        for (i, unit) in units.iter().enumerate() {
            if divisible && i > 0 && begun.elapsed() > HOLD_MAX {
                return Err(Failed::Slow(i));
            }
            self.unit(*unit, of)?;
        }
        let last = reach(&self.queue, rows).unwrap_or(position);
        self.finish(last)?;
        Ok((last, begun.elapsed()))
    }

    /// Takes the write lock; answers since when it is held.
    fn begin(&mut self, position: Seq) -> std::result::Result<Instant, Failed> {
        self.connection.exec("BEGIN IMMEDIATE")?;
        let begun = Instant::now();
        // Between reading and the lock another worker or a restored database may have come.
        let now = Position::read(&self.connection)?.map(|p| p.seq);
        let schema = self.connection.query_i64("PRAGMA main.schema_version")?;
        if now != Some(position) || schema != Some(self.schema) {
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
        let record = self.queue.get(unit.record as usize);
        let plan = of
            .get(unit.record as usize)
            .and_then(|p| self.plans.get_mut(*p));
        let (Some(record), Some(plan)) = (record, plan) else {
            return Ok(());
        };
        let row = unit.row as usize;
        let seq = record.first + u64::from(unit.row);
        let connection = &self.connection;
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

    /// A commit that a deferred constraint refuses: rows of one transaction belong together, so fewer transactions are tried, and one alone is rejected.
    fn refused_commit(&mut self, rows: usize, e: &Error) {
        // From now on, should the schema not have told.
        self.whole = true;
        let first = self.first_transaction();
        if rows != first {
            self.rows_goal = (rows / 2).max(1);
            return;
        }
        let seqs = self
            .queue
            .iter()
            .flat_map(|r| (r.first + r.skip as u64)..=r.last());
        for seq in seqs.take(rows) {
            self.poison.insert(seq, e.message.clone());
        }
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            self.connection.exec("ROLLBACK").ok();
        }
    }

    /// The first rows of the queue are done.
    fn passed(&mut self, rows: usize, last: Seq) {
        let mut left = rows;
        let mut gone = 0;
        for record in &mut self.queue {
            let has = record.rows.len() - record.skip;
            if has > left {
                record.skip += left;
                break;
            }
            left -= has;
            gone += 1;
        }
        self.queue.drain(..gone);
        self.queued_rows -= rows;
        self.before = last;
        self.poison = self.poison.split_off(&(last + 1));
    }
}

/// How far the first rows of the queue reach. Numbers of rows that were rolled back lie in between.
fn reach(queue: &[Record], rows: usize) -> Option<Seq> {
    let mut left = rows;
    let mut last = None;
    for record in queue {
        let has = record.rows.len() - record.skip;
        if left == 0 {
            break;
        }
        last = Some(record.first + (record.skip + has.min(left)) as u64 - 1);
        left -= has.min(left);
    }
    last
}

/// Whether an error of a step says something about the row. What the disk, a lock or memory says is not about it.
fn is_of_the_row(e: &Error) -> bool {
    matches!(
        e.code.primary(),
        Code::CONSTRAINT | Code::MISMATCH | Code::TOOBIG | Code::ERROR
    )
}

fn reject(connection: &Connection, record: &Record, row: usize, reason: &str) -> Result<()> {
    let mut insert = connection.prepare(
        "INSERT OR REPLACE INTO main.densite_rejects(seq, \"table\", \"row\", error, at) VALUES (?1, ?2, ?3, ?4, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
    )?;
    let columns = record.table.columns().iter().map(String::as_str);
    let object = json::object(columns.zip(record.rows.row(row).map(from_log)));
    insert.bind(
        1,
        &Value::Integer(i64::try_from(record.first).unwrap_or(i64::MAX) + row as i64),
    )?;
    insert.bind(2, &Value::from(record.table.name()))?;
    insert.bind(3, &Value::Text(object))?;
    insert.bind(4, &Value::from(reason))?;
    insert.step()?;
    Ok(())
}
