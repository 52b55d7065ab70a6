//! `densite_sink`: receives the rows of a statement within SQLite (docs/decisions/bulk.md, Reading
//! rows out). The statement is joined with this virtual table, which gets all values of a row in
//! one call. A row of the join comes only when a batch is full.
//!
//! The reader puts an empty batch into the [`Sink`]. A cursor takes it with the first row, and
//! returns it when it is full, when a value does not fit, and when a cursor is closed, which is
//! before the statement is done. In between, the batch is [`Taken`] and shared by all cursors of
//! the connection: the parts of a UNION ALL have a cursor each.

use crate::confined::Confined;
use crate::filling::Filling;
use densite_disk::sync::Mutex;
use densite_sqlite::{
    Arguments, Code, Connection, Error, Existence, Operator, Origin, Plan, Result, TableCursor,
    ValueRef, VirtualTable, create_module, quoted,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The most columns of a statement that can be read like this. SQLite trusts a table for 16
/// arguments and would check further ones itself.
const COLUMNS_MAX: usize = 15;

/// Holds a batch between its reader and the cursor.
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

/// A sink and its number, registered until it is dropped.
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

    /// The statement that sends the rows of `sql` here. `None` if `sql` has too many columns, or if
    /// the rows or their order would change.
    pub(crate) fn statement(
        &self,
        connection: &Connection,
        sql: &str,
        columns: usize,
    ) -> Option<String> {
        if !(1..=COLUMNS_MAX).contains(&columns)
            || is_other_when_joined(connection, sql).unwrap_or(true)
        {
            return None;
        }
        let names: Vec<String> = (0..columns).map(|i| format!("c{i}")).collect();
        let (names, handle) = (names.join(", "), self.handle);
        let sql = sql.trim_end();
        let sql = sql.strip_suffix(';').unwrap_or(sql);
        // The text can end in a comment, which the newline ends.
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

/// Whether joining can change a statement's rows or their order:
///
/// - SQLite drops the ORDER BY of a joined subquery.
/// - A column of a compound has the affinity of its first SELECT. If that is REAL, an integer of
///   another SELECT becomes floating point.
///
/// This is decided by words of the statement and of the views that it might read.
fn is_other_when_joined(connection: &Connection, sql: &str) -> Result<bool> {
    const COMPOUND: &[&str] = &["UNION", "INTERSECT", "EXCEPT", "VALUES"];
    // The last one is there because a virtual table declares its columns itself.
    const REAL: &[&str] = &["REAL", "FLOA", "DOUB", "VIRTUAL"];
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    let mut text = sql.to_ascii_uppercase();
    if has(&text, &["ORDER"]) {
        return Ok(true);
    }
    let mut schemas = Vec::new();
    let mut list = connection.prepare("SELECT name FROM pragma_database_list")?;
    while list.step()? {
        schemas.extend(list.column(0).as_str().map(quoted));
    }
    let definitions = |types: &str| -> Result<String> {
        let mut all = String::new();
        for schema in &schemas {
            let sql = format!("SELECT sql FROM {schema}.sqlite_schema WHERE type = '{types}'");
            let mut found = connection.prepare(&sql)?;
            while found.step()? {
                all.push_str(found.column(0).as_str().unwrap_or_default());
            }
        }
        Ok(all.to_ascii_uppercase())
    };
    text.push_str(&definitions("view")?);
    Ok(has(&text, &["ORDER"])
        || has(&text, COMPOUND) && (has(&text, REAL) || has(&definitions("table")?, REAL)))
}

pub(crate) fn create(connection: &Connection) -> Result<()> {
    create_module::<Table>(connection, "densite_sink", ())
}

/// A batch that cursors fill, and its sink.
struct Taken {
    handle: i64,
    sink: Arc<Sink>,
    filling: Filling,
}

impl Taken {
    /// Takes the batch of a sink. Its number of columns must be the number of arguments without the
    /// handle.
    #[cold]
    fn of(handle: i64, arguments: &Arguments<'_>) -> Result<Box<Taken>> {
        let sink = SINKS.get().lock().get(&handle).cloned();
        let taken = sink.and_then(|sink| {
            let filling = sink.take()?;
            Some(Taken {
                handle,
                sink,
                filling,
            })
        });
        match taken {
            Some(taken) if taken.filling.columns.len() + 1 == arguments.len() => {
                Ok(Box::new(taken))
            }
            other => {
                if let Some(taken) = other {
                    taken.give_back();
                }
                Err(Error::new(
                    Code::MISUSE,
                    "densite_sink is for the library itself; use densite.query",
                ))
            }
        }
    }

    fn give_back(self) {
        self.sink.put(self.filling);
    }
}

/// The batch that cursors of a connection fill. If several statements are read alternately, it is
/// the batch of the statement that had a row last.
type Current = Confined<Cell<Option<Box<Taken>>>>;

struct Table(Current);

struct Cursor {
    /// The sink of the first argument; `None` before the first row.
    handle: Option<i64>,
    current: Current,
    /// Whether the cursor has a row: the batch is full, or a value did not fit.
    is_full: bool,
}

impl VirtualTable for Table {
    type Shared = ();
    type Cursor = Cursor;

    const EXISTENCE: Existence = Existence::ByItself;
    const DIRECT_ONLY: bool = true;

    fn connect((): &(), _: &Connection, _: &Origin) -> Result<(Table, String)> {
        let values: Vec<String> = (0..COLUMNS_MAX).map(|i| format!("v{i} HIDDEN")).collect();
        // SAFETY: SQLite owns the table, which passes this only to its cursors.
        let current = unsafe { Confined::new(Cell::default()) };
        Ok((
            Table(current),
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
        Ok(Cursor {
            handle: None,
            current: self.0.clone(),
            is_full: false,
        })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        match self.current.take() {
            Some(taken) if Some(taken.handle) == self.handle => taken.give_back(),
            other => self.current.set(other),
        }
    }
}

impl TableCursor for Cursor {
    #[inline]
    fn filter(&mut self, _: &Connection, _: i32, _: &str, arguments: Arguments<'_>) -> Result<()> {
        // The handle is the same for every row of a statement, so it is read once.
        let handle = match self.handle {
            Some(handle) => handle,
            None => arguments.integer(0).unwrap_or(0),
        };
        self.handle = Some(handle);
        let mut taken = match self.current.take() {
            Some(taken) if taken.handle == handle => taken,
            other => {
                if let Some(taken) = other {
                    taken.give_back();
                }
                Taken::of(handle, &arguments)?
            }
        };
        self.is_full = !taken.filling.push(&arguments);
        if !self.is_full {
            self.current.set(Some(taken));
            return Ok(());
        }
        let has_failed = taken.filling.failed.is_some();
        taken.give_back();
        match has_failed {
            true => Err(Error::from(Code::MISMATCH)),
            false => Ok(()),
        }
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
