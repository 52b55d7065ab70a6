//! Runs queries and returns errors of this crate.

use crate::db::from_sqlite;
use crate::error::Result;
use densite_sqlite::{Connection, Statement, Value};
use std::path::{Path, PathBuf};

/// A connection, and the path of its database for messages.
pub(super) struct Sql<'c> {
    pub(super) conn: &'c Connection,
    path: PathBuf,
}

impl<'c> Sql<'c> {
    pub(super) fn new(conn: &'c Connection, path: PathBuf) -> Sql<'c> {
        Sql { conn, path }
    }

    /// The path of the database.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the path to an error of SQLite.
    pub(super) fn check<T>(&self, done: densite_sqlite::Result<T>) -> Result<T> {
        done.map_err(|e| from_sqlite(&self.path, e))
    }

    pub(super) fn exec(&self, sql: &str) -> Result<()> {
        self.check(self.conn.exec(sql))
    }

    /// Runs a statement that returns no rows. Returns the number of rows it changed.
    pub(super) fn run(&self, sql: &str, parameters: &[Value]) -> Result<i64> {
        let mut statement = self.check(self.conn.prepare(sql))?;
        self.check(statement.bind_all(parameters))?;
        while self.check(statement.step())? {}
        Ok(self.conn.changes())
    }

    /// Calls `row` for each row.
    pub(super) fn each(
        &self,
        sql: &str,
        parameters: &[Value],
        mut row: impl FnMut(&Statement<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.check(self.conn.prepare(sql))?;
        self.check(statement.bind_all(parameters))?;
        while self.check(statement.step())? {
            row(&statement)?;
        }
        Ok(())
    }

    /// The first column of the first row, if it is an integer.
    pub(super) fn integer(&self, sql: &str) -> Result<Option<i64>> {
        self.check(self.conn.query_i64(sql))
    }

    /// Whether the query returns a row.
    pub(super) fn exists(&self, sql: &str, parameters: &[Value]) -> Result<bool> {
        Ok(self.check(self.conn.query_row(sql, parameters))?.is_some())
    }
}

/// Creates a text parameter.
pub(super) fn text(s: &str) -> Value {
    Value::Text(s.to_string())
}
