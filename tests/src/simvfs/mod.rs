//! The simulated disk as a SQLite VFS.
//!
//! All files of a database (main file, journal, WAL, temporary files) are on one [`SimDisk`], so
//! they share one order of writes and one power cut. Locks and the shared memory of WAL mode work
//! between the connections of this process and are lost with the power. Directories are synced as
//! in SQLite's unix VFS: with the first sync of a journal or WAL that was opened with the create
//! flag, and after a deletion that requests it.

mod locks;
mod machine;
mod open_file;
mod shm;
mod vfs;

use densite_sim_disk::SimDisk;
use densite_sqlite::{HostVfs, register_vfs};
use machine::State;
use rusqlite::{Connection, OpenFlags, ffi};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::Simulated;

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
pub struct SimVfs {
    name: String,
    state: Arc<State>,
    registered: HostVfs,
}

impl std::fmt::Debug for SimVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimVfs({})", self.name)
    }
}

impl SimVfs {
    /// Registers a VFS with this name and files on `disk`. It does not become the default.
    ///
    /// # Panics
    /// If the name is in use or contains a zero byte, or if SQLite refuses it.
    pub fn register(name: &str, disk: SimDisk) -> SimVfs {
        let c_name = CString::new(name).expect("a VFS name holds no zero byte");
        let api = densite_linked::api().expect("the linked SQLite is new enough");
        let taken = HostVfs::find(api, Some(&c_name));
        assert!(taken.is_none(), "there is a VFS {name} already");
        let state = Arc::new(State::new(disk));
        let vfs = Simulated {
            host: HostVfs::find(api, None).expect("a default VFS"),
            state: state.clone(),
        };
        let registered = register_vfs(api, &c_name, vfs, false).expect("SQLite takes the VFS");
        SimVfs {
            name: name.to_owned(),
            state,
            registered,
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
        // SAFETY: it is registered and never freed: a VFS on top of it or an open connection can
        // use it later.
        unsafe { ffi::sqlite3_vfs_unregister(self.registered.as_ptr().cast()) };
    }
}
