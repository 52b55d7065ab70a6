//! The Arrow C data and stream interfaces
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>).
//!
//! - [`ArrowSchema`], [`ArrowArray`], [`ArrowArrayStream`]: the structures with their memory
//!   layout;
//! - [`Stream`]: a stream from a producer, read batch by batch;
//! - [`stream_of`]: a query's columns as a stream for a consumer.

mod abi;
mod export;
mod format;
mod import;

pub use abi::{ArrowArray, ArrowArrayStream, ArrowSchema, OwnedArray, OwnedSchema};
pub use export::{OnFailure, stream_of};
pub use import::{Field, Stream, columns_of, fields_of};
