//! The real disk with counters of what happens to segments: what is acknowledged can be held against the syncs that were made.

use densite_disk::{Dir, File, LockKind, OpenMode, RealDir, Result, SyncKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls on files of segments since the directory was opened, those of a spare in the making not among them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl Counters {
    /// Writes that did not fail, then syncs that did not.
    pub(crate) fn now(&self) -> (u64, u64) {
        let load = |n: &AtomicU64| n.load(Ordering::SeqCst);
        (load(&self.writes), load(&self.syncs))
    }
}

/// A directory that counts.
pub(crate) struct Counted {
    pub(crate) dir: RealDir,
    pub(crate) counters: Arc<Counters>,
}

struct CountedFile {
    file: Box<dyn File>,
    counters: Arc<Counters>,
}

fn count<T>(done: Result<T>, counter: &AtomicU64) -> Result<T> {
    if done.is_ok() {
        counter.fetch_add(1, Ordering::SeqCst);
    }
    done
}

impl Dir for Counted {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.dir.open(name, mode)?;
        let is_segment =
            ["spare-", "new-"].iter().any(|p| name.starts_with(p)) || name.ends_with(".seg");
        Ok(match is_segment {
            true => Box::new(CountedFile {
                file,
                counters: self.counters.clone(),
            }),
            false => file,
        })
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.dir.exists(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.dir.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.dir.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.dir.list()
    }

    fn sync(&self) -> Result<()> {
        self.dir.sync()
    }

    fn free_space(&self) -> Result<u64> {
        self.dir.free_space()
    }
}

impl File for CountedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        count(self.file.write_at(buf, offset), &self.counters.writes)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        count(self.file.sync(kind), &self.counters.syncs)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn lock(&self, kind: LockKind) -> Result<()> {
        self.file.lock(kind)
    }

    fn try_lock(&self, kind: LockKind) -> Result<bool> {
        self.file.try_lock(kind)
    }

    fn unlock(&self) -> Result<()> {
        self.file.unlock()
    }

    fn identity(&self) -> Result<(u64, u64)> {
        self.file.identity()
    }
}
