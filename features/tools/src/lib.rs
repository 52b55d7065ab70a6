//! The verbs: [`compress`] and [`decompress`] convert a database from one form to the other,
//! [`vacuum()`] rewrites it without deleted content, [`info()`] returns its figures, and
//! [`check()`] verifies it.
//!
//! SQLite is called only through the [`Api`] of the caller, with the VFS "densite" registered
//! (`densite_vfs`). So the same code serves the command, which links its own SQLite, and the
//! extension, which uses the SQLite of its host. File names must be UTF-8, as SQLite requires.

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
mod disk_space;
mod error;
mod estimate;
mod first_error;
mod form;
mod free_pages;
mod gain;
mod holder;
mod holders;
mod info;
mod integrity;
pub mod json;
mod known;
mod layout;
mod lock;
pub mod log;
mod objects;
mod output;
mod progress;
mod proof;
mod publish;
mod remedy;
mod replace;
pub mod replica;
mod report_file;
mod rewrite;
mod salvage;
mod same;
mod schema;
mod slack;
mod source;
mod stand_in;
mod target;
mod temp;
mod trees;
mod usage;
mod vacuum;
mod view;
mod wal;

pub use check::{Checked, check};
pub use convert::{ConvertOptions, ConvertReport, compress, decompress};
pub use densite_sqlite::{Api, Connection};
pub use densite_sqlite_format::AutoVacuum;
pub use densite_store::{Damage, DecodedCache, Options as StoreOptions};
pub use error::{Error, ErrorClass, Result, parent_of};
pub use estimate::{Estimate, estimate};
pub use form::{Form, is_database};
pub use gain::Gain;
pub use holder::Holder;
pub use holders::holders;
pub use info::{Info, JournalMode, info, info_with_objects};
pub use layout::{Layout, SpaceUse};
pub use objects::{Object, ObjectColumn, ObjectKind, Objects};
pub use progress::{Progress, Silent};
pub use publish::{can_publish, publish};
pub use report_file::{NewFile, write_file};
pub use rewrite::Prune;
pub use salvage::{Missing, Salvaged, SavedTable, salvage};
pub use vacuum::{VacuumOptions, VacuumPlan, VacuumReport, vacuum};

/// Adds the SQL functions of all parts above the VFS: ingest, members of a stream, shipping. Call it
/// for each connection that is opened.
///
/// # Errors
/// SQLite's.
pub fn create_functions(connection: &Connection) -> densite_sqlite::Result<()> {
    densite_cluster::create_functions(connection)?;
    replica::create_functions(connection)
}
