//! What the tests of several crates share and no crate's tests can own.

#![forbid(unsafe_code)]

mod long_run;
mod skip;

pub use long_run::long_run;
pub use skip::skip;
