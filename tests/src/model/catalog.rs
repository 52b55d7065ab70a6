//! The existing tables, indexes, views and triggers, from which steps choose.

use rusqlite::Connection;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Declared type, upper case.
    pub(crate) declared: String,
    pub(crate) not_null: bool,
    pub(crate) key: bool,
    pub(crate) generated: bool,
}

/// An ordinary table that steps can change freely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) without_rowid: bool,
    pub(crate) columns: Vec<Column>,
}

impl Table {
    /// Its qualified name for SQL.
    pub(crate) fn sql(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// The columns that can be given a value.
    pub(crate) fn writable(&self) -> Vec<&Column> {
        self.columns.iter().filter(|c| !c.generated).collect()
    }

    /// The columns that hold plain values: neither key nor generated.
    pub(crate) fn plain(&self) -> Vec<&Column> {
        self.columns
            .iter()
            .filter(|c| !c.generated && !c.key)
            .collect()
    }
}

/// An object of a schema that is not a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) table: String,
}

/// All objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Catalog {
    pub(crate) tables: Vec<Table>,
    pub(crate) objects: Vec<Object>,
}

const TABLES: &str = "
    SELECT l.schema, l.name, l.wr, x.name, upper(x.type), x.\"notnull\", x.pk > 0, x.hidden
    FROM pragma_table_list AS l, pragma_table_xinfo(l.name, l.schema) AS x
    WHERE l.type = 'table' AND l.name GLOB '[tgwcpa][0-9]*'
    ORDER BY l.schema, l.name, x.cid";

const OBJECTS: &str = "
    SELECT type, 'main', name, tbl_name FROM main.sqlite_schema
    WHERE type <> 'table' AND name NOT LIKE 'sqlite_%'
    UNION ALL
    SELECT type, 'main', name, tbl_name FROM main.sqlite_schema
    WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'
    ORDER BY 1, 3";

impl Catalog {
    pub(crate) fn read(db: &Connection) -> rusqlite::Result<Catalog> {
        let mut catalog = Catalog::default();
        let mut statement = db.prepare_cached(TABLES)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (schema, name): (String, String) = (row.get(0)?, row.get(1)?);
            let known = catalog
                .tables
                .last()
                .is_some_and(|t| t.schema == schema && t.name == name);
            if !known {
                let without_rowid = row.get(2)?;
                catalog.tables.push(Table {
                    schema,
                    name,
                    without_rowid,
                    columns: Vec::new(),
                });
            }
            let column = Column {
                name: row.get(3)?,
                declared: row.get(4)?,
                not_null: row.get(5)?,
                key: row.get(6)?,
                generated: row.get::<_, i64>(7)? != 0,
            };
            if let Some(table) = catalog.tables.last_mut() {
                table.columns.push(column);
            }
        }
        let mut statement = db.prepare_cached(OBJECTS)?;
        let found = statement.query_map([], |r| {
            Ok(Object {
                kind: r.get(0)?,
                schema: r.get(1)?,
                name: r.get(2)?,
                table: r.get(3)?,
            })
        })?;
        catalog.objects = found.collect::<rusqlite::Result<_>>()?;
        Ok(catalog)
    }

    /// Tables of a schema whose names begin with one of `letters`.
    pub(crate) fn of(&self, schema: &str, letters: &str) -> Vec<&Table> {
        let fits = |t: &&Table| t.schema == schema && t.name.starts_with(|c| letters.contains(c));
        self.tables.iter().filter(fits).collect()
    }

    /// Indexes, views, triggers or virtual tables whose names begin with `prefix`.
    pub(crate) fn objects(&self, kind: &str, prefix: &str) -> Vec<&Object> {
        let fits = |o: &&Object| o.kind == kind && o.name.starts_with(prefix);
        self.objects.iter().filter(fits).collect()
    }
}
