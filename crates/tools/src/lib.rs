//! The verbs: conversion, vacuum, checking, figures.
//!
//! - [`compress`] and [`decompress`] turn one form of a database into the other;
//! - [`vacuum()`] writes a database again, without deleted content;
//! - [`info()`] gives its figures;
//! - [`check()`] verifies it.
//!
//! SQLite is called only through the [`Api`] of the caller, with the VFS "densite" registered
//! (`densite_vfs`). So the same code serves the command, which links a SQLite of its own, and the
//! extension, which uses that of its host. Names of files must be UTF-8, as in SQLite.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod archive;
mod check;
#[cfg(feature = "chroma")]
pub mod chroma;
mod convert;
mod copy;
mod db;
mod digest;
mod digester;
mod error;
mod first_error;
mod form;
mod freelist;
mod gain;
mod header;
mod holder;
mod holders;
mod info;
mod integrity;
pub mod json;
mod lock;
pub mod log;
mod objects;
mod output;
mod pages;
mod paths;
mod progress;
mod proof;
mod replace;
mod rewrite;
mod same;
mod schema;
mod slack;
mod source;
mod space;
mod target;
mod temp;
mod trees;
mod vacuum;
mod view;
mod wal;

pub use check::{Checked, check};
pub use convert::{ConvertOptions, ConvertReport, compress, decompress};
pub use densite_sqlite::{Api, Connection};
pub use densite_store::{Damage, Options as StoreOptions};
pub use error::{Error, ErrorClass, Result, parent_of};
pub use form::Form;
pub use gain::Gain;
pub use holder::Holder;
pub use info::{Info, JournalMode, info};
pub use objects::{Object, ObjectColumn, ObjectKind, Objects};
pub use progress::{Progress, Silent};
pub use rewrite::Prune;
pub use vacuum::{VacuumOptions, VacuumPlan, VacuumReport, vacuum};
