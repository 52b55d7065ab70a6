//! Evaluates `update(n = n + excluded.n)` for readers of waiting rows.
//!
//! SQLite does it, so that affinities and collations have an effect as in the worker's statement.
//! Both rows are virtual tables with the target's columns. The old row is in a subquery, whose names
//! come first, as in an UPSERT.

use crate::error::refused;
use crate::schema::policy::Upsert;
use crate::schema::target::Target;
use densite_disk::sync::Mutex;
use densite_sqlite::{
    Arguments, Code, Connection, Existence, Origin, OwnedStatement, Plan, Result, TableCursor,
    Value, ValueRef, VirtualTable, create_module, quoted,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes names of modules unique: a module that is replaced would take its statements with it.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A row that a table shows.
type Shown = Arc<Mutex<Vec<Value>>>;

/// A compiled `update(…)`.
pub(super) struct Change {
    old: Shown,
    new: Shown,
    statement: OwnedStatement,
    /// The target's place of each column that is set.
    places: Vec<usize>,
}

/// Makes the table that shows a row. Returns its name.
fn make(connection: &Connection, declaration: &str, row: &Shown) -> Result<String> {
    let name = format!("densite_row_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let shared = (declaration.to_owned(), Arc::clone(row));
    create_module::<Table>(connection, &name, shared)?;
    Ok(name)
}

impl Change {
    /// Compiles it. `None` if the table refuses such rows: it lacks a column.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn new(
        connection: &Connection,
        target: &Target,
        upsert: &Upsert,
    ) -> Result<Option<Change>> {
        let places = upsert.set.iter().map(|(name, _)| target.column(name));
        let Some(places) = places.collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let (old, new) = (Shown::default(), Shown::default());
        let declaration = format!("CREATE TABLE x({})", target.declared_columns());
        let old_name = make(connection, &declaration, &old)?;
        let new_name = make(connection, &declaration, &new)?;
        let row = quoted(&target.name);
        let only_if = upsert.only_if.as_deref().unwrap_or("1");
        let values = upsert.set.iter().map(|(_, value)| value.as_str());
        let columns: Vec<String> = [format!("CASE WHEN {only_if} THEN 1 ELSE 0 END").as_str()]
            .into_iter()
            .chain(values)
            .map(|value| format!("(SELECT {value} FROM {old_name} AS {row})"))
            .collect();
        let sql = format!("SELECT {} FROM {new_name} AS excluded", columns.join(", "));
        match OwnedStatement::prepare(connection, &sql) {
            Ok(statement) => Ok(Some(Change {
                old,
                new,
                statement,
                places,
            })),
            // The worker's statement has the same error, and rejects the rows.
            Err(e) if e.code == Code::ERROR => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Changes `old` as an insert of `new` does. Returns whether it did: a row that the table will
    /// refuse changes nothing, nor does one for which the condition is not true.
    ///
    /// # Errors
    /// SQLite's, if they do not concern the row.
    pub(super) fn apply(
        &mut self,
        target: &Target,
        old: &mut Vec<Value>,
        new: Vec<Value>,
    ) -> Result<bool> {
        self.old.lock().clone_from(old);
        *self.new.lock() = new;
        let stepped = self.statement.step();
        let changed = match stepped {
            Ok(true) if self.statement.column(0) == ValueRef::Integer(1) => self.values(target),
            Ok(_) => Ok(None),
            Err(e) => Err(e),
        };
        self.statement.reset();
        match changed {
            Ok(Some(values)) => {
                for (place, value) in self.places.iter().zip(values) {
                    if let Some(old) = old.get_mut(*place) {
                        *old = value;
                    }
                }
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(e) if matches!(e.code.primary(), Code::ERROR | Code::TOOBIG) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The values as the table stores them. `None` if it refuses one of them.
    fn values(&self, target: &Target) -> Result<Option<Vec<Value>>> {
        let connection = self.statement.connection();
        let mut values = Vec::new();
        for (i, place) in self.places.iter().enumerate() {
            let value = self.statement.column(i + 1);
            match target.cell(connection, *place, value, false) {
                Ok(cell) => values.push(cell.as_ref().to_owned()),
                Err(e) if matches!(e.code.primary(), Code::CONSTRAINT | Code::MISMATCH) => {
                    return Ok(None);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Some(values))
    }
}

/// Checks that readers can evaluate it.
///
/// # Errors
/// SQLite's; an error if it names a column that an ingest table lacks, as a generated one.
pub(crate) fn check(connection: &Connection, target: &Target, upsert: &Upsert) -> Result<()> {
    match Change::new(connection, target, upsert)? {
        Some(_) => Ok(()),
        None => Err(refused(format!(
            "on_conflict: the expressions have something that readers of waiting rows cannot evaluate, for example a generated column of {}; use its other columns",
            target.name
        ))),
    }
}

/// A table of one row.
struct Table(Shown);

struct Cursor {
    shown: Shown,
    row: Vec<Value>,
    is_at_end: bool,
}

impl VirtualTable for Table {
    type Shared = (String, Shown);
    type Cursor = Cursor;
    const EXISTENCE: Existence = Existence::ByItself;
    const DIRECT_ONLY: bool = true;

    fn connect(
        (declaration, row): &Self::Shared,
        _: &Connection,
        _: &Origin,
    ) -> Result<(Table, String)> {
        Ok((Table(Arc::clone(row)), declaration.clone()))
    }

    fn best_index(&self, _: &mut Plan<'_>) -> Result<bool> {
        Ok(true)
    }

    fn open(&self) -> Result<Cursor> {
        Ok(Cursor {
            shown: Arc::clone(&self.0),
            row: Vec::new(),
            is_at_end: true,
        })
    }
}

impl TableCursor for Cursor {
    fn filter(&mut self, _: &Connection, _: i32, _: &str, _: Arguments<'_>) -> Result<()> {
        self.row.clone_from(&self.shown.lock());
        self.is_at_end = false;
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.is_at_end = true;
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    fn column(&mut self, column: usize) -> Result<ValueRef<'_>> {
        Ok(self.row.get(column).map_or(ValueRef::Null, Value::as_ref))
    }

    fn row_id(&mut self) -> Result<i64> {
        Ok(1)
    }
}
