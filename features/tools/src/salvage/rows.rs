//! The new database: a private one of SQLite, which gets tables, then rows, then what depends on
//! them.

use crate::db::Through;
use crate::error::Result;
use crate::schema::{self, Entry};
use crate::stand_in;
use densite_sqlite::{self as sqlite, Api, Code, Connection, Statement, Value, ffi, quoted};
use densite_sqlite_format::{Encoding, Header};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;

/// The columns of the table for rows of unknown tables, beside those of the rows.
const FOUND: &str = "\"table\" TEXT, page INTEGER, id INTEGER";
const FOUND_COLUMNS: usize = 3;
/// The most columns of a table in SQLite.
const COLUMNS_MAX: usize = 2000;
/// Names of a row id.
const ROW_IDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// How records of a table are inserted.
struct Table {
    entry: Entry,
    /// Stored in records, and computed again when they are inserted.
    generated: Vec<String>,
    /// The name by which the row id is inserted; `None`: a column has it, or there is none.
    row_id: Option<&'static str>,
}

/// The new database.
pub(super) struct Rows {
    db: Connection,
    encoding: Encoding,
    tables: HashMap<String, Table>,
    /// The table for rows of unknown tables, and its number of columns for their values.
    found: RefCell<Option<(String, usize)>>,
}

impl Rows {
    pub(super) fn new(api: Api, header: &Header) -> Result<Rows> {
        let vfs = CString::new(Through::Host.vfs(api)?.name()).unwrap_or_default();
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_URI | ffi::OPEN_NOMUTEX;
        let failed = super::failed;
        // Without a name, SQLite makes a temporary file that has none, either.
        let db = Connection::open(api, "", flags, Some(&vfs)).map_err(failed)?;
        // The schema can be of a SQLite that took double quotes for those of a text.
        db.set_config(ffi::DBCONFIG_DQS_DDL, true).map_err(failed)?;
        db.set_config(ffi::DBCONFIG_DQS_DML, true).map_err(failed)?;
        db.exec(&format!(
            "PRAGMA page_size = {}; PRAGMA encoding = '{}'; PRAGMA auto_vacuum = {};
             PRAGMA journal_mode = MEMORY; PRAGMA foreign_keys = OFF;
             PRAGMA ignore_check_constraints = ON; BEGIN;
             PRAGMA user_version = {}; PRAGMA application_id = {}",
            header.page_size,
            header.encoding.name(),
            header.auto_vacuum as u8,
            header.user_version,
            header.application_id
        ))
        .map_err(failed)?;
        // A column's collation is needed to make its table, not to store rows.
        sqlite::stand_in_for_collations(&db).map_err(failed)?;
        Ok(Rows {
            db,
            encoding: header.encoding,
            tables: HashMap::new(),
            found: RefCell::default(),
        })
    }

    /// Runs a statement of the schema, with stand-ins for functions that only the application has.
    pub(super) fn create(&self, sql: &str) -> sqlite::Result<()> {
        let mut last = None;
        loop {
            let Err(e) = self.db.exec(sql) else {
                return Ok(());
            };
            match stand_in::unknown_function(&e.message).map(str::to_owned) {
                Some(name) if last.as_ref() != Some(&name) => {
                    stand_in::function(&self.db, &name)?;
                    last = Some(name);
                }
                _ => return Err(e),
            }
        }
    }

    /// Makes an index.
    ///
    /// # Errors
    /// SQLite's; one of its collations is missing.
    pub(super) fn create_index(&self, name: &str, sql: &str) -> sqlite::Result<()> {
        self.create(sql)?;
        let Some(collation) = self.foreign_collation(name)? else {
            return Ok(());
        };
        self.db.exec(&format!("DROP INDEX main.{}", quoted(name)))?;
        Err(sqlite::Error::new(
            Code::ERROR,
            format!("no such collation sequence: {collation}"),
        ))
    }

    /// The collation of an index that only the application has.
    fn foreign_collation(&self, index: &str) -> sqlite::Result<Option<String>> {
        let mut found = self.db.prepare(
            "SELECT coll FROM pragma_index_xinfo(?1, 'main') WHERE key AND lower(coll) NOT IN ('binary', 'nocase', 'rtrim')",
        )?;
        found.bind(1, &Value::from(index))?;
        let collation = match found.step()? {
            true => found.column(0).as_str().map(str::to_owned),
            false => None,
        };
        Ok(collation)
    }

    /// The indexes that constraints of tables have, and that are in no order, because only the
    /// application has their collation: each with that.
    pub(super) fn unordered(&self) -> sqlite::Result<Vec<(String, String)>> {
        let mut own = self
            .db
            .prepare("SELECT name FROM main.sqlite_schema WHERE type = 'index' AND sql IS NULL")?;
        let mut found = Vec::new();
        while own.step()? {
            let name = own.column(0).as_str().unwrap_or_default().to_owned();
            if let Some(collation) = self.foreign_collation(&name)? {
                found.push((name, collation));
            }
        }
        Ok(found)
    }

    /// Adds a virtual table, whose module is not needed for that.
    pub(super) fn create_virtual(&self, name: &str, sql: &str) -> sqlite::Result<()> {
        self.db.exec("PRAGMA writable_schema = ON")?;
        let added = self
            .db
            .prepare("INSERT INTO main.sqlite_schema VALUES ('table', ?1, ?1, 0, ?2)")
            .and_then(|mut insert| {
                insert.bind_all(&[Value::from(name), Value::from(sql)])?;
                insert.step()
            });
        self.db.exec("PRAGMA writable_schema = OFF")?;
        added.map(drop)
    }

    /// Reads the schema of the new tables.
    pub(super) fn tables_are_made(&mut self) -> Result<()> {
        let failed = super::failed;
        for entry in schema::entries(&self.db).map_err(failed)? {
            if entry.table.is_some() || entry.root == 1 {
                continue;
            }
            let is_column = |name: &str| {
                let mut columns = entry.columns.iter();
                columns.any(|column| column.eq_ignore_ascii_case(name))
            };
            let has_ids = !entry.without_rowid && entry.rowid_alias.is_none();
            let row_id = ROW_IDS.into_iter().find(|name| has_ids && !is_column(name));
            let generated = self.generated(&entry.name).map_err(failed)?;
            let name = entry.name.to_ascii_lowercase();
            let table = Table {
                entry,
                generated,
                row_id,
            };
            self.tables.insert(name, table);
        }
        Ok(())
    }

    /// Whether the table was made, and has row ids.
    pub(super) fn has_ids(&self, table: &str) -> Option<bool> {
        let table = self.tables.get(&table.to_ascii_lowercase())?;
        Some(!table.entry.without_rowid)
    }

    /// The number of columns in records of a table.
    pub(super) fn columns(&self, table: &str) -> Option<usize> {
        let table = self.tables.get(&table.to_ascii_lowercase())?;
        Some(table.entry.columns.len())
    }

    fn generated(&self, table: &str) -> sqlite::Result<Vec<String>> {
        let sql = "SELECT name FROM pragma_table_xinfo(?1, 'main') WHERE hidden = 3";
        let mut found = self.db.prepare(sql)?;
        found.bind(1, &Value::from(table))?;
        let mut names = Vec::new();
        while found.step()? {
            names.push(found.column(0).as_str().unwrap_or_default().to_owned());
        }
        Ok(names)
    }

    /// Begins to insert records into a table; `None` if it was not made.
    pub(super) fn inserts(&self, table: &str) -> Option<Inserts<'_>> {
        Some(Inserts {
            db: &self.db,
            encoding: self.encoding,
            table: self.tables.get(&table.to_ascii_lowercase())?,
            statements: HashMap::new(),
        })
    }

    /// Keeps the values of a row that belongs to no table that could be made, or that its table
    /// refuses.
    pub(super) fn keep(
        &self,
        table: Option<&str>,
        page: u32,
        id: Option<i64>,
        values: Vec<Value>,
    ) -> sqlite::Result<()> {
        let wanted = values.len().min(COLUMNS_MAX - FOUND_COLUMNS);
        let (name, columns) = match self.found.take() {
            Some(found) => found,
            None => {
                let name = self.free_name()?;
                self.db.exec(&format!("CREATE TABLE {name}({FOUND})"))?;
                (name, 0)
            }
        };
        for column in columns..wanted {
            self.db
                .exec(&format!("ALTER TABLE {name} ADD COLUMN c{column}"))?;
        }
        let about = [
            table.map_or(Value::Null, Value::from),
            Value::Integer(page.into()),
            id.map_or(Value::Null, Value::Integer),
        ];
        let bound = about.into_iter().chain(values);
        let mut bound: Vec<Value> = bound.take(wanted + FOUND_COLUMNS).collect();
        let places = places_of(&mut bound, self.encoding);
        let all: Vec<String> = (0..wanted).map(|n| format!(", c{n}")).collect();
        let mut insert = self.db.prepare(&format!(
            "INSERT INTO {name}(\"table\", page, id{}) VALUES ({})",
            all.concat(),
            places
        ))?;
        insert.bind_all(&bound)?;
        insert.step()?;
        drop(insert);
        self.found.replace(Some((name, columns.max(wanted))));
        Ok(())
    }

    /// The name of the table for rows of unknown tables, if there are some.
    pub(super) fn found(&self) -> Option<String> {
        let found = self.found.borrow();
        found.as_ref().map(|(name, _)| name.clone())
    }

    fn free_name(&self) -> sqlite::Result<String> {
        let mut name = "lost_and_found".to_owned();
        for n in 0.. {
            let sql = format!("SELECT count(*) FROM main.sqlite_schema WHERE name = '{name}'");
            if self.db.query_i64(&sql)? == Some(0) {
                break;
            }
            name = format!("lost_and_found_{n}");
        }
        Ok(name)
    }

    /// Writes the database through a view.
    pub(super) fn write(&self, uri: &str) -> sqlite::Result<()> {
        self.db.exec("COMMIT")?;
        let mut vacuum = self.db.prepare("VACUUM main INTO ?1")?;
        vacuum.bind(1, &Value::from(uri))?;
        vacuum.step().map(drop)
    }
}

/// The places of values in an INSERT. Malformed text in UTF-16 becomes a blob that SQLite takes for a
/// text, byte for byte.
fn places_of(values: &mut [Value], encoding: Encoding) -> String {
    let mut places = Vec::with_capacity(values.len());
    for (value, n) in values.iter_mut().zip(1..) {
        places.push(match value {
            Value::RawText(bytes) if encoding != Encoding::Utf8 => {
                *value = Value::Blob(std::mem::take(bytes));
                format!("CAST(?{n} AS TEXT)")
            }
            _ => format!("?{n}"),
        });
    }
    places.join(", ")
}

/// Inserts records into one table.
pub(super) struct Inserts<'a> {
    db: &'a Connection,
    encoding: Encoding,
    table: &'a Table,
    /// By the number of values in a record, and by their places.
    statements: HashMap<(usize, String), Statement<'a>>,
}

impl Inserts<'_> {
    /// Inserts a row.
    ///
    /// # Errors
    /// SQLite's, of a constraint, or of a function that the application has.
    pub(super) fn insert(&mut self, id: Option<i64>, values: &[Value]) -> sqlite::Result<()> {
        let entry = &self.table.entry;
        let places = entry.columns.iter().zip(values).enumerate();
        let given = places.filter(|(_, (name, _))| !self.table.generated.contains(name));
        let (mut columns, mut bound) = (Vec::new(), Vec::new());
        if let (Some(name), Some(id)) = (self.table.row_id, id) {
            columns.push(name.to_owned());
            bound.push(Value::Integer(id));
        }
        for (place, (name, value)) in given {
            columns.push(quoted(name));
            bound.push(match (entry.rowid_alias == Some(place), id) {
                (true, Some(id)) => Value::Integer(id),
                _ => value.clone(),
            });
        }
        let places = places_of(&mut bound, self.encoding);
        let statement = match self.statements.entry((values.len(), places.clone())) {
            std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(self.db.prepare(&format!(
                    "INSERT INTO main.{}({}) VALUES ({})",
                    quoted(&entry.name),
                    columns.join(", "),
                    places
                ))?)
            }
        };
        statement.reset();
        statement.bind_all(&bound)?;
        statement.step()?;
        statement.reset();
        Ok(())
    }
}
