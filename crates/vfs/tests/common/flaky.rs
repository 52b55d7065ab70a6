//! A host VFS whose main database files fail on demand.

use densite_sqlite::{Code, FileName, HostFile, HostVfs, Opened, Vfs, VfsFile, ffi, register_vfs};
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What fails.
#[derive(Default)]
pub(crate) struct Faults {
    /// xWrite and xTruncate answer SQLITE_FULL.
    pub(crate) writes: AtomicBool,
    /// xSync answers SQLITE_IOERR_FSYNC.
    pub(crate) syncs: AtomicBool,
    /// xRead answers SQLITE_IOERR_READ.
    pub(crate) reads: AtomicBool,
    /// How many writes and syncs there were.
    pub(crate) calls: AtomicU32,
    /// How often it was asked whether a file is there.
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

/// Registers a flaky host and Densite over it, under names made of `name`; answers
/// the switch for its faults and the name of the Densite over it.
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
        // SAFETY: the name is that of our own xOpen, so it lives as long as this file.
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

fn at(offset: u64) -> i64 {
    i64::try_from(offset).expect("small")
}

impl VfsFile for FlakyFile {
    fn close(&mut self) -> Result<(), Code> {
        self.host.close()
    }
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        fail(&self.faults.reads, Code::IOERR_READ)?;
        self.host.read(buf, at(offset)).map(|()| buf.len())
    }
    fn write(&mut self, buf: &[u8], offset: u64) -> Result<(), Code> {
        self.faults.calls.fetch_add(1, Ordering::Relaxed);
        fail(&self.faults.writes, Code::FULL)?;
        self.host.write(buf, at(offset))
    }
    fn truncate(&mut self, len: u64) -> Result<(), Code> {
        fail(&self.faults.writes, Code::FULL)?;
        self.host.truncate(at(len))
    }
    fn sync(&mut self, flags: i32) -> Result<(), Code> {
        self.faults.calls.fetch_add(1, Ordering::Relaxed);
        fail(&self.faults.syncs, Code::IOERR_FSYNC)?;
        self.host.sync_with(flags)
    }
    fn file_size(&mut self) -> Result<u64, Code> {
        self.host
            .file_size()
            .map(|n| u64::try_from(n).expect("not negative"))
    }
    fn lock(&mut self, level: i32) -> Result<(), Code> {
        self.host.lock(level)
    }
    fn unlock(&mut self, level: i32) -> Result<(), Code> {
        self.host.unlock(level)
    }
    fn check_reserved(&mut self) -> Result<bool, Code> {
        self.host.check_reserved()
    }
    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: passed on.
        unsafe { self.host.file_control(op, arg) }
    }
    fn has_shm(&mut self) -> bool {
        self.host.has_shm()
    }
    fn shm_map(&mut self, region: i32, size: i32, extend: bool) -> (Code, *mut c_void) {
        self.host.shm_map(region, size, extend)
    }
    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> Result<(), Code> {
        self.host.shm_lock(offset, n, flags)
    }
    fn shm_barrier(&mut self) {
        self.host.shm_barrier();
    }
    fn shm_unmap(&mut self, delete: bool) -> Result<(), Code> {
        self.host.shm_unmap(delete)
    }
}
