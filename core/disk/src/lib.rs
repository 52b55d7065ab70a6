//! The disk: two contracts, [`File`] and [`Dir`], and the real disk ([`RealDir`]). The crate
//! `densite-sim-disk` has a simulated disk for tests. [`FileAbove`] and [`DirAbove`] wrap a file or
//! directory and watch or change single calls.
//!
//! The crates above this one write databases and logs only through these contracts. This crate also
//! has the one place of pauses ([`wait`]), [`memory`] in large pages, and descriptors that the children
//! of this process do not share. Only the last two use `unsafe`.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod above;
mod anchor;
#[allow(unsafe_code, reason = "registers fork handlers")]
mod apart;
mod available;
mod error;
mod fields;
mod file;
mod file_name;
pub mod hash;
mod holder;
#[allow(unsafe_code, reason = "mappings and advice to the system")]
pub mod memory;
mod number;
pub mod random;
mod real;
mod rights;
pub mod sync;
pub mod wait;
mod watch;

pub use above::{DirAbove, FileAbove};
pub use anchor::{Anchor, Named};
pub use available::available_memory;
pub use error::{Error, ErrorKind, Op, Result, too_many_files};
pub use fields::Fields;
pub use file::{Dir, File, LockKind, OpenMode, Stamp, SyncKind};
pub use file_name::check_name;
pub use holder::lock_holder;
pub use real::{RealDir, RealFile, exchange};
pub use rights::Rights;
pub use watch::Watch;
