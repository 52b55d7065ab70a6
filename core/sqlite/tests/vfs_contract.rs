//! The contract between SQLite and a VFS, clause by clause, with quotes from SQLite's
//! documentation. The VFS keeps its main files in memory and misbehaves on demand.

use crate::common;

use densite_sqlite::{
    Code, Connection, FileName, HostVfs, Opened, Registered, Vfs, VfsFile, ffi, make_default,
    register_vfs, registered,
};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a call of the given name should do next.
#[derive(Default)]
struct Wishes {
    panic_in: Mutex<Option<&'static str>>,
    fail_open: Mutex<Option<Code>>,
    closed: AtomicU32,
}

impl Wishes {
    fn meet(&self, call: &'static str) {
        let mut wish = self.panic_in.lock().unwrap_or_else(PoisonError::into_inner);
        if *wish == Some(call) {
            *wish = None;
            drop(wish);
            panic!("on purpose in {call}");
        }
    }

    fn panic_in(&self, call: &'static str) {
        *self.panic_in.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }
}

struct Toy {
    host: HostVfs,
    wishes: Arc<Wishes>,
}

struct ToyFile {
    bytes: Vec<u8>,
    wishes: Arc<Wishes>,
}

impl Vfs for Toy {
    type File = ToyFile;
    type Companion = ToyFile;

    fn host(&self) -> HostVfs {
        self.host
    }

    fn open(
        &self,
        name: Option<FileName<'_>>,
        flags: i32,
    ) -> Result<Opened<ToyFile, ToyFile>, Code> {
        if flags & ffi::OPEN_MAIN_DB == 0 {
            return Ok(Opened::Host);
        }
        assert!(name.is_some());
        self.wishes.meet("open");
        if let Some(code) = *self.wishes.fail_open.lock().expect("not poisoned") {
            return Err(code);
        }
        let file = ToyFile {
            bytes: Vec::new(),
            wishes: Arc::clone(&self.wishes),
        };
        Ok(Opened::File { file, flags })
    }
}

impl VfsFile for ToyFile {
    fn close(&mut self) -> Result<(), Code> {
        self.wishes.closed.fetch_add(1, Ordering::Relaxed);
        self.wishes.meet("close");
        Ok(())
    }
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        self.wishes.meet("read");
        let from = usize::try_from(offset)
            .expect("small")
            .min(self.bytes.len());
        let n = buf.len().min(self.bytes.len() - from);
        buf[..n].copy_from_slice(&self.bytes[from..from + n]);
        Ok(n)
    }
    fn write(&mut self, buf: &[u8], offset: u64) -> Result<(), Code> {
        self.wishes.meet("write");
        let from = usize::try_from(offset).expect("small");
        let end = (from + buf.len()).max(self.bytes.len());
        self.bytes.resize(end, 0);
        self.bytes[from..from + buf.len()].copy_from_slice(buf);
        Ok(())
    }
    fn truncate(&mut self, len: u64) -> Result<(), Code> {
        self.bytes.resize(usize::try_from(len).expect("small"), 0);
        Ok(())
    }
    fn sync(&mut self, _: i32) -> Result<(), Code> {
        self.wishes.meet("sync");
        Ok(())
    }
    fn file_size(&mut self) -> Result<u64, Code> {
        Ok(self.bytes.len() as u64)
    }
    fn lock(&mut self, _: i32) -> Result<(), Code> {
        Ok(())
    }
    fn unlock(&mut self, _: i32) -> Result<(), Code> {
        Ok(())
    }
    fn check_reserved(&mut self) -> Result<bool, Code> {
        Ok(false)
    }
    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        if op == NEST {
            // SAFETY: the test's own operation takes the file itself.
            return unsafe {
                let file = arg.cast::<ffi::File>();
                let size = (*(*file).pMethods).xFileSize.expect("a method");
                Code(size(file, &raw mut NESTED_SIZE))
            };
        }
        Code::NOTFOUND
    }
}

/// An operation that calls back into the same file.
const NEST: i32 = 0x0102_0304;
static mut NESTED_SIZE: i64 = 0;

/// Registers a toy VFS under the given name.
fn toy(name: &CStr) -> Arc<Wishes> {
    let api = common::api();
    let host = HostVfs::find(api, None).expect("a default VFS");
    let wishes = Arc::new(Wishes::default());
    let vfs = Toy {
        host,
        wishes: Arc::clone(&wishes),
    };
    register_vfs(api, name, vfs, false).expect("registers");
    wishes
}

/// A file as SQLite opens one: raw memory with arbitrary content.
struct Raw {
    memory: Vec<u64>,
    name: densite_sqlite::OwnedName,
}

impl Raw {
    fn open(vfs: &CStr) -> (Raw, i32) {
        let api = common::api();
        let vfs = HostVfs::find(api, Some(vfs)).expect("registered");
        let name = densite_sqlite::OwnedName::new(api, c"/x.db", &[]).expect("memory");
        let memory = vec![0xdead_beef_dead_beef; vfs.file_size().div_ceil(8)];
        let mut raw = Raw { memory, name };
        // SAFETY: the same call as SQLite makes.
        let rc = unsafe {
            ((*vfs.as_ptr()).xOpen.expect("a method"))(
                vfs.as_ptr(),
                raw.name.as_name().as_ptr(),
                raw.file(),
                ffi::OPEN_MAIN_DB | ffi::OPEN_READWRITE | ffi::OPEN_CREATE,
                std::ptr::null_mut(),
            )
        };
        (raw, rc)
    }
    fn file(&mut self) -> *mut ffi::File {
        self.memory.as_mut_ptr().cast()
    }
    fn methods(&mut self) -> Option<&'static ffi::IoMethods> {
        // SAFETY: after xOpen, successful or not, the head is set.
        unsafe { (*self.file()).pMethods.as_ref() }
    }
    fn read(&mut self, buf: &mut [u8], offset: i64) -> i32 {
        let read = self.methods().expect("open").xRead.expect("a method");
        let n = i32::try_from(buf.len()).expect("small");
        // SAFETY: an open file and `n` bytes.
        unsafe { read(self.file(), buf.as_mut_ptr().cast(), n, offset) }
    }
    fn write(&mut self, buf: &[u8], offset: i64) -> i32 {
        let write = self.methods().expect("open").xWrite.expect("a method");
        let n = i32::try_from(buf.len()).expect("small");
        // SAFETY: an open file and `n` bytes.
        unsafe { write(self.file(), buf.as_ptr().cast(), n, offset) }
    }
    fn close(&mut self) -> i32 {
        let close = self.methods().expect("open").xClose.expect("a method");
        // SAFETY: an open file that is closed once.
        unsafe { close(self.file()) }
    }
}

#[test]
fn a_failed_open_leaves_null_methods() {
    // "If xOpen fails, ... pMethods must be set to NULL [or xClose will be called]".
    let wishes = toy(c"toy-open");
    *wishes.fail_open.lock().expect("not poisoned") = Some(Code::PERM);
    let (mut raw, rc) = Raw::open(c"toy-open");
    assert_eq!(rc, Code::PERM.0);
    assert!(raw.methods().is_none());
}

#[test]
fn a_panic_in_open_is_cantopen_with_null_methods() {
    let wishes = toy(c"toy-open-panic");
    wishes.panic_in("open");
    let (mut raw, rc) = Raw::open(c"toy-open-panic");
    assert_eq!(rc, Code::CANTOPEN.0);
    assert!(raw.methods().is_none());
}

#[test]
fn short_reads_fill_with_zeros() {
    // "If xRead() returns SQLITE_IOERR_SHORT_READ it must also fill in the unread portions
    // of the buffer with zeros. A VFS that fails to zero-fill short reads might seem to
    // work. However, failure to zero-fill short reads will eventually lead to database
    // corruption."
    toy(c"toy-short");
    let (mut raw, rc) = Raw::open(c"toy-short");
    assert_eq!(rc, Code::OK.0);
    assert_eq!(raw.write(b"abcdef", 0), Code::OK.0);
    let mut buf = [0xff; 10];
    assert_eq!(raw.read(&mut buf, 2), Code::IOERR_SHORT_READ.0);
    assert_eq!(&buf, b"cdef\0\0\0\0\0\0");
    let mut buf = [0xff; 4];
    assert_eq!(raw.read(&mut buf, 100), Code::IOERR_SHORT_READ.0);
    assert_eq!(buf, [0; 4]);
    let mut buf = [0xff; 4];
    assert_eq!(raw.read(&mut buf, 2), Code::OK.0);
    assert_eq!(&buf, b"cdef");
    assert_eq!(raw.read(&mut buf, -1), Code::IOERR_READ.0);
    assert_eq!(raw.close(), Code::OK.0);
}

#[test]
fn a_panic_in_a_method_is_an_io_error_and_the_file_works_on() {
    let wishes = toy(c"toy-panic");
    let (mut raw, _) = Raw::open(c"toy-panic");
    assert_eq!(raw.write(b"abc", 0), Code::OK.0);
    wishes.panic_in("read");
    assert_eq!(raw.read(&mut [0; 3], 0), Code::IOERR_READ.0);
    wishes.panic_in("write");
    assert_eq!(raw.write(b"abc", 0), Code::IOERR_WRITE.0);
    assert_eq!(raw.read(&mut [0; 3], 0), Code::OK.0);
    wishes.panic_in("close");
    assert_eq!(raw.close(), Code::IOERR_CLOSE.0);
    assert!(raw.methods().is_none());
    assert_eq!(wishes.closed.load(Ordering::Relaxed), 1);
}

#[test]
fn a_call_from_within_the_same_file_is_refused() {
    toy(c"toy-nested");
    let (mut raw, _) = Raw::open(c"toy-nested");
    let control = raw.methods().expect("open").xFileControl.expect("a method");
    let file = raw.file();
    // SAFETY: the toy's own operation takes the file itself.
    let rc = unsafe { control(file, NEST, file.cast()) };
    assert_eq!(rc, Code::IOERR_FSTAT.0);
    assert_eq!(raw.close(), Code::OK.0);
}

#[test]
fn without_shared_memory_there_is_no_wal() {
    toy(c"toy-wal");
    let (mut raw, _) = Raw::open(c"toy-wal");
    assert!(raw.methods().expect("open").xShmMap.is_none());
    raw.close();
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;
    let db =
        Connection::open(common::api(), "/toy-wal.db", flags, Some(c"toy-wal")).expect("opens");
    let mode = db.query_string("PRAGMA journal_mode=WAL").expect("runs");
    assert_eq!(mode.as_deref(), Some("delete"));
}

#[test]
fn sql_runs_over_it_with_the_hosts_temporary_files() {
    toy(c"toy-sql");
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("toy.db");
    // The host gives a journal the permissions of its database.
    std::fs::write(&path, b"").expect("writes");
    let path = path.to_str().expect("UTF-8");
    let db = Connection::open(common::api(), path, flags, Some(c"toy-sql")).expect("opens");
    db.exec(
        "PRAGMA temp_store=FILE; PRAGMA cache_size=5; CREATE TABLE t(a); \
         CREATE TEMP TABLE u(a); \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
         INSERT INTO t SELECT randomblob(100) FROM n; INSERT INTO u SELECT a FROM t;",
    )
    .expect("runs");
    assert_eq!(
        db.query_i64("SELECT count(*) FROM u JOIN t USING (a)")
            .expect("runs"),
        Some(2000)
    );
    assert_eq!(
        db.query_string("PRAGMA integrity_check")
            .expect("runs")
            .as_deref(),
        Some("ok")
    );
    assert_eq!(
        std::fs::metadata(path).expect("the file exists").len(),
        0,
        "the main file is the toy's"
    );
    assert_eq!(db.vfs_name(None), None, "the toy does not answer that");
}

#[test]
fn registration_is_seen_and_can_become_the_default() {
    let api = common::api();
    assert!(matches!(registered::<Toy>(api, c"toy-reg"), Registered::No));
    toy(c"toy-reg");
    let Registered::Ours { vfs, host } = registered::<Toy>(api, c"toy-reg") else {
        panic!("ours");
    };
    assert_eq!(vfs.name(), "toy-reg");
    let default = HostVfs::find(api, None).expect("a default VFS");
    assert_eq!(default.as_ptr(), host.as_ptr());
    assert!(matches!(
        registered::<Toy>(api, c"unix"),
        Registered::Foreign(_)
    ));
    // The default applies to the whole process, so it is restored at once.
    make_default(default).expect("stays");
}
