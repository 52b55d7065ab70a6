//! Test helpers that several crates share.

#![forbid(unsafe_code)]

mod long_run;
mod skip;

pub use long_run::long_run;
pub use skip::skip;
