//! A target table, as the schema describes it.

use crate::error::refused;
use crate::schema::affinity::{Affinity, Cell};
use crate::schema::collation::Collation;
use crate::schema::default::{Default, evaluated};
use crate::schema::own_triggers::is_ours;
use crate::schema::policy::Upsert;
use densite_sqlite::{Code, Connection, Error, Result, Value, ValueRef, quoted};

/// A column that can be set. Generated columns are left out.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) declared: String,
    pub(crate) affinity: Affinity,
    pub(crate) collation: String,
    pub(crate) not_null: bool,
    pub(crate) default: Option<Default>,
}

/// The primary key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// Indexes among the table's settable columns.
    pub(crate) columns: Vec<usize>,
    /// How each compares.
    pub(crate) collations: Vec<Collation>,
    /// It is the row id: `INTEGER PRIMARY KEY`.
    pub(crate) is_row_id: bool,
    /// It is `INTEGER PRIMARY KEY AUTOINCREMENT`.
    pub(crate) is_automatic: bool,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Option<Key>,
    pub(crate) strict: bool,
    /// The name of the row id, if rows may have no key: the table has none, or its key allows NULL.
    /// `None` also if columns have taken all names of the row id.
    pub(crate) row_id: Option<&'static str>,
    /// A trigger may run when its rows change: its own, or one of a table that a foreign key
    /// changes with it.
    pub(crate) has_triggers: bool,
    /// Its declaration may have ON CONFLICT clauses.
    pub(crate) has_conflict_clauses: bool,
    /// Rows can be applied in any order that keeps the order within a key (rule L5). It has no
    /// foreign keys in either direction and no UNIQUE except the key. The schema has no triggers at
    /// all, because one of another table may read this table.
    pub(crate) sortable: bool,
    /// The only values beside the key that the table can refuse are forbidden NULLs.
    pub(crate) takes_any: bool,
}

impl Target {
    /// The table of that name in the main database; `None` if there is none.
    pub(crate) fn read(connection: &Connection, name: &str) -> Result<Option<Target>> {
        let listed = "SELECT name, type, sql FROM main.sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')";
        let Some(row) = connection.query_row(listed, &[Value::from(name)])? else {
            return Ok(None);
        };
        let (Some(Value::Text(name)), Some(Value::Text(kind)), sql) =
            (row.first(), row.get(1), row.get(2))
        else {
            return Ok(None);
        };
        let is_virtual = matches!(sql, Some(Value::Text(sql)) if sql.trim_start().get(..14).is_some_and(|s| s.eq_ignore_ascii_case("CREATE VIRTUAL")));
        if kind != "table" || is_virtual {
            let kind = if kind == "view" {
                "a view"
            } else {
                "a virtual table"
            };
            return Err(refused(format!(
                "{name} is {kind}; ingest needs an ordinary table"
            )));
        }
        let table = quoted(name);
        let list = connection.query_row(&format!("PRAGMA main.table_list({table})"), &[])?;
        if list.as_ref().and_then(|l| l.get(2)) == Some(&Value::from("shadow")) {
            return Err(refused(format!(
                "{name} is a part of a virtual table; name an ordinary table of the application"
            )));
        }
        let says = |place| {
            let word = list.as_ref().and_then(|l| l.get(place));
            matches!(word, Some(Value::Integer(1)))
        };
        let (without_row_id, strict) = (says(4), says(5));
        let mut target = Target {
            name: name.clone(),
            columns: Vec::new(),
            key: None,
            row_id: None,
            strict,
            has_triggers: false,
            has_conflict_clauses: false,
            sortable: false,
            takes_any: false,
        };
        let mut key = target.read_columns(connection, &table)?;
        key.sort_unstable();
        let unique = target.read_key(
            connection,
            &table,
            key.into_iter().map(|(_, c)| c).collect(),
        )?;
        if !without_row_id && target.may_lack_keys() {
            target.row_id = free_row_id(connection, &table)?;
        }
        let count = |sql: &str| -> Result<bool> {
            let row = connection.query_row(sql, &[Value::from(name.as_str())])?;
            Ok(row.is_some())
        };
        // Densite's own do nothing that matters here.
        let triggers = format!(
            "SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND NOT {}",
            is_ours()
        );
        let own_triggers = count(&format!("{triggers} AND tbl_name = ?1 COLLATE NOCASE"))?;
        let any_trigger = connection.query_i64(&triggers)?.is_some();
        let is_child = connection
            .query_row(&format!("PRAGMA main.foreign_key_list({table})"), &[])?
            .is_some();
        let is_parent = count(
            "SELECT 1 FROM main.sqlite_schema s, pragma_foreign_key_list(s.name, 'main') f WHERE s.type = 'table' AND f.\"table\" = ?1 COLLATE NOCASE",
        )?;
        target.has_triggers = own_triggers || (any_trigger && is_parent);
        let computed = "SELECT 1 FROM pragma_table_xinfo(?1, 'main') WHERE hidden \
             UNION ALL SELECT 1 FROM pragma_index_list(?1, 'main') l, pragma_index_xinfo(l.name, 'main') x WHERE l.partial OR x.cid = -2";
        let says = |word: &str| matches!(sql, Some(Value::Text(sql)) if sql.to_ascii_uppercase().contains(word));
        target.has_conflict_clauses = says("CONFLICT");
        target.takes_any = !strict && !says("CHECK") && !count(computed)?;
        target.sortable =
            target.key.is_some() && !any_trigger && !is_child && !is_parent && !unique;
        Ok(Some(target))
    }

    /// Reads the columns. Returns those of the primary key: position in the key and index of the
    /// column.
    fn read_columns(&mut self, connection: &Connection, table: &str) -> Result<Vec<(i64, usize)>> {
        let mut key = Vec::new();
        let mut statement = connection.prepare(&format!("PRAGMA main.table_xinfo({table})"))?;
        while statement.step()? {
            let text = |i| statement.column(i).as_str().unwrap_or_default().to_owned();
            let number = |i| statement.column(i).as_i64().unwrap_or(0);
            // 2 and 3 are generated columns.
            if number(6) != 0 {
                continue;
            }
            let (name, declared) = (text(1), text(2));
            let affinity = Affinity::of(&declared, self.strict);
            if number(5) > 0 {
                key.push((number(5), self.columns.len()));
            }
            self.columns.push(Column {
                affinity,
                collation: connection.collation(c"main", &self.name, &name)?,
                not_null: number(3) != 0,
                default: match statement.column(4).as_str() {
                    Some(sql) => Default::read(connection, sql, affinity)?,
                    None => None,
                },
                name,
                declared,
            });
        }
        Ok(key)
    }

    /// Reads the key. Returns whether there is another UNIQUE constraint.
    fn read_key(
        &mut self,
        connection: &Connection,
        table: &str,
        columns: Vec<usize>,
    ) -> Result<bool> {
        let (mut unique, mut key_index) = (false, None);
        let mut statement = connection.prepare(&format!("PRAGMA main.index_list({table})"))?;
        while statement.step()? {
            let text = |i| statement.column(i).as_str().unwrap_or_default().to_owned();
            if text(3) == "pk" {
                key_index = Some(text(1));
            } else if statement.column(2).as_i64() == Some(1) {
                unique = true;
            }
        }
        if columns.is_empty() {
            return Ok(unique);
        }
        let mut collations = vec![Collation::Binary; columns.len()];
        let is_row_id = key_index.is_none();
        let name = columns.first().and_then(|c| self.columns.get(*c));
        let is_automatic = match name.filter(|_| is_row_id) {
            Some(column) => connection.is_autoincrement(c"main", &self.name, &column.name)?,
            None => false,
        };
        if let Some(index) = key_index {
            let mut statement =
                connection.prepare(&format!("PRAGMA main.index_xinfo({})", quoted(&index)))?;
            let encoding = connection
                .query_string("PRAGMA main.encoding")?
                .unwrap_or_default();
            let mut collations = collations.iter_mut();
            // The key's columns come first, then the other columns of the index.
            while statement.step()? && statement.column(5).as_i64() == Some(1) {
                let Some(collation) = collations.next() else {
                    return Err(refused(format!(
                        "{}: the primary key names a column more than once, which ingest does not support; name each column once",
                        self.name
                    )));
                };
                let name = statement.column(4).as_str().unwrap_or("BINARY").to_owned();
                let known = Collation::of(&name).ok_or_else(|| {
                    refused(format!(
                        "{}: the primary key compares by the collation {name}, which ingest does not support; use BINARY, NOCASE or RTRIM",
                        self.name
                    ))
                })?;
                *collation = known.encoded(&encoding);
            }
        }
        self.key = Some(Key {
            columns,
            collations,
            is_row_id,
            is_automatic,
        });
        Ok(unique)
    }

    /// Whether a row of the table can be without a key for the log.
    fn may_lack_keys(&self) -> bool {
        let is_nullable = |c: &usize| self.columns.get(*c).is_none_or(|c| !c.not_null);
        let key = self.key.as_ref();
        key.is_none_or(|k| !k.is_row_id && k.columns.iter().any(is_nullable))
    }

    /// A row of default values. The value of a default expression is known only when the row is
    /// applied, so it is NULL here.
    pub(crate) fn defaults(&self) -> Vec<Value> {
        let value = |c: &Column| match &c.default {
            Some(Default::Constant(value)) => value.clone(),
            _ => Value::Null,
        };
        self.columns.iter().map(value).collect()
    }

    /// Checks that SQLite compiles an UPSERT of this table.
    ///
    /// # Errors
    /// SQLite's, with its message; an error if it sets a column of the key.
    pub(crate) fn check_upsert(&self, connection: &Connection, upsert: &Upsert) -> Result<()> {
        let key = self.key.as_ref().map(|key| key.columns.as_slice());
        let key = key.unwrap_or_default();
        let names = |places: &[usize]| {
            let columns = places.iter().filter_map(|c| self.columns.get(*c));
            let names: Vec<String> = columns.map(|c| quoted(&c.name)).collect();
            names.join(", ")
        };
        if let Some((name, _)) = (upsert.set.iter())
            .find(|(name, _)| self.column(name).is_some_and(|c| key.contains(&c)))
        {
            return Err(refused(format!(
                "on_conflict cannot set {name}, a column of the primary key of {}",
                self.name
            )));
        }
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let nulls = vec!["NULL"; all.len()].join(", ");
        let sql = format!(
            "INSERT INTO main.{}({}) VALUES ({nulls}) ON CONFLICT({}) DO UPDATE SET {}",
            quoted(&self.name),
            names(&all),
            names(key),
            upsert.sql()
        );
        let compiled = connection.prepare(&sql).map(drop);
        compiled.map_err(|e| Error::new(e.code, format!("on_conflict: {}", e.message)))
    }

    /// The columns as a virtual table declares them, with the same affinities and collations.
    pub(crate) fn declared_columns(&self) -> String {
        let column = |c: &Column| {
            let (name, collation) = (quoted(&c.name), quoted(&c.collation));
            format!("{name} {} COLLATE {collation}", declared(c))
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        columns.join(", ")
    }

    /// The index of a column, by name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// Whether this column is the row id.
    pub(crate) fn is_row_id(&self, column: usize) -> bool {
        self.key
            .as_ref()
            .is_some_and(|k| k.is_row_id && k.columns.first() == Some(&column))
    }

    /// Indexes of all columns, those of the key first: the order of the log.
    pub(crate) fn log_order(&self) -> Vec<usize> {
        let key = self
            .key
            .as_ref()
            .map(|k| k.columns.clone())
            .unwrap_or_default();
        let others = (0..self.columns.len())
            .filter(|c| !key.contains(c))
            .collect::<Vec<_>>();
        key.into_iter().chain(others).collect()
    }

    /// A column's value as the table would store it. With `insert`, NULL becomes the default of the
    /// column.
    ///
    /// # Errors
    /// A value that the table would refuse because of its type or because it is missing, with the
    /// column's name.
    pub(crate) fn cell<'a>(
        &self,
        connection: &Connection,
        place: usize,
        value: ValueRef<'a>,
        insert: bool,
    ) -> Result<Cell<'a>> {
        let Some(column) = self.columns.get(place) else {
            return Ok(Cell::Same(ValueRef::Null));
        };
        let mut cell = match (value, &column.default) {
            (ValueRef::Null, Some(default)) if insert => {
                self.default_cell(connection, column, default)?
            }
            _ => column.affinity.apply(value, connection)?,
        };
        if self.is_row_id(place) && !matches!(cell.as_ref(), ValueRef::Null | ValueRef::Integer(_))
        {
            return Err(self.mismatch(&column.name, "must be an integer: it is the row id"));
        }
        if column.not_null && cell.as_ref() == ValueRef::Null && !(self.is_row_id(place) && insert)
        {
            return Err(Error::new(
                Code::CONSTRAINT,
                format!(
                    "{}.{} may not be NULL, and no value was given",
                    self.name, column.name
                ),
            ));
        }
        if self.strict {
            self.check_strict(column, cell.as_ref())?;
        }
        if let Cell::Other(Value::Real(x)) = &cell
            && x.is_nan()
        {
            cell = Cell::Same(ValueRef::Null);
        }
        Ok(cell)
    }

    fn default_cell<'a>(
        &self,
        connection: &Connection,
        column: &Column,
        default: &Default,
    ) -> Result<Cell<'a>> {
        match default {
            Default::Constant(value) => Ok(Cell::Other(value.clone())),
            Default::Expression(sql) => {
                let value = evaluated(connection, sql)?;
                let cell = column.affinity.apply(value.as_ref(), connection)?;
                Ok(Cell::Other(cell.as_ref().to_owned()))
            }
        }
    }

    fn check_strict(&self, column: &Column, value: ValueRef<'_>) -> Result<()> {
        let declared = column.declared.to_ascii_uppercase();
        let fits = match (declared.as_str(), value) {
            (_, ValueRef::Null) | ("ANY", _) => true,
            ("INT" | "INTEGER", v) => matches!(v, ValueRef::Integer(_)),
            ("REAL", v) => matches!(v, ValueRef::Real(_)),
            ("TEXT", v) => matches!(v, ValueRef::Text(_)),
            ("BLOB", v) => matches!(v, ValueRef::Blob(_)),
            _ => true,
        };
        match fits {
            true => Ok(()),
            false => Err(self.mismatch(
                &column.name,
                &format!(
                    "has the type {declared} in a STRICT table and cannot hold {}",
                    value.shown()
                ),
            )),
        }
    }

    fn mismatch(&self, column: &str, what: &str) -> Error {
        Error::new(Code::MISMATCH, format!("{}.{column} {what}", self.name))
    }
}

/// The column's type, if a virtual table can declare it with the same meaning. It cannot use ANY of
/// STRICT tables, HIDDEN, or quoted words.
fn declared(column: &Column) -> &str {
    const MEANT: [&str; 12] = [
        "HIDDEN",
        "CONSTRAINT",
        "NULL",
        "NOT",
        "PRIMARY",
        "UNIQUE",
        "CHECK",
        "DEFAULT",
        "COLLATE",
        "REFERENCES",
        "GENERATED",
        "AS",
    ];
    let is_word = |word: &str| {
        !word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !MEANT.iter().any(|m| word.eq_ignore_ascii_case(m))
    };
    let words = column.declared.as_str();
    let (name, size) = words.split_once('(').unwrap_or((words, "0)"));
    let is_number = |n: &str| {
        let n = n.trim();
        !n.is_empty() && n.chars().all(|c| c.is_ascii_digit())
    };
    let size = size.strip_suffix(')');
    let is_known = name.split_whitespace().all(is_word)
        && size.is_some_and(|s| s.split(',').count() <= 2 && s.split(',').all(is_number));
    match is_known && Affinity::of(words, false) == column.affinity {
        true => words,
        false => column.affinity.name(),
    }
}

/// A name of the table's row id that no column has.
pub(crate) fn free_row_id(connection: &Connection, table: &str) -> Result<Option<&'static str>> {
    let mut names = vec!["rowid", "_rowid_", "oid"];
    let mut statement = connection.prepare(&format!("PRAGMA main.table_xinfo({table})"))?;
    while statement.step()? {
        let taken = statement.column(1).as_str().unwrap_or_default();
        names.retain(|name| !name.eq_ignore_ascii_case(taken));
    }
    Ok(names.first().copied())
}
