//! Compiled statements: of a connection, or kept across calls, for example by a cursor of a virtual
//! table; queries that one statement answers; names in SQL.

use crate::api::{Api, c_string};
use crate::connection::{Connection, TxnState};
use crate::ffi::{self, Stmt};
use crate::value::{Value, ValueRef, bytes};
use crate::{Code, Error, Result};
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A compiled statement of a connection.
pub struct Statement<'c> {
    connection: &'c Connection,
    stmt: NonNull<Stmt>,
}

/// Tells SQLite to copy the bytes before the call returns (`SQLITE_TRANSIENT`).
pub(crate) fn transient() -> ffi::Destructor {
    // SAFETY: SQLite defines the pointer -1 to mean "copy it" and never calls it. A function
    // pointer can have any value except null.
    unsafe { std::mem::transmute::<isize, ffi::Destructor>(-1) }
}

/// Binds a value to a parameter; 1 is the first. Returns SQLite's code.
///
/// # Safety
/// `stmt` is a live statement of a connection of this library.
pub(crate) unsafe fn bind_value(
    api: Api,
    stmt: NonNull<Stmt>,
    index: usize,
    value: ValueRef<'_>,
) -> Result<c_int> {
    let index = c_int::try_from(index).map_err(|_| Error::from(Code::RANGE))?;
    let (t, stmt) = (api.raw(), stmt.as_ptr());
    // SAFETY: the caller guarantees the statement; text and blobs are copied before the call
    // returns.
    Ok(unsafe {
        match value {
            ValueRef::Null => (t.bind_null)(stmt, index),
            ValueRef::Integer(n) => (t.bind_int64)(stmt, index, n),
            ValueRef::Real(x) => (t.bind_double)(stmt, index, x),
            ValueRef::Text(text) => (t.bind_text64)(
                stmt,
                index,
                text.as_ptr().cast(),
                text.len() as u64,
                transient(),
                1, // SQLITE_UTF8
            ),
            ValueRef::Blob(blob) => (t.bind_blob64)(
                stmt,
                index,
                blob.as_ptr().cast::<c_void>(),
                blob.len() as u64,
                transient(),
            ),
        }
    })
}

impl Connection {
    /// Compiles one statement and ignores any text after it.
    ///
    /// # Errors
    /// SQLite's, with its message; also for text that has no statement.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(self.prepare_with_tail(sql)?.0)
    }

    /// Compiles the first statement. Also returns the text after it.
    ///
    /// # Errors
    /// As [`Connection::prepare`].
    pub fn prepare_with_tail<'s>(&self, sql: &'s str) -> Result<(Statement<'_>, &'s str)> {
        let len = c_int::try_from(sql.len()).map_err(|_| Error::from(Code::TOOBIG))?;
        let mut stmt = std::ptr::null_mut();
        let mut tail = std::ptr::null();
        // SAFETY: an open connection and `len` bytes of text.
        let rc = unsafe {
            (self.api().raw().prepare_v2)(
                self.as_ptr(),
                sql.as_ptr().cast(),
                len,
                &raw mut stmt,
                &raw mut tail,
            )
        };
        self.check(rc)?;
        let used = (tail as usize).saturating_sub(sql.as_ptr() as usize);
        let rest = sql.get(used..).unwrap_or_default();
        match NonNull::new(stmt) {
            Some(stmt) => {
                let connection = self;
                Ok((Statement { connection, stmt }, rest))
            }
            None => Err(Error::new(Code::ERROR, "there is no SQL statement")),
        }
    }

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

impl Statement<'_> {
    fn ptr(&self) -> *mut Stmt {
        self.stmt.as_ptr()
    }

    /// Binds a value to a parameter; 1 is the first.
    ///
    /// # Errors
    /// [`Code::RANGE`] if there is no such parameter; [`Code::TOOBIG`].
    pub fn bind(&mut self, index: usize, value: &Value) -> Result<()> {
        self.bind_ref(index, value.as_ref())
    }

    /// Binds a borrowed value; text need not be valid UTF-8.
    ///
    /// # Errors
    /// As [`Statement::bind`].
    pub fn bind_ref(&mut self, index: usize, value: ValueRef<'_>) -> Result<()> {
        // SAFETY: a live statement.
        let rc = unsafe { bind_value(self.connection.api(), self.stmt, index, value) }?;
        self.connection.check(rc)
    }

    /// Binds values to the parameters, starting with the first.
    ///
    /// # Errors
    /// As [`Statement::bind`].
    pub fn bind_all(&mut self, values: &[Value]) -> Result<()> {
        values
            .iter()
            .enumerate()
            .try_for_each(|(i, value)| self.bind(i + 1, value))
    }

    /// The number of parameters.
    pub fn parameter_count(&self) -> usize {
        // SAFETY: a live statement.
        let n = unsafe { (self.connection.api().raw().bind_parameter_count)(self.ptr()) };
        usize::try_from(n).unwrap_or(0)
    }

    /// The index of a named parameter (with its prefix, ":a").
    pub fn parameter_index(&self, name: &str) -> Option<usize> {
        let name = c_string(name);
        // SAFETY: a live statement and a terminated string.
        let n = unsafe {
            (self.connection.api().raw().bind_parameter_index)(self.ptr(), name.as_ptr())
        };
        usize::try_from(n).ok().filter(|&n| n > 0)
    }

    /// Goes to the next row; false if there is none.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn step(&mut self) -> Result<bool> {
        // SAFETY: a live statement.
        match unsafe { (self.connection.api().raw().step)(self.ptr()) } {
            rc if rc == Code::ROW.0 => Ok(true),
            rc if rc == Code::DONE.0 => Ok(false),
            rc => Err(self.connection.error(rc)),
        }
    }

    /// Resets it, so that it can run again; bindings stay.
    pub fn reset(&mut self) {
        // SAFETY: a live statement. The returned code repeats the failure of the last step.
        unsafe { (self.connection.api().raw().reset)(self.ptr()) };
    }

    /// Sets all parameters to NULL.
    pub fn clear_bindings(&mut self) {
        // SAFETY: a live statement.
        unsafe { (self.connection.api().raw().clear_bindings)(self.ptr()) };
    }

    /// Whether it changes no database directly.
    pub fn is_readonly(&self) -> bool {
        // SAFETY: a live statement.
        unsafe { (self.connection.api().raw().stmt_readonly)(self.ptr()) != 0 }
    }

    /// Whether SQLite has compiled it again since it was prepared. SQLite does so if the
    /// connection's schema was out of date.
    pub fn was_prepared_again(&self) -> bool {
        let status = self.connection.api().raw().stmt_status;
        // SAFETY: a live statement and a counter that every SQLite has; it is not reset.
        unsafe { status(self.ptr(), ffi::STMTSTATUS_REPREPARE, 0) > 0 }
    }

    /// As [`Statement::was_prepared_again`], but since this was last called.
    pub fn take_prepared_again(&mut self) -> bool {
        let status = self.connection.api().raw().stmt_status;
        // SAFETY: as above; the counter is reset.
        unsafe { status(self.ptr(), ffi::STMTSTATUS_REPREPARE, 1) > 0 }
    }

    /// The number of columns of its rows; 0 for a statement without rows.
    pub fn column_count(&self) -> usize {
        // SAFETY: a live statement.
        let n = unsafe { (self.connection.api().raw().column_count)(self.ptr()) };
        usize::try_from(n).unwrap_or(0)
    }

    /// The name of a column; 0 is the first.
    pub fn column_name(&self, index: usize) -> String {
        let Ok(index) = c_int::try_from(index) else {
            return String::new();
        };
        // SAFETY: a live statement; any number is allowed.
        let name = unsafe { (self.connection.api().raw().column_name)(self.ptr(), index) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: not null, so terminated; copied at once.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }

    /// A column of the current row; 0 is the first. NULL if there is no such column.
    pub fn column(&self, index: usize) -> ValueRef<'_> {
        let Ok(i) = c_int::try_from(index) else {
            return ValueRef::Null;
        };
        let (t, stmt) = (self.connection.api().raw(), self.ptr());
        // SAFETY: a live statement; any number is allowed. The value lives until the next step,
        // reset or bind, which need `&mut self`. The type is read first, so no conversion moves the
        // value.
        unsafe {
            match (t.column_type)(stmt, i) {
                ffi::INTEGER => ValueRef::Integer((t.column_int64)(stmt, i)),
                ffi::FLOAT => ValueRef::Real((t.column_double)(stmt, i)),
                ffi::TEXT => {
                    let ptr = (t.column_text)(stmt, i);
                    ValueRef::Text(bytes(ptr.cast(), (t.column_bytes)(stmt, i)))
                }
                ffi::BLOB => {
                    let ptr = (t.column_blob)(stmt, i);
                    ValueRef::Blob(bytes(ptr, (t.column_bytes)(stmt, i)))
                }
                _ => ValueRef::Null,
            }
        }
    }
}

impl std::fmt::Debug for Statement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: a live statement; its text lives as long.
        let sql = unsafe { (self.connection.api().raw().sql)(self.ptr()) };
        if sql.is_null() {
            return f.write_str("Statement");
        }
        // SAFETY: not null, so terminated.
        write!(f, "Statement({:?})", unsafe { CStr::from_ptr(sql) })
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: a live statement, finalised once. The returned code repeats that of the last
        // step.
        unsafe { (self.connection.api().raw().finalize)(self.ptr()) };
    }
}

/// A statement that keeps the part of its connection that it needs.
///
/// It must be dropped before the connection is closed by `sqlite3_close`, which refuses otherwise.
/// So keep it in a virtual table or a cursor, which SQLite drops first, or beside your own
/// connection.
#[derive(Debug)]
pub struct OwnedStatement {
    /// Finalised in `drop`, before the connection's wrapper is dropped.
    statement: ManuallyDrop<Statement<'static>>,
    /// Boxed, because the statement points to it.
    connection: Box<Connection>,
}

// SAFETY: a statement is not bound to a thread. One thread at a time uses it and its connection:
// the methods of a virtual table under the connection's mutex, or the owner of the connection.
unsafe impl Send for OwnedStatement {}

impl OwnedStatement {
    /// Compiles one statement.
    ///
    /// # Errors
    /// As [`Connection::prepare`].
    pub fn prepare(connection: &Connection, sql: &str) -> Result<OwnedStatement> {
        // SAFETY: the wrapper lives exactly as long as the statement, and SQLite frees no
        // connection that has a statement.
        let lent = unsafe { Connection::borrow(connection.api(), connection.as_ptr()) };
        let lent = lent.ok_or_else(|| crate::Error::from(crate::Code::MISUSE))?;
        let boxed = Box::new(lent);
        // SAFETY: the box is neither moved out of nor dropped before the statement.
        let kept: &'static Connection = unsafe { &*std::ptr::from_ref(&*boxed) };
        Ok(OwnedStatement {
            statement: ManuallyDrop::new(kept.prepare(sql)?),
            connection: boxed,
        })
    }

    /// As [`Statement::bind_ref`].
    ///
    /// # Errors
    /// As [`Statement::bind_ref`].
    pub fn bind(&mut self, index: usize, value: ValueRef<'_>) -> Result<()> {
        self.statement.bind_ref(index, value)
    }

    /// As [`Statement::step`].
    ///
    /// # Errors
    /// As [`Statement::step`].
    pub fn step(&mut self) -> Result<bool> {
        self.statement.step()
    }

    /// Its connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// As [`Statement::reset`].
    pub fn reset(&mut self) {
        self.statement.reset();
    }

    /// As [`Statement::take_prepared_again`].
    pub fn take_prepared_again(&mut self) -> bool {
        self.statement.take_prepared_again()
    }

    /// As [`Statement::column`].
    pub fn column(&self, index: usize) -> ValueRef<'_> {
        self.statement.column(index)
    }
}

impl Drop for OwnedStatement {
    fn drop(&mut self) {
        // SAFETY: this is the only place that drops it.
        unsafe { ManuallyDrop::drop(&mut self.statement) };
    }
}

/// A name in double quotes, as SQL accepts it whatever characters it has.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_a_name_are_doubled() {
        assert_eq!(quoted("a b"), r#""a b""#);
        assert_eq!(quoted(r#"say "so""#), r#""say ""so""""#);
        assert_eq!(quoted(""), r#""""#);
    }
}
