//! The tests that can share a process, in one program: it is linked once.
//!
//! `rules` measures the memory and the threads of its process, `hosts` and `capi` use the built
//! library, `house` reads the sources: they are programs of their own.

mod attached_crash;
mod control;
mod crash;
mod damage;
mod ingest_crash;
mod ingest_durable;
mod kill;
mod model;
mod old_files;
mod several;
mod simvfs;
mod space;
mod sql_features;
mod trouble;
