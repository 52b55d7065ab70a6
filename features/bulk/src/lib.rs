//! Bulk data in and out: columns as a table, and the rows of a query as columns.
//!
//! [`Set`]s of columns come from the Arrow C data interface ([`arrow`]) or from plain buffers;
//! `densite_columns(handle)` is a set as a table. A [`Query`] returns rows as Arrow record batches,
//! and `densite_query(handle, sql, …)` prepares it. A [`Batcher`] takes rows that were read already.
//! [`changes`] run statements outside of the driver. The plan of an insert (`insert_plan.rs`) says in
//! which order rows can be inserted. [`text`] writes dates, times and decimals. docs/decisions/bulk.md has the reasons.
//! `unsafe` is in four modules: `memory`, `arrow`, `confined` and `sink`.

#![warn(missing_docs)]

pub mod arrow;
mod batch;
mod batcher;
mod bits;
mod build;
mod change;
mod chunk;
mod columns_table;
mod confined;
mod error;
mod filling;
mod gather;
mod insert_plan;
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
pub mod text;
mod values;

pub use batch::{Batch, OwnedColumn};
pub use batcher::{Batcher, RealText};
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
pub use values::Values;

use densite_sqlite::Connection;

/// Adds `densite_columns`, `densite_query`, `densite_change`, `densite_insert_plan` and
/// `densite_insert_orphan` to a connection.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> densite_sqlite::Result<()> {
    columns_table::create(connection)?;
    sink::create(connection)?;
    queries::create(connection)?;
    change::create(connection)?;
    insert_plan::create(connection)
}
