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
    /// Nobody.
    Exclusive,
}

/// One open file.
///
/// Writes are seen at once by every other handle on the same file (*published*) and
/// survive a power cut only after [`File::sync`] (*durable*). Bytes outside the range
/// of a write are never changed by it, not even by a power cut during it
/// ("powersafe overwrite").
#[expect(clippy::len_without_is_empty, reason = "a length that can fail")]
pub trait File: Send {
    /// Reads at `offset` until `buf` is full or the file ends; returns the bytes read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes all of `buf` at `offset`, growing the file when needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()>;
    /// Sets the length in bytes; new bytes read as zeros.
    fn set_len(&self, len: u64) -> Result<()>;
    /// Makes what was written durable. After a failure nothing is known of what was not synced before.
    fn sync(&self, kind: SyncKind) -> Result<()>;
    /// The length in bytes.
    fn len(&self) -> Result<u64>;
    /// Takes the lock of this file (`flock`) if nobody is in the way; says whether it did. What the handle held before may be lost if not.
    ///
    /// It belongs to this handle, keeps out other handles of this process as of any other, binds only those who ask for it, and ends with the handle or its process: a forked child has no
    /// part in it. There is no call that waits for it, since nothing could end that.
    ///
    /// # Errors
    /// `Io` where files have no such locks: those of SQLite's host are locked through SQLite.
    fn try_lock(&self, _kind: LockKind) -> Result<bool> {
        Err(Error::new(ErrorKind::Io, Op::Lock))
    }
    /// Waits for the lock of this file and takes it, in the order in which the system lets those have it who wait.
    ///
    /// # Errors
    /// As [`File::try_lock`]; `Io` where there is no such waiting.
    fn lock(&self, _kind: LockKind) -> Result<()> {
        Err(Error::new(ErrorKind::Io, Op::Lock))
    }
    /// Gives the lock up, if it was held.
    ///
    /// # Errors
    /// As [`File::try_lock`].
    fn unlock(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Io, Op::Lock))
    }
    /// Which file it is, whatever its name is now: two handles of one file say the same, those of two files that are open do not.
    ///
    /// # Errors
    /// `Io`, also where there is no telling.
    fn identity(&self) -> Result<(u64, u64)> {
        Err(Error::new(ErrorKind::Io, Op::Len))
    }
}

/// Which directory it is, and when names in it changed. While it stays the same, and [`Stamp::is_past_tick`] when it was taken, every name leads where it led then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub(crate) identity: (u64, u64),
    /// Seconds and nanoseconds.
    pub(crate) changed: (i64, i64),
}

impl Stamp {
    /// Whether any later change has another time: clocks of file systems tick, those of kernels every ten milliseconds at least, and where times are kept in seconds, every two.
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
    /// Opens an ordinary file.
    ///
    /// # Errors
    /// `NotAFile`, at once, where the name is that of something else: a pipe would keep whoever opens it waiting, and a link leads elsewhere.
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>>;
    /// Whether a file of that name exists.
    fn exists(&self, name: &str) -> Result<bool>;
    /// Which file has that name, as [`File::identity`] says it; `None` if none has.
    fn identity(&self, name: &str) -> Result<Option<(u64, u64)>>;
    /// Which directory the path leads to, and when names in it changed; `None` where that cannot be told, also where there is none.
    fn stamp(&self) -> Result<Option<Stamp>>;
    /// Removes a file; other open handles keep it.
    fn remove(&self, name: &str) -> Result<()>;
    /// Renames a file, replacing what has the new name, atomically.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// All names, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Makes creations, removals and renames durable.
    fn sync(&self) -> Result<()>;
    /// A watch of files here; `None` where there is none to be had.
    fn watch(&self) -> Option<Watch> {
        None
    }
    /// Bytes a user without privileges may still write here.
    fn free_space(&self) -> Result<u64>;
}
