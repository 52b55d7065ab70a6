//! Which tables are recorded, and how their rows are laid out.

use super::column::Column;
use super::queue;
use super::reread::{Layout, Reread};
use crate::error::refused;
use crate::schema::affinity::Affinity;
use crate::schema::own_tables::refuse_foreign;
use crate::schema::own_triggers::RECORDS;
use crate::schema::target::Target;
use densite_log::{Op, Table};
use densite_sqlite::{Code, Connection, Error, Result, Value, ValueRef, quoted};
use std::sync::Arc;

/// A recorded table, as the schema describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Its name, as SQLite spells it.
    pub(super) name: String,
    /// The columns, those of the key first.
    pub(super) columns: Vec<Column>,
    inserts: Arc<Table>,
    /// The old values, then the new ones.
    updates: Arc<Table>,
    deletes: Arc<Table>,
    /// Whether old rows are read from the table.
    pub(super) reread: Reread,
}

impl Recorded {
    /// The layout of the rows of an operation.
    pub(super) fn table(&self, op: Op) -> &Arc<Table> {
        match op {
            Op::Insert => &self.inserts,
            Op::Update => &self.updates,
            Op::Delete => &self.deletes,
        }
    }

    /// Reads the columns of a table; `None` if there is no such table.
    ///
    /// # Errors
    /// SQLite's; a table whose rows cannot be reported.
    fn read(connection: &Connection, name: &str) -> Result<Option<Recorded>> {
        let listed =
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
        let Some(row) = connection.query_row(listed, &[Value::from(name)])? else {
            return Ok(None);
        };
        let Some(Value::Text(name)) = row.into_iter().next() else {
            return Ok(None);
        };
        let list = format!("PRAGMA main.table_list({})", quoted(&name));
        let list = connection.query_row(&list, &[])?;
        let says = |place| list.as_ref().and_then(|l| l.get(place)) == Some(&Value::Integer(1));
        let (is_without_row_id, is_strict) = (says(4), says(5));
        let (mut columns, mut key, mut reals) = (Vec::new(), Vec::new(), Vec::new());
        let mut has_virtual = None;
        let xinfo = format!("PRAGMA main.table_xinfo({})", quoted(&name));
        let mut statement = connection.prepare(&xinfo)?;
        while statement.step()? {
            let number = |i| statement.column(i).as_i64().unwrap_or(0);
            let column = statement.column(1).as_str().unwrap_or_default().to_owned();
            let place = usize::try_from(number(0)).unwrap_or(usize::MAX);
            let declared = statement.column(2).as_str().unwrap_or_default();
            let is_real = Affinity::of(declared, is_strict) == Affinity::Real;
            reals.push(is_real);
            match number(6) {
                2 => has_virtual = Some(column),
                // SQLite before 3.47 does not count virtual columns.
                _ if has_virtual.is_some() => {
                    return Err(refused(format!(
                        "{name}: the generated column {} is VIRTUAL and comes before the column {column}, so their changes cannot be told apart; make it STORED, or put it last",
                        has_virtual.unwrap_or_default()
                    )));
                }
                0 => {
                    if number(5) > 0 {
                        key.push((number(5), columns.len()));
                    }
                    let stored = Column {
                        place,
                        is_real,
                        has_default: !matches!(statement.column(4), ValueRef::Null),
                    };
                    columns.push((stored, column));
                }
                _ => {}
            }
        }
        key.sort_unstable();
        let key: Vec<usize> = key.into_iter().map(|(_, column)| column).collect();
        let others = (0..columns.len()).filter(|c| !key.contains(c));
        let in_order: Vec<&(Column, String)> = (key.iter().copied().chain(others))
            .filter_map(|c| columns.get(c))
            .collect();
        let table = |times: usize| {
            let names = (0..times).flat_map(|_| in_order.iter().map(|(_, name)| name.clone()));
            Table::new(name.clone(), names, key.len(), Vec::new())
                .map_err(|e| refused(format!("{name}: {e}")))
        };
        let inserts = table(1)?;
        let layout = Layout {
            table: &name,
            columns: &in_order,
            key: key.len(),
            reals: &reals,
            is_without_row_id,
        };
        let reread = Reread::of(connection, &layout)?;
        Ok(Some(Recorded {
            columns: in_order.iter().map(|(column, _)| column.clone()).collect(),
            deletes: table(1)?,
            updates: table(2)?,
            inserts,
            reread,
            name,
        }))
    }
}

/// All recorded tables of the main database.
pub(super) fn all(connection: &Connection) -> Result<Vec<Recorded>> {
    let mut names = Vec::new();
    let listed = format!(
        "SELECT DISTINCT tbl_name FROM main.sqlite_schema WHERE type = 'trigger' AND {RECORDS}"
    );
    let mut statement = connection.prepare(&listed)?;
    while statement.step()? {
        names.push(statement.column(0).as_str().unwrap_or_default().to_owned());
    }
    drop(statement);
    let read = |name: String| Recorded::read(connection, &name).transpose();
    names.into_iter().filter_map(read).collect()
}

/// `densite_config('changes', table [, 'on' or 'off'])`: reads or sets whether the table is
/// recorded. Returns `on` or `off`.
pub(crate) fn config(connection: &Connection, given: &[ValueRef<'_>]) -> Result<Value> {
    let usage = || {
        refused(
            "densite_config('changes', …) wants a table's name, and then 'on' or 'off' to set it, as in densite_config('changes', 'vote', 'on')",
        )
    };
    let name = given.first().and_then(|v| v.as_str()).ok_or_else(usage)?;
    match (given.get(1), given.get(1).and_then(|v| v.as_str())) {
        (None, _) => {}
        (_, Some("on")) => queue::atomically(connection, || begin(connection, name))?,
        (Some(ValueRef::Null), _) | (_, Some("off")) => {
            queue::atomically(connection, || end(connection, name))?;
        }
        _ => return Err(usage()),
    }
    let is_on = !triggers_of(connection, name)?.is_empty();
    Ok(Value::from(if is_on { "on" } else { "off" }))
}

/// The names of the triggers of a recorded table.
fn triggers_of(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut statement = connection.prepare(&format!(
        "SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND {RECORDS}"
    ))?;
    statement.bind(1, &Value::from(table))?;
    while statement.step()? {
        names.push(statement.column(0).as_str().unwrap_or_default().to_owned());
    }
    Ok(names)
}

/// Each has a trigger.
const OPERATIONS: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

fn begin(connection: &Connection, name: &str) -> Result<()> {
    let target = Target::read(connection, name)?
        .ok_or_else(|| refused(format!("there is no table {name} in the main database")))?;
    refuse_foreign(&target.name)?;
    if let Some(recorded) = Recorded::read(connection, name)? {
        recorded.reread.check()?;
    }
    queue::make_tables(connection)?;
    if triggers_of(connection, name)?.len() == OPERATIONS.len() {
        return Ok(());
    }
    end(connection, name)?;
    let table = quoted(&target.name);
    for op in OPERATIONS {
        let trigger = free_name(connection, &target.name, op)?;
        connection.exec(&format!(
            "CREATE TRIGGER main.{} AFTER {op} ON {table} WHEN 0 BEGIN INSERT INTO densite_recorder VALUES (NULL); END",
            quoted(&trigger)
        ))?;
    }
    Ok(())
}

/// A name for a trigger. After ALTER TABLE … RENAME, another table can have the usual one.
fn free_name(connection: &Connection, table: &str, op: &str) -> Result<String> {
    let usual = format!("densite_changes_{table}_{}", op.to_ascii_lowercase());
    let taken = "SELECT 1 FROM main.sqlite_schema WHERE name = ?1 COLLATE NOCASE";
    for n in 1..100 {
        let name = match n {
            1 => usual.clone(),
            n => format!("{usual}_{n}"),
        };
        if (connection.query_row(taken, &[Value::from(name.as_str())])?).is_none() {
            return Ok(name);
        }
    }
    Err(Error::new(
        Code::ERROR,
        format!("the name {usual} is taken; drop the trigger of that name"),
    ))
}

fn end(connection: &Connection, name: &str) -> Result<()> {
    for trigger in triggers_of(connection, name)? {
        connection.exec(&format!("DROP TRIGGER main.{}", quoted(&trigger)))?;
    }
    Ok(())
}
