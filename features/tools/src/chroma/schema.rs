//! The known versions of Chroma's schema.
//!
//! Chroma records each migration in the table `migrations` (`dir`, `version`, `filename`), numbered
//! from 1 in three directories. A schema is known if its migrations are a prefix of the lists below
//! and include all migrations of Chroma 0.5.0.

use super::sql::{Sql, text};
use crate::error::{Error, Result};
use densite_sqlite::Connection;
use std::fmt;

/// Directory, smallest supported number of migrations, and the names (without `.sqlite.sql`) of all
/// known migrations.
const MIGRATIONS: [(&str, usize, &[&str]); 3] = [
    (
        "sysdb",
        5,
        &[
            "00001-collections",
            "00002-segments",
            "00003-collection-dimension",
            "00004-tenants-databases",
            "00005-remove-topic",
            "00006-collection-segment-metadata",
            "00007-collection-config",
            "00008-maintenance-log",
            "00009-segment-collection-not-null",
            "00010-collection-schema",
        ],
    ),
    (
        "metadb",
        3,
        &[
            "00001-embedding-metadata",
            "00002-embedding-metadata",
            "00003-full-text-tokenize",
            "00004-metadata-indices",
            "00005-max-seq-id-int",
            "00006-metadata-array-support",
        ],
    ),
    (
        "embeddings_queue",
        1,
        &["00001-embeddings", "00002-embeddings-queue-config"],
    ),
];

/// Tables and their columns that this crate uses; all known versions have them.
const COLUMNS: [(&str, &[&str]); 7] = [
    ("tenants", &["id"]),
    ("databases", &["id", "name", "tenant_id"]),
    ("collections", &["id", "name", "database_id"]),
    ("segments", &["id", "type", "scope", "collection"]),
    ("max_seq_id", &["segment_id", "seq_id"]),
    ("embeddings", &["segment_id", "embedding_id"]),
    (
        "embeddings_queue",
        &["seq_id", "operation", "topic", "id", "vector", "metadata"],
    ),
];

/// The number of applied migrations in each directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Of collections, segments, tenants and databases.
    pub sysdb: u32,
    /// Of metadata and positions.
    pub metadb: u32,
    /// Of the queue.
    pub embeddings_queue: u32,
}

impl Schema {
    /// Whether the queue has the settings table `embeddings_queue_config` (since 0.5.6), and vector
    /// segments store positions in `max_seq_id`.
    pub(super) fn has_config(self) -> bool {
        self.embeddings_queue >= 2
    }

    /// The Chroma releases with this schema, as far as known.
    pub fn releases(self) -> &'static str {
        match (self.sysdb, self.metadb, self.embeddings_queue) {
            (..=7, 3, 1) => "0.5.0 to 0.5.5",
            (8..=9, 4, 2) => "0.5.6 to 0.6",
            (9.., 5.., 2) => "1.0 or newer",
            _ => "between two releases",
        }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sysdb {}, metadb {}, embeddings_queue {} (Chroma {})",
            self.sysdb,
            self.metadb,
            self.embeddings_queue,
            self.releases()
        )
    }
}

/// Whether the database has Chroma's tables, of any version.
///
/// # Errors
/// Errors of SQLite.
pub fn is_chroma(conn: &Connection, path: &std::path::Path) -> Result<bool> {
    let sql = Sql::new(conn, path.to_path_buf());
    for table in [
        "migrations",
        "embeddings_queue",
        "max_seq_id",
        "segments",
        "collections",
    ] {
        if !sql.exists(
            "SELECT 1 FROM sqlite_schema WHERE type='table' AND name=?",
            &[text(table)],
        )? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads the version of the schema and refuses an unknown one.
pub(super) fn read(sql: &Sql<'_>) -> Result<Schema> {
    if !is_chroma(sql.conn, sql.path())? {
        return Err(Error::NotChroma {
            path: sql.path().to_path_buf(),
        });
    }
    let mut counts = [0u32; 3];
    sql.each(
        "SELECT dir, version, filename FROM migrations ORDER BY dir, version",
        &[],
        |row| {
            let dir = row.column(0).as_str().unwrap_or_default();
            let version = row.column(1).as_i64().unwrap_or(0);
            let file = row.column(2).as_str().unwrap_or_default();
            let known = MIGRATIONS
                .iter()
                .zip(&mut counts)
                .find_map(|((d, _, files), count)| {
                    let next = files.get(usize::try_from(*count).ok()?)?;
                    let same = *d == dir
                        && version == i64::from(*count) + 1
                        && file.strip_suffix(".sqlite.sql") == Some(next);
                    same.then_some(count)
                });
            match known {
                Some(count) => {
                    *count += 1;
                    Ok(())
                }
                None => Err(unknown(
                    sql,
                    &format!("migration {dir}/{file} (version {version})"),
                )),
            }
        },
    )?;
    for ((dir, least, _), count) in MIGRATIONS.iter().zip(counts) {
        if usize::try_from(count).unwrap_or(0) < *least {
            return Err(Error::Unsupported(format!(
                "{}: it was made by a Chroma older than 0.5.0 ({count} migrations of {dir}, at least {least} are known); open it once with Chroma 0.5 or newer first; nothing was changed",
                sql.path().display()
            )));
        }
    }
    let [sysdb, metadb, embeddings_queue] = counts;
    let schema = Schema {
        sysdb,
        metadb,
        embeddings_queue,
    };
    check_columns(sql, schema)?;
    Ok(schema)
}

fn check_columns(sql: &Sql<'_>, schema: Schema) -> Result<()> {
    let config: (&str, &[&str]) = ("embeddings_queue_config", &["id", "config_json_str"]);
    let config = schema.has_config().then_some(config);
    for (table, columns) in COLUMNS.into_iter().chain(config) {
        for column in columns {
            let there = sql.exists(
                "SELECT 1 FROM pragma_table_info(?) WHERE name=?",
                &[text(table), text(column)],
            )?;
            if !there {
                return Err(unknown(sql, &format!("no column {column} in {table}")));
            }
        }
    }
    // Rule 5 and the meaning of positions depend on this.
    if !sql.exists(
        "SELECT 1 FROM pragma_table_info('embeddings_queue') WHERE name='seq_id' AND pk=1 AND upper(type)='INTEGER'",
        &[],
    )? {
        return Err(unknown(sql, "embeddings_queue.seq_id is not an INTEGER PRIMARY KEY"));
    }
    if sql.exists("SELECT 1 FROM sqlite_schema WHERE type='trigger'", &[])? {
        return Err(unknown(sql, "a trigger, which Chroma does not create"));
    }
    Ok(())
}

fn unknown(sql: &Sql<'_>, what: &str) -> Error {
    Error::Unsupported(format!(
        "{}: its schema is not a known one of Chroma 0.5 to 1.5: {what}; use a newer Densite; nothing was changed",
        sql.path().display()
    ))
}
