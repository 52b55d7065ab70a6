//! Densite as a library: conversion, checking, figures.
//!
//! - [`compress`] and [`decompress`] turn one form of a database into the other;
//! - [`info()`] tells its figures;
//! - [`check()`] verifies it.
//!
//! SQLite is called only through the [`Api`] that the caller hands in, with the VFS "densite" registered
//! (`densite_vfs`): so the same code serves the command, which links a SQLite of its own, and the
//! extension, which uses its host's. Names of files must be UTF-8, as SQLite wants them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod convert;
mod copy;
mod db;
mod error;
mod form;
mod freelist;
mod header;
mod holders;
mod info;
mod objects;
mod pages;
mod paths;
mod progress;
mod rewrite;
mod same;
mod schema;
mod source;
mod temp;
mod trees;
mod wal;

pub use check::{Checked, check};
pub use convert::{ConvertOptions, ConvertReport, compress, decompress};
pub use densite_sqlite::Api;
pub use densite_store::{Damage, Options as StoreOptions};
pub use error::{Error, Result};
pub use form::Form;
pub use holders::Holder;
pub use info::{Info, JournalMode, info};
pub use objects::{Object, ObjectColumn, ObjectKind, Objects};
pub use progress::{Progress, Silent};
