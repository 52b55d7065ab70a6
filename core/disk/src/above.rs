//! A file or directory that wraps another one.

use crate::{Dir, File, LockKind, OpenMode, Result, Stamp, SyncKind, Watch};

/// A file that wraps another one. Each call goes to the file below, unless the wrapper overrides
/// it.
///
/// Each method corresponds to the method of the same name of [`File`].
#[expect(clippy::len_without_is_empty, reason = "a length that can fail")]
pub trait FileAbove: Send {
    /// The file below. Always the same one.
    fn below(&self) -> &dyn File;

    /// See [`File::read_at`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.below().read_at(buf, offset)
    }
    /// See [`File::write_at`].
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.below().write_at(buf, offset)
    }
    /// See [`File::set_len`].
    fn set_len(&self, len: u64) -> Result<()> {
        self.below().set_len(len)
    }
    /// See [`File::sync`].
    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.below().sync(kind)
    }
    /// See [`File::len`].
    fn len(&self) -> Result<u64> {
        self.below().len()
    }
    /// See [`File::try_lock`].
    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        self.below().try_lock(kind)
    }
    /// See [`File::lock`].
    fn lock(&self, kind: LockKind) -> Result<()> {
        self.below().lock(kind)
    }
    /// See [`File::unlock`].
    fn unlock(&self) -> Result<()> {
        self.below().unlock()
    }
    /// See [`File::identity`].
    fn identity(&self) -> Result<(u64, u64)> {
        self.below().identity()
    }
}

impl<F: FileAbove> File for F {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        FileAbove::read_at(self, buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        FileAbove::write_at(self, buf, offset)
    }
    fn set_len(&self, len: u64) -> Result<()> {
        FileAbove::set_len(self, len)
    }
    fn sync(&self, kind: SyncKind) -> Result<()> {
        FileAbove::sync(self, kind)
    }
    fn len(&self) -> Result<u64> {
        FileAbove::len(self)
    }
    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        FileAbove::try_lock(self, kind)
    }
    fn lock(&self, kind: LockKind) -> Result<()> {
        FileAbove::lock(self, kind)
    }
    fn unlock(&self) -> Result<()> {
        FileAbove::unlock(self)
    }
    fn identity(&self) -> Result<(u64, u64)> {
        FileAbove::identity(self)
    }
}

/// A directory that wraps another one. Each call goes to the directory below, unless the wrapper
/// overrides it.
///
/// Each method corresponds to the method of the same name of [`Dir`].
pub trait DirAbove: Send {
    /// The directory below. Always the same one.
    fn below(&self) -> &dyn Dir;

    /// See [`Dir::open`].
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        self.below().open(name, mode)
    }
    /// See [`Dir::remove`].
    fn remove(&self, name: &str) -> Result<()> {
        self.below().remove(name)
    }
    /// See [`Dir::rename`].
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.below().rename(from, to)
    }
    /// See [`Dir::list`].
    fn list(&self) -> Result<Vec<String>> {
        self.below().list()
    }
    /// See [`Dir::sync`].
    fn sync(&self) -> Result<()> {
        self.below().sync()
    }
}

impl<D: DirAbove> Dir for D {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        DirAbove::open(self, name, mode)
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.below().exists(name)
    }
    fn identity(&self, name: &str) -> Result<Option<(u64, u64)>> {
        self.below().identity(name)
    }
    fn stamp(&self) -> Result<Option<Stamp>> {
        self.below().stamp()
    }
    fn remove(&self, name: &str) -> Result<()> {
        DirAbove::remove(self, name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        DirAbove::rename(self, from, to)
    }
    fn list(&self) -> Result<Vec<String>> {
        DirAbove::list(self)
    }
    fn sync(&self) -> Result<()> {
        DirAbove::sync(self)
    }
    fn watch(&self) -> Option<Watch> {
        self.below().watch()
    }
    fn free_space(&self) -> Result<u64> {
        self.below().free_space()
    }
}
