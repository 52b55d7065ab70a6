//! The C API, `include/densite.h`: what other languages call beside SQL, in the same shared library as the extension.
//!
//! Everything works on the SQLite that loaded the library ([`host`]): a second copy in the same process would break the first one's locks.
//! A function answers 0 or a code, and keeps a sentence for its thread ([`failure`]). No panic crosses into C: [`failure::answer`] catches it.
//! `unsafe` is what the contract of a C function needs: pointers of the caller's, looked at once at the edge ([`edge`]).

#![warn(missing_docs)]

pub mod capsule;
pub mod columns;
pub mod edge;
pub mod failure;
pub mod host;
pub mod query;
pub mod verbs;

pub use host::{load, load_as_default};
