//! Properties of the table to insert into, and the order in which to insert.
//!
//! Sorting compares the given values, and the table compares the values after affinity and
//! collation. So rows are sorted only if both agree on which keys are equal, or if that cannot
//! change the result. `stable` says for which types of values they agree.

use super::{OnConflict, list};
use crate::set::Registered;
use crate::{Error, Result};
use densite_bulk::{Collation, SortKey};
use densite_sqlite::quoted;
use rusqlite::{Connection, params};

/// Bits for the types of values, as in `Set::types`.
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 4;
const BLOB: u8 = 8;

/// A table, with the properties that inserting needs.
pub(crate) struct Target {
    pub(crate) schema: String,
    pub(crate) name: String,
    /// The columns that values can be inserted into.
    pub(crate) columns: Vec<String>,
    key: Vec<Key>,
    pub(crate) has_triggers: bool,
    /// True if the order of rows can affect only which of several rows with one key is kept.
    any_order: bool,
}

/// A column to sort by.
struct Key {
    name: String,
    descending: bool,
    collation: Collation,
    /// Sets of types, as sums of bits. Within one set, values that are equal in the table are also
    /// equal in sorting.
    stable: Vec<u8>,
    /// An INTEGER PRIMARY KEY: a NULL becomes the next number, which depends on the rows before it.
    is_rowid: bool,
    /// NOT NULL with a DEFAULT: with `replace`, a NULL becomes the default.
    has_default: bool,
}

struct Declared {
    name: String,
    kind: String,
    is_key: bool,
    is_hidden: bool,
    has_default: bool,
}

impl Target {
    pub(crate) fn describe(con: &Connection, schema: &str, table: &str) -> Result<Target> {
        let declared = declared(con, schema, table)?;
        if declared.is_empty() {
            return Err(missing(con, schema, table)?);
        }
        let indexes = indexes(con, schema, table)?;
        let primary = indexes.iter().find(|index| index.is_primary);
        let unique = indexes
            .iter()
            .find(|index| index.is_unique && !index.is_partial);
        let alias = declared.iter().find(|column| column.is_key);
        let is_strict = is_strict(con, schema, table)?;
        let key = match (primary.or(unique.filter(|_| alias.is_none())), alias) {
            (Some(index), _) => index_key(con, schema, &index.name, &declared, is_strict)?,
            (None, Some(alias)) => vec![Key {
                name: alias.name.clone(),
                descending: false,
                collation: Collation::Binary,
                stable: vec![INTEGER | REAL | BLOB],
                is_rowid: true,
                has_default: false,
            }],
            (None, None) => Vec::new(),
        };
        let has_triggers = has_triggers(con, schema, table)?;
        // An INTEGER PRIMARY KEY is unique without an index.
        let rules = indexes.iter().filter(|index| index.is_unique).count()
            + usize::from(alias.is_some() && primary.is_none());
        Ok(Target {
            schema: schema.to_owned(),
            name: table.to_owned(),
            columns: declared
                .into_iter()
                .filter(|column| !column.is_hidden)
                .map(|column| column.name)
                .collect(),
            key,
            has_triggers,
            any_order: rules <= 1 && !has_triggers && !refers_to_itself(con, schema, table)?,
        })
    }

    /// Whether sorting cannot change the result, if the keys allow it.
    pub(crate) fn may_sort(&self, con: &Connection, on_conflict: OnConflict) -> Result<bool> {
        Ok(match on_conflict {
            // All rows or none: it does not matter which of two rows conflicts with the other.
            OnConflict::Abort => !self.has_triggers,
            OnConflict::Ignore => self.any_order,
            OnConflict::Replace => self.any_order && !is_followed(con, &self.schema, &self.name)?,
        })
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
    pub(crate) fn sort_keys(
        &self,
        columns: &Registered,
        on_conflict: OnConflict,
    ) -> Result<Vec<SortKey>> {
        let mut keys = Vec::new();
        for key in &self.key {
            let place = columns
                .names()
                .iter()
                .position(|name| same(name, &key.name));
            let Some(column) = place else { break };
            let (types, has_null) = columns.ask(|set| (set.types(column), set.has_null(column)))?;
            let becomes_another =
                key.is_rowid || (key.has_default && on_conflict == OnConflict::Replace);
            let is_stable = || key.stable.iter().any(|allowed| types | allowed == *allowed);
            if (becomes_another && has_null) || (on_conflict != OnConflict::Abort && !is_stable()) {
                break;
            }
            keys.push(SortKey {
                column,
                descending: key.descending,
                collation: key.collation,
            });
        }
        Ok(keys)
    }

    /// The column of an INTEGER PRIMARY KEY, or the first one of another key.
    pub(crate) fn first_key(&self) -> Option<&str> {
        self.key.first().map(|key| key.name.as_str())
    }
}

/// Whether two names are equal for SQLite, which ignores only the case of A to Z.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// See [`Key::stable`].
fn stable(declared: &str, is_strict: bool, collation: &str) -> Vec<u8> {
    let kind = declared.to_ascii_uppercase();
    let has = |parts: &[&str]| parts.iter().any(|part| kind.contains(part));
    let types = if has(&["INT"]) {
        vec![INTEGER | REAL | BLOB]
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        // Several numbers can become the same text: numbers mixed with text, or rounded floating
        // point.
        vec![INTEGER | BLOB, TEXT | BLOB]
    } else if kind.is_empty() || has(&["BLOB"]) || (is_strict && kind == "ANY") {
        vec![INTEGER | REAL | TEXT | BLOB]
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        // Several integers beyond 2^53 can become the same number.
        vec![REAL | BLOB]
    } else {
        vec![INTEGER | REAL | BLOB]
    };
    match collation.to_ascii_uppercase().as_str() {
        "BINARY" | "NOCASE" => types,
        // Another collation decides by itself which texts are equal.
        _ if types.len() > 1 => vec![BLOB],
        _ => types.into_iter().map(|types| types & !TEXT).collect(),
    }
}

fn declared(con: &Connection, schema: &str, table: &str) -> Result<Vec<Declared>> {
    let mut statement = con.prepare(
        "SELECT name, type, pk, hidden, \"notnull\" AND dflt_value IS NOT NULL FROM pragma_table_xinfo(?1, ?2)",
    )?;
    let rows = statement.query_map(params![table, schema], |row| {
        Ok(Declared {
            name: row.get(0)?,
            kind: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
            is_key: row.get::<_, i64>(2)? != 0,
            is_hidden: row.get::<_, i64>(3)? != 0,
            has_default: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

struct Index {
    name: String,
    is_unique: bool,
    is_primary: bool,
    is_partial: bool,
}

fn indexes(con: &Connection, schema: &str, table: &str) -> Result<Vec<Index>> {
    let mut statement = con.prepare(
        "SELECT name, \"unique\", origin = 'pk', partial FROM pragma_index_list(?1, ?2)",
    )?;
    let rows = statement.query_map(params![table, schema], |row| {
        Ok(Index {
            name: row.get(0)?,
            is_unique: row.get(1)?,
            is_primary: row.get(2)?,
            is_partial: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn index_key(
    con: &Connection,
    schema: &str,
    index: &str,
    declared: &[Declared],
    is_strict: bool,
) -> Result<Vec<Key>> {
    let mut statement = con.prepare(
        "SELECT name, \"desc\", coll FROM pragma_index_xinfo(?1, ?2) WHERE key AND cid >= 0 ORDER BY seqno",
    )?;
    let rows = statement.query_map(params![index, schema], |row| {
        let (name, collation): (String, String) = (row.get(0)?, row.get(2)?);
        let column = declared.iter().find(|column| column.name == name);
        Ok(Key {
            descending: row.get(1)?,
            collation: match same(&collation, "NOCASE") {
                true => Collation::NoCase,
                false => Collation::Binary,
            },
            stable: stable(
                column.map_or("", |column| &column.kind),
                is_strict,
                &collation,
            ),
            is_rowid: false,
            has_default: column.is_some_and(|column| column.has_default),
            name,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn is_strict(con: &Connection, schema: &str, table: &str) -> Result<bool> {
    exists(
        con,
        "SELECT 1 FROM pragma_table_list(?1) WHERE schema = ?2 COLLATE NOCASE AND strict",
        table,
        schema,
    )
}

fn has_triggers(con: &Connection, schema: &str, table: &str) -> Result<bool> {
    let sql = format!(
        "SELECT 1 FROM {}.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND ?2 IS NOT NULL
         UNION ALL SELECT 1 FROM temp.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
        quoted(schema)
    );
    exists(con, &sql, table, schema)
}

fn refers_to_itself(con: &Connection, schema: &str, table: &str) -> Result<bool> {
    exists(
        con,
        "SELECT 1 FROM pragma_foreign_key_list(?1, ?2) WHERE \"table\" = ?1 COLLATE NOCASE",
        table,
        schema,
    )
}

/// Whether foreign keys change or delete rows of other tables along with rows of this one. That can
/// in turn change further rows of this table.
fn is_followed(con: &Connection, schema: &str, table: &str) -> Result<bool> {
    let is_on: bool = con.query_row("PRAGMA foreign_keys", [], |row| row.get(0))?;
    Ok(is_on
        && exists(
            con,
            "SELECT 1 FROM pragma_table_list AS l JOIN pragma_foreign_key_list(l.name, l.schema) AS k
             WHERE l.schema = ?2 COLLATE NOCASE AND k.\"table\" = ?1 COLLATE NOCASE
               AND k.on_delete NOT IN ('NO ACTION', 'RESTRICT')",
            table,
            schema,
        )?)
}

fn exists(con: &Connection, sql: &str, table: &str, schema: &str) -> Result<bool> {
    Ok(con.prepare(sql)?.exists(params![table, schema])?)
}

/// The error for a missing table; another schema can have it.
fn missing(con: &Connection, schema: &str, table: &str) -> Result<Error> {
    let mut statement = con.prepare(
        "SELECT schema FROM pragma_table_list WHERE name = ?1 COLLATE NOCASE AND schema <> ?2 LIMIT 1",
    )?;
    let mut rows = statement.query(params![table, schema])?;
    let advice = match rows.next()? {
        Some(row) => format!(
            "the schema {} has one, name it in the options",
            row.get::<_, String>(0)?
        ),
        None => "create it first, or check the name".to_owned(),
    };
    Ok(Error::Table(format!(
        "no such table: {schema}.{table}; {advice}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_equal_in_sorting_for_these_types() {
        assert_eq!(stable("INTEGER", false, "BINARY"), [11]);
        assert_eq!(stable("VARCHAR(9)", false, "NOCASE"), [9, 12]);
        assert_eq!(stable("TEXT", false, "RTRIM"), [8]);
        assert_eq!(stable("", false, "BINARY"), [15]);
        assert_eq!(stable("ANY", true, "BINARY"), [15]);
        assert_eq!(stable("ANY", false, "BINARY"), [11]);
        assert_eq!(stable("DOUBLE", false, "BINARY"), [10]);
        assert_eq!(stable("", false, "RTRIM"), [11]);
    }
}
