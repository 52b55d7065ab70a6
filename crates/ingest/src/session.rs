//! The transaction of one connection: rows on their way into the log.
//!
//! All `densite_ingest` tables of a connection share it, so that one COMMIT is one transaction in the log.
//!
//! Rule 1: xSync appends once. What it appended is *prepared*; a COMMIT that is tried again finds it so and appends nothing. If rows came or went in between, the prepared
//! transaction is cancelled, durably, and all is appended anew.

mod own;

pub(crate) use own::OWN;

use crate::error::refused;
use crate::home::Home;
use crate::medium::Medium;
use crate::place::still_has_its_name;
use crate::vtab::Turn;
use densite_disk::sync::Mutex;
use densite_log::{Appended, Batch, Op, Seq, Table, Txn, Value};
use densite_sqlite::{Code, Connection, Error, Result};
use own::{OwnRuns, Reads};
use std::sync::Arc;

/// Rows of a batch: one record in the log. More begin another.
const BATCH_ROWS: usize = 8192;
/// The log takes transactions of up to 1 GiB; this is less, so that it is refused at INSERT.
const TXN_BYTES: u64 = 1000 << 20;
/// Rows between two looks at the size.
const LOOK_ROWS: u64 = 1024;

#[derive(Clone, Copy, Default)]
struct Mark {
    batches: usize,
    /// Of the last of these batches.
    rows: usize,
}

struct Prepared {
    txn: Arc<Txn>,
    appended: Appended,
    /// Rows came or went since.
    stale: bool,
}

#[derive(Default)]
struct Inner {
    home: Option<Arc<Home>>,
    batches: Vec<Batch>,
    rows: u64,
    /// Savepoints by number, ascending.
    marks: Vec<(i32, Mark)>,
    prepared: Option<Prepared>,
    last: Option<Seq>,
    /// A writer past the limit of unapplied bytes is refused, not held up.
    fail_when_full: bool,
    reads: Reads,
    own: Vec<OwnRuns>,
    /// How often rows were taken back.
    cuts: u64,
}

/// See the module.
pub(crate) struct Session {
    inner: Mutex<Inner>,
    medium: Arc<dyn Medium>,
    pub(crate) turn: Turn,
}

impl Inner {
    fn touch(&mut self) {
        if let Some(prepared) = &mut self.prepared {
            prepared.stale = true;
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            batches: self.batches.len(),
            rows: self.batches.last().map_or(0, Batch::len),
        }
    }

    fn truncate(&mut self, to: Mark) {
        self.touch();
        self.cuts += 1;
        self.batches.truncate(to.batches);
        if let Some(batch) = self.batches.last_mut() {
            batch.truncate(to.rows);
        }
        self.rows = self.batches.iter().map(|b| b.len() as u64).sum();
    }

    fn clear(&mut self) {
        self.batches.clear();
        self.marks.clear();
        self.rows = 0;
        self.prepared = None;
        self.fail_when_full = false;
        self.own.clear();
        self.reads.end_transaction();
    }

    fn cancel(&mut self) {
        if let (Some(prepared), Some(home)) = (self.prepared.take(), &self.home) {
            // If it cannot be made durable now, the rows stay hidden and the log tries again.
            home.log().cancel(prepared.txn.id()).ok();
        }
    }
}

impl Session {
    /// Of a connection whose database is on this medium.
    pub(crate) fn on(medium: Arc<dyn Medium>) -> Session {
        Session {
            inner: Mutex::default(),
            medium,
            turn: Turn::default(),
        }
    }

    pub(crate) fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// Adds a row.
    pub(crate) fn push(
        &self,
        home: &Arc<Home>,
        table: &Arc<Table>,
        op: Op,
        row: &[Value<'_>],
        fail_when_full: bool,
    ) -> Result<()> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        match &inner.home {
            Some(known) if Arc::ptr_eq(known, home) => {}
            _ => {
                // A number of another log says nothing of this one.
                inner.last = None;
                inner.home = Some(home.clone());
            }
        }
        inner.touch();
        inner.fail_when_full |= fail_when_full;
        let fits = |batch: &Batch| {
            batch.op() == op && batch.len() < BATCH_ROWS && Arc::ptr_eq(batch.table(), table)
        };
        if !inner.batches.last().is_some_and(fits) {
            inner.batches.push(Batch::new(table, op));
        }
        if let Some(batch) = inner.batches.last_mut() {
            batch.push(row).map_err(|e| home.failed(e))?;
        }
        inner.rows += 1;
        if inner.rows.is_multiple_of(LOOK_ROWS)
            && inner.batches.iter().map(Batch::bytes_max).sum::<u64>() > TXN_BYTES
        {
            return Err(Error::new(
                Code::TOOBIG,
                "a transaction of ingest may hold 1 GB; commit more often",
            ));
        }
        Ok(())
    }

    /// Whether the end of the present transaction is waited for: rows are to be logged then, or reads to see more.
    pub(crate) fn is_in_transaction(&self) -> bool {
        let inner = self.inner.lock();
        inner.rows > 0 || inner.reads.is_joined()
    }

    /// xSync: everything durable, and not yet visible.
    pub(crate) fn sync(&self, connection: &Connection) -> Result<()> {
        let mut inner = self.inner.lock();
        if inner.rows == 0 {
            // Rows that a savepoint took back may have been prepared.
            inner.cancel();
            return Ok(());
        }
        still_has_its_name(connection)?;
        if inner.prepared.as_ref().is_some_and(|p| !p.stale) {
            return Ok(());
        }
        refuse_mixed(connection)?;
        let Some(home) = inner.home.clone() else {
            return Ok(());
        };
        home.hold_back(connection, inner.fail_when_full)?;
        home.be_named(connection)?;
        home.overwritten().check()?;
        inner.cancel();
        let mut txn = Txn::new(home.log().new_txn());
        for batch in &inner.batches {
            txn.push(batch).map_err(|e| home.failed(e))?;
        }
        let txn = Arc::new(txn);
        let appended = home.log().prepare(&txn).map_err(|e| home.failed(e))?;
        inner.prepared = Some(Prepared {
            txn,
            appended,
            stale: false,
        });
        Ok(())
    }

    /// xCommit.
    pub(crate) fn commit(&self) {
        let mut inner = self.inner.lock();
        if let (Some(prepared), Some(home)) = (inner.prepared.take(), inner.home.clone()) {
            home.log().commit(prepared.txn.id());
            inner.last = Some(prepared.appended.last);
            // A cursor that is still open keeps what it has taken; the next one sees these rows.
            inner.reads.end = None;
        }
        inner.clear();
    }

    /// xRollback, possibly after xSync.
    pub(crate) fn rollback(&self) {
        let mut inner = self.inner.lock();
        inner.cancel();
        inner.clear();
    }

    /// Savepoint `n` begins. Each table of the connection says so, some only when they join the transaction: the first one counts.
    pub(crate) fn savepoint(&self, n: i32) {
        let mut inner = self.inner.lock();
        if !inner.marks.iter().any(|(m, _)| *m == n) {
            let mark = inner.mark();
            inner.marks.push((n, mark));
            inner.marks.sort_unstable_by_key(|(m, _)| *m);
        }
    }

    /// Savepoint `n` and those within it are over.
    pub(crate) fn release(&self, n: i32) {
        self.inner.lock().marks.retain(|(m, _)| *m < n);
    }

    /// Back to savepoint `n`. If no table was in the transaction when it began, what the next inner one found is the same.
    pub(crate) fn rollback_to(&self, n: i32) {
        let mut inner = self.inner.lock();
        let mark = inner
            .marks
            .iter()
            .find(|(m, _)| *m >= n)
            .map(|(_, mark)| *mark);
        inner.truncate(mark.unwrap_or_default());
        inner.marks.retain(|(m, _)| *m <= n);
    }

    /// The log that the connection writes to, found once.
    pub(crate) fn home(&self, connection: &Connection) -> Result<Option<Arc<Home>>> {
        if let Some(home) = &self.inner.lock().home {
            return Ok(Some(home.clone()));
        }
        let home = Home::on(connection, &self.medium)?;
        self.inner.lock().home.clone_from(&home);
        Ok(home)
    }

    /// The last row of this connection's last acknowledged transaction.
    pub(crate) fn last(&self) -> Option<Seq> {
        self.inner.lock().last
    }

    /// The same, if that transaction went to this log.
    pub(crate) fn last_in(&self, home: &Arc<Home>) -> Option<Seq> {
        let inner = self.inner.lock();
        let known = inner.home.as_ref().is_some_and(|h| Arc::ptr_eq(h, home));
        inner.last.filter(|_| known)
    }
}

/// Rule 2: a transaction that writes the log and an ordinary table cannot be atomic.
fn refuse_mixed(connection: &Connection) -> Result<()> {
    match connection.written_schema()? {
        None => Ok(()),
        Some(name) => Err(refused(format!(
            "this transaction writes to tables of {name}, or has it open for that since BEGIN IMMEDIATE, and to the log: the two cannot be committed as one. Commit them one after the other"
        ))),
    }
}
