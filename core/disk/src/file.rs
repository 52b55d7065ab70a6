//! The contracts of a file and of a directory.

use crate::{Error, ErrorKind, Op, Result, Watch};

/// How much a sync has to make durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// File contents and the length needed to read them (`fdatasync`).
    Data,
    /// Contents and all metadata (`fsync`).
    Full,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; created when missing.
    Create,
    /// For reading and writing; must not exist.
    CreateNew,
}

/// Who else may hold a lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Others that hold it shared.
    Shared,
    /// No other holder.
    Exclusive,
}

/// One open file.
///
/// Every other handle on the same file sees a write at once (*published*). A write survives a power
/// cut only after [`File::sync`] (*durable*). A write never changes bytes outside its range, even
/// if the power is cut during it ("powersafe overwrite").
#[expect(clippy::len_without_is_empty, reason = "a length that can fail")]
pub trait File: Send {
    /// Reads at `offset` until `buf` is full or the file ends; returns the bytes read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes all of `buf` at `offset`, growing the file when needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()>;
    /// Sets the length in bytes; new bytes read as zeros.
    fn set_len(&self, len: u64) -> Result<()>;
    /// Makes all writes so far durable. After a failure, any write since the last successful sync
    /// may be lost.
    fn sync(&self, kind: SyncKind) -> Result<()>;
    /// The length in bytes.
    fn len(&self) -> Result<u64>;
    /// Tries to take the lock of this file (`flock`) and returns whether it did. It never waits. If
    /// it fails, a lock that this handle held before may be lost.
    ///
    /// The lock belongs to this handle and keeps out other handles of this and of other processes.
    /// It is advisory, and it ends with the handle or its process. A forked child does not share
    /// it.
    ///
    /// # Errors
    /// `Io` if these files have no such locks: files of SQLite's host are locked through SQLite.
    fn try_lock(&self, _kind: LockKind) -> Result<bool> {
        Err(Error::new(ErrorKind::Io, Op::Lock))
    }
    /// Waits for the lock of this file and takes it. The system decides the order of waiting
    /// handles.
    ///
    /// # Errors
    /// As [`File::try_lock`]; `Io` if waiting is not supported.
    fn lock(&self, _kind: LockKind) -> Result<()> {
        Err(Error::new(ErrorKind::Io, Op::Lock))
    }
    /// Releases the lock if this handle holds it.
    ///
    /// # Errors
    /// As [`File::try_lock`].
    fn unlock(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Io, Op::Lock))
    }
    /// The identity of the file (device and inode), whatever its name is now. Two handles of one
    /// file return the same value; handles of two open files return different ones.
    ///
    /// # Errors
    /// `Io`, also if the identity cannot be determined.
    fn identity(&self) -> Result<(u64, u64)> {
        Err(Error::new(ErrorKind::Io, Op::Len))
    }
}

/// The identity of a directory and the time when its names last changed. If [`Stamp::is_past_tick`]
/// held when it was taken and the stamp has not changed, every name still leads to the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub(crate) identity: (u64, u64),
    /// Seconds and nanoseconds.
    pub(crate) changed: (i64, i64),
}

impl Stamp {
    /// Whether any later change gets a different time. File system clocks tick: kernel clocks at
    /// least every 10 ms, and clocks that count in seconds every 2 s.
    #[must_use]
    pub fn is_past_tick(&self) -> bool {
        let (seconds, nanos) = self.changed;
        let is_fine = nanos % 1_000_000 != 0;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_millis() as i64);
        let age = now.saturating_sub(seconds.saturating_mul(1000) + nanos / 1_000_000);
        age > if is_fine { 50 } else { 3000 }
    }
}

/// One directory: names are single components, never paths.
///
/// Creation, removal and renaming survive a power cut only after [`Dir::sync`].
pub trait Dir: Send {
    /// Opens a regular file.
    ///
    /// # Errors
    /// `NotAFile`, at once, if the name is not that of a regular file. Opening a pipe would block,
    /// and a link leads elsewhere.
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>>;
    /// Whether a file of that name exists.
    fn exists(&self, name: &str) -> Result<bool>;
    /// The identity of the file with this name, as [`File::identity`]; `None` if there is no such
    /// file.
    fn identity(&self, name: &str) -> Result<Option<(u64, u64)>>;
    /// The identity of the directory and when its names last changed. `None` if it does not exist
    /// or this cannot be determined.
    fn stamp(&self) -> Result<Option<Stamp>>;
    /// Removes a file; other open handles keep it.
    fn remove(&self, name: &str) -> Result<()>;
    /// Renames a file atomically, replacing any file that has the new name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// All names, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Makes creations, removals and renames durable.
    fn sync(&self) -> Result<()>;
    /// A watch of files in this directory; `None` if the system offers no watch.
    fn watch(&self) -> Option<Watch> {
        None
    }
    /// The bytes that a user without privileges can still write here.
    fn free_space(&self) -> Result<u64>;
}
