//! The table to insert into, as the plan of the insert describes it (`densite_insert_plan`, which
//! `densite_bulk` adds).

use super::{OnConflict, list};
use crate::set::Registered;
use crate::{Error, Result};
use densite_bulk::{Collation, SortKey};
use rusqlite::{Connection, Row, params};

const DESCENDING: i64 = 1;
const NO_CASE: i64 = 2;
const NO_NULL: i64 = 4;

/// A table, with the properties that inserting needs.
pub(crate) struct Target {
    pub(crate) schema: String,
    pub(crate) name: String,
    /// The columns that values can be inserted into.
    pub(crate) columns: Vec<String>,
    key: Vec<Key>,
    /// The INTEGER PRIMARY KEY.
    pub(crate) rowid: Option<String>,
    pub(crate) has_triggers: bool,
}

/// A column to sort by.
struct Key {
    name: String,
    flags: i64,
    /// Sets of types, of which one must contain the types of all values; `None`: any.
    types: Option<Vec<u8>>,
}

impl Target {
    pub(crate) fn describe(
        con: &Connection,
        schema: &str,
        table: &str,
        on_conflict: OnConflict,
    ) -> Result<Target> {
        let mut target = Target {
            schema: schema.to_owned(),
            name: table.to_owned(),
            columns: Vec::new(),
            key: Vec::new(),
            rowid: None,
            has_triggers: false,
        };
        let mut elsewhere = None;
        let plan =
            con.prepare("SELECT fact, name, flags, types FROM densite_insert_plan(?1, ?2, ?3)");
        let mut plan = plan.map_err(Error::of_function)?;
        let conflict = on_conflict.word().to_ascii_lowercase();
        let mut rows = plan.query(params![table, schema, conflict])?;
        while let Some(row) = rows.next()? {
            match row.get_ref(0)?.as_str().unwrap_or_default() {
                "column" => target.columns.push(row.get(1)?),
                "key" => target.key.push(Key::read(row)?),
                "rowid" => target.rowid = row.get(1)?,
                "triggers" => target.has_triggers = true,
                "elsewhere" => elsewhere = elsewhere.or(Some(row.get(1)?)),
                _ => {}
            }
        }
        match target.columns.is_empty() {
            true => Err(target.missing(elsewhere)),
            false => Ok(target),
        }
    }

    /// The error for a missing table; another schema can have it.
    fn missing(&self, elsewhere: Option<String>) -> Error {
        let advice = match elsewhere {
            Some(schema) => format!("the schema {schema} has one, name it in the options"),
            None => "create it first, or check the name".to_owned(),
        };
        let (schema, name) = (&self.schema, &self.name);
        Error::Table(format!("no such table: {schema}.{name}; {advice}"))
    }

    /// Refuses columns that the table does not have, and duplicate columns.
    pub(crate) fn check_names(&self, names: &[String]) -> Result<()> {
        for (i, name) in names.iter().enumerate() {
            if !self.columns.iter().any(|known| same(known, name)) {
                return Err(Error::Table(format!(
                    "table {} has no column {}; its columns are {}",
                    self.name,
                    name.escape_debug(),
                    list(self.columns.iter().cloned())
                )));
            }
            if names.iter().take(i).any(|before| same(before, name)) {
                return Err(Error::Columns(format!(
                    "the column {name} is given twice; give it once"
                )));
            }
        }
        Ok(())
    }

    /// The keys that the rows can be sorted by.
    pub(crate) fn sort_keys(&self, columns: &Registered) -> Result<Vec<SortKey>> {
        let mut keys = Vec::new();
        for key in &self.key {
            let mut names = columns.names().iter();
            let place = names.position(|name| same(name, &key.name));
            let Some(column) = place else { break };
            let (types, has_null) = columns.ask(|set| (set.types(column), set.has_null(column)))?;
            let is_stable = |sets: &Vec<u8>| sets.iter().any(|set| types | set == *set);
            if (has_null && key.flags & NO_NULL != 0) || !key.types.as_ref().is_none_or(is_stable) {
                break;
            }
            keys.push(SortKey {
                column,
                descending: key.flags & DESCENDING != 0,
                collation: match key.flags & NO_CASE {
                    0 => Collation::Binary,
                    _ => Collation::NoCase,
                },
            });
        }
        Ok(keys)
    }
}

impl Key {
    fn read(row: &Row<'_>) -> rusqlite::Result<Key> {
        let types: Option<String> = row.get(3)?;
        let sums = |text: String| text.split(' ').filter_map(|sum| sum.parse().ok()).collect();
        Ok(Key {
            name: row.get(1)?,
            flags: row.get(2)?,
            types: types.map(sums),
        })
    }
}

/// Whether two names are equal for SQLite, which ignores only the case of A to Z.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}
