//! A statement that outlives the borrow of its connection.

use crate::api::{Api, c_string};
use crate::connection::Connection;
use crate::ffi::{self, Mutex, Stmt};
use crate::statement::bind_value;
use crate::value::ValueRef;
use crate::{Code, Error, Result};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

/// A statement that keeps its connection alive. SQLite keeps a closed connection
/// (`sqlite3_close_v2`) until its last statement is gone, and refuses to close one
/// (`sqlite3_close`) that has statements. So the owner of the connection does not matter.
///
/// Rows are read under the connection's mutex. If the connection has one, any thread can use the
/// statement.
///
/// A forked child has a useless copy, because the connection is its parent's. There it returns
/// errors and is never freed.
pub struct Detached {
    api: Api,
    stmt: NonNull<Stmt>,
    process: u32,
}

// SAFETY: every use holds the connection's mutex. Without a mutex, it is on the thread that may use
// the connection, as `prepare_for_one_thread` requires.
unsafe impl Send for Detached {}

impl Detached {
    /// Compiles the only statement of a text.
    ///
    /// # Errors
    /// SQLite's, with its message. [`Code::MISUSE`] if there is no statement or more than one, or
    /// if the connection has no mutex.
    pub fn prepare(connection: &Connection, sql: &str) -> Result<Detached> {
        let statement = Detached::prepare_for_one_thread(connection, sql)?;
        match statement.mutex() {
            Some(_) => Ok(statement),
            None => Err(Error::new(
                Code::MISUSE,
                "this connection has no mutex (SQLITE_OPEN_NOMUTEX, or a SQLite built without); use a serialised one",
            )),
        }
    }

    /// The same, also on a connection without a mutex. Then the caller uses the statement like the
    /// connection, from one thread at a time.
    ///
    /// # Errors
    /// As [`Detached::prepare`].
    pub fn prepare_for_one_thread(connection: &Connection, sql: &str) -> Result<Detached> {
        let api = connection.api();
        let len = c_int::try_from(sql.len()).map_err(|_| Error::from(Code::TOOBIG))?;
        let (mut stmt, mut tail) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: an open connection and `len` bytes of text.
        connection.check(unsafe {
            (api.raw().prepare_v2)(
                connection.as_ptr(),
                sql.as_ptr().cast(),
                len,
                &raw mut stmt,
                &raw mut tail,
            )
        })?;
        let stmt = NonNull::new(stmt)
            .ok_or_else(|| Error::new(Code::MISUSE, "there is no SQL statement"))?;
        let statement = Detached {
            api,
            stmt,
            process: std::process::id(),
        };
        let used = (tail as usize).saturating_sub(sql.as_ptr() as usize);
        let rest = sql.get(used..).unwrap_or_default();
        if !connection
            .prepare(rest)
            .is_err_and(|e| e.code == Code::ERROR && e.message == NO_STATEMENT)
        {
            return Err(Error::new(
                Code::MISUSE,
                "there is more than one SQL statement; run them one by one",
            ));
        }
        Ok(statement)
    }

    fn ptr(&self) -> *mut Stmt {
        self.stmt.as_ptr()
    }

    /// The connection's mutex.
    fn mutex(&self) -> Option<NonNull<Mutex>> {
        let of = self.api.raw().db_mutex?;
        // SAFETY: the entry's own type; a live statement has a connection.
        unsafe {
            type Of = unsafe extern "C" fn(*mut ffi::Db) -> *mut Mutex;
            let of = std::mem::transmute::<unsafe extern "C" fn(), Of>(of);
            NonNull::new(of((self.api.raw().db_handle)(self.ptr())))
        }
    }

    /// Binds a value to a parameter; 1 is the first.
    ///
    /// # Errors
    /// SQLite's.
    pub fn bind(&mut self, index: usize, value: ValueRef<'_>) -> Result<()> {
        // SAFETY: a live statement.
        let rc = unsafe { bind_value(self.api, self.stmt, index, value) }?;
        self.check(rc)
    }

    /// The number of parameters.
    pub fn parameter_count(&self) -> usize {
        // SAFETY: a live statement.
        let n = unsafe { (self.api.raw().bind_parameter_count)(self.ptr()) };
        usize::try_from(n).unwrap_or(0)
    }

    /// The index of a named parameter (with its prefix, ":a").
    pub fn parameter_index(&self, name: &str) -> Option<usize> {
        let name = c_string(name);
        // SAFETY: a live statement and a terminated string.
        let n = unsafe { (self.api.raw().bind_parameter_index)(self.ptr(), name.as_ptr()) };
        usize::try_from(n).ok().filter(|&n| n > 0)
    }

    /// The statement's text, without any text after it.
    pub fn sql(&self) -> String {
        // SAFETY: a live statement; its text lives as long, and is copied.
        unsafe {
            let sql = (self.api.raw().sql)(self.ptr());
            match sql.is_null() {
                true => String::new(),
                false => CStr::from_ptr(sql).to_string_lossy().into_owned(),
            }
        }
    }

    /// Whether it changes no database directly.
    pub fn is_readonly(&self) -> bool {
        // SAFETY: a live statement.
        unsafe { (self.api.raw().stmt_readonly)(self.ptr()) != 0 }
    }

    /// The number of columns of its rows.
    pub fn column_count(&self) -> usize {
        // SAFETY: a live statement.
        let n = unsafe { (self.api.raw().column_count)(self.ptr()) };
        usize::try_from(n).unwrap_or(0)
    }

    /// The name of a column; 0 is the first.
    pub fn column_name(&self, index: usize) -> String {
        // SAFETY: a live statement; any number is allowed.
        unsafe { self.text_of(index, Some(self.api.raw().column_name)) }.unwrap_or_default()
    }

    /// The declared type of a column, if it is a column of a table.
    pub fn column_declared(&self, index: usize) -> Option<String> {
        type Of = unsafe extern "C" fn(*mut Stmt, c_int) -> *const c_char;
        // SAFETY: the entry's own type, if the library has it; any number is allowed.
        unsafe {
            let of = self.api.raw().column_decltype;
            self.text_of(
                index,
                of.map(|of| std::mem::transmute::<unsafe extern "C" fn(), Of>(of)),
            )
        }
    }

    /// The text that `of` returns for a column, copied.
    ///
    /// # Safety
    /// `of` returns null or terminated text that lives until the next call on the statement.
    unsafe fn text_of(
        &self,
        index: usize,
        of: Option<unsafe extern "C" fn(*mut Stmt, c_int) -> *const c_char>,
    ) -> Option<String> {
        // SAFETY: a live statement.
        unsafe {
            let text = of?(self.ptr(), c_int::try_from(index).ok()?);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Reads rows under the connection's mutex: `row` gets each one, until it returns false.
    /// Returns whether there can be more rows.
    ///
    /// # Errors
    /// SQLite's, with its message; those of `row`.
    pub fn rows<E: From<Error>>(
        &mut self,
        mut row: impl FnMut(&Row<'_>) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        if !self.is_of_this_process() {
            return Err(Error::new(
                Code::MISUSE,
                format!(
                    "the statement belongs to process {}, which was forked; open a connection in this process and run it there",
                    self.process
                ),
            )
            .into());
        }
        let held = Held::new(self.api, self.mutex());
        if let Some(connection) = self.connection() {
            connection.silence_if_closed();
        }
        loop {
            // SAFETY: a live statement.
            match unsafe { (self.api.raw().step)(self.ptr()) } {
                rc if rc == Code::ROW.0 => {
                    if !row(&Row { statement: self })? {
                        return Ok(true);
                    }
                }
                rc if rc == Code::DONE.0 => return Ok(false),
                rc => {
                    let failed = self.check(rc);
                    drop(held);
                    return Ok(failed.map(|()| false)?);
                }
            }
        }
    }

    /// Runs it to the end. Returns the number of changed rows.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn run(&mut self) -> Result<i64> {
        // Held after the last step too, so that no other thread changes the count in between.
        let _held = Held::new(self.api, self.mutex());
        while self.rows(|_| Ok::<bool, Error>(true))? {}
        let changes = self.connection().map_or(0, |c| c.changes());
        self.reset();
        Ok(changes)
    }

    /// Ends its reading, unless another thread is using the connection. For callers that must not
    /// wait. Returns whether it did.
    pub fn try_reset(&mut self) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        let held = Held::at_once(self.api, self.mutex());
        if held.is_some() {
            self.reset();
        }
        held.is_some()
    }

    /// Ends its reading; it can run again.
    pub fn reset(&mut self) {
        // SAFETY: a live statement. The returned code repeats the failure of the last step.
        unsafe { (self.api.raw().reset)(self.ptr()) };
    }

    fn check(&self, rc: c_int) -> Result<()> {
        if rc == Code::OK.0 {
            return Ok(());
        }
        let connection = self.connection();
        Err(connection.map_or_else(|| Error::from(Code(rc)), |c| c.error(rc)))
    }

    /// Its connection, which can be closed.
    fn connection(&self) -> Option<Connection> {
        // SAFETY: a live statement keeps its connection alive.
        unsafe { Connection::borrow(self.api, (self.api.raw().db_handle)(self.ptr())) }
    }
}

/// The message of [`Connection::prepare`] for text without a statement.
const NO_STATEMENT: &str = "there is no SQL statement";

impl Drop for Detached {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            return;
        }
        // SAFETY: a live statement, finalised once. The returned code repeats that of the last
        // step.
        unsafe { (self.api.raw().finalize)(self.ptr()) };
    }
}

/// The current row of a statement.
pub struct Row<'s> {
    statement: &'s Detached,
}

impl Row<'_> {
    /// A column; 0 is the first. NULL if there is no such column.
    #[inline]
    pub fn column(&self, index: usize) -> ValueRef<'_> {
        let statement = self.statement;
        let Ok(index) = c_int::try_from(index) else {
            return ValueRef::Null;
        };
        // SAFETY: a live statement on a row, under its connection's mutex. So the value is
        // protected and lives until the next step, and this borrow ends before that.
        unsafe {
            let value = (statement.api.raw().column_value)(statement.ptr(), index);
            ValueRef::from_raw(statement.api, value)
        }
    }
}

/// The connection's mutex, held while this exists.
struct Held {
    api: Api,
    mutex: Option<NonNull<Mutex>>,
}

type OnMutex = unsafe extern "C" fn(*mut Mutex);

impl Held {
    fn new(api: Api, mutex: Option<NonNull<Mutex>>) -> Held {
        let held = Held { api, mutex };
        held.call(api.raw().mutex_enter);
        held
    }

    /// Takes the mutex if no other thread holds it.
    fn at_once(api: Api, mutex: Option<NonNull<Mutex>>) -> Option<Held> {
        type Try = unsafe extern "C" fn(*mut Mutex) -> c_int;
        let (entry, mutex) = (api.raw().mutex_try?, mutex?);
        // SAFETY: the entry's own type, and a mutex of this library. A statement of its connection
        // keeps it alive.
        let rc =
            unsafe { std::mem::transmute::<unsafe extern "C" fn(), Try>(entry)(mutex.as_ptr()) };
        (rc == Code::OK.0).then_some(Held {
            api,
            mutex: Some(mutex),
        })
    }

    fn call(&self, entry: crate::routines::Unused) {
        if let (Some(call), Some(mutex)) = (entry, self.mutex) {
            // SAFETY: the entry's own type, and a mutex of this library. A statement of its
            // connection keeps it alive.
            unsafe { std::mem::transmute::<unsafe extern "C" fn(), OnMutex>(call)(mutex.as_ptr()) };
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.call(self.api.raw().mutex_leave);
    }
}
