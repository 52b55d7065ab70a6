//! The SQLite VFS over the page store. Registered over a host's VFS ([`register`]), it serves the
//! main database file through the store, and the host keeps everything else. A plain SQLite file is
//! passed through. An empty file becomes a store at its first write, unless its URI says
//! `densite=off`.
//!
//! [`densite_init`] is the entry point for `sqlite3_auto_extension`, [`load`] that of the loadable
//! extension. [`with_handle`] gives access to the store of an open connection. [`LockedView`] shows
//! SQLite a database that its caller has locked.

#![warn(missing_docs)]

mod absent;
mod busy;
mod checkpoint;
mod codes;
mod companion_file;
mod companions;
mod connection_role;
mod contents;
mod entry;
pub mod failpoint;
mod followed;
mod identity;
mod idle;
mod idle_queue;
mod last_error;
mod late_truncate;
mod locked_view;
mod main_file;
mod maintain;
mod mistaken;
mod named_file;
mod neighbours;
mod open_files;
mod overwritten;
mod parameter_names;
mod path_check;
mod pragma;
#[cfg_attr(not(feature = "remote"), path = "remote/absent.rs")]
mod remote;
mod restore_point;
mod settings;
mod slice;
mod sql;
mod store_file;
mod super_journal;
mod trim;
mod vfs;
mod worker;

pub use densite_sqlite::entry_point;
pub use entry::{Addition, densite_init, init, load};
pub use followed::Followed;
pub use last_error::{last_damage, take_last_error};
pub use locked_view::{LockedView, ViewBytes};
pub use main_file::{followed, with_handle};
pub use mistaken::mistaken_url;
#[cfg(not(feature = "remote"))]
pub use remote::without_remote;
pub use remote::{RemoteFile, is_replica, is_url, remote_cost, shown_url, upload};
#[cfg(feature = "remote")]
pub use remote::{bucket, folders};
pub use restore_point::restore_point;
pub use sql::create_functions;
pub use vfs::{NAME, host_vfs, register};
