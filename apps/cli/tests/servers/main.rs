//! What the command does with web servers, object stores and Chroma, in a program of its own, because
//! starting these takes long: only `make test-all` runs it. The promises of the crates below have tests
//! of their own.

#[path = "../common/mod.rs"]
mod common;

mod chroma_real;
#[cfg(feature = "remote")]
mod follow;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "remote")]
mod remote_s3;
#[cfg(feature = "remote")]
mod remote_signed;
mod replicate_head;
#[cfg(feature = "remote")]
mod replicate_s3;
#[cfg(feature = "remote")]
mod replicate_signed;
