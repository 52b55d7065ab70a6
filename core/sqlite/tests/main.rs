//! The integration tests of this crate, in one program, so that they are linked once.

mod coalesced;
mod common;
mod database;
mod host_file;
mod old_hosts;
mod pieces;
mod preupdate;
mod table_order;
mod vfs_contract;
mod virtual_table;
