//! The virtual table `densite_recorder`: it takes part in every transaction that can change a
//! recorded table, and gets its changes.
//!
//! SQLite calls xBegin before the first row changes, reports savepoints, and calls xSync before it
//! commits. A virtual table can write there (FTS5 does), and what it writes is part of the
//! transaction.
//!
//! Invariant: the pending changes are those of the transaction so far. If any cannot be recorded,
//! xSync fails, and SQLite rolls the transaction back.

use super::queue::{self, Queue, Status};
use super::recorded::{Recorded, all};
use super::reread::Statements;
use super::subscribers::drop_slow;
use crate::error::refused;
use crate::rows::pending::Pending;
use crate::rows::savepoints::Savepoints;
use crate::schema::affinity::to_log;
use crate::schema::own_triggers::RECORDS;
use densite_disk::sync::Mutex;
use densite_log::{Op, Value as LogValue};
use densite_sqlite::{
    Arguments, Change, Connection, Existence, Observation, Observer, Origin, Plan, Result,
    RowChange, RowOp, TableCursor, Value, ValueRef, VirtualTable, create_module,
};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::sync::Arc;

/// Adds the table to a connection. Every connection that writes to a recorded table needs it.
pub(super) fn create(connection: &Connection) -> Result<Arc<Changes>> {
    let changes = Arc::new(Changes(Mutex::new(State {
        pending: Pending::for_a_while(),
        ..State::default()
    })));
    create_module::<Recorder>(connection, "densite_recorder", changes.clone())?;
    Ok(changes)
}

/// What the recorder of a connection knows.
#[derive(Default)]
struct State {
    /// The recorded tables, if `Queue::is_schema_known`.
    tables: Vec<Recorded>,
    is_utf8: bool,
    /// Ends with the transaction.
    observation: Option<Observation>,
    pending: Pending,
    /// Empty memory for the values of a row.
    row: Vec<LogValue<'static>>,
    /// They end with the transaction, because a connection cannot be closed while it has statements.
    statements: Statements,
    marks: Savepoints,
    /// As of the beginning of the transaction. Changes of the main database are stored if it has
    /// subscribers.
    before: Status,
    /// The transaction has taken part in recording. So rows may have changed before.
    is_open: bool,
    /// A COMMIT that was busy has stored changes.
    has_stored: bool,
    /// Why the transaction cannot be recorded.
    failed: Option<String>,
    /// Tables of attached databases that have changed.
    attached: BTreeSet<(String, String)>,
}

/// The changes of a connection.
pub(super) struct Changes(Mutex<State>);

impl Changes {
    /// The number of the last committed change, if a COMMIT that was busy has stored others behind
    /// it. The next COMMIT stores them again, perhaps with other numbers.
    pub(super) fn last_committed(&self) -> Option<i64> {
        let state = self.0.lock();
        state.has_stored.then_some(state.before.last)
    }

    /// Whether the current transaction may have changed recorded tables.
    pub(super) fn may_have_changed(&self) -> bool {
        self.0.lock().is_open
    }
}

impl State {
    /// Reads the recorded tables if the schema has changed.
    fn read_schema(&mut self, connection: &Connection, queue: &mut Queue) -> Result<()> {
        if !queue.is_schema_known() {
            self.tables = all(connection)?;
            let encoding = connection.query_string("PRAGMA main.encoding")?;
            self.is_utf8 = encoding.as_deref() == Some("UTF-8");
            queue.knows_schema();
        }
        Ok(())
    }

    fn record(&mut self, change: &RowChange<'_>) -> std::result::Result<(), String> {
        let name = change.table().to_bytes();
        let Some(table) = (self.tables.iter()).find(|t| t.name.as_bytes() == name) else {
            return Ok(());
        };
        if change.is_blob_write() {
            return Err(format!(
                "{}: a blob was written in place (sqlite3_blob_write), which densite_changes cannot report; use UPDATE",
                table.name
            ));
        }
        let op = match change.op() {
            RowOp::Insert => Op::Insert,
            RowOp::Update => Op::Update,
            RowOp::Delete => Op::Delete,
        };
        let again = match op {
            Op::Insert => Ok(None),
            Op::Update | Op::Delete => {
                (table.reread).row(change, (&table.name, &table.columns), &mut self.statements)
            }
        };
        let again = again.map_err(|e| format!("{}: {}", table.name, e.message))?;
        let old = (table.columns.iter().enumerate()).filter(|_| op != Op::Insert);
        let old = old.map(|(i, column)| match &again {
            Some(row) => Ok(row.get(i).map_or(ValueRef::Null, Value::as_ref)),
            None => column.stored(change.before(column.place)),
        });
        let new = table.columns.iter().filter(|_| op != Op::Delete);
        let values = old.chain(new.map(|column| column.stored(change.after(column.place))));
        // Subtyping lends the memory of the empty vector to values of any lifetime.
        let mut row: Vec<LogValue<'_>> = std::mem::take(&mut self.row);
        let mut recorded = Ok(());
        for value in values {
            match value {
                Ok(value) => row.push(to_log(value)),
                Err(e) => recorded = Err(format!("{}: {}", table.name, e.message)),
            }
        }
        if recorded.is_ok() {
            recorded = self.pending.push(table.table(op), op, &row).map_err(|e| {
                format!(
                    "{}: the changes of this transaction cannot be recorded for densite_changes: {e}",
                    table.name
                )
            });
        }
        row.clear();
        // Collecting an empty vector from itself keeps its memory.
        self.row = row.into_iter().map(|_| LogValue::Null).collect();
        recorded
    }

    /// Stores the changes, within the transaction that is about to be committed.
    fn store(&mut self, connection: &Connection, queue: &mut Queue) -> Result<()> {
        let Some(observation) = &self.observation else {
            return Ok(());
        };
        observation.check(connection)?;
        if let Some(reason) = self.failed.take() {
            return Err(refused(reason));
        }
        self.refuse_attached(connection)?;
        if self.pending.rows() == 0 && !self.has_stored {
            return Ok(());
        }
        let batches = self.pending.encoded().map_err(|e| refused(e.to_string()))?;
        // A COMMIT that is busy is repeated. Meanwhile rows can have come, or have been rolled back
        // together with some of the changes that were stored.
        if std::mem::replace(&mut self.has_stored, true) {
            queue::remove_after(connection, self.before.last)?;
        }
        let total = queue.append(connection, self.before, &batches)?;
        // Storing them has noticed a changed schema.
        self.check_schema(connection, queue)?;
        match self.before.max_bytes {
            0 => Ok(()),
            max if queue::retained(connection, total)? > max => drop_slow(connection, max),
            _ => Ok(()),
        }
    }

    /// The pending rows were laid out by the schema at the beginning of the transaction.
    fn check_schema(&mut self, connection: &Connection, queue: &mut Queue) -> Result<()> {
        if queue.is_schema_known() {
            return Ok(());
        }
        self.read_schema(connection, queue)?;
        let batches = 0..self.pending.batches();
        for (table, op) in batches.filter_map(|batch| self.pending.kind(batch)) {
            let same = self.tables.iter().any(|t| t.table(op) == table);
            if !same {
                return Err(refused(format!(
                    "this transaction changes rows of {}, and its columns, its name or whether it is recorded; densite_changes cannot report both: use two transactions",
                    table.name()
                )));
            }
        }
        Ok(())
    }

    fn refuse_attached(&self, connection: &Connection) -> Result<()> {
        for (schema, table) in &self.attached {
            let triggers = format!(
                "SELECT 1 FROM {}.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 AND {}",
                densite_sqlite::quoted(schema),
                RECORDS
            );
            if (connection.query_row(&triggers, &[Value::from(table.as_str())])?).is_some() {
                return Err(refused(format!(
                    "changes of {schema}.{table} are recorded for densite_changes, which is possible only if its database is the main one: open it by itself, or end it with densite_config('changes', '{table}', 'off')"
                )));
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.observation = None;
        self.is_open = false;
        self.has_stored = false;
        self.pending.clear();
        self.marks.clear();
        self.failed = None;
        self.attached.clear();
        self.statements.clear();
    }
}

impl Observer for Changes {
    fn changes(&self, change: &RowChange<'_>) {
        let mut state = self.0.lock();
        if change.schema() != c"main" {
            if change.schema() != c"temp" {
                let text = |text: &CStr| text.to_string_lossy().into_owned();
                let attached = (text(change.schema()), text(change.table()));
                state.attached.insert(attached);
            }
            return;
        }
        if !state.before.has_subscribers {
            return;
        }
        if let Err(reason) = state.record(change) {
            state.failed.get_or_insert(reason);
        }
    }
}

/// See the module.
struct Recorder {
    changes: Arc<Changes>,
    /// Its statements are kept here, because SQLite disconnects the table before it closes the
    /// connection.
    queue: Mutex<Queue>,
}

/// The table has no rows.
struct NoRows;

impl VirtualTable for Recorder {
    type Shared = Arc<Changes>;
    type Cursor = NoRows;
    const EXISTENCE: Existence = Existence::ByItself;
    const WRITABLE: bool = true;
    // It does nothing to the database but record what the application does.
    const INNOCUOUS: bool = true;

    fn connect(changes: &Arc<Changes>, _: &Connection, _: &Origin) -> Result<(Recorder, String)> {
        Ok((
            Recorder {
                changes: changes.clone(),
                queue: Mutex::default(),
            },
            "CREATE TABLE x(unused)".to_owned(),
        ))
    }

    fn best_index(&self, _: &mut Plan<'_>) -> Result<bool> {
        Ok(true)
    }

    fn open(&self) -> Result<NoRows> {
        Ok(NoRows)
    }

    fn update(&self, _: &Connection, _: &Change<'_>) -> Result<i64> {
        Err(refused(
            "densite_recorder is for the triggers of densite_config('changes', …); it has no rows",
        ))
    }

    fn begin(&self, connection: &Connection) -> Result<()> {
        let (mut state, mut queue) = (self.changes.0.lock(), self.queue.lock());
        state.end();
        state.is_open = true;
        state.before = queue.status(connection)?.unwrap_or_default();
        state.read_schema(connection, &mut queue)?;
        // A recorded table of an attached database is found by the hook, and refused.
        if state.before.has_subscribers || queue.has_attached(connection)? {
            let observation = Observation::begin(connection, self.changes.clone(), state.is_utf8)?;
            state.observation = Some(observation);
        }
        Ok(())
    }

    fn sync(&self, connection: &Connection) -> Result<()> {
        // The statements here change rows, which the hook reports.
        let mut state = std::mem::take(&mut *self.changes.0.lock());
        let stored = state.store(connection, &mut self.queue.lock());
        *self.changes.0.lock() = state;
        stored
    }

    fn commit(&self) {
        self.changes.0.lock().end();
    }

    fn rollback(&self) {
        self.changes.0.lock().end();
    }

    fn savepoint(&self, n: i32) -> Result<()> {
        let mut state = self.changes.0.lock();
        let now = state.pending.mark();
        state.marks.begin(n, now);
        Ok(())
    }

    fn release(&self, n: i32) -> Result<()> {
        self.changes.0.lock().marks.release(n);
        Ok(())
    }

    fn rollback_to(&self, n: i32) -> Result<()> {
        let mut state = self.changes.0.lock();
        let to = state.marks.rollback_to(n);
        (state.pending.truncate(to)).map_err(|e| refused(e.to_string()))
    }
}

impl TableCursor for NoRows {
    fn filter(&mut self, _: &Connection, _: i32, _: &str, _: Arguments<'_>) -> Result<()> {
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        true
    }

    fn column(&mut self, _: usize) -> Result<ValueRef<'_>> {
        Ok(ValueRef::Null)
    }

    fn row_id(&mut self) -> Result<i64> {
        Ok(0)
    }
}
