//! A host VFS whose main database files fail on demand.

use densite_sqlite::{Above, Code, FileName, HostFile, HostVfs, Opened, Vfs, ffi, register_vfs};
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Which calls fail.
#[derive(Default)]
pub(crate) struct Faults {
    /// xWrite and xTruncate return SQLITE_FULL.
    pub(crate) writes: AtomicBool,
    /// xSync returns SQLITE_IOERR_FSYNC.
    pub(crate) syncs: AtomicBool,
    /// xRead returns SQLITE_IOERR_READ.
    pub(crate) reads: AtomicBool,
    /// The number of writes and syncs.
    pub(crate) calls: AtomicU32,
    /// How often a caller asked whether a file exists.
    pub(crate) asked: AtomicU32,
}

struct Flaky {
    host: HostVfs,
    faults: Arc<Faults>,
}

struct FlakyFile {
    host: HostFile,
    faults: Arc<Faults>,
}

/// Registers a flaky host and Densite over it, under names made from `name`. Returns the faults and
/// the name of the Densite VFS.
pub(crate) fn flaky(name: &str) -> (Arc<Faults>, String) {
    let api = super::densite();
    let faults = Arc::new(Faults::default());
    let host = HostVfs::find(api, Some(c"unix")).expect("a host");
    let below = CString::new(format!("flaky-{name}")).expect("no NUL");
    let vfs = Flaky {
        host,
        faults: Arc::clone(&faults),
    };
    register_vfs(api, &below, vfs, false).expect("registers");
    let above = format!("densite-{name}");
    let above_c = CString::new(above.as_str()).expect("no NUL");
    densite_vfs::register(api, &above_c, Some(&below), false).expect("registers");
    (faults, above)
}

impl Vfs for Flaky {
    type File = FlakyFile;
    type Companion = FlakyFile;
    fn host(&self) -> HostVfs {
        self.host
    }
    fn open(
        &self,
        name: Option<FileName<'_>>,
        flags: i32,
    ) -> Result<Opened<FlakyFile, FlakyFile>, Code> {
        if flags & ffi::OPEN_MAIN_DB == 0 {
            return Ok(Opened::Host);
        }
        // SAFETY: the name is from our own xOpen, so it lives as long as this file.
        let (host, flags) = unsafe { self.host.open(name, flags) }?;
        let file = FlakyFile {
            host,
            faults: Arc::clone(&self.faults),
        };
        Ok(Opened::File { file, flags })
    }
    fn access(&self, path: &CStr, flags: i32) -> Result<bool, Code> {
        self.faults.asked.fetch_add(1, Ordering::Relaxed);
        self.host.access(path, flags)
    }
    fn full_pathname(&self, path: &CStr) -> Result<Option<CString>, Code> {
        self.host
            .full_pathname(path)
            .map(Some)
            .map_err(|error| error.code)
    }
}

fn fail(switch: &AtomicBool, code: Code) -> Result<(), Code> {
    if switch.load(Ordering::Relaxed) {
        Err(code)
    } else {
        Ok(())
    }
}

impl Above for FlakyFile {
    fn host(&self) -> &HostFile {
        &self.host
    }
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        fail(&self.faults.reads, Code::IOERR_READ)?;
        self.host.read(buf, offset).map(|()| buf.len())
    }
    fn write(&mut self, buf: &[u8], offset: u64) -> Result<(), Code> {
        self.faults.calls.fetch_add(1, Ordering::Relaxed);
        fail(&self.faults.writes, Code::FULL)?;
        self.host.write(buf, offset)
    }
    fn truncate(&mut self, len: u64) -> Result<(), Code> {
        fail(&self.faults.writes, Code::FULL)?;
        self.host.truncate(len)
    }
    fn sync(&mut self, flags: i32) -> Result<(), Code> {
        self.faults.calls.fetch_add(1, Ordering::Relaxed);
        fail(&self.faults.syncs, Code::IOERR_FSYNC)?;
        self.host.sync_with(flags)
    }
}
