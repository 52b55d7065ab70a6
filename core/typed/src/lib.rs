//! The typed page codec: a b-tree page of SQLite as columns, coded by a model of its table. The
//! bytes are in docs/FORMAT.md, the reasons in docs/decisions/typed-codec.md.
//!
//! [`encode()`] takes a page apart into streams of integers, codes of text and raw bytes, writes
//! them by the default parameters of a [`Model`], decodes the result and compares. [`decode()`]
//! returns every byte of the page, except unallocated bytes that need not be kept ([`scrub()`]).
//! The crate knows only bytes. Every function accepts any bytes: it never panics, and allocates in
//! proportion to the page.
#![forbid(unsafe_code)]

pub mod bits;
mod class;
mod context;
pub mod decimal;
mod decode;
#[cfg(test)]
mod doc;
mod encode;
mod fast;
pub mod ints;
mod joined;
pub mod layout;
mod learn;
mod mismatch;
mod model;
mod numbers;
pub mod postings;
mod record;
mod scrub;
mod split;
mod stream;
pub mod symbols;
pub mod template;
mod vector;

pub use context::PageContext;
pub use decode::{Undecodable, decode};
pub use encode::{encode, encode_unchecked, is_scrubbed, scrub};
pub use joined::{decode_joined, encode_joined, used_bytes};
pub use learn::{Outlook, Purpose};
#[cfg(feature = "fuzz")]
pub use mismatch::fuzz;
pub use model::{ColumnDescription, Model, Subject};
