//! `densite_sink`: where a statement's rows go without leaving SQLite.
//!
//! To step through a statement and to ask for each value costs as much as finding the row: every one of these calls takes the connection's mutex.
//! So the statement is put in front of a virtual table, which gets all values of a row as arguments of one call:
//!
//! ```sql
//! WITH densite_rows(c0, c1) AS (the statement) SELECT 1 FROM densite_rows CROSS JOIN densite_sink(handle, c0, c1)
//! ```
//!
//! The join has no rows, so that SQLite goes on by itself, but for one when a batch is full: there the statement stands until it is read on.
//!
//! Who has the batch: the reader puts an empty one into the [`Sink`], the cursor takes it out with the first row and puts it back when it is full,
//! when a value does not fit, and when it is closed, which is before the statement answers that it is done.

use crate::build::Column;
use densite_disk::sync::Mutex;
use densite_sqlite::{
    Arguments, Code, Connection, Error, Existence, Operator, Origin, Plan, Result, Row,
    TableCursor, ValueRef, VirtualTable, create_module, quoted,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Columns of a statement that can be read like this: SQLite takes a table's word for 16 arguments only and would look at further ones again.
const COLUMNS_MAX: usize = 15;

/// Rows of a batch at most.
pub(crate) const BATCH_ROWS: usize = 1 << 16;
/// Bytes of text and blobs after which a batch ends.
const BATCH_BYTES: usize = 32 << 20;

/// The values of a row, by column.
pub(crate) trait Values {
    /// The value of a column.
    fn value(&self, column: usize) -> ValueRef<'_>;
    /// The value of a column, if it is an integer.
    fn integer(&self, column: usize) -> Option<i64>;
    /// The value of a column, if it is a floating-point number.
    fn real(&self, column: usize) -> Option<f64>;
}

/// What the sink is called with: its handle, then the row.
impl Values for Arguments<'_> {
    #[inline]
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.get(column + 1)
    }

    #[inline]
    fn integer(&self, column: usize) -> Option<i64> {
        Arguments::integer(self, column + 1)
    }

    #[inline]
    fn real(&self, column: usize) -> Option<f64> {
        Arguments::real(self, column + 1)
    }
}

/// The row that a statement stands on.
impl Values for Row<'_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.column(column)
    }

    fn integer(&self, column: usize) -> Option<i64> {
        self.column(column).as_i64()
    }

    fn real(&self, column: usize) -> Option<f64> {
        match self.column(column) {
            ValueRef::Real(x) => Some(x),
            _ => None,
        }
    }
}

/// A batch that is being filled.
pub(crate) struct Filling {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
    bytes: usize,
    /// A column whose value did not fit, and why.
    pub(crate) failed: Option<(usize, String)>,
}

impl Filling {
    pub(crate) fn new(columns: Vec<Column>) -> Filling {
        Filling {
            columns,
            rows: 0,
            bytes: 0,
            failed: None,
        }
    }

    /// Adds a row; false where no further one may come, because the batch is full or a value did not fit.
    #[inline]
    pub(crate) fn push(&mut self, row: &impl Values) -> bool {
        for (i, column) in self.columns.iter_mut().enumerate() {
            // Numbers in a column of them, first of all: they are most of what there is in bulk.
            if let Some(integers) = column.integers() {
                if let Some(n) = row.integer(i) {
                    integers.push(n);
                    continue;
                }
            } else if let Some(reals) = column.reals()
                && let Some(x) = row.real(i)
            {
                reals.push(x);
                continue;
            }
            let value = row.value(i);
            if let ValueRef::Text(long) | ValueRef::Blob(long) = value {
                self.bytes += long.len();
            }
            if let Err(what) = column.push(value) {
                self.failed = Some((i, what));
                return false;
            }
        }
        self.rows += 1;
        self.rows < BATCH_ROWS && self.bytes < BATCH_BYTES
    }
}

/// Where a batch lies between its reader and the cursor.
#[derive(Default)]
pub(crate) struct Sink(Mutex<Option<Filling>>);

impl Sink {
    pub(crate) fn put(&self, filling: Filling) {
        *self.0.lock() = Some(filling);
    }

    pub(crate) fn take(&self) -> Option<Filling> {
        self.0.lock().take()
    }
}

static NEXT: AtomicI64 = AtomicI64::new(1);
static SINKS: densite_sqlite::PerProcess<Mutex<BTreeMap<i64, Arc<Sink>>>> =
    densite_sqlite::PerProcess::new();

/// A sink with its number, until it is dropped.
pub(crate) struct Registered {
    handle: i64,
    pub(crate) sink: Arc<Sink>,
}

impl Registered {
    pub(crate) fn new() -> Registered {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        let sink = Arc::new(Sink::default());
        SINKS.get().lock().insert(handle, Arc::clone(&sink));
        Registered { handle, sink }
    }

    /// The statement that has the rows of another one here; `None` where that may not be: it has too many columns, or an order of rows that it
    /// would lose, for SQLite drops the ORDER BY of what is joined.
    pub(crate) fn statement(
        &self,
        connection: &Connection,
        sql: &str,
        columns: usize,
    ) -> Option<String> {
        if !(1..=COLUMNS_MAX).contains(&columns) || may_have_order(connection, sql).unwrap_or(true)
        {
            return None;
        }
        let names: Vec<String> = (0..columns).map(|i| format!("c{i}")).collect();
        let (names, handle) = (names.join(", "), self.handle);
        let sql = sql.trim_end();
        let sql = sql.strip_suffix(';').unwrap_or(sql);
        // The text may end in a comment, which ends with its line.
        Some(format!(
            "WITH densite_rows({names}) AS ({sql}\n) SELECT 1 FROM densite_rows CROSS JOIN densite_sink({handle}, {names})"
        ))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        SINKS.get().lock().remove(&self.handle);
    }
}

/// Whether ORDER BY is in a statement, or in a view that it may read.
fn may_have_order(connection: &Connection, sql: &str) -> Result<bool> {
    if sql.to_ascii_uppercase().contains("ORDER") {
        return Ok(true);
    }
    let mut schemas = Vec::new();
    let mut list = connection.prepare("SELECT name FROM pragma_database_list")?;
    while list.step()? {
        schemas.extend(list.column(0).as_str().map(str::to_owned));
    }
    for schema in schemas {
        let mut views = connection.prepare(&format!(
            "SELECT 1 FROM {}.sqlite_schema WHERE type = 'view' AND sql LIKE '%order%' LIMIT 1",
            quoted(&schema)
        ))?;
        if views.step()? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn create(connection: &Connection) -> Result<()> {
    create_module::<Table>(connection, "densite_sink", ())
}

struct Table;

#[derive(Default)]
struct Cursor {
    sink: Option<Arc<Sink>>,
    filling: Option<Filling>,
    /// Whether the cursor has a row: the batch is full.
    is_full: bool,
}

impl VirtualTable for Table {
    type Shared = ();
    type Cursor = Cursor;

    const EXISTENCE: Existence = Existence::ByItself;
    const DIRECT_ONLY: bool = true;

    fn connect((): &(), _: &Connection, _: &Origin) -> Result<(Table, String)> {
        let values: Vec<String> = (0..COLUMNS_MAX).map(|i| format!("v{i} HIDDEN")).collect();
        Ok((
            Table,
            format!("CREATE TABLE x(full, handle HIDDEN, {})", values.join(", ")),
        ))
    }

    fn best_index(&self, plan: &mut Plan<'_>) -> Result<bool> {
        let mut arguments: Vec<(usize, usize, bool)> = (0..)
            .zip(plan.constraints())
            .filter(|(_, c)| c.operator == Operator::Equal)
            .filter_map(|(place, c)| {
                Some((c.column.filter(|&column| column > 0)?, place, c.usable))
            })
            .collect();
        if arguments.iter().any(|(_, _, is_usable)| !is_usable) {
            return Ok(false);
        }
        arguments.sort_unstable();
        for (_, place, _) in arguments {
            plan.ask(place, true);
        }
        plan.cost(1.0, 1);
        Ok(true)
    }

    fn open(&self) -> Result<Cursor> {
        Ok(Cursor::default())
    }
}

impl Cursor {
    /// Has the sink that the first argument names, and its batch, which wants as many values as there are further ones.
    #[cold]
    fn begin(&mut self, arguments: &Arguments<'_>) -> Result<()> {
        let handle = arguments.iter().next().and_then(ValueRef::as_i64);
        self.sink = handle.and_then(|handle| SINKS.get().lock().get(&handle).cloned());
        self.filling = self.sink.as_ref().and_then(|sink| sink.take());
        match &self.filling {
            Some(filling) if filling.columns.len() + 1 == arguments.len() => Ok(()),
            _ => {
                self.give_back();
                Err(Error::new(
                    Code::MISUSE,
                    "densite_sink is for the library itself; use densite.query",
                ))
            }
        }
    }

    fn give_back(&mut self) {
        if let (Some(sink), Some(filling)) = (&self.sink, self.filling.take()) {
            sink.put(filling);
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl TableCursor for Cursor {
    #[inline]
    fn filter(&mut self, _: &Connection, _: i32, _: &str, arguments: Arguments<'_>) -> Result<()> {
        // The handle is the same for every row of a statement: it is looked at once for each batch.
        if self.filling.is_none() {
            self.begin(&arguments)?;
        }
        let Some(filling) = &mut self.filling else {
            return Ok(());
        };
        self.is_full = !filling.push(&arguments);
        if self.is_full {
            let has_failed = filling.failed.is_some();
            self.give_back();
            if has_failed {
                return Err(Error::from(Code::MISMATCH));
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.is_full = false;
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        !self.is_full
    }

    fn column(&mut self, _: usize) -> Result<ValueRef<'_>> {
        Ok(ValueRef::Null)
    }

    fn row_id(&mut self) -> Result<i64> {
        Ok(0)
    }
}
