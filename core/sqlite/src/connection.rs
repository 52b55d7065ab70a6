//! A database connection.

mod blob;
mod closed;
mod files;
mod running;

pub use files::Checkpointed;
pub use running::Running;

use crate::api::{Api, c_string};
use crate::ffi::{self, Db};
use crate::{Code, Error, Result};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;
use std::time::Duration;

/// A connection: one that this crate opened and closes, or one that SQLite lends.
#[derive(Debug)]
pub struct Connection {
    api: Api,
    db: NonNull<Db>,
    owned: bool,
}

/// The state of a database's newest transaction (`sqlite3_txn_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxnState {
    /// No transaction.
    None,
    /// A read transaction.
    Read,
    /// A write transaction.
    Write,
}

thread_local! {
    /// This thread is within [`Connection::open`].
    static OPENS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the connection that an automatic extension gets is being opened by [`Connection::open`],
/// for use by Densite itself, and not by the application.
pub fn is_opened_by_densite() -> bool {
    OPENS.get()
}

impl Connection {
    /// Opens a database: a path, or a URI if `flags` has `OPEN_URI`. `flags` are SQLite's
    /// `OPEN_...`. Extended result codes are on.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn open(api: Api, name: &str, flags: i32, vfs: Option<&CStr>) -> Result<Connection> {
        if name.contains('\0') {
            return Err(Error::new(
                Code::CANTOPEN,
                format!("{name:?}: a NUL in the name"),
            ));
        }
        let name = c_string(name);
        let mut db = std::ptr::null_mut();
        let before = OPENS.replace(true);
        // SAFETY: terminated strings or null, and a place for the connection.
        let rc = unsafe {
            (api.raw().open_v2)(
                name.as_ptr(),
                &raw mut db,
                flags,
                vfs.map_or(std::ptr::null(), CStr::as_ptr),
            )
        };
        OPENS.set(before);
        let Some(db) = NonNull::new(db) else {
            return Err(Error::from(Code::NOMEM));
        };
        // A failed open leaves a connection too. It has the message and is closed on drop.
        let connection = Connection {
            api,
            db,
            owned: true,
        };
        connection.check(rc)?;
        // SAFETY: an open connection.
        unsafe { (api.raw().extended_result_codes)(db.as_ptr(), 1) };
        Ok(connection)
    }

    /// Wraps a connection that belongs to the caller; it is not closed. `None` for null.
    ///
    /// # Safety
    /// `db` is null or an open connection of this library that outlives everything made from this.
    /// It is used by this thread only, or serialised by SQLite.
    #[inline]
    pub unsafe fn borrow(api: Api, db: *mut Db) -> Option<Connection> {
        Some(Connection {
            api,
            db: NonNull::new(db)?,
            owned: false,
        })
    }

    /// The library it belongs to.
    pub fn api(&self) -> Api {
        self.api
    }

    /// The raw pointer, for calls of SQLite.
    pub fn as_ptr(&self) -> *mut Db {
        self.db.as_ptr()
    }

    pub(crate) fn check(&self, rc: c_int) -> Result<()> {
        if rc == Code::OK.0 {
            Ok(())
        } else {
            Err(self.error(rc))
        }
    }

    /// The error for a code that a call on this connection has just returned.
    pub(crate) fn error(&self, rc: c_int) -> Error {
        // SAFETY: an open connection (or one that failed to open, which is allowed).
        let extended = unsafe { (self.api.raw().extended_errcode)(self.as_ptr()) };
        // The connection's own code belongs to this call only if the two agree.
        if extended & 0xff == rc & 0xff {
            // SQLite keeps the number of the newest CANTOPEN or IOERR. After an IOERR it can be
            // older than that error, because a short read sets none.
            let errno = (Code(rc).primary() == Code::CANTOPEN)
                // SAFETY: as above.
                .then(|| unsafe { (self.api.raw().system_errno)(self.as_ptr()) });
            Error {
                errno: errno.filter(|n| *n != 0),
                ..Error::new(Code(extended), self.message())
            }
        } else {
            Error::new(Code(rc), self.api.describe(Code(rc)))
        }
    }

    /// The message of the newest error.
    pub fn message(&self) -> String {
        // SAFETY: an open connection; the text is copied before any other call.
        unsafe { CStr::from_ptr((self.api.raw().errmsg)(self.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    /// Runs one or several statements and ignores rows.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn exec(&self, sql: &str) -> Result<()> {
        let sql = c_string(sql);
        // SAFETY: an open connection, a terminated string, no callback.
        let rc = unsafe {
            (self.api.raw().exec)(
                self.as_ptr(),
                sql.as_ptr(),
                None,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        self.check(rc)
    }

    /// How long SQLite waits for a lock of another connection (`PRAGMA busy_timeout`).
    ///
    /// # Errors
    /// SQLite's.
    pub fn busy_timeout(&self) -> Result<Duration> {
        let ms = self.query_i64("PRAGMA busy_timeout")?.unwrap_or(0);
        Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }

    /// For functions that wait within a statement: whether to go on. Reads nothing.
    ///
    /// # Errors
    /// INTERRUPT if the connection was interrupted.
    pub fn check_interrupt(&self) -> Result<()> {
        self.query_i64("SELECT 1").map(drop)
    }

    /// Sets how long to wait for a lock, in whole milliseconds.
    ///
    /// # Errors
    /// SQLite's.
    pub fn set_busy_timeout(&self, time: Duration) -> Result<()> {
        let ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: an open connection.
        self.check(unsafe { (self.api.raw().busy_timeout)(self.as_ptr(), ms) })
    }

    /// Sets one of the boolean settings `DBCONFIG_...`.
    ///
    /// # Errors
    /// SQLite's; [`Code::MISUSE`] for a setting that is not boolean.
    pub fn set_config(&self, setting: i32, on: bool) -> Result<()> {
        // The boolean settings take an int and a pointer to one; others have other arguments.
        if !(1002..=1019).contains(&setting) {
            return Err(Error::from(Code::MISUSE));
        }
        // SAFETY: an open connection, and the variadic arguments of a boolean setting.
        self.check(unsafe {
            (self.api.raw().db_config)(
                self.as_ptr(),
                setting,
                c_int::from(on),
                std::ptr::null_mut::<c_int>(),
            )
        })
    }

    /// Whether no transaction was begun explicitly.
    pub fn is_autocommit(&self) -> bool {
        // SAFETY: an open connection.
        unsafe { (self.api.raw().get_autocommit)(self.as_ptr()) != 0 }
    }

    /// The state of a schema's transaction; of all schemas for `None`.
    pub fn txn_state(&self, schema: Option<&CStr>) -> TxnState {
        // SAFETY: an open connection, null or a terminated string.
        let state = unsafe {
            (self.api.raw().txn_state)(self.as_ptr(), schema.map_or(std::ptr::null(), CStr::as_ptr))
        };
        match state {
            1 => TxnState::Read,
            2 => TxnState::Write,
            _ => TxnState::None,
        }
    }

    /// The rows changed by the newest statement.
    pub fn changes(&self) -> i64 {
        // SAFETY: an open connection.
        unsafe { (self.api.raw().changes64)(self.as_ptr()) }
    }

    /// The newest inserted row id.
    pub fn last_insert_rowid(&self) -> i64 {
        // SAFETY: an open connection.
        unsafe { (self.api.raw().last_insert_rowid)(self.as_ptr()) }
    }

    /// Sets the value of [`Connection::last_insert_rowid`] until the next row is inserted.
    pub fn set_last_insert_rowid(&self, id: i64) {
        // SAFETY: an open connection.
        unsafe { (self.api.raw().set_last_insert_rowid)(self.as_ptr(), id) }
    }

    /// The collation that a column compares with.
    ///
    /// # Errors
    /// SQLite's, if there is no such table or column.
    pub fn collation(&self, schema: &CStr, table: &str, column: &str) -> Result<String> {
        let (name, _) = self.column_metadata(schema, table, column)?;
        if name.is_null() {
            return Ok("BINARY".to_owned());
        }
        // SAFETY: terminated text of the schema, copied before any other call.
        Ok(unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned())
    }

    /// Whether a column is `INTEGER PRIMARY KEY AUTOINCREMENT`.
    ///
    /// # Errors
    /// SQLite's, if there is no such table or column.
    pub fn is_autoincrement(&self, schema: &CStr, table: &str, column: &str) -> Result<bool> {
        self.column_metadata(schema, table, column)
            .map(|(_, autoincrement)| autoincrement)
    }

    /// The name of a column's collation, which the schema owns, and whether it is AUTOINCREMENT.
    fn column_metadata(
        &self,
        schema: &CStr,
        table: &str,
        column: &str,
    ) -> Result<(*const c_char, bool)> {
        let (table, column) = (c_string(table), c_string(column));
        let (mut name, mut autoincrement) = (std::ptr::null(), 0);
        let unasked = std::ptr::null_mut();
        // SAFETY: an open connection, terminated strings, places for two answers.
        self.check(unsafe {
            (self.api.raw().table_column_metadata)(
                self.as_ptr(),
                schema.as_ptr(),
                table.as_ptr(),
                column.as_ptr(),
                std::ptr::null_mut(),
                &raw mut name,
                unasked,
                unasked,
                &raw mut autoincrement,
            )
        })?;
        Ok((name, autoincrement != 0))
    }

    /// Closes the connection. A lent one stays open.
    ///
    /// # Errors
    /// SQLite's.
    pub fn close(self) -> Result<()> {
        if !self.owned {
            return Ok(());
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: this crate opened it, and it is closed once: `drop` does not run. Statements
        // borrow the connection, so none exists.
        Ok(Code(unsafe { (this.api.raw().close_v2)(this.db.as_ptr()) }).ok()?)
    }

    fn status(&self, what: i32) -> Option<i32> {
        let (mut now, mut most) = (0, 0);
        // SAFETY: an open connection and places for two numbers.
        let rc = unsafe {
            (self.api.raw().db_status)(self.as_ptr(), what, &raw mut now, &raw mut most, 0)
        };
        (rc == 0).then_some(now)
    }

    /// Whether there is a foreign key violation that would make COMMIT fail.
    pub fn owes_foreign_keys(&self) -> bool {
        self.status(ffi::DBSTATUS_DEFERRED_FKS)
            .is_some_and(|owes| owes != 0)
    }

    /// Whether another connection can use this one's open file: they share a cache, or are allowed
    /// to.
    pub fn shares_cache(&self, schema: &CStr) -> bool {
        let asked = self.uri_parameters(schema);
        let is_asked = |(key, value): &(String, String)| key == "cache" && value == "shared";
        // With a shared cache, each connection counts only its part.
        asked.iter().any(is_asked)
            || self.status(ffi::DBSTATUS_CACHE_USED) != self.status(ffi::DBSTATUS_CACHE_USED_SHARED)
    }
}

impl Drop for Connection {
    // Most connections are lent for a callback and need no work here.
    #[inline]
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: this crate opened it, and it is closed once.
            unsafe { (self.api.raw().close_v2)(self.db.as_ptr()) };
        }
    }
}
