//! What kind of disk is simulated.

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

/// What is left of unsynced changes after a sync that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailedSync {
    /// Each write has reached the disk, in full or in part, or never will; processes go on
    /// seeing all of them and a later sync that succeeds does not bring them back. So Linux behaves.
    /// Changes of the length stay pending: file systems retry their metadata, or stop altogether.
    #[default]
    Dropped,
    /// They stay in the cache, and the next sync that succeeds makes them durable.
    Kept,
}

/// In which order unsynced writes of one file reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteOrder {
    /// Any: a later one may survive without an earlier one.
    #[default]
    Any,
    /// As they were issued: those up to a random point survive, and a part of the next.
    InFile,
}

/// In which order creations, removals, renames and lengths that are set reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetadataOrder {
    /// Any, but for the order within one name.
    #[default]
    Any,
    /// As they were issued, over all files and directories: a later one survives only if all
    /// earlier ones do, as on file systems that keep a journal of their metadata.
    Journalled,
}

/// What a file holds where it grew and the write that made it grow did not survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extension {
    /// Zeros.
    #[default]
    Zeros,
    /// Anything: blocks that were allocated and never written.
    Garbage,
}

/// All settings of a simulated disk that a power cut leaves as they are.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub(super) entries: EntryPolicy,
    pub(super) failed_sync: FailedSync,
    pub(super) extension: Extension,
    pub(super) writes: WriteOrder,
    pub(super) metadata: MetadataOrder,
    /// Unit of tearing, bytes; not zero.
    pub(super) sector: usize,
    /// Bytes that all files together may have.
    pub(super) capacity: Option<u64>,
}

impl Policy {
    /// The longest file, in bytes: contents live in memory, so a wild length must fail.
    pub(super) const LEN_MAX: u64 = 8 << 30;
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
