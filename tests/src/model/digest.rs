//! A hash of all content of a connection's databases.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::Connection;

use super::outcome::hash_value;

/// The content of each object: the value of a pragma, or the number and hash of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest(BTreeMap<String, String>);

/// State of a side between steps.
#[derive(Default)]
pub(crate) struct Memory {
    /// The content that the second connection saw when its snapshot began.
    pub(crate) snapshot: Option<Digest>,
    /// The digest of the last step that computed one, to report differences.
    pub(crate) digest: Option<Digest>,
}

/// Pragmas that are part of a database's content.
const PRAGMAS: &[&str] = &[
    "page_size",
    "page_count",
    "freelist_count",
    "auto_vacuum",
    "encoding",
    "user_version",
    "application_id",
    "schema_version",
];

impl Digest {
    /// The digest of all databases of `db`: all rows of all tables with their row ids, the schema
    /// tables, sizes, and SQLite's own integrity check.
    pub(crate) fn of(db: &Connection) -> rusqlite::Result<Digest> {
        let mut found = BTreeMap::new();
        for schema in names(db, "SELECT name FROM pragma_database_list ORDER BY seq")? {
            Digest::of_schema(db, &schema, &mut found)?;
        }
        Ok(Digest(found))
    }

    /// The digest of the rows and schema of `main`, without row ids and page numbers. It compares a
    /// database with its copy.
    pub(crate) fn of_rows(db: &Connection) -> rusqlite::Result<Digest> {
        let mut found = BTreeMap::new();
        tables(db, "main", false, &mut found)?;
        Ok(Digest(found))
    }

    fn of_schema(
        db: &Connection,
        schema: &str,
        found: &mut BTreeMap<String, String>,
    ) -> rusqlite::Result<()> {
        for pragma in PRAGMAS {
            let value = names(db, &format!("SELECT * FROM pragma_{pragma}('{schema}')"));
            // Some pragmas have no table-valued function.
            let value = match value {
                Ok(value) => value,
                Err(_) => names(db, &format!("PRAGMA {schema}.{pragma}"))?,
            };
            found.insert(format!("{schema}: {pragma}"), value.join(","));
        }
        let check = names(db, &format!("PRAGMA {schema}.integrity_check"))?;
        found.insert(format!("{schema}: integrity_check"), check.join("; "));
        tables(db, schema, true, found)
    }

    /// Whether SQLite's integrity check found nothing.
    pub(crate) fn is_sound(&self) -> bool {
        let mut checks = self
            .0
            .iter()
            .filter(|(name, _)| name.ends_with("integrity_check"));
        checks.all(|(_, text)| text == "ok")
    }

    /// One line for each object that differs.
    pub(crate) fn difference(&self, other: &Digest) -> String {
        let mut keys: Vec<_> = self.0.keys().chain(other.0.keys()).collect();
        keys.sort();
        keys.dedup();
        let nothing = "(not there)".to_owned();
        let mut lines = Vec::new();
        for key in keys {
            let (a, b) = (
                self.0.get(key).unwrap_or(&nothing),
                other.0.get(key).unwrap_or(&nothing),
            );
            if a != b {
                lines.push(format!("  {key}: {a} against {b}"));
            }
        }
        lines.join("\n")
    }

    /// A hash of the whole digest.
    pub(crate) fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.0 {
            writeln!(f, "  {key}: {value}")?;
        }
        Ok(())
    }
}

/// Adds the schema table and the rows of every table. Virtual tables count through the tables with
/// their content.
fn tables(
    db: &Connection,
    schema: &str,
    exact: bool,
    found: &mut BTreeMap<String, String>,
) -> rusqlite::Result<()> {
    let place = if exact { ", rowid, rootpage" } else { "" };
    // VACUUM INTO omits an empty sqlite_sequence.
    let which = if exact {
        ""
    } else {
        "WHERE name NOT LIKE 'sqlite_%'"
    };
    let sql = format!(
        "SELECT type, name, tbl_name, sql{place} FROM \"{schema}\".sqlite_schema {which} ORDER BY type, name"
    );
    found.insert(format!("{schema}: schema"), hash_rows(db, &sql)?);
    let mut statement = db.prepare_cached(
        "SELECT name, wr FROM pragma_table_list WHERE schema = ?1 AND type IN ('table', 'shadow')
         AND name NOT IN ('sqlite_schema', 'sqlite_temp_schema') ORDER BY name",
    )?;
    let list = statement
        .query_map([schema], |r| {
            Ok((r.get::<_, String>(0)?, r.get::<_, bool>(1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (name, without_rowid) in list {
        if !exact && name.starts_with("sqlite_") {
            continue;
        }
        let rowid = if without_rowid || !exact {
            ""
        } else {
            "rowid, "
        };
        let order = if without_rowid { "" } else { " ORDER BY rowid" };
        let sql = format!("SELECT {rowid}* FROM \"{schema}\".\"{name}\"{order}");
        found.insert(format!("{schema}: table {name}"), hash_rows(db, &sql)?);
    }
    Ok(())
}

fn names(db: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(sql)?;
    let rows = statement.query_map([], |r| {
        let value: rusqlite::types::Value = r.get(0)?;
        Ok(match value {
            rusqlite::types::Value::Integer(i) => i.to_string(),
            rusqlite::types::Value::Text(t) => t,
            other => format!("{other:?}"),
        })
    })?;
    rows.collect()
}

fn hash_rows(db: &Connection, sql: &str) -> rusqlite::Result<String> {
    let mut hasher = DefaultHasher::new();
    let mut count = 0u64;
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        count += 1;
        for i in 0..columns {
            hash_value(row.get_ref(i)?, &mut hasher);
        }
    }
    Ok(format!("{count} rows, {:016x}", hasher.finish()))
}
