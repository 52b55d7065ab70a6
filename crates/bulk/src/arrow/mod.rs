//! The Arrow C data and stream interfaces
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>).
//!
//! - [`ArrowSchema`], [`ArrowArray`], [`ArrowArrayStream`]: the structures as they lie in memory;
//! - [`Stream`]: one that somebody hands over, read batch by batch;
//! - [`stream_of`]: a query's columns, handed over.

mod abi;
mod export;
mod format;
mod import;

pub use abi::{ArrowArray, ArrowArrayStream, ArrowSchema, OwnedArray, OwnedSchema};
pub use export::{OnFailure, stream_of};
pub use import::{Field, Stream, columns_of, fields_of};
