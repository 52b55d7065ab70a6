//! `densite_columns`: a set of columns as a table. A row's id is its position, from 0.
//!
//! `densite_columns(handle)` is a table-valued function. Its columns are called `c0`, `c1`, … up to
//! [`COLUMNS_MAX`]; those that the set does not have are NULL. It writes to no schema, so it works
//! on read-only databases and in any transaction. For up to [`FEW`] columns,
//! `densite_columns_few(handle)` saves 0.7 ms on each connection. `CREATE VIRTUAL TABLE temp.name
//! USING densite_columns(handle)` makes a table with the set's own column names.
//! docs/decisions/bulk.md has the reasons.

use crate::chunk::{Chunk, Data};
use crate::memory::Slice;
use crate::rows::Place;
use crate::set::{COLUMNS_MAX, PROGRESS_ROWS, Set};
use crate::sets;
use densite_sqlite::{
    Arguments, Code, Connection, Error, Existence, Operator, Origin, Plan, Result, TableCursor,
    ValueRef, VirtualTable, create_module, quoted,
};
use std::sync::Arc;

/// The assumed number of rows of a function's set, because its handle is unknown when a statement
/// is planned. It is large enough that a join looks up the other table's keys instead of reading
/// the set repeatedly. It is small enough that the set goes first.
const ROWS_SUPPOSED: i64 = 10_000;

/// The number of columns of the function for small sets.
const FEW: usize = 16;
const FEW_NAME: &str = "densite_columns_few";

pub(crate) fn create(connection: &Connection) -> Result<()> {
    create_module::<Columns>(connection, "densite_columns", ())?;
    create_module::<Columns>(connection, FEW_NAME, ())
}

/// The function, or a table made from a set.
enum Columns {
    /// With this number of columns; the handle follows them.
    Function(usize),
    Of(i64),
}

/// A column of the current batch, if no value's type must be checked: integers or double precision,
/// no NULLs. It has a value for each row, so the row number finds a value. Values of other columns
/// are read from the set.
enum Lane {
    Integers(Slice<i64>),
    Reals(Slice<f64>),
    Other,
}

impl Lane {
    fn of(chunk: Option<&Chunk>) -> Lane {
        match chunk {
            Some(Chunk {
                data: Data::I64(values),
                valid: None,
                ..
            }) => Lane::Integers(values.clone()),
            Some(Chunk {
                data: Data::F64(values),
                valid: None,
                ..
            }) => Lane::Reals(values.clone()),
            _ => Lane::Other,
        }
    }
}

struct Cursor {
    /// The set of a table; a function gets its set by its argument.
    fixed: Option<i64>,
    /// The columns of a function.
    columns: usize,
    handle: i64,
    set: Option<Arc<Set>>,
    rows: usize,
    /// The number of rows that were passed.
    passed: usize,
    /// The columns of the current batch, or of the whole set if they were gathered, and the row in
    /// them.
    lanes: Vec<Lane>,
    row: usize,
    batch: usize,
    /// Up to this row, `next` only counts. Then another batch begins, progress is due, or the rows
    /// end.
    until: usize,
}

fn from_bulk(error: crate::Error) -> Error {
    Error::new(Code::ERROR, format!("densite_columns: {error}"))
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
            let columns = match origin.module.eq_ignore_ascii_case(FEW_NAME) {
                true => FEW,
                false => COLUMNS_MAX,
            };
            let names: Vec<String> = (0..columns).map(|i| format!("c{i}")).collect();
            let declaration = format!("CREATE TABLE x({}, handle HIDDEN)", names.join(", "));
            return Ok((Columns::Function(columns), declaration));
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
            Error::new(Code::ERROR, format!("densite_columns: {argument:?} is not a handle; use the number that registering the columns returned"))
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
        let columns = match self {
            Columns::Function(columns) => *columns,
            Columns::Of(handle) => {
                let rows = sets::get(*handle).map_err(from_bulk)?.rows();
                let rows = i64::try_from(rows.max(1)).unwrap_or(i64::MAX);
                plan.cost(rows as f64, rows);
                return Ok(true);
            }
        };
        let constraints = plan.constraints();
        let mut equal = (0..)
            .zip(&constraints)
            .filter(|(_, c)| c.column == Some(columns) && c.operator == Operator::Equal);
        if let Some((place, _)) = equal.clone().find(|(_, c)| c.usable) {
            plan.ask(place, true);
        } else if equal.next().is_some() {
            // If the handle comes from another table, it must be known first.
            return Ok(false);
        }
        plan.cost(ROWS_SUPPOSED as f64, ROWS_SUPPOSED);
        Ok(true)
    }

    fn open(&self) -> Result<Cursor> {
        let (fixed, columns) = match self {
            Columns::Function(columns) => (None, *columns),
            Columns::Of(handle) => (Some(*handle), COLUMNS_MAX),
        };
        Ok(Cursor {
            fixed,
            columns,
            handle: 0,
            set: None,
            rows: 0,
            passed: 0,
            lanes: Vec::new(),
            row: 0,
            batch: 0,
            until: 0,
        })
    }
}

impl Cursor {
    /// Prepares the row after those passed. It is the first of a batch, or the first after a call
    /// of progress.
    #[cold]
    fn turn(&mut self) {
        self.until = self.passed;
        let Some(set) = self.set.as_ref().filter(|_| self.passed < self.rows) else {
            return;
        };
        set.set_last(self.passed);
        let mut left = self.rows - self.passed;
        if set.order().is_some() {
            self.row = self.passed;
            if self.passed == 0 {
                let columns = 0..set.names().len();
                self.lanes = columns.map(|i| Lane::of(set.gathered(i))).collect();
            }
        } else {
            if self.passed == 0 {
                (self.batch, self.row) = (0, 0);
            } else if self.row >= set.rows_of(self.batch) {
                (self.batch, self.row) = (self.batch + 1, 0);
            }
            left = set.rows_of(self.batch) - self.row;
            if self.row == 0 {
                let columns = set.batches().get(self.batch);
                let columns = columns.map_or(&[][..], |(_, columns)| columns);
                self.lanes = columns.iter().map(|chunk| Lane::of(Some(chunk))).collect();
            }
        }
        let untold = PROGRESS_ROWS - self.passed % PROGRESS_ROWS;
        self.until = self.passed + left.min(untold);
    }

    /// A value that is not in a lane.
    #[inline(never)]
    fn other(&self, column: usize) -> ValueRef<'_> {
        if column == self.columns && self.fixed.is_none() {
            return ValueRef::Integer(self.handle);
        }
        let Some(set) = &self.set else {
            return ValueRef::Null;
        };
        match set.gathered(column) {
            Some(chunk) => chunk.get(self.passed),
            None => {
                let own = Place::new(self.batch, self.row);
                let place = set
                    .order()
                    .map_or(Some(&own), |order| order.get(self.passed));
                place.map_or(ValueRef::Null, |place| set.value(*place, column))
            }
        }
    }
}

impl TableCursor for Cursor {
    fn filter(&mut self, _: &Connection, _: i32, _: &str, arguments: Arguments<'_>) -> Result<()> {
        (self.set, self.rows, self.passed, self.until) = (None, 0, 0, 0);
        self.lanes.clear();
        let handle = self
            .fixed
            .or_else(|| arguments.iter().next().and_then(ValueRef::as_i64));
        self.handle = handle.ok_or_else(|| {
            Error::new(
                Code::ERROR,
                "densite_columns: the handle is missing; use densite_columns(?) with the number that registering the columns returned",
            )
        })?;
        let set = sets::get(self.handle).map_err(from_bulk)?;
        if set.names().len() > self.columns {
            return Err(Error::new(
                Code::ERROR,
                format!(
                    "{FEW_NAME}: the set has {} columns; use densite_columns",
                    set.names().len()
                ),
            ));
        }
        self.rows = set.rows();
        self.set = Some(set);
        self.turn();
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.passed += 1;
        self.row += 1;
        if self.passed < self.until {
            if let Some(set) = &self.set {
                set.set_last(self.passed);
            }
            return Ok(());
        }
        self.turn();
        let due = self.passed.is_multiple_of(PROGRESS_ROWS) || self.is_at_end();
        match &self.set {
            // Not INTERRUPT, because SQLite then rolls back the caller's whole transaction.
            Some(set) if due && !set.report_progress(self.passed) => {
                Err(Error::new(Code::ABORT, "stopped by the progress callback"))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn is_at_end(&self) -> bool {
        self.passed >= self.rows
    }

    #[inline]
    fn column(&mut self, column: usize) -> Result<ValueRef<'_>> {
        Ok(match self.lanes.get(column) {
            Some(Lane::Integers(values)) => values
                .get(self.row)
                .map_or(ValueRef::Null, |n| ValueRef::Integer(*n)),
            Some(Lane::Reals(values)) => match values.get(self.row) {
                Some(x) if !x.is_nan() => ValueRef::Real(*x),
                _ => ValueRef::Null,
            },
            _ => self.other(column),
        })
    }

    fn row_id(&mut self) -> Result<i64> {
        Ok(i64::try_from(self.passed).unwrap_or(i64::MAX))
    }
}
