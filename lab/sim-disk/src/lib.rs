//! The simulated disk: what a power cut does to files, from a seed.
//!
//! A [`SimDisk`] is a handle on one disk in memory. Its files have paths, and [`SimDisk::dir`]
//! gives the [`Dir`] contract for one directory. Each file has the contents that processes see, and
//! an ordered list of changes that were not synced; each directory likewise. [`SimDisk::power_cut`]
//! decides which of these survive. Two disks in one process share nothing, and the same calls with
//! the same seeds give the same bytes.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod counters;
mod entries;
mod fate;
mod fault;
mod handle;
mod inode;
mod locks;
mod pending;
mod policy;
mod survival;
mod world;

use std::sync::Arc;

use densite_disk::sync::Mutex;

pub use counters::Counters;
pub use fault::{Fault, FaultKind, OpSet, Times};
pub use handle::{SimDir, SimFile};
pub use policy::{EntryPolicy, Extension, FailedSync, MetadataOrder, WriteOrder};

use densite_disk::{Dir, OpenMode, Result};
pub use world::Capture;
use world::World;

/// A disk as it was at one change of another disk.
#[derive(Debug)]
pub struct Captured {
    /// Number of the change.
    pub change: u64,
    /// How it was taken.
    pub how: Capture,
    /// A separate disk, all of it durable.
    pub disk: SimDisk,
}

/// A handle on one simulated disk; clones share the disk.
///
/// Every call of a file or directory is numbered from 1 ([`SimDisk::calls`]). So a test runs a
/// workload once to count, then again with [`SimDisk::cut_at`] each number. [`SimDisk::changes`]
/// and [`SimDisk::cut_at_change`] leave out calls that only read. [`SimDisk::capture_at`] takes
/// what a cut would leave at many changes of one run. The call at which the cut comes fails with
/// `EIO`, like all later ones, but its change is among the unsynced ones. Locks are held by
/// handles, each of which stands for a process. They are not counted as calls, and a disk after a
/// cut has none.
#[derive(Debug, Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
}

impl SimDisk {
    /// An empty disk. The seed decides what failed syncs lose; cuts have their own seeds.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::of(World::new(seed, policy::Policy::default()))
    }

    /// An empty disk of one kind of disk and file system, by the seed: in which order writes and names
    /// become durable, what a file has where it grew, whether a sync of a file keeps its name.
    pub fn of_seed(seed: u64) -> SimDisk {
        SimDisk::of(World::new(seed, policy::Policy::of_seed(seed)))
    }

    fn of(world: World) -> SimDisk {
        SimDisk {
            world: Arc::new(Mutex::new(world)),
        }
    }

    // ---- files by path ----

    /// The directory at `path`; directories need not be created.
    pub fn dir(&self, path: &str) -> SimDir {
        SimDir::new(&self.world, path)
    }

    /// The directory `/`.
    pub fn root(&self) -> SimDir {
        self.dir("/")
    }

    /// Opens the file at `path`, as [`Dir::open`] would in its directory.
    ///
    /// # Errors
    /// As [`Dir::open`].
    pub fn open(&self, path: &str, mode: OpenMode) -> Result<SimFile> {
        SimFile::open(&self.world, path, mode)
    }

    /// Whether there is a file at `path`.
    ///
    /// # Errors
    /// `Io` after a cut or by a fault.
    pub fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.world.lock().find(path)?.is_some())
    }

    /// Removes the file at `path`; open handles keep it.
    ///
    /// # Errors
    /// `NotFound`; `Io` after a cut or by a fault.
    pub fn remove(&self, path: &str) -> Result<()> {
        self.world.lock().remove(path)
    }

    /// Syncs the directory at `path`.
    ///
    /// # Errors
    /// `Io` after a cut or by a fault.
    pub fn sync_dir(&self, path: &str) -> Result<()> {
        self.dir(path).sync()
    }

    // ---- cuts ----

    /// Cuts the power: every call on a handle of this disk then fails with `EIO`. Returns the disk
    /// after the cut: it has what survived, all of it durable, without faults, and with counters at
    /// zero.
    ///
    /// It leaves:
    /// - everything that was synced; an unsynced write changes no byte outside its range
    ///   ("powersafe overwrite");
    /// - of each unsynced write all, nothing, some of its sectors, or the bytes on one side of an
    ///   arbitrary byte. A later write can survive without an earlier one. Where two surviving
    ///   writes overlap, the later one wins;
    /// - each unsynced change of a length, or not. If a shortening is lost, so are later writes
    ///   beyond it, because they went to new blocks that the file does not reference. A file that
    ///   grew can have the new length with zeros (or, by [`Extension`], garbage) where the write
    ///   itself is missing;
    /// - of the creations, removals and renames of each name those up to a random point, a rename
    ///   as a whole or not at all. A directory sync makes all of them durable.
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        let mut world = self.world.lock();
        world.kill();
        SimDisk::of(world.survivor(seed))
    }

    /// The disk that a power cut now would leave. This disk stays usable.
    ///
    /// So one run of a workload serves many cuts at the same call.
    pub fn survivor(&self, seed: u64) -> SimDisk {
        SimDisk::of(self.world.lock().survivor(seed))
    }

    /// The files as processes see them now, all durable, on a separate disk.
    pub fn snapshot(&self) -> SimDisk {
        SimDisk::of(self.world.lock().snapshot(0))
    }

    /// Requests a capture at change number `change` of [`SimDisk::changes`], as if the cut had come
    /// there. That change is then done and unsynced, or a sync in progress. This disk stays usable,
    /// so one run of a workload serves any number of cuts.
    pub fn capture_at(&self, change: u64, how: Capture) {
        self.world.lock().capture_at(change, how);
    }

    /// Requests the result of a power cut at each of these changes. The seed decides what survives.
    pub fn cut_at_each(&self, changes: impl IntoIterator<Item = u64>, seed: u64) {
        for change in changes {
            self.capture_at(change, Capture::Cut(seed ^ (change << 8)));
        }
    }

    /// The captures since the last call of this function, by ascending change.
    pub fn take_captures(&self) -> Vec<Captured> {
        let taken = self.world.lock().take_captures();
        let captured = |(change, how, world)| Captured {
            change,
            how,
            disk: SimDisk::of(world),
        };
        taken.into_iter().map(captured).collect()
    }

    /// Cuts the power at call number `call` of [`SimDisk::calls`], or at the next one if that has
    /// passed.
    pub fn cut_at(&self, call: u64) {
        self.world.lock().cut_at_call = Some(call);
    }

    /// Cuts the power at change number `change` of [`SimDisk::changes`], or at the next one if that
    /// has passed.
    pub fn cut_at_change(&self, change: u64) {
        self.world.lock().cut_at_change = Some(change);
    }

    /// Whether the power was cut, so that every call fails.
    pub fn is_dead(&self) -> bool {
        self.world.lock().is_dead()
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.world.lock().calls
    }

    /// The number of calls so far that could change what is on the disk: writes, changes of a
    /// length, syncs, creations, removals and renames.
    pub fn changes(&self) -> u64 {
        self.world.lock().changes
    }

    // ---- faults ----

    /// Arms a fault; several can be armed at once.
    pub fn fail(&self, fault: Fault) {
        self.world.lock().faults.arm(fault);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.world.lock().faults.clear();
    }

    /// How many calls failed because of a fault. Calls that failed because the capacity was reached
    /// are not counted.
    pub fn fault_hits(&self) -> u64 {
        self.world.lock().faults.hits
    }

    // ---- policies ----

    /// Sets the capacity of all files together in bytes; `None` for no limit.
    ///
    /// A write or change of length beyond it fails with `Full` and changes nothing. Overwriting
    /// existing bytes never needs room. A removed file takes room while a handle is open.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.lock().policy.capacity = bytes;
    }

    /// The bytes of all files.
    pub fn used(&self) -> u64 {
        self.world.lock().used()
    }

    /// Sets the unit in which writes are torn, in bytes (default 512); zero counts as one.
    pub fn set_sector_size(&self, bytes: usize) {
        self.world.lock().policy.sector = bytes.max(1);
    }

    /// Sets when the directory entry of a new file becomes durable.
    pub fn set_entry_policy(&self, policy: EntryPolicy) {
        self.world.lock().policy.entries = policy;
    }

    /// Sets what happens to unsynced writes if their sync fails.
    pub fn set_failed_sync(&self, policy: FailedSync) {
        self.world.lock().policy.failed_sync = policy;
    }

    /// Sets in which order unsynced writes of one file reach the disk.
    pub fn set_write_order(&self, policy: WriteOrder) {
        self.world.lock().policy.writes = policy;
    }

    /// Sets in which order changes of names and lengths reach the disk.
    pub fn set_metadata_order(&self, policy: MetadataOrder) {
        self.world.lock().policy.metadata = policy;
    }

    /// Sets what a file has where it grew without the write.
    pub fn set_extension(&self, policy: Extension) {
        self.world.lock().policy.extension = policy;
    }

    // ---- inspection; these calls are not counted and never fail ----

    /// The calls on the file at `path`, including those on earlier files of that name.
    ///
    /// A directory's own syncs are at its path with a slash at the end.
    pub fn counters(&self, path: &str) -> Counters {
        self.world.lock().counters(path)
    }

    /// The calls on all files and directories together.
    pub fn counters_total(&self) -> Counters {
        self.world.lock().table.total()
    }

    /// Starts a new trace of changes in words, or stops it.
    pub fn set_trace(&self, on: bool) {
        self.world.lock().set_trace(on);
    }

    /// The changes since the last call of this function, each with its number, such as `17: write
    /// /db/a 4096+512`.
    pub fn take_trace(&self) -> Vec<String> {
        self.world.lock().take_trace()
    }

    /// All paths, sorted by directory and name.
    pub fn paths(&self) -> Vec<String> {
        self.world.lock().paths()
    }

    /// The bytes of the file at `path` as processes see them.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        self.world.lock().contents(path)
    }

    /// Replaces the contents of the file at `path`, or creates it. Open handles see the change. It
    /// and all entries of its directory are durable at once. For fixtures and damage.
    pub fn put_file(&self, path: &str, bytes: &[u8]) {
        self.world.lock().put_file(path, bytes.to_vec());
    }
}
