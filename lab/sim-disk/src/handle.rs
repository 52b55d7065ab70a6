//! Handles on files and directories of a simulated disk.

use std::sync::Arc;

use densite_disk::sync::Mutex;

use super::locks::HolderNo;
use super::world::{FileRef, World, clean_dir};
use densite_disk::check_name;
use densite_disk::{Dir, Error, ErrorKind, File, LockKind, Op, OpenMode, Result, Stamp, SyncKind};

/// An open file of a [`SimDisk`](super::SimDisk).
#[derive(Debug)]
pub struct SimFile {
    world: Arc<Mutex<World>>,
    file: FileRef,
    holder: HolderNo,
    writable: bool,
}

impl SimFile {
    pub(super) fn open(world: &Arc<Mutex<World>>, path: &str, mode: OpenMode) -> Result<SimFile> {
        let mut inner = world.lock();
        let (no, stat) = inner.open(path, mode)?;
        let holder = inner.locks.new_holder();
        drop(inner);
        Ok(SimFile {
            world: world.clone(),
            file: FileRef { no, stat },
            holder,
            writable: mode != OpenMode::Read,
        })
    }

    fn check_writable(&self, op: Op) -> Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Permission, op))
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut world = self.world.lock();
        world.locks.release(self.file.no, self.holder);
        world.close(self.file.no);
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.world.lock().read(self.file, buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable(Op::Write)?;
        self.world.lock().write(self.file, buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable(Op::Truncate)?;
        self.world.lock().set_len(self.file, len)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.world.lock().sync(self.file, kind)
    }

    fn len(&self) -> Result<u64> {
        self.world.lock().len(self.file)
    }

    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        let mut world = self.world.lock();
        if world.is_dead() {
            return Err(Error::new(ErrorKind::Io, Op::Lock));
        }
        Ok(world.locks.take(self.file.no, self.holder, kind))
    }

    fn unlock(&self) -> Result<()> {
        self.world.lock().locks.release(self.file.no, self.holder);
        Ok(())
    }

    fn identity(&self) -> Result<(u64, u64)> {
        Ok((0, self.file.no))
    }
}

/// A directory of a [`SimDisk`](super::SimDisk). It need not be created.
#[derive(Debug, Clone)]
pub struct SimDir {
    world: Arc<Mutex<World>>,
    /// In the form that `clean_dir` returns.
    path: String,
}

impl SimDir {
    pub(super) fn new(world: &Arc<Mutex<World>>, path: &str) -> SimDir {
        SimDir {
            world: world.clone(),
            path: clean_dir(path),
        }
    }

    fn at(&self, name: &str, op: Op) -> Result<String> {
        check_name(name, op)?;
        Ok(format!("{}/{name}", self.path))
    }
}

impl Dir for SimDir {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let path = self.at(name, Op::Open)?;
        Ok(Box::new(SimFile::open(&self.world, &path, mode)?))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let path = self.at(name, Op::List)?;
        Ok(self.world.lock().find(&path)?.is_some())
    }

    fn identity(&self, name: &str) -> Result<Option<(u64, u64)>> {
        let path = self.at(name, Op::List)?;
        Ok(self.world.lock().find(&path)?.map(|no| (0, no)))
    }

    /// There is no clock.
    fn stamp(&self) -> Result<Option<Stamp>> {
        Ok(None)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.at(name, Op::Remove)?;
        self.world.lock().remove(&path)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from, Op::Rename)?;
        check_name(to, Op::Rename)?;
        self.world.lock().rename(&self.path, from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.world.lock().list(&self.path)
    }

    fn sync(&self) -> Result<()> {
        self.world.lock().sync_dir(&self.path)
    }

    fn free_space(&self) -> Result<u64> {
        self.world.lock().free_space(&self.path)
    }
}
