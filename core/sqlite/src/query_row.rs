//! Queries that one statement answers.

use crate::Result;
use crate::api::c_string;
use crate::connection::{Connection, TxnState};
use crate::value::Value;
use std::ffi::CStr;

impl Connection {
    /// The first row of a query, or `None`.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn query_row(&self, sql: &str, parameters: &[Value]) -> Result<Option<Vec<Value>>> {
        let mut stmt = self.prepare(sql)?;
        stmt.bind_all(parameters)?;
        if !stmt.step()? {
            return Ok(None);
        }
        Ok(Some(
            (0..stmt.column_count())
                .map(|i| stmt.column(i).to_owned())
                .collect(),
        ))
    }

    /// The first column of the first row as an integer, or `None`.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn query_i64(&self, sql: &str) -> Result<Option<i64>> {
        let mut stmt = self.prepare(sql)?;
        Ok(if stmt.step()? {
            stmt.column(0).as_i64()
        } else {
            None
        })
    }

    /// The first column of the first row as text, or `None`.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn query_string(&self, sql: &str) -> Result<Option<String>> {
        let mut stmt = self.prepare(sql)?;
        Ok(if stmt.step()? {
            stmt.column(0).as_str().map(str::to_string)
        } else {
            None
        })
    }

    /// The first schema except `temp` that the current transaction writes to.
    ///
    /// # Errors
    /// SQLite's.
    pub fn written_schema(&self) -> Result<Option<String>> {
        let is_written =
            |name: &CStr| name != c"temp" && self.txn_state(Some(name)) == TxnState::Write;
        if let Some(db_name) = self.api().db_name() {
            for place in 0.. {
                // SAFETY: an open connection; any number is allowed.
                let name = unsafe { db_name(self.as_ptr(), place) };
                if name.is_null() {
                    break;
                }
                // SAFETY: not null, so terminated; it stays valid while no schema is detached.
                let name = unsafe { CStr::from_ptr(name) };
                if is_written(name) {
                    return Ok(Some(name.to_string_lossy().into_owned()));
                }
            }
            return Ok(None);
        }
        let mut list = self.prepare("PRAGMA database_list")?;
        while list.step()? {
            let name = list.column(1).as_str().unwrap_or_default();
            if is_written(&c_string(name)) {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }
}
