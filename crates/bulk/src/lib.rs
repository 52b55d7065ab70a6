//! Bulk data in and out: columns as a table, and the rows of a query as columns.
//!
//! - [`Set`]: columns of the caller, from the Arrow C data interface or from plain buffers. They
//!   can be sorted by keys. [`sets`] registers them by number.
//! - `densite_columns(handle)`: a set as a table, for `INSERT … SELECT` and joins.
//! - [`Query`]: a statement whose rows are returned as Arrow record batches, one at a time.
//!   [`queries`] registers them by number. The SQL function `densite_query(handle, sql, …)`
//!   prepares the statement on the connection that it runs on.
//! - [`changes`]: statements that change the database. The SQL function `densite_change(handle,
//!   sql)` prepares them, and they run outside of the driver.
//! - [`text`]: dates, times and decimals as text, the same for all sources.
//! - [`arrow`]: the structures of the Arrow C data interface.
//!
//! `unsafe` is in three modules: `memory` (slices of memory that others own), `arrow` (structures
//! that cross the C boundary), and `confined` (state that the cursors of a connection share).

#![warn(missing_docs)]

pub mod arrow;
mod batch;
mod bits;
mod build;
mod change;
mod chunk;
mod confined;
mod error;
mod filling;
mod gather;
mod kind;
mod memory;
mod mixed;
mod number;
mod order;
mod piece;
pub mod queries;
mod query;
mod radix;
mod rows;
mod set;
pub mod sets;
mod sink;
mod table;
pub mod text;
mod values;

pub use batch::{Batch, OwnedColumn, OwnedValues};
pub use bits::Bits;
pub use change::changes;
pub use chunk::{Chunk, Data, Places, since};
pub use error::{Error, Result};
pub use kind::Kind;
pub use memory::{Owner, Plain, Slice};
pub use order::{Collation, SortKey};
pub use queries::ONE_THREAD;
pub use query::Query;
pub use set::{COLUMNS_MAX, Progress, Set, Source};
pub use text::Unit;

use densite_sqlite::Connection;

/// Adds `densite_columns`, `densite_query` and `densite_change` to a connection.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> densite_sqlite::Result<()> {
    table::create(connection)?;
    sink::create(connection)?;
    queries::create(connection)?;
    change::create(connection)
}
