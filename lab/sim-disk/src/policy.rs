//! The kind of disk that is simulated.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// When the directory entry of a new file becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntryPolicy {
    /// Only when its directory is synced, as POSIX promises.
    #[default]
    DirSync,
    /// Also when the file itself is synced, with every other pending change of its directory,
    /// as journalling file systems do.
    FileSync,
}

/// What happens to unsynced changes after a sync that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailedSync {
    /// Each write has reached the disk, in full or in part, or never will. Processes still see all
    /// of them, and a later successful sync does not write them, as on Linux. Changes of the length
    /// stay pending: file systems retry their metadata, or stop altogether.
    #[default]
    Dropped,
    /// They stay in the cache, and the next successful sync makes them durable.
    Kept,
}

/// In which order unsynced writes of one file reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteOrder {
    /// Any order: a later one can survive without an earlier one.
    #[default]
    Any,
    /// In the order of the calls: those up to a random point survive, and a part of the next.
    InFile,
}

/// In which order creations, removals, renames and changes of lengths reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetadataOrder {
    /// Any order, except within one name.
    #[default]
    Any,
    /// In the order of the calls, over all files and directories: a later one survives only if all
    /// earlier ones do, as on file systems with a journal of their metadata.
    Journalled,
}

/// What a file has where it grew and the write that made it grow did not survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extension {
    /// Zeros.
    #[default]
    Zeros,
    /// Any bytes, from blocks that were allocated and never written.
    Garbage,
}

/// The settings of a simulated disk that a power cut does not change.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub(super) entries: EntryPolicy,
    pub(super) failed_sync: FailedSync,
    pub(super) extension: Extension,
    pub(super) writes: WriteOrder,
    pub(super) metadata: MetadataOrder,
    /// Unit of tearing, bytes; not zero.
    pub(super) sector: usize,
    /// The capacity of all files together in bytes.
    pub(super) capacity: Option<u64>,
}

impl Policy {
    /// The longest file, in bytes: contents are in memory, so a wrong length must fail.
    pub(super) const LEN_MAX: u64 = 8 << 30;

    /// One of those of real disks and file systems, by a seed. Failed syncs and sectors are as usual.
    pub(super) fn of_seed(seed: u64) -> Policy {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0x0070_6f6c);
        Policy {
            entries: [EntryPolicy::DirSync, EntryPolicy::FileSync][rng.random_range(0..2)],
            extension: [Extension::Zeros, Extension::Garbage][rng.random_range(0..2)],
            writes: [WriteOrder::Any, WriteOrder::Any, WriteOrder::InFile][rng.random_range(0..3)],
            metadata: [MetadataOrder::Any, MetadataOrder::Journalled][rng.random_range(0..2)],
            ..Policy::default()
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            entries: EntryPolicy::default(),
            failed_sync: FailedSync::default(),
            extension: Extension::default(),
            writes: WriteOrder::default(),
            metadata: MetadataOrder::default(),
            sector: 512,
            capacity: None,
        }
    }
}
