//! The plan of an insert: in which order rows can be inserted, and what else the table does with
//! them.
//!
//! Rows that come in the order of a table's b-tree are inserted several times as fast. But sorting
//! compares the given values, and the table compares the values after affinity and collation. So
//! rows are sorted only if both agree on which keys are equal, or if that cannot change the result:
//! if an error undoes all rows, it does not matter which of two rows conflicts with the other.
//!
//! `densite_insert_plan(table, schema, conflict)` has these rows, in this order:
//!
//! | fact | name | flags | types |
//! | --- | --- | --- | --- |
//! | `column` | of a column that accepts values | | |
//! | `key` | of a column to sort by | 1 descending, 2 ignoring case, 4 only without NULL | sums as of [`Set::types`](crate::Set::types), of which one must contain all types of the values; NULL: any |
//! | `rowid` | of the INTEGER PRIMARY KEY | | |
//! | `triggers` | the table has some, so SQLite reads all rows before it writes the first | | |
//! | `whole` | a row's parent can be among later rows, or come from a trigger, so all rows must be in one statement | | |
//! | `elsewhere` | of a schema that has the table, which this one does not have | | |
//!
//! `densite_insert_orphan(handle, table, schema)` has a row for each column of the foreign key whose
//! parent is missing first.

use crate::sets;
use densite_sqlite::{
    Code, Connection, Error, Result, Value, ValueRef, create_table_function, quoted,
};

/// Bits for the types of values, as in [`Set::types`](crate::Set::types).
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 4;
const BLOB: u8 = 8;

const DESCENDING: i64 = 1;
const NO_CASE: i64 = 2;
const NO_NULL: i64 = 4;

/// Adds the functions to a connection.
pub(crate) fn create(connection: &Connection) -> Result<()> {
    create_table_function(
        connection,
        "densite_insert_plan",
        &["fact TEXT", "name TEXT", "flags INTEGER", "types TEXT"],
        &["\"table\"", "schema", "conflict"],
        |connection, given| match given {
            [
                Some(Value::Text(table)),
                Some(Value::Text(schema)),
                Some(Value::Text(conflict)),
            ] => {
                let target = Target {
                    connection,
                    table,
                    schema,
                };
                target.plan(conflict)
            }
            _ => Err(misuse(
                "densite_insert_plan takes a table, a schema and what happens after a conflict, as text",
            )),
        },
    )?;
    create_table_function(
        connection,
        "densite_insert_orphan",
        &[
            "position INTEGER",
            "parent TEXT",
            "child TEXT",
            "referred TEXT",
        ],
        &["handle", "\"table\"", "schema"],
        |connection, given| match given {
            [
                Some(Value::Integer(handle)),
                Some(Value::Text(table)),
                Some(Value::Text(schema)),
            ] => {
                let target = Target {
                    connection,
                    table,
                    schema,
                };
                target.orphan(*handle)
            }
            _ => Err(misuse(
                "densite_insert_orphan takes a handle, a table and a schema",
            )),
        },
    )
}

fn misuse(text: &str) -> Error {
    Error::new(Code::MISUSE, text)
}

/// A table that rows are inserted into.
#[derive(Clone, Copy)]
struct Target<'a> {
    connection: &'a Connection,
    table: &'a str,
    schema: &'a str,
}

/// A column of the table.
struct Column {
    name: String,
    declared: String,
    /// Its place in the primary key; 0 is none.
    key: i64,
    /// Not a generated one or a hidden one.
    accepts_values: bool,
    /// NOT NULL with a DEFAULT: with `replace`, a NULL becomes the default.
    has_default: bool,
}

struct Index {
    name: String,
    is_unique: bool,
    is_primary: bool,
    is_partial: bool,
}

/// A column to sort by.
struct Key {
    name: String,
    flags: i64,
    types: Vec<u8>,
    is_rowid: bool,
    has_default: bool,
}

/// A row of the plan.
fn fact(fact: &str, name: &str) -> Vec<Value> {
    vec![fact.into(), name.into(), Value::Integer(0), Value::Null]
}

impl Target<'_> {
    fn plan(self, conflict: &str) -> Result<Vec<Vec<Value>>> {
        let columns = self.columns()?;
        if columns.is_empty() {
            return self.elsewhere();
        }
        let indexes = self.indexes()?;
        let primary = indexes.iter().find(|index| index.is_primary);
        let alias = columns.iter().find(|column| column.key > 0);
        // An INTEGER PRIMARY KEY is unique without an index.
        let rowid = alias.filter(|_| primary.is_none());
        let has_triggers = self.has_triggers()?;
        let parents = self.parents()?;
        let refers_to_itself = parents.iter().any(|p| p.eq_ignore_ascii_case(self.table));
        let follows_keys = self.connection.query_i64("PRAGMA foreign_keys")? == Some(1);
        let rules =
            indexes.iter().filter(|index| index.is_unique).count() + usize::from(rowid.is_some());
        // The order affects only which of two rows with the same key stays.
        let any_order = rules <= 1 && !has_triggers && !refers_to_itself;
        let may_sort = match conflict {
            "ignore" => any_order,
            // Replacing a row can delete other rows of the table.
            "replace" => any_order && !(follows_keys && self.is_followed()?),
            _ => !has_triggers,
        };
        let mut facts: Vec<Vec<Value>> = Vec::new();
        let accepting = columns.iter().filter(|column| column.accepts_values);
        facts.extend(accepting.map(|column| fact("column", &column.name)));
        if may_sort {
            let unique = || indexes.iter().find(|i| i.is_unique && !i.is_partial);
            let keys = match (
                primary.or_else(|| unique().filter(|_| alias.is_none())),
                rowid,
            ) {
                (Some(index), _) => self.keys_of(index, &columns)?,
                (None, Some(rowid)) => vec![Key::rowid(&rowid.name)],
                (None, None) => Vec::new(),
            };
            facts.extend(keys.iter().map(|key| key.fact(conflict)));
        }
        facts.extend(rowid.map(|rowid| fact("rowid", &rowid.name)));
        if has_triggers {
            facts.push(fact("triggers", ""));
        }
        // A trigger can add the parent.
        if follows_keys && (refers_to_itself || (has_triggers && !parents.is_empty())) {
            facts.push(fact("whole", ""));
        }
        Ok(facts)
    }

    /// The rows of a query with the table as ?1 and the schema as ?2.
    fn rows(self, sql: &str) -> Result<Vec<Vec<Value>>> {
        let mut statement = self.connection.prepare(sql)?;
        let given = [self.table.into(), self.schema.into()];
        statement.bind_all(given.get(..statement.parameter_count()).unwrap_or(&given))?;
        let mut rows = Vec::new();
        while statement.step()? {
            let columns = 0..statement.column_count();
            rows.push(columns.map(|i| statement.column(i).to_owned()).collect());
        }
        Ok(rows)
    }

    fn names(self, sql: &str) -> Result<Vec<String>> {
        let rows = self.rows(sql)?;
        Ok(rows.iter().map(|row| text(row, 0)).collect())
    }

    fn elsewhere(self) -> Result<Vec<Vec<Value>>> {
        let sql =
            "SELECT schema FROM pragma_table_list WHERE name = ?1 COLLATE NOCASE AND schema <> ?2";
        let schemas = self.names(sql)?;
        Ok(schemas.iter().map(|name| fact("elsewhere", name)).collect())
    }

    fn columns(self) -> Result<Vec<Column>> {
        let sql = "SELECT name, type, pk, hidden, \"notnull\" AND dflt_value IS NOT NULL FROM pragma_table_xinfo(?1, ?2)";
        let rows = self.rows(sql)?;
        let column = |row: &Vec<Value>| Column {
            name: text(row, 0),
            declared: text(row, 1),
            key: number(row, 2),
            accepts_values: number(row, 3) == 0,
            has_default: number(row, 4) != 0,
        };
        Ok(rows.iter().map(column).collect())
    }

    fn indexes(self) -> Result<Vec<Index>> {
        let sql = "SELECT name, \"unique\", origin = 'pk', partial FROM pragma_index_list(?1, ?2)";
        let rows = self.rows(sql)?;
        let index = |row: &Vec<Value>| Index {
            name: text(row, 0),
            is_unique: number(row, 1) != 0,
            is_primary: number(row, 2) != 0,
            is_partial: number(row, 3) != 0,
        };
        Ok(rows.iter().map(index).collect())
    }

    fn keys_of(self, index: &Index, columns: &[Column]) -> Result<Vec<Key>> {
        let is_strict =
            "SELECT 1 FROM pragma_table_list(?1) WHERE schema = ?2 COLLATE NOCASE AND strict";
        let is_strict = !self.rows(is_strict)?.is_empty();
        let of_index = Target {
            table: &index.name,
            ..self
        };
        let rows = of_index.rows("SELECT name, \"desc\", coll FROM pragma_index_xinfo(?1, ?2) WHERE key AND cid >= 0 ORDER BY seqno")?;
        let key = |row: &Vec<Value>| {
            let (name, collation) = (text(row, 0), text(row, 2));
            let column = columns.iter().find(|column| column.name == name);
            let declared = column.map_or("", |column| &column.declared);
            let mut flags = if number(row, 1) != 0 { DESCENDING } else { 0 };
            if collation.eq_ignore_ascii_case("NOCASE") {
                flags |= NO_CASE;
            }
            Key {
                flags,
                types: stable(declared, is_strict, &collation),
                is_rowid: false,
                has_default: column.is_some_and(|column| column.has_default),
                name,
            }
        };
        Ok(rows.iter().map(key).collect())
    }

    fn has_triggers(self) -> Result<bool> {
        let own = format!("{}.sqlite_schema", quoted(self.schema));
        for schema in [own.as_str(), "temp.sqlite_schema"] {
            let sql = format!(
                "SELECT 1 FROM {schema} WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE LIMIT 1"
            );
            if !self.rows(&sql)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn parents(self) -> Result<Vec<String>> {
        self.names("SELECT \"table\" FROM pragma_foreign_key_list(?1, ?2)")
    }

    /// Whether foreign keys change or delete rows of other tables along with rows of this one. That
    /// can in turn change further rows of this table.
    fn is_followed(self) -> Result<bool> {
        let sql = "SELECT 1 FROM pragma_table_list AS l JOIN pragma_foreign_key_list(l.name, l.schema) AS k \
                   WHERE l.schema = ?2 COLLATE NOCASE AND k.\"table\" = ?1 COLLATE NOCASE \
                   AND k.on_delete NOT IN ('NO ACTION', 'RESTRICT') LIMIT 1";
        Ok(!self.rows(sql)?.is_empty())
    }
}

impl Key {
    fn rowid(name: &str) -> Key {
        Key {
            name: name.to_owned(),
            flags: 0,
            types: vec![INTEGER | REAL | BLOB],
            is_rowid: true,
            has_default: false,
        }
    }

    fn fact(&self, conflict: &str) -> Vec<Value> {
        // A NULL becomes the next number, which depends on the rows before it, or the default.
        let becomes_another = self.is_rowid || (self.has_default && conflict == "replace");
        let flags = self.flags | if becomes_another { NO_NULL } else { 0 };
        let types: Vec<String> = self.types.iter().map(u8::to_string).collect();
        let types = match conflict {
            "ignore" | "replace" => types.join(" ").into(),
            _ => Value::Null,
        };
        vec!["key".into(), self.name.as_str().into(), flags.into(), types]
    }
}

/// Sets of types, as sums of bits. Within one set, values that are equal in the table are also equal
/// in sorting.
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

/// A foreign key of the table.
struct ForeignKey {
    parent: String,
    /// Pairs of a column and the column that it refers to.
    columns: Vec<(String, String)>,
}

impl Target<'_> {
    /// The first row of a set that refers to a missing row. SQLite counts such references and checks
    /// the count when the statement ends, so its error does not name the row. The failed statement
    /// has left nothing, so the tables are as they were before it.
    fn orphan(self, handle: i64) -> Result<Vec<Vec<Value>>> {
        let set = sets::get(handle).map_err(|e| misuse(&e.to_string()))?;
        for key in self.foreign_keys()? {
            // If a parent table is missing or has other columns, SQLite's own error says so.
            if let Ok(Some(position)) = self.find(handle, set.names(), &key) {
                let parent = &key.parent;
                let row = |(child, referred): &(String, String)| {
                    let [parent, child, referred] =
                        [parent, child, referred].map(|name| Value::from(name.as_str()));
                    vec![position.into(), parent, child, referred]
                };
                return Ok(key.columns.iter().map(row).collect());
            }
        }
        Ok(Vec::new())
    }

    /// The foreign keys, in the order in which they were declared, without those that do not match
    /// their parent.
    fn foreign_keys(self) -> Result<Vec<ForeignKey>> {
        let sql = "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1, ?2) ORDER BY id DESC, seq";
        let rows = self.rows(sql)?;
        let mut keys = Vec::new();
        for parts in rows.chunk_by(|a, b| number(a, 0) == number(b, 0)) {
            let parent = parts.first().map(|row| text(row, 1)).unwrap_or_default();
            let primary = Target {
                table: &parent,
                ..self
            };
            let primary =
                primary.names("SELECT name FROM pragma_table_info(?1, ?2) WHERE pk ORDER BY pk")?;
            let pair = |(i, row): (usize, &Vec<Value>)| {
                let referred = match row.get(3) {
                    Some(Value::Text(name)) => name.clone(),
                    _ => primary.get(i)?.clone(),
                };
                Some((text(row, 2), referred))
            };
            let columns: Option<Vec<_>> = parts.iter().enumerate().map(pair).collect();
            keys.extend(columns.map(|columns| ForeignKey { parent, columns }));
        }
        Ok(keys)
    }

    /// The position of the first row whose parent is missing, in reading order.
    fn find(self, handle: i64, given: &[String], key: &ForeignKey) -> Result<Option<i64>> {
        let place = |name: &str| given.iter().position(|n| n.eq_ignore_ascii_case(name));
        let mut terms = Vec::new();
        let mut equal = Vec::new();
        for (child, referred) in &key.columns {
            // A column that is not given has its default, which is not among the given values.
            let Some(place) = place(child) else {
                return Ok(None);
            };
            terms.push(format!("k.c{place} IS NOT NULL"));
            equal.push(format!("p.{} = k.c{place}", quoted(referred)));
        }
        terms.push(format!(
            "NOT EXISTS (SELECT 1 FROM {}.{} p WHERE {})",
            quoted(self.schema),
            quoted(&key.parent),
            equal.join(" AND ")
        ));
        if key.parent.eq_ignore_ascii_case(self.table) {
            // The parent can be another of these rows.
            let [(child, referred)] = key.columns.as_slice() else {
                return Ok(None);
            };
            let (Some(child), Some(parent)) = (place(child), place(referred)) else {
                return Ok(None);
            };
            terms.push(format!(
                "k.c{child} NOT IN (SELECT c{parent} FROM densite_columns({handle}) WHERE c{parent} IS NOT NULL)"
            ));
        }
        self.connection.query_i64(&format!(
            "SELECT k.rowid FROM densite_columns({handle}) k WHERE {} LIMIT 1",
            terms.join(" AND ")
        ))
    }
}

fn text(row: &[Value], column: usize) -> String {
    let value = row.get(column).map(Value::as_ref);
    value
        .and_then(ValueRef::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn number(row: &[Value], column: usize) -> i64 {
    let value = row.get(column).map(Value::as_ref);
    value.and_then(ValueRef::as_i64).unwrap_or(0)
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
