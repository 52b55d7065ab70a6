//! Shared by the tests of several crates: the simulated disk below real SQLite, and crashes on it.

pub mod crash;
pub mod ingest;
pub mod library;
pub mod model;
pub mod procs;
pub mod simvfs;
