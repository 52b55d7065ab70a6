//! What tests of several rooms share: the simulated disk under real SQLite, and crashes on it.

pub mod crash;
pub mod ingest;
pub mod library;
pub mod model;
pub mod procs;
pub mod simvfs;
