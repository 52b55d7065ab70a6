//! A safe wrapper over SQLite's table of API pointers.
//!
//! SQLite is called only through the table that it passes to an extension's entry point ([`Api`]),
//! so one build serves every host from SQLite 3.37.2 on. Databases: [`Connection`], [`Statement`],
//! [`Value`], [`Backup`], [`quoted()`]. Files: [`HostVfs`], [`HostFile`], [`Vfs`],
//! [`VfsFile`], [`Above`], [`register_vfs`], [`coalesced_vfs`]. SQL: [`create_function`],
//! [`create_table_function`], [`VirtualTable`], [`TableCursor`], [`create_module`],
//! [`stand_in_for_collations`], [`Observation`]. [`fork_gate`] makes forks wait. Callbacks catch panics, so no panic crosses into C.

#![warn(missing_docs)]

mod api;
mod backup;
mod coalesced;
mod code;
mod collation;
mod companions;
mod compile_error;
mod connection;
mod detached;
mod entry;
mod error;
pub mod ffi;
mod filename;
pub mod fork_gate;
mod function;
mod host;
mod hostfile;
mod loaded;
mod panic;
mod preupdate;
mod process;
mod registration;
pub mod routines;
mod statement;
mod table_function;
mod value;
mod vfs;
mod vtab;

pub use api::{Api, EntryPoint, OLDEST_VERSION, string_of_any_version};
pub use backup::{Backup, BackupStep};
pub use coalesced::{WalProgress, coalesced_vfs, wal_progress};
pub use code::Code;
pub use collation::stand_in_for_collations;
pub use companions::{Companions, SHM};
pub use compile_error::CompileError;
pub use connection::{Checkpointed, Connection, Running, TxnState, is_opened_by_densite};
pub use detached::{Detached, Row};
pub use entry::entry_point;
pub use error::{Error, Result};
pub use filename::{FileName, OwnedName};
pub use function::{create_function, serves};
pub use host::HostVfs;
pub use hostfile::HostFile;
pub use loaded::{keep_loaded, library_path};
pub use panic::INTERNAL_ERROR;
pub use preupdate::{
    Observation, Observer, PreupdateFaults, RowChange, RowOp, preupdate_faults, provide_preupdate,
};
pub use process::PerProcess;
pub use registration::Registration;
pub use statement::{OwnedStatement, Statement, quoted};
pub use table_function::create_table_function;
pub use value::{Value, ValueRef};
pub use vfs::{
    Above, Opened, Registered, Vfs, VfsFile, file_of, make_default, register_vfs, registered,
};
pub use vtab::{
    Arguments, Change, Conflict, Constraint, Existence, Operator, Origin, Plan, TableCursor,
    VirtualTable, create_module,
};
