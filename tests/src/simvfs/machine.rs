//! The machine behind a VFS: a disk, and the state that is lost with the power: locks and shared
//! memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use densite_disk::sync::Mutex;
use densite_sim_disk::SimDisk;
use densite_sqlite::ffi;

use super::locks::Locks;
use super::shm::Shm;

/// The state that connections to one database file share.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) locks: Mutex<Locks>,
    pub(super) shm: Mutex<Shm>,
}

/// One life of the machine, from power on to power off.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) disk: SimDisk,
    nodes: Mutex<HashMap<String, Arc<Node>>>,
    temp_next: AtomicU64,
}

impl Machine {
    pub(super) fn new(disk: SimDisk) -> Machine {
        Machine {
            disk,
            nodes: Mutex::default(),
            temp_next: AtomicU64::new(0),
        }
    }

    /// The shared state of the connections to the file at `path`.
    pub(super) fn node(&self, path: &str) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        nodes.entry(path.to_owned()).or_default().clone()
    }

    /// An unused name on the simulated disk. Files that survived a power cut count as used.
    pub(super) fn temp_path(&self) -> String {
        loop {
            let n = self.temp_next.fetch_add(1, Ordering::Relaxed);
            let path = format!("/temporary/{n}");
            if self.disk.contents(&path).is_none() {
                return path;
            }
        }
    }
}

/// The state of a registered VFS.
#[derive(Debug)]
pub(super) struct State {
    machine: Mutex<Arc<Machine>>,
    /// `xSectorSize`, bytes.
    pub(super) sector_size: AtomicI32,
    /// `xDeviceCharacteristics`.
    pub(super) characteristics: AtomicI32,
    pub(super) open_files: AtomicUsize,
    holder_next: AtomicU64,
    /// Numbers of the disk changes of checkpoints outside of ingest's worker, approximately.
    pub(super) beside: Mutex<Vec<u64>>,
}

impl State {
    pub(super) fn new(disk: SimDisk) -> State {
        State {
            machine: Mutex::new(Arc::new(Machine::new(disk))),
            sector_size: AtomicI32::new(512),
            characteristics: AtomicI32::new(ffi::IOCAP_POWERSAFE_OVERWRITE),
            open_files: AtomicUsize::new(0),
            holder_next: AtomicU64::new(1),
            beside: Mutex::default(),
        }
    }

    pub(super) fn machine(&self) -> Arc<Machine> {
        self.machine.lock().clone()
    }

    /// Starts a new machine on `disk`. Open files stay with the machine on which they were opened.
    pub(super) fn reboot(&self, disk: SimDisk) {
        *self.machine.lock() = Arc::new(Machine::new(disk));
    }

    pub(super) fn next_holder(&self) -> u64 {
        self.holder_next.fetch_add(1, Ordering::Relaxed)
    }
}
