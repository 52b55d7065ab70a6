//! The integration tests of this crate, in one program, so that they are linked once.

mod absent;
mod closing;
mod common;
mod companions;
mod faults;
mod ingest;
mod killed;
mod maintain;
mod overwritten;
mod postings;
mod processes;
mod replaced;
mod settings;
mod shared_cache;
mod sparse;
mod sql;
mod steady;
mod subscribers;
mod trim;
mod wal_preencoded;
mod what_it_is;
mod worker;
mod worker_locks;
