//! The simulated disk as a SQLite VFS.
//!
//! All files of a database (main file, journal, WAL, temporary files) are on one [`SimDisk`], so
//! they share one order of writes and one power cut. Locks and the shared memory of WAL mode work
//! between the connections of this process and are lost with the power. Directories are synced as
//! in SQLite's unix VFS: with the first sync of a journal or WAL that was opened with the create
//! flag, and after a deletion that requests it.

mod io_methods;
mod locks;
mod machine;
mod open_file;
mod shm;
mod vfs_methods;

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use densite_sim_disk::SimDisk;
use rusqlite::{Connection, OpenFlags, ffi};

use machine::State;

/// A registered VFS on a simulated machine. Dropping it unregisters the name.
///
/// ```
/// use densite_sim_disk::SimDisk;
/// use densite_tests::simvfs::SimVfs;
///
/// let vfs = SimVfs::register("sim-doc", SimDisk::new(1));
/// let db = vfs.connect("/db/app.db").expect("open");
/// db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1)").expect("write");
/// drop(db);
/// vfs.power_cut(7);
/// let db = vfs.connect("/db/app.db").expect("open what survived");
/// db.query_row("PRAGMA integrity_check", [], |_| Ok(())).expect("sound");
/// ```
#[derive(Debug)]
pub struct SimVfs {
    name: String,
    state: &'static Arc<State>,
    table: *mut ffi::sqlite3_vfs,
}

// SAFETY: the pointer is only used to unregister, which SQLite allows from any thread. All other
// fields are Sync.
unsafe impl Send for SimVfs {}
// SAFETY: as above; no shared method uses the pointer.
unsafe impl Sync for SimVfs {}

impl SimVfs {
    /// Registers a VFS with this name and files on `disk`. It does not become the default.
    ///
    /// # Panics
    /// If the name is in use or contains a zero byte, or if SQLite refuses it.
    pub fn register(name: &str, disk: SimDisk) -> SimVfs {
        let c_name = CString::new(name).expect("a VFS name holds no zero byte");
        // SAFETY: the name ends with a zero; sqlite3_vfs_find initialises SQLite.
        let taken = unsafe { ffi::sqlite3_vfs_find(c_name.as_ptr()) };
        assert!(taken.is_null(), "there is a VFS {name} already");
        // Leaked, a few hundred bytes for each registration: a shim on top of this VFS or an open
        // connection can use them after this guard is dropped.
        let c_name: &'static std::ffi::CStr = Box::leak(c_name.into_boxed_c_str());
        let state: &'static Arc<State> = Box::leak(Box::new(Arc::new(State::new(disk))));
        let table = Box::into_raw(Box::new(vfs_methods::table(c_name, state)));
        // SAFETY: the table is complete and lives forever.
        let rc = unsafe { ffi::sqlite3_vfs_register(table, 0) };
        assert_eq!(rc, ffi::SQLITE_OK, "SQLite refuses the VFS {name}");
        SimVfs {
            name: name.to_owned(),
            state,
            table,
        }
    }

    /// The registered name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current disk, on which files are opened.
    pub fn disk(&self) -> SimDisk {
        self.state.machine().disk.clone()
    }

    /// Opens a database for reading and writing, and creates it if it is missing.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn connect(&self, path: &str) -> rusqlite::Result<Connection> {
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), self.name.as_str())
    }

    /// Starts a new life on `disk`, without locks and shared memory. Open files stay with the old
    /// disk; close them first.
    pub fn reboot(&self, disk: SimDisk) {
        self.state.reboot(disk);
    }

    /// Cuts the power and restarts with what survived. Open files stop working.
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        let after = self.disk().power_cut(seed);
        self.reboot(after.clone());
        after
    }

    /// Number of files that SQLite has open, on the disk of any life.
    pub fn open_files(&self) -> usize {
        self.state.open_files.load(Ordering::Relaxed)
    }

    /// Numbers of the disk changes of checkpoints outside of ingest's worker. They are approximate,
    /// because other threads change the disk too.
    pub fn beside(&self) -> Vec<u64> {
        self.state.beside.lock().clone()
    }

    /// Sets the result of `xSectorSize` in bytes (512 by default).
    pub fn set_sector_size(&self, bytes: i32) {
        self.state.sector_size.store(bytes, Ordering::Relaxed);
    }

    /// Sets the result of `xDeviceCharacteristics` (`SQLITE_IOCAP_POWERSAFE_OVERWRITE` by default).
    pub fn set_device_characteristics(&self, flags: i32) {
        self.state.characteristics.store(flags, Ordering::Relaxed);
    }
}

impl Drop for SimVfs {
    fn drop(&mut self) {
        // SAFETY: the table was registered and is never freed.
        unsafe { ffi::sqlite3_vfs_unregister(self.table) };
    }
}
