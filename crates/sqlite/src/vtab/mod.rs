//! Virtual tables: a module of SQLite's as a trait (<https://www.sqlite.org/vtab.html>).
//!
//! - [`VirtualTable`]: a table, with the methods of a transaction where it can be written to;
//! - [`TableCursor`]: a scan of it;
//! - [`Plan`]: what SQLite asks before a scan (xBestIndex), and [`Arguments`]: the values that it then begins with;
//! - [`Change`]: a row that is inserted, updated or deleted (xUpdate);
//! - [`create_module`]: makes the module known to a connection.
//!
//! SQLite calls a table and its cursors under the mutex of their connection, one call at a time, but from one call into the next: a
//! table may be written to while it is read. So the methods take `&self`.

mod arguments;
mod change;
mod glue;
mod plan;

pub use arguments::Arguments;
pub use change::{Change, Conflict};
pub use plan::{Constraint, Operator, Plan};

use crate::api::c_string;
use crate::connection::Connection;
use crate::value::ValueRef;
use crate::{Code, Error, Result};
use glue::{Glue, Registered};
use std::ffi::c_void;

/// How tables of a module come to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// One is there by itself, under the module's name; `CREATE VIRTUAL TABLE` is refused. So are table-valued functions.
    ByItself,
    /// By `CREATE VIRTUAL TABLE … USING module(arguments)`.
    Created,
    /// Both. [`Origin::is_new`] is then false always.
    Both,
}

/// What a table is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The module's name.
    pub module: String,
    /// The schema that it is in: "main", "temp" or an attached one's name.
    pub schema: String,
    /// The table's name.
    pub table: String,
    /// The arguments in parentheses, as they were written, without the spaces around them.
    pub arguments: Vec<String>,
    /// Whether `CREATE VIRTUAL TABLE` runs; false where a table is met that was created before.
    pub is_new: bool,
}

/// A virtual table.
pub trait VirtualTable: Send + Sized + 'static {
    /// What all tables of the module share.
    type Shared: Send + 'static;
    /// A scan.
    type Cursor: TableCursor;

    /// How tables come to be.
    const EXISTENCE: Existence;
    /// Whether rows can be changed: then `update` and the methods of a transaction are called.
    const WRITABLE: bool = false;
    /// Whether triggers and views may not use it (`SQLITE_VTAB_DIRECTONLY`): right for what reaches beyond the database.
    const DIRECT_ONLY: bool = false;

    /// Makes or meets a table. Answers it, and `CREATE TABLE x(...)` with its columns.
    ///
    /// # Errors
    /// The statement's.
    fn connect(
        shared: &Self::Shared,
        connection: &Connection,
        origin: &Origin,
    ) -> Result<(Self, String)>;

    /// Chooses how to scan. False: not this way, what it takes is not known yet in this order of tables.
    ///
    /// # Errors
    /// The statement's.
    fn best_index(&self, plan: &mut Plan<'_>) -> Result<bool>;

    /// Begins a scan.
    ///
    /// # Errors
    /// The statement's.
    fn open(&self) -> Result<Self::Cursor>;

    /// `DROP TABLE`.
    ///
    /// # Errors
    /// The statement's; the table stays.
    fn destroy(&self) -> Result<()> {
        Ok(())
    }

    /// Changes a row. Answers the row id of one that was inserted; otherwise the number is not looked at.
    ///
    /// # Errors
    /// The statement's. [`Code::CONSTRAINT`] is treated by the conflict clause of the statement: [`Conflict`].
    fn update(&self, _connection: &Connection, _change: &Change<'_>) -> Result<i64> {
        Err(Error::new(Code::READONLY, "the table cannot be changed"))
    }

    /// A transaction that changes it begins.
    ///
    /// # Errors
    /// The statement's.
    fn begin(&self, _connection: &Connection) -> Result<()> {
        Ok(())
    }

    /// The first half of a commit: make it durable. Called before the connection's own commit, and again when a COMMIT that was busy is tried
    /// again.
    ///
    /// # Errors
    /// COMMIT's; the transaction is rolled back, unless it is [`Code::BUSY`].
    fn sync(&self, _connection: &Connection) -> Result<()> {
        Ok(())
    }

    /// The second half, which cannot fail.
    fn commit(&self) {}

    /// The transaction is rolled back, possibly after `sync`.
    fn rollback(&self) {}

    /// Savepoint `n` begins; numbers ascend inwards.
    ///
    /// # Errors
    /// The statement's.
    fn savepoint(&self, _n: i32) -> Result<()> {
        Ok(())
    }

    /// Savepoint `n` and those within it are over, and what was done since stays.
    ///
    /// # Errors
    /// The statement's.
    fn release(&self, _n: i32) -> Result<()> {
        Ok(())
    }

    /// What was done since savepoint `n` is undone; it goes on.
    ///
    /// # Errors
    /// The statement's.
    fn rollback_to(&self, _n: i32) -> Result<()> {
        Ok(())
    }
}

/// A scan of a virtual table.
pub trait TableCursor: Send + 'static {
    /// Begins, or begins anew, as [`VirtualTable::best_index`] chose: its number and text, and the values it asked for.
    ///
    /// # Errors
    /// The statement's.
    fn filter(
        &mut self,
        connection: &Connection,
        number: i32,
        text: &str,
        arguments: Arguments<'_>,
    ) -> Result<()>;

    /// Goes on to the next row.
    ///
    /// # Errors
    /// The statement's.
    fn next(&mut self) -> Result<()>;

    /// Whether the last row has been passed.
    fn is_at_end(&self) -> bool;

    /// A column of the row; 0 is the first.
    ///
    /// # Errors
    /// The statement's.
    fn column(&mut self, column: usize) -> Result<ValueRef<'_>>;

    /// The row's id.
    ///
    /// # Errors
    /// The statement's.
    fn row_id(&mut self) -> Result<i64>;
}

/// Makes a module known to a connection.
///
/// # Errors
/// SQLite's.
pub fn create_module<T: VirtualTable>(
    connection: &Connection,
    name: &str,
    shared: T::Shared,
) -> Result<()> {
    let api = connection.api();
    let registered = Box::new(Registered::<T> { api, shared });
    let name = c_string(name);
    // SAFETY: an open connection, a terminated name, a static module; the registered memory
    // goes to SQLite, which gives it to `destroy_module` once, also when this call fails.
    connection.check(unsafe {
        (api.raw().create_module_v2)(
            connection.as_ptr(),
            name.as_ptr(),
            Glue::<T>::module(),
            Box::into_raw(registered).cast::<c_void>(),
            Some(Glue::<T>::destroy_module),
        )
    })
}
