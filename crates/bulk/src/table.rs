//! `densite_columns`: a set of columns as a table.
//!
//! Two ways to it:
//!
//! - `densite_columns(handle)`, a table-valued function. A function's columns are declared before its argument is known, so they are called
//!   `c0`, `c1`, … up to [`COLUMNS_MAX`]; those that the set has not are NULL. Nothing is written to any schema, so it works on read-only
//!   databases and within any transaction: `WITH keys(a, b) AS NOT MATERIALIZED (SELECT c0, c1 FROM densite_columns(?)) SELECT …`.
//! - `CREATE VIRTUAL TABLE temp.name USING densite_columns(handle)`, a table with the set's own names, until it is dropped or the connection ends.
//!
//! A row's id is its place in the order in which rows are read, from 0 on.

use crate::set::{COLUMNS_MAX, PROGRESS_ROWS, Place, Set, sets};
use densite_sqlite::{
    Code, Connection, Error, Existence, Operator, Origin, Plan, Result, TableCursor, ValueRef,
    VirtualTable, create_module,
};
use std::sync::Arc;

/// Rows that a function's set is taken to have: its handle is not known when a statement is planned. So many that a join looks up the other table's
/// keys rather than reading the set again and again, so few that it goes first.
const ROWS_SUPPOSED: i64 = 10_000;

pub(crate) fn create(connection: &Connection) -> Result<()> {
    create_module::<Columns>(connection, "densite_columns", ())
}

/// The function, or a table made from a set.
enum Columns {
    Function,
    Of(i64),
}

struct Cursor {
    /// The set of a table; a function's is told by its argument.
    fixed: Option<i64>,
    handle: i64,
    set: Option<Arc<Set>>,
    /// How many rows were passed.
    passed: usize,
    place: Place,
}

fn from_bulk(error: crate::Error) -> Error {
    Error::new(Code::ERROR, format!("densite_columns: {error}"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl VirtualTable for Columns {
    type Shared = ();
    type Cursor = Cursor;

    const EXISTENCE: Existence = Existence::Both;
    const DIRECT_ONLY: bool = true;

    fn connect((): &(), _: &Connection, origin: &Origin) -> Result<(Columns, String)> {
        let Some(argument) = origin.arguments.first() else {
            if !origin.table.eq_ignore_ascii_case(&origin.module) {
                return Err(Error::new(
                    Code::ERROR,
                    "densite_columns: a table is made from a handle, USING densite_columns(handle)",
                ));
            }
            let names: Vec<String> = (0..COLUMNS_MAX).map(|i| format!("c{i}")).collect();
            let declaration = format!("CREATE TABLE x({}, handle HIDDEN)", names.join(", "));
            return Ok((Columns::Function, declaration));
        };
        if !origin.schema.eq_ignore_ascii_case("temp") {
            return Err(Error::new(
                Code::ERROR,
                format!(
                    "densite_columns: columns last as long as their process; make the table in temp, not in {}",
                    origin.schema
                ),
            ));
        }
        let handle = argument.parse().map_err(|_| {
            Error::new(Code::ERROR, format!("densite_columns: {argument:?} is no handle; use the number that registering the columns gave"))
        })?;
        let set = sets::get(handle).map_err(from_bulk)?;
        if set.names().is_empty() {
            return Err(Error::new(
                Code::ERROR,
                "densite_columns: the set has no columns yet",
            ));
        }
        let names: Vec<String> = set.names().iter().map(|name| quoted(name)).collect();
        Ok((
            Columns::Of(handle),
            format!("CREATE TABLE x({})", names.join(", ")),
        ))
    }

    fn best_index(&self, plan: &mut Plan<'_>) -> Result<bool> {
        let Columns::Function = self else {
            let Columns::Of(handle) = self else {
                return Ok(false);
            };
            let rows = sets::get(*handle).map_err(from_bulk)?.rows();
            let rows = i64::try_from(rows.max(1)).unwrap_or(i64::MAX);
            plan.cost(rows as f64, rows);
            return Ok(true);
        };
        let constraints = plan.constraints();
        let mut equal = (0..)
            .zip(&constraints)
            .filter(|(_, c)| c.column == Some(COLUMNS_MAX) && c.operator == Operator::Equal);
        if let Some((place, _)) = equal.clone().find(|(_, c)| c.usable) {
            plan.ask(place, true);
        } else if equal.next().is_some() {
            // A handle that comes from another table must be known first.
            return Ok(false);
        }
        plan.cost(ROWS_SUPPOSED as f64, ROWS_SUPPOSED);
        Ok(true)
    }

    fn open(&self) -> Result<Cursor> {
        Ok(Cursor {
            fixed: match self {
                Columns::Function => None,
                Columns::Of(handle) => Some(*handle),
            },
            handle: 0,
            set: None,
            passed: 0,
            place: Place::new(0, 0),
        })
    }
}

impl Cursor {
    /// Goes to the row after those passed.
    fn settle(&mut self) {
        let Some(set) = &self.set else { return };
        if let Some(order) = set.order() {
            self.place = order.get(self.passed).copied().unwrap_or(Place::new(0, 0));
        } else if self.passed == 0 {
            self.place = Place::new(0, 0);
        } else {
            let (batch, row) = (self.place.batch(), self.place.row() + 1);
            self.place = if row < set.rows_of(batch) {
                Place::new(batch, row)
            } else {
                Place::new(batch + 1, 0)
            };
        }
        if self.passed < set.rows() {
            set.set_last(self.place);
        }
    }
}

impl TableCursor for Cursor {
    fn filter(&mut self, _: &Connection, _: i32, _: &str, values: &[ValueRef<'_>]) -> Result<()> {
        self.set = None;
        self.passed = 0;
        let handle = self
            .fixed
            .or_else(|| values.first().and_then(|value| value.as_i64()));
        self.handle = handle.ok_or_else(|| {
            Error::new(
                Code::ERROR,
                "densite_columns: it is used with a handle, densite_columns(?), the number that registering the columns gave",
            )
        })?;
        self.set = Some(sets::get(self.handle).map_err(from_bulk)?);
        self.settle();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.passed += 1;
        self.settle();
        let due = self.passed.is_multiple_of(PROGRESS_ROWS) || self.is_at_end();
        match &self.set {
            Some(set) if due && !set.told(self.passed) => Err(Error::from(Code::INTERRUPT)),
            _ => Ok(()),
        }
    }

    fn is_at_end(&self) -> bool {
        self.set
            .as_ref()
            .is_none_or(|set| self.passed >= set.rows())
    }

    fn column(&self, column: usize) -> Result<ValueRef<'_>> {
        if column == COLUMNS_MAX {
            return Ok(ValueRef::Integer(self.handle));
        }
        let set = self.set.as_ref();
        Ok(set.map_or(ValueRef::Null, |set| {
            set.value_read(self.passed, self.place, column)
        }))
    }

    fn row_id(&self) -> i64 {
        i64::try_from(self.passed).unwrap_or(i64::MAX)
    }
}
