//! Everything of Densite that touches a disk or a clock.
//!
//! Two contracts, [`File`] and [`Dir`], and the real disk ([`RealDir`]), which keeps them. For tests there is a simulated disk in a crate of
//! its own, `densite-sim-disk`. It loses, tears, reorders and delays what was not synced, as a power cut does.
//!
//! [`FileAbove`] and [`DirAbove`] are for those that lie over others and watch or change a call or two.
//!
//! Nothing above this crate calls the operating system for a file. Beside files there are [`memory`] in large
//! pages, the number of this [`process`] and what its children do not share, which have the only `unsafe` of this crate.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod above;
mod anchor;
#[allow(unsafe_code, reason = "told of forks by the system")]
mod apart;
mod error;
mod fields;
mod file;
pub mod hash;
mod holder;
#[allow(unsafe_code, reason = "advice to the system")]
pub mod memory;
mod number;
#[allow(unsafe_code, reason = "a page of its own")]
pub mod process;
pub mod random;
mod real;
mod rights;
pub mod sync;
mod watch;

pub use above::{DirAbove, FileAbove};
pub use anchor::{Anchor, Named};
pub use error::{Error, ErrorKind, Op, Result};
pub use fields::Fields;
pub use file::{Dir, File, LockKind, OpenMode, Stamp, SyncKind};
pub use holder::lock_holder;
pub use real::{RealDir, RealFile, check_name, exchange};
pub use rights::Rights;
pub use watch::Watch;
