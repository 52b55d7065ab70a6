//! Bulk, in and out: columns as a table, a query's rows as columns.
//!
//! - [`Set`]: columns of the caller's, from the Arrow C data interface or from plain buffers, sorted by keys where they are not sorted yet;
//!   [`sets`] knows them by number;
//! - `densite_columns(handle)`: a set as a table, for `INSERT … SELECT` and joins;
//! - [`Query`]: a statement whose rows come out as Arrow record batches, one at a time; [`queries`] knows them by number, and the SQL
//!   function `densite_query(handle, sql, …)` compiles it on the connection that it runs on;
//! - [`changes`]: statements that change the database, compiled by the SQL function `densite_change(handle, sql)` and run outside of the driver;
//! - [`text`]: dates, times and decimals as text, the same however they come in;
//! - [`arrow`]: the structures of the Arrow C data interface.
//!
//! `unsafe` is in `memory` (slices of memory that somebody else keeps), in `arrow` (structures that cross the C boundary) and in `confined` (what a
//! connection's cursors share).

#![warn(missing_docs)]

pub mod arrow;
mod bits;
mod build;
mod change;
mod chunk;
mod confined;
mod error;
mod gather;
mod memory;
mod number;
mod order;
mod query;
mod radix;
mod set;
mod sink;
mod table;
pub mod text;

pub use bits::Bits;
pub use change::changes;
pub use chunk::{Chunk, Data, Places, since};
pub use error::{Error, Result};
pub use memory::{Owner, Plain, Slice};
pub use order::{Collation, SortKey};
pub use query::{Batch, Kind, ONE_THREAD, OwnedColumn, OwnedValues, Query, queries};
pub use set::{COLUMNS_MAX, Progress, Set, sets};
pub use text::Unit;

use densite_sqlite::Connection;

/// Adds `densite_columns`, `densite_query` and `densite_change` to a connection.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> densite_sqlite::Result<()> {
    table::create(connection)?;
    sink::create(connection)?;
    query::create(connection)?;
    change::create(connection)
}
