//! The place where a workload runs: a VFS name over a simulated machine.

use std::time::{Duration, Instant};

use densite_sim_disk::SimDisk;
use rusqlite::{Connection, OpenFlags};

use crate::simvfs::SimVfs;

/// The database of every crash test.
const PATH: &str = "/db/crash.db";

/// A VFS to open databases with, and the simulated machine below it.
#[derive(Debug, Clone)]
pub struct Stand<'a> {
    host: &'a SimVfs,
    vfs: String,
    uri_parameters: String,
}

impl<'a> Stand<'a> {
    /// Plain SQLite on the simulated disk: the control.
    pub fn plain(host: &'a SimVfs) -> Stand<'a> {
        Stand::over(host, host.name())
    }

    /// The VFS named `vfs`, which was registered over `host`.
    pub fn over(host: &'a SimVfs, vfs: &str) -> Stand<'a> {
        Stand {
            host,
            vfs: vfs.to_owned(),
            uri_parameters: String::new(),
        }
    }

    /// Opens with these URI parameters, such as `threads=0&level=1`.
    pub fn with_uri(mut self, parameters: &str) -> Stand<'a> {
        self.uri_parameters = parameters.to_owned();
        self
    }

    /// The simulated machine.
    pub fn host(&self) -> &'a SimVfs {
        self.host
    }

    /// Starts the machine on `disk`. All earlier connections must be closed.
    ///
    /// # Panics
    /// If a file stays open for seconds, which is a leak of the VFS under test.
    pub fn boot(&self, disk: &SimDisk) {
        // A worker of a VFS can close its file a moment after the last connection.
        let patience = Instant::now() + Duration::from_secs(10);
        while self.host.open_files() > 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let open = self.host.open_files();
        assert_eq!(
            open, 0,
            "files are open although every connection is closed"
        );
        self.host.reboot(disk.clone());
    }

    /// Opens the database. There is one thread, so no busy timeout is needed.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn connect(&self) -> rusqlite::Result<Connection> {
        let uri = format!("file:{PATH}?{}", self.uri_parameters);
        let db = Connection::open_with_flags_and_vfs(uri, OpenFlags::default(), self.vfs.as_str())?;
        db.busy_timeout(Duration::ZERO)?;
        Ok(db)
    }
}
