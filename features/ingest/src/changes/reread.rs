//! Old values that are read from the table, because the preupdate hook of an older SQLite reports
//! them wrongly ([`densite_sqlite::PreupdateFaults`]).
//!
//! The hook is called before the row changes, and can read (SQLite's session extension does so,
//! too). The row is found in the table itself, because SQLite has already removed it from indexes.
//! It is found by its key. A table whose key can be reported wrongly is refused.

use super::column::Column;
use crate::error::refused;
use crate::schema::target::free_row_id;
use densite_sqlite::{
    Connection, OwnedStatement, Result, RowChange, Value, ValueRef, preupdate_faults, quoted,
};
use std::collections::BTreeMap;

/// The statements that read old rows, by the table's name.
pub(super) type Statements = BTreeMap<String, OwnedStatement>;

/// What the schema says of a table.
pub(super) struct Layout<'a> {
    pub(super) table: &'a str,
    /// The columns that are recorded, those of the key first, with their names.
    pub(super) columns: &'a [&'a (Column, String)],
    /// How many of them are the key's.
    pub(super) key: usize,
    /// Whether a column of the table stores numbers as REAL, by its place.
    pub(super) reals: &'a [bool],
    pub(super) is_without_row_id: bool,
}

/// Whether and how old rows of a table are read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reread {
    /// The hook reports them as they are.
    Never,
    /// The hook can report them wrongly.
    Rows {
        /// Only if one of these is reported as NULL; of all rows if there are none.
        null_in: Vec<Column>,
        /// Reads the recorded columns of a row.
        sql: String,
        /// How many of the first columns find the row; 0: its row id does.
        key: usize,
    },
    /// They cannot be found. The message says why.
    Impossible(String),
}

impl Reread {
    /// Decides for a table and the SQLite of the connection.
    pub(super) fn of(connection: &Connection, layout: &Layout<'_>) -> Result<Reread> {
        let columns = layout.columns.iter().map(|(column, _)| column);
        let defaults: Vec<Column> = columns.filter(|c| c.has_default).cloned().collect();
        if defaults.is_empty() && !layout.is_without_row_id {
            return Ok(Reread::Never);
        }
        let faults = preupdate_faults(connection.api())?;
        let has_suspects = faults.defaults && !defaults.is_empty();
        if layout.is_without_row_id {
            let stored = Storage::of(connection, layout.table)?;
            return Ok(match faults.order && !stored.is_in_order() {
                true => without_order(connection, layout, &stored, !defaults.is_empty()),
                false if has_suspects => by_key(layout, &stored, defaults),
                false => Reread::Never,
            });
        }
        if !has_suspects {
            return Ok(Reread::Never);
        }
        Ok(match free_row_id(connection, &quoted(layout.table))? {
            Some(name) => Reread::Rows {
                null_in: defaults,
                sql: select(layout, "NOT INDEXED", &format!("{name} = ?1")),
                key: 0,
            },
            None => Reread::Impossible(format!(
                "{}: this SQLite ({}) cannot report defaults of a table whose columns have all names of the row id; use SQLite 3.47 or newer",
                layout.table,
                connection.api().version()
            )),
        })
    }

    /// Why changes of the table cannot be recorded.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Reread::Impossible(why) => Err(refused(why.clone())),
            Reread::Never | Reread::Rows { .. } => Ok(()),
        }
    }

    /// The recorded columns of the old row; `None` if the hook reports it as it is.
    ///
    /// # Errors
    /// SQLite's; a row that cannot be found.
    pub(super) fn row(
        &self,
        change: &RowChange<'_>,
        (table, columns): (&str, &[Column]),
        statements: &mut Statements,
    ) -> Result<Option<Vec<Value>>> {
        let Reread::Rows { null_in, sql, key } = self else {
            return self.check().map(|()| None);
        };
        let is_null = |column: &Column| matches!(change.before(column.place), Ok(ValueRef::Null));
        if !null_in.is_empty() && !null_in.iter().any(is_null) {
            return Ok(None);
        }
        if !statements.contains_key(table) {
            let statement = OwnedStatement::prepare(change.connection(), sql)?;
            statements.insert(table.to_owned(), statement);
        }
        let lost = || refused("its old values cannot be read; use SQLite 3.49.1 or newer");
        let statement = statements.get_mut(table).ok_or_else(lost)?;
        if *key == 0 {
            statement.bind(1, ValueRef::Integer(change.row_id()))?;
        }
        for (n, column) in (1..).zip(columns.iter().take(*key)) {
            statement.bind(n, column.stored(change.before(column.place))?)?;
        }
        let row = statement.step().map(|is_found| {
            let value = |i| statement.column(i).to_owned();
            is_found.then(|| (0..columns.len()).map(value).collect())
        });
        statement.reset();
        row?.map(Some).ok_or_else(lost)
    }
}

/// For a library that takes the place where a value is stored for the place of its column.
fn without_order(
    connection: &Connection,
    layout: &Layout<'_>,
    stored: &Storage,
    has_defaults: bool,
) -> Reread {
    let is_real = |place: usize| layout.reals.get(place) == Some(&true);
    let is_wrong = |(place, s): &(usize, &Stored)| is_real(*place) && !is_real(s.column);
    let mut wrong = stored.columns.iter().enumerate().filter(is_wrong);
    match wrong.next() {
        // Keys are stored first.
        Some((_, first)) if first.is_key => Reread::Impossible(format!(
            "{}: this SQLite ({}) reports wrong keys of a table WITHOUT ROWID whose key does not come first; use SQLite 3.49.1 or newer, or declare the columns of the key first",
            layout.table,
            connection.api().version()
        )),
        None if !has_defaults => Reread::Never,
        _ => by_key(layout, stored, Vec::new()),
    }
}

fn by_key(layout: &Layout<'_>, stored: &Storage, null_in: Vec<Column>) -> Reread {
    let compared = (1..).zip(layout.columns.iter().take(layout.key));
    let compared = compared.map(|(n, (column, name))| {
        let of = stored.columns.iter().find(|s| s.column == column.place);
        let collation = of.map_or("BINARY", |s| s.collation.as_str());
        format!("{} COLLATE {} = ?{n}", quoted(name), quoted(collation))
    });
    let compared: Vec<String> = compared.collect();
    // NOT INDEXED would allow an index that has all columns.
    let table_itself = format!("INDEXED BY {}", quoted(&stored.index));
    Reread::Rows {
        null_in,
        sql: select(layout, &table_itself, &compared.join(" AND ")),
        key: layout.key,
    }
}

fn select(layout: &Layout<'_>, by: &str, condition: &str) -> String {
    let names: Vec<String> = layout
        .columns
        .iter()
        .map(|(_, name)| quoted(name))
        .collect();
    format!(
        "SELECT {} FROM main.{} {by} WHERE {condition}",
        names.join(", "),
        quoted(layout.table)
    )
}

/// A column as a table WITHOUT ROWID stores it.
struct Stored {
    /// The place of the column in the table.
    column: usize,
    collation: String,
    is_key: bool,
}

/// How a table WITHOUT ROWID is stored.
struct Storage {
    /// The name of the table as an index.
    index: String,
    /// In the order in which they are stored.
    columns: Vec<Stored>,
}

impl Storage {
    fn of(connection: &Connection, table: &str) -> Result<Storage> {
        let (mut index, mut columns) = (String::new(), Vec::new());
        let mut statement = connection.prepare(
            "SELECT x.cid, x.coll, x.key, l.name FROM pragma_index_list(?1, 'main') l, pragma_index_xinfo(l.name, 'main') x WHERE l.origin = 'pk' ORDER BY x.seqno",
        )?;
        statement.bind(1, &Value::from(table))?;
        while statement.step()? {
            let column = statement.column(0).as_i64().unwrap_or(-1);
            columns.push(Stored {
                column: usize::try_from(column).unwrap_or(usize::MAX),
                collation: statement.column(1).as_str().unwrap_or("BINARY").to_owned(),
                is_key: statement.column(2).as_i64() == Some(1),
            });
            statement
                .column(3)
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut index);
        }
        Ok(Storage { index, columns })
    }

    /// Whether they are stored in the order in which they are declared.
    fn is_in_order(&self) -> bool {
        let mut columns = self.columns.iter().enumerate();
        columns.all(|(place, s)| s.column == place)
    }
}
