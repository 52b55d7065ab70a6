//! The C API, `include/densite.h`: functions for other languages besides SQL, in the same shared
//! library as the extension.
//!
//! Everything works on the SQLite that loaded the library ([`host`]): a second copy in the same
//! process would break the first one's locks. A function returns 0 or a code, and keeps a message
//! for its thread ([`failure`]). No panic crosses into C: [`failure::answer`] catches it. `unsafe`
//! is needed only for pointers from the caller, which are checked once on entry ([`edge`]).

#![warn(missing_docs)]

pub mod capsule;
pub mod columns;
pub mod edge;
pub mod failure;
pub mod host;
pub mod query;
pub mod verbs;

pub use host::load;
