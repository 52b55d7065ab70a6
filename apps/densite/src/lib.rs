//! Compressed SQLite databases, with SQLite built in.
//!
//! A database that is opened with [`open()`] is an ordinary [`rusqlite::Connection`]. Its file is a
//! Densite file: its pages are compressed. SQLite's SQL, transactions, journals and locks work as
//! always.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("app.db");
//! let con = densite::open(&path)?;
//! con.execute_batch("CREATE TABLE vote(user INTEGER, article INTEGER)")?;
//!
//! let columns = densite::Columns::new()
//!     .integers("user", vec![1, 2])
//!     .integers("article", vec![10, 20]);
//! densite::insert(&con, "vote", columns)?;
//!
//! drop(con);
//! assert!(densite::check(&path)?.ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | open a database | [`open()`], [`OpenOptions`]; [`register()`] for databases that rusqlite opens by URI |
//! | insert or read many rows at once | [`insert`](fn@insert), [`query`](fn@query); [`QueryOptions`] for a list of keys |
//! | make many small writes durable fast | [`ingest`](fn@ingest) |
//! | follow them | [`subscribe`](fn@subscribe) |
//! | convert, vacuum, check, measure files | [`compress`], [`decompress`], [`publish`](fn@publish), [`vacuum`](fn@vacuum), [`check`](fn@check), [`info`] |
//!
//! SQLite is the one that rusqlite builds (`bundled`). File names must be UTF-8.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod columns;
mod convert;
mod error;
mod ingest;
mod insert;
mod inspect;
mod keys;
mod log_queries;
mod missing_parent;
mod nullable;
mod open;
mod query;
mod record_batch;
mod register;
mod set;
mod setting;
mod subscribe;
mod transaction;
mod uri;
mod vacuum;

pub use columns::Columns;
pub use convert::{
    ConvertOptions, compress, compress_in_place, decompress, decompress_in_place, publish,
};
pub use densite_tools::log::Figures as LogFigures;
pub use densite_tools::{
    AutoVacuum, Checked, ConvertReport, Damage, Error as FileError, Form, Gain, Holder, Info,
    JournalMode, Layout, Object, ObjectColumn, ObjectKind, Objects, Progress, Silent, SpaceUse,
    VacuumReport,
};
pub use error::{Error, Result};
pub use ingest::{Ingest, IngestConflict, IngestOptions, OnFull, Reject, ingest};
pub use insert::{InsertOptions, OnConflict, insert};
pub use inspect::{check, check_with, info};
pub use missing_parent::MissingParent;
pub use nullable::Nullable;
pub use open::{Codec, OpenOptions, open};
pub use query::{QueryOptions, QueryResult, query};
pub use record_batch::{Blobs, Column, RecordBatch, Texts, Values};
pub use register::register;
pub use rusqlite;
pub use serde_json;
pub use subscribe::{Batch, Change, Op, Start, Subscription, subscribe};
pub use vacuum::{VacuumOptions, vacuum};
