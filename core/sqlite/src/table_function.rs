//! Table-valued functions: read-only tables whose rows are computed on demand.

use crate::Result;
use crate::connection::Connection;
use crate::value::{Value, ValueRef};
use crate::vtab::{
    Arguments, Existence, Operator, Origin, Plan, TableCursor, VirtualTable, create_module,
};
use std::sync::Arc;

type Rows = dyn Fn(&Connection, &[Option<Value>]) -> Result<Vec<Vec<Value>>> + Send + Sync;

/// The greatest number of arguments.
const ARGUMENTS_MAX: usize = 31;

struct Function {
    /// `CREATE TABLE x(...)`, visible columns first, then the hidden ones.
    declaration: String,
    visible: usize,
    hidden: usize,
    rows: Box<Rows>,
}

struct Table(Arc<Function>);

struct Cursor {
    function: Arc<Function>,
    arguments: Vec<Option<Value>>,
    rows: Vec<Vec<Value>>,
    at: usize,
}

/// Adds a table-valued function to a connection: `SELECT columns FROM name(arguments)`.
///
/// `columns` are the visible columns and `arguments` the hidden ones, in order. `rows` gets the
/// given arguments and returns all rows, each with one value per column. An error or a panic
/// becomes the statement's error.
///
/// # Errors
/// SQLite's.
pub fn create_table_function(
    connection: &Connection,
    name: &str,
    columns: &[&str],
    arguments: &[&str],
    rows: impl Fn(&Connection, &[Option<Value>]) -> Result<Vec<Vec<Value>>> + Send + Sync + 'static,
) -> Result<()> {
    let hidden = arguments.iter().map(|name| format!("{name} HIDDEN"));
    let declared: Vec<String> = columns
        .iter()
        .map(ToString::to_string)
        .chain(hidden)
        .collect();
    let function = Function {
        declaration: format!("CREATE TABLE x({})", declared.join(", ")),
        visible: columns.len(),
        hidden: arguments.len(),
        rows: Box::new(rows),
    };
    create_module::<Table>(connection, name, Arc::new(function))
}

impl VirtualTable for Table {
    type Shared = Arc<Function>;
    type Cursor = Cursor;

    const EXISTENCE: Existence = Existence::ByItself;

    fn connect(shared: &Arc<Function>, _: &Connection, _: &Origin) -> Result<(Table, String)> {
        Ok((Table(Arc::clone(shared)), shared.declaration.clone()))
    }

    /// The plan's number has a bit for each argument that is given.
    fn best_index(&self, plan: &mut Plan<'_>) -> Result<bool> {
        let constraints = plan.constraints();
        let mut given = 0;
        for argument in 0..self.0.hidden.min(ARGUMENTS_MAX) {
            let column = Some(self.0.visible + argument);
            let mut equal = (0..)
                .zip(&constraints)
                .filter(|(_, c)| c.column == column && c.operator == Operator::Equal);
            if let Some((place, _)) = equal.clone().find(|(_, c)| c.usable) {
                plan.ask(place, true);
                given |= 1 << argument;
            } else if equal.next().is_some() {
                // An argument that comes from another table must be known first.
                return Ok(false);
            }
        }
        plan.choose(given, "");
        plan.cost(100.0, 100);
        Ok(true)
    }

    fn open(&self) -> Result<Cursor> {
        Ok(Cursor {
            function: Arc::clone(&self.0),
            arguments: Vec::new(),
            rows: Vec::new(),
            at: 0,
        })
    }
}

impl TableCursor for Cursor {
    fn filter(
        &mut self,
        connection: &Connection,
        given: i32,
        _: &str,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        self.rows.clear();
        self.at = 0;
        let mut values = arguments.iter();
        self.arguments = (0..self.function.hidden)
            .map(|i| {
                let is_given = i < ARGUMENTS_MAX && given & (1 << i) != 0;
                is_given.then(|| values.next())?.map(ValueRef::to_owned)
            })
            .collect();
        self.rows = (self.function.rows)(connection, &self.arguments)?;
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&mut self, column: usize) -> Result<ValueRef<'_>> {
        let value = match column.checked_sub(self.function.visible) {
            None => self.rows.get(self.at).and_then(|row| row.get(column)),
            Some(argument) => self.arguments.get(argument).and_then(Option::as_ref),
        };
        Ok(value.map_or(ValueRef::Null, Value::as_ref))
    }

    fn row_id(&mut self) -> Result<i64> {
        Ok(i64::try_from(self.at).unwrap_or(i64::MAX))
    }
}
