//! The host's file system, with sweeps of few rows, so that a test has many.
#![allow(dead_code, reason = "each test file uses a part of it")]

use densite_disk::{RealDir, Result};
use densite_ingest::{Found, Medium, Sweeps};
use densite_log::LogDir;
use densite_sqlite::Connection;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Sweeps of some hundred rows, with transactions of a few.
pub(crate) const FEW: Sweeps = Sweeps {
    least: 40,
    most: 300,
    bytes: 1 << 20,
    together: 20,
    at_once: 2,
};

/// As [`FEW`], but slower.
pub(crate) const ONE: Sweeps = Sweeps { at_once: 1, ..FEW };

/// See the module.
pub(crate) struct Small {
    pub(crate) sweeps: Sweeps,
    /// Connections of another number share nothing with this one but the files: as if they were in another process.
    pub(crate) process: u64,
}

impl Medium for Small {
    fn find(&self, path: &str) -> Result<Found> {
        let meta = std::fs::metadata(path).expect("there");
        Ok(Found {
            identity: (meta.dev() ^ (self.process + 1) << 32, meta.ino()),
            names: meta.nlink(),
        })
    }

    fn dir(&self, path: &Path) -> LogDir {
        Arc::new(RealDir::new(path))
    }

    fn create_dir(&self, path: &Path) -> Result<LogDir> {
        Ok(Arc::new(RealDir::create(path)?))
    }

    fn sweeps(&self) -> Sweeps {
        self.sweeps
    }
}

/// A connection with ingest on such a medium.
pub(crate) fn connect(path: &Path, sweeps: Sweeps, process: u64) -> rusqlite::Connection {
    let con = rusqlite::Connection::open(path).expect("opens");
    con.busy_timeout(std::time::Duration::from_secs(10))
        .expect("a timeout");
    // SAFETY: an open connection of that library.
    let lent = unsafe { Connection::borrow(crate::common::api(), con.handle().cast()) };
    let medium = Arc::new(Small { sweeps, process });
    densite_ingest::create_functions_on(&lent.expect("a connection"), medium).expect("functions");
    con
}
