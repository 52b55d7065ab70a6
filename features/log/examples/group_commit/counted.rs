//! The real disk with counters for segments, so that acknowledgements can be compared with syncs.

use densite_disk::{Dir, DirAbove, File, FileAbove, OpenMode, RealDir, Result, SyncKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls on files of segments since the directory was opened, except on a free segment that is
/// being prepared.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl Counters {
    /// The numbers of successful writes and of successful syncs.
    pub(crate) fn now(&self) -> (u64, u64) {
        let load = |n: &AtomicU64| n.load(Ordering::SeqCst);
        (load(&self.writes), load(&self.syncs))
    }
}

/// A directory that counts calls.
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

impl DirAbove for Counted {
    fn below(&self) -> &dyn Dir {
        &self.dir
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.dir.open(name, mode)?;
        let is_segment =
            ["free-", "new-"].iter().any(|p| name.starts_with(p)) || name.ends_with(".seg");
        Ok(match is_segment {
            true => Box::new(CountedFile {
                file,
                counters: self.counters.clone(),
            }),
            false => file,
        })
    }
}

impl FileAbove for CountedFile {
    fn below(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        count(self.file.write_at(buf, offset), &self.counters.writes)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        count(self.file.sync(kind), &self.counters.syncs)
    }
}
