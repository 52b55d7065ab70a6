//! Rules S13 to S17: behaviour towards the host.

use std::cell::Cell;
use std::ffi::{CString, c_int, c_void};
use std::path::Path;

use densite_sim_disk::SimDisk;
use densite_tests::procs::subject::{api, code};
use densite_tests::procs::{Child, Subject, store};
use densite_tests::simvfs::SimVfs;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rusqlite::ffi;

use super::memory::Sparse;
use super::{Place, handle, make_table, puppet, raw};

/// An open main database file of a VFS, used without a connection: the test calls its methods as
/// SQLite would.
pub(crate) struct Raw {
    /// The `sqlite3_file`, which the VFS changes.
    memory: Box<[Cell<u64>]>,
    /// Must live as long as the file.
    name: *const std::ffi::c_char,
}

type Done = Result<(), i32>;

fn done(rc: c_int) -> Done {
    if rc == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(rc)
    }
}

impl Raw {
    /// Opens a file through the VFS "densite".
    pub(crate) fn open(path: &Path) -> Raw {
        api();
        Raw::open_through("densite", path)
    }

    pub(crate) fn open_through(vfs: &str, path: &Path) -> Raw {
        let text =
            |suffix: &str| CString::new(format!("{}{suffix}", path.display())).expect("a path");
        let vfs = CString::new(vfs).expect("a name");
        // SAFETY: the strings are terminated and live during the call, which copies them.
        let name = unsafe {
            ffi::sqlite3_create_filename(
                text("").as_ptr(),
                text("-journal").as_ptr(),
                text("-wal").as_ptr(),
                0,
                std::ptr::null_mut(),
            )
        };
        // SAFETY: the string is terminated. A VFS that is found stays registered.
        let vfs = unsafe { ffi::sqlite3_vfs_find(vfs.as_ptr()).as_mut() }.expect("the VFS");
        let words = usize::try_from(vfs.szOsFile).expect("a size").div_ceil(8);
        let raw = Raw {
            memory: vec![Cell::new(0); words].into(),
            name,
        };
        let flags = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        let open = vfs.xOpen.expect("xOpen");
        // SAFETY: the memory is aligned and of the size that the VFS needs, and the name was
        // created for this call.
        let rc = unsafe { open(vfs, name, raw.file(), flags, std::ptr::null_mut()) };
        done(rc).expect("open");
        raw
    }

    fn file(&self) -> *mut ffi::sqlite3_file {
        self.memory.as_ptr().cast_mut().cast()
    }

    fn methods(&self) -> &'static ffi::sqlite3_io_methods {
        // SAFETY: the file is open, and its methods are static.
        unsafe { &*(*self.file()).pMethods }
    }

    /// The result of xRead, and the content of the buffer, which was filled with 0xAA before.
    pub(crate) fn read_as_it_is(&self, offset: u64, len: usize) -> (i32, Vec<u8>) {
        let mut buf = vec![0xAA; len];
        let read = self.methods().xRead.expect("xRead");
        // SAFETY: the file is open, and the buffer has the given length.
        let rc = unsafe {
            read(
                self.file(),
                buf.as_mut_ptr().cast(),
                len as c_int,
                offset as i64,
            )
        };
        (rc, buf)
    }

    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, i32> {
        let (rc, buf) = self.read_as_it_is(offset, len);
        done(rc).map(|()| buf)
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Done {
        let write = self.methods().xWrite.expect("xWrite");
        // SAFETY: the file is open, and the buffer has the given length.
        done(unsafe {
            write(
                self.file(),
                bytes.as_ptr().cast(),
                bytes.len() as c_int,
                offset as i64,
            )
        })
    }

    pub(crate) fn truncate(&self, len: u64) -> Done {
        // SAFETY: an open file.
        done(unsafe { self.methods().xTruncate.expect("xTruncate")(self.file(), len as i64) })
    }

    pub(crate) fn sync(&self) -> Done {
        // SAFETY: an open file.
        done(unsafe { self.methods().xSync.expect("xSync")(self.file(), ffi::SQLITE_SYNC_NORMAL) })
    }

    pub(crate) fn size(&self) -> Result<u64, i32> {
        let mut size = 0;
        // SAFETY: an open file and a place for the answer.
        done(unsafe { self.methods().xFileSize.expect("xFileSize")(self.file(), &raw mut size) })?;
        Ok(size as u64)
    }

    pub(crate) fn lock(&self, level: i32) -> Done {
        // SAFETY: an open file.
        done(unsafe { self.methods().xLock.expect("xLock")(self.file(), level) })
    }

    pub(crate) fn unlock(&self, level: i32) -> Done {
        // SAFETY: an open file.
        done(unsafe { self.methods().xUnlock.expect("xUnlock")(self.file(), level) })
    }

    /// xFileControl with an argument of the type that the operation takes.
    pub(crate) fn control<T>(&self, op: i32, argument: &mut T) -> Done {
        let control = self.methods().xFileControl.expect("xFileControl");
        // SAFETY: the file is open, and the caller passes the argument type of the operation.
        done(unsafe { control(self.file(), op, std::ptr::from_mut(argument).cast()) })
    }

    fn fetch(&self, offset: i64, len: i32) -> (i32, *mut c_void) {
        let mut out = std::ptr::dangling_mut();
        // SAFETY: an open file and a place for the answer.
        let rc = unsafe {
            self.methods().xFetch.expect("xFetch")(self.file(), offset, len, &raw mut out)
        };
        (rc, out)
    }

    fn characteristics(&self) -> i32 {
        // SAFETY: an open file.
        unsafe {
            self.methods()
                .xDeviceCharacteristics
                .expect("xDeviceCharacteristics")(self.file())
        }
    }

    /// Takes the locks of a writer in rollback mode.
    fn lock_to_write(&self) {
        for level in [
            ffi::SQLITE_LOCK_SHARED,
            ffi::SQLITE_LOCK_RESERVED,
            ffi::SQLITE_LOCK_EXCLUSIVE,
        ] {
            self.lock(level).expect("lock");
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the file is open and not used again. The name is freed last.
        unsafe {
            self.methods().xClose.expect("xClose")(self.file());
            ffi::sqlite3_free_filename(self.name);
        }
    }
}

/// Rule S13: "SIZE_HINT, CHUNK_SIZE and MMAP_SIZE are swallowed, xFetch yields NULL, HAS_MOVED is
/// forwarded."
///
/// Take out: their arms in `MainFile::control`. The host then makes the file 64 MiB long, maps it,
/// or does not report the move.
#[test]
fn rule_13_the_host_is_not_told_how_the_file_grows() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    let file = Raw::open(&place.db());
    let before = place.len_beside("");
    file.lock_to_write();
    assert_eq!(
        file.control(ffi::SQLITE_FCNTL_CHUNK_SIZE, &mut (1i32 << 20)),
        Ok(())
    );
    assert_eq!(
        file.control(ffi::SQLITE_FCNTL_SIZE_HINT, &mut (64i64 << 20)),
        Ok(())
    );
    let mut limit = 1i64 << 30;
    assert_eq!(
        file.control(ffi::SQLITE_FCNTL_MMAP_SIZE, &mut limit),
        Ok(())
    );
    assert_eq!(limit, 0, "nothing is mapped");
    assert_eq!(file.fetch(0, 4096), (ffi::SQLITE_OK, std::ptr::null_mut()));
    assert_eq!(place.len_beside(""), before);
    file.unlock(0).expect("unlock");
    let mut moved = 7i32;
    file.control(ffi::SQLITE_FCNTL_HAS_MOVED, &mut moved)
        .expect("has moved");
    assert_eq!(moved, 0);
    std::fs::rename(place.db(), place.beside("-elsewhere")).expect("rename");
    file.control(ffi::SQLITE_FCNTL_HAS_MOVED, &mut moved)
        .expect("has moved");
    assert_eq!(moved, 1);
}

/// Rule S13: "Of the host's device characteristics only POWERSAFE_OVERWRITE is passed on: never
/// SEQUENTIAL, SAFE_APPEND or ATOMIC." (UNDELETABLE_WHEN_OPEN and IMMUTABLE are allowed: they say
/// nothing about the order or atomicity of writes.)
///
/// Take out: the mask in `MainFile::device_characteristics`.
#[test]
fn rule_13_no_promise_of_the_device_is_passed_on() {
    let vfs = SimVfs::register("rule-13-host", SimDisk::new(1));
    densite_vfs::register(api(), c"rule-13", Some(c"rule-13-host"), false).expect("register");
    vfs.set_device_characteristics(0xffff & !ffi::SQLITE_IOCAP_IMMUTABLE);
    let file = Raw::open_through("rule-13", Path::new("/app.db"));
    let passed = file.characteristics() & !ffi::SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN;
    assert_eq!(passed, ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE);
    // The same after the file has become a store.
    file.lock_to_write();
    file.write(&[1; 512], 0).expect("write");
    let passed = file.characteristics() & !ffi::SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN;
    assert_eq!(passed, ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE);
    vfs.set_device_characteristics(0);
    assert_eq!(file.characteristics(), 0);
}

/// Rule S13: "The physical bytes at 1 GiB stay empty." (SQLite locks them; on some systems locked
/// bytes cannot be written.)
///
/// Take out: the code that skips `LOCK_UNIT` in `Appender::make_room` and `tail_start`, and in
/// `Writer::keep_reserve`.
#[test]
fn rule_13_the_bytes_at_one_gib_stay_empty() {
    const PAGE: usize = 65536;
    const LOCK_BYTES: std::ops::Range<u64> = 1 << 30..(1 << 30) + 512;
    let file = Sparse::default();
    let mut writer = handle(file.clone(), "a", raw());
    let page = |number: u32| {
        let mut bytes = vec![number as u8 | 1; PAGE];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    for number in 1..=16900u32 {
        writer
            .write_at(&page(number), u64::from(number - 1) * PAGE as u64)
            .expect("write");
        // Short and long steps around the place, so that frames, trailers and the reserve all reach
        // it.
        if number % 1500 == 0 || (number > 16200 && number % 7 == 0) {
            writer.publish().expect("publish");
        }
    }
    writer.close_clean().expect("close");
    assert!(
        file.len() > LOCK_BYTES.end + (16 << 20),
        "the test is too short: {}",
        file.len()
    );
    assert!(!file.was_written(LOCK_BYTES), "the lock bytes were written");
    let mut reader = handle(file.clone(), "b", raw());
    for number in [1, 1000, 16000, 16383, 16384, 16385, 16386, 16900] {
        let mut got = vec![0; PAGE];
        reader
            .read_at(&mut got, u64::from(number - 1) * PAGE as u64)
            .expect("read");
        assert!(got == page(number), "page {number}");
    }
    let report = reader.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![]);
}

/// Rule S14: "POSIX locks vanish when any descriptor of that file closes in the process: in a
/// process that uses SQLite every access goes through the host's xOpen, a probe of the format or
/// `densite.info()` included."
///
/// Put in: any `std::fs::File::open` of the database, in `judge`, in `identity`, or in `info` and
/// `check` of the library.
#[test]
fn rule_14_locks_survive_other_actions_of_the_process() {
    for mode in ["DELETE", "WAL"] {
        let place = Place::new();
        make_table(&place.db(), mode);
        let mut puppet = puppet();
        puppet.open("a", Subject::Densite, &place.db());
        puppet.must("sql a BEGIN IMMEDIATE; UPDATE t SET v = 1 WHERE id = 1");
        let path = place.db();
        let path = path.display();
        let mine = Subject::Densite.open(&place.db()).expect("open");
        mine.busy_timeout(std::time::Duration::ZERO)
            .expect("no timeout");
        for command in [
            "ask a SELECT count(*) FROM densite_info('main')".to_owned(),
            format!("info {path}"),
            format!("check {path}"),
            format!("open b densite ro {path}"),
            "ask b SELECT count(*) FROM t".to_owned(),
            "close b".to_owned(),
            // Opened but never used: its format is only detected.
            format!("open b densite rw {path}"),
            "close b".to_owned(),
            format!("open b densite uri file:{path}?level=99"),
            format!("open b plain rw {path}"),
            "close b".to_owned(),
        ] {
            // Some of these commands can fail. The test only checks the lock.
            let _ = puppet.obey(&command);
            let taken = mine.execute_batch("BEGIN IMMEDIATE").expect_err(&command);
            assert_eq!(code(&taken), ffi::SQLITE_BUSY, "{mode}, after {command}");
        }
        puppet.must("sql a COMMIT");
        mine.execute_batch("BEGIN IMMEDIATE; COMMIT")
            .expect("free again");
    }
}

/// Rule S15: "After fork the child makes new pools and mutexes (process-id check) and holds no lock
/// that belongs to the parent."
///
/// When the parent forks, it is in the middle of a publish, its pool is busy, and files are being
/// opened. The child opens, reads and writes the same file and another one. The role `fork` does
/// both, first with the store, then under SQLite.
/// Take out: the process id in the registry's key (`Shared::attach`), in `Pool::get` or in
/// `OpenFile::on`.
#[test]
fn rule_15_a_child_of_fork_works_independently() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    for part in ["store", "sqlite"] {
        let path = place.db();
        let args = ["fork", part, &path.display().to_string()];
        let mut child = Child::start(env!("CARGO_BIN_EXE_worker"), &args, &[]);
        child.finish();
    }
    store::assert_whole(&place.db(), "after the forks");
}

/// Rule S16: "xRead and xWrite come in odd lengths and offsets; short reads zero-fill."
///
/// Compares the methods of the file with a vector of bytes. Page 1, and with it the page size, is
/// written and read in pieces.
/// Take out: reading the other bytes of a page in `Handle::write_at`, or filling with zeros in
/// xRead.
#[test]
fn rule_16_odd_reads_and_writes() {
    for seed in 0..5 {
        let place = Place::new();
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut model: Vec<u8> = Vec::new();
        let mut file = Raw::open(&place.db());
        assert_eq!(file.size(), Ok(0));
        file.lock_to_write();
        for step in 0..300 {
            let what = format!("seed {seed} step {step}");
            match rng.random_range(0..20) {
                0..8 => {
                    let at = rng.random_range(0..=model.len() + 5000);
                    let long = if rng.random() { 70_000 } else { 700 };
                    let bytes: Vec<u8> = (0..rng.random_range(1..long))
                        .map(|i| (i / 9) as u8 ^ rng.random::<u8>() & 3)
                        .collect();
                    file.write(&bytes, at as u64)
                        .unwrap_or_else(|e| panic!("{what}: code {e}"));
                    model.resize(model.len().max(at + bytes.len()), 0);
                    model[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                8 => {
                    // The header of a database with some page size, in two pieces.
                    let size = 512u32 << rng.random_range(0..8);
                    let mut header = *b"SQLite format 3\0\0\0\x01\x01\0\x40\x20\x20";
                    header[16..18].copy_from_slice(
                        &(if size == 65536 { 1u16 } else { size as u16 }).to_be_bytes(),
                    );
                    file.write(&header[..17], 0).expect("write");
                    file.write(&header[17..], 17).expect("write");
                    model.resize(model.len().max(header.len()), 0);
                    model[..header.len()].copy_from_slice(&header);
                }
                9 => {
                    let len = rng.random_range(0..=model.len());
                    file.truncate(len as u64).expect("truncate");
                    model.truncate(len);
                }
                10 => file.sync().expect("sync"),
                11 => file
                    .control(ffi::SQLITE_FCNTL_SYNC, &mut 0usize)
                    .expect("publish"),
                12 => {
                    file.sync().expect("sync");
                    drop(file);
                    file = Raw::open(&place.db());
                    file.lock_to_write();
                }
                _ => {
                    assert_eq!(file.size(), Ok(model.len() as u64), "{what}");
                    let at = rng.random_range(0..=model.len() + 100);
                    let len = rng.random_range(1..9000);
                    let (rc, got) = file.read_as_it_is(at as u64, len);
                    let there = model.get(at..).unwrap_or_default();
                    let there = &there[..there.len().min(len)];
                    let want_rc = if there.len() < len {
                        ffi::SQLITE_IOERR_SHORT_READ
                    } else {
                        ffi::SQLITE_OK
                    };
                    assert_eq!(rc, want_rc, "{what}: {len} bytes at {at}");
                    assert!(got[..there.len()] == *there, "{what}: {len} bytes at {at}");
                    assert!(
                        got[there.len()..].iter().all(|b| *b == 0),
                        "{what}: a short read fills with zeros"
                    );
                }
            }
        }
        drop(file);
        store::assert_whole(&place.db(), &format!("seed {seed}"));
    }
}

/// Rule S16: "Page 1 is read in pieces before the page size is known; page size changes by VACUUM".
///
/// Take out: `regrain` in `Handle::try_publish`.
#[test]
fn rule_16_the_page_size_changes() {
    let place = Place::new();
    make_table(&place.db(), "DELETE");
    for size in [512, 65536, 1024, 32768, 4096, 512, 8192] {
        let db = Subject::Densite.open(&place.db()).expect("open");
        db.execute_batch(&format!("PRAGMA page_size={size}; VACUUM"))
            .expect("vacuum");
        for db in [db, Subject::Densite.open(&place.db()).expect("open")] {
            let ask = |sql: &str| db.query_row(sql, [], |r| r.get::<_, i64>(0)).expect(sql);
            assert_eq!(ask("PRAGMA page_size"), size);
            let stored = "SELECT value FROM densite_info('main') WHERE name = 'page_size'";
            assert_eq!(ask(stored), size, "the store's pages are SQLite's");
            assert_eq!(
                ask("SELECT count(*) FROM t WHERE pad = printf('%0300d', id * 7919)"),
                2000
            );
            let check: String = db
                .query_row("PRAGMA integrity_check", [], |r| r.get(0))
                .expect("check");
            assert_eq!(check, "ok");
            db.close().map_err(|(_, e)| e).expect("close");
        }
        store::assert_whole(&place.db(), &format!("page size {size}"));
    }
}

/// Rule S16: "the lock page at 1 GiB (logical) exists": it is like any other page, and so are the
/// pages after it.
///
/// Take out: nothing in particular. A store fails if it omits the logical page as it omits the
/// physical bytes.
#[test]
fn rule_16_the_logical_page_at_one_gib() {
    const GIB: u64 = 1 << 30;
    let place = Place::new();
    let file = Raw::open(&place.db());
    file.lock_to_write();
    let header = *b"SQLite format 3\0\x10\0\x01\x01\0\x40\x20\x20";
    let mut first = vec![0; 4096];
    first[..header.len()].copy_from_slice(&header);
    file.write(&first, 0).expect("write");
    for (at, byte) in [(GIB - 4096, 1), (GIB, 2), (GIB + 4096, 3)] {
        file.write(&[byte; 4096], at).expect("write");
    }
    file.sync().expect("sync");
    drop(file);
    let file = Raw::open(&place.db());
    file.lock(1).expect("lock");
    assert_eq!(file.size(), Ok(GIB + 8192));
    for (at, byte) in [(GIB - 8192, 0), (GIB - 4096, 1), (GIB, 2), (GIB + 4096, 3)] {
        assert!(
            file.read(at, 4096).expect("read") == [byte; 4096],
            "at {at}"
        );
    }
    assert!(
        place.len_beside("") < 1 << 20,
        "what was never written takes no place"
    );
}

/// Rule S17: "A callback never panics across FFI."
///
/// Each pause point is inside a callback. If it panics there, the statement fails, the process
/// lives, and the database is sound.
/// Take out: `catch_unwind` in `densite_sqlite`'s `guard` (the process then aborts);
/// `Checkpoint::publishes` in `MainFile::checkpoint_done` (then a checkpoint that was not published
/// ends with success).
#[test]
fn rule_17_no_panic_crosses_into_sqlite() {
    let read = "ask a SELECT sum(v) FROM t";
    let write = "sql a UPDATE t SET v = v + 1";
    for (mode, point, command) in [
        ("DELETE", "host-opened", "reopen"),
        ("DELETE", "shared-taken", read),
        ("DELETE", "before-publish", write),
        ("DELETE", "after-publish", write),
        ("DELETE", "before-sync", write),
        ("DELETE", "closing-locked", "close a"),
        ("WAL", "shm-lock-read-taken", read),
        (
            "WAL",
            "checkpoint-done",
            "sql a UPDATE t SET v = v + 1; PRAGMA wal_checkpoint(TRUNCATE)",
        ),
        (
            "WAL",
            "before-publish",
            "sql a UPDATE t SET v = v + 1; PRAGMA wal_checkpoint(TRUNCATE)",
        ),
    ] {
        let what = format!("{mode} {point}");
        let place = Place::new();
        make_table(&place.db(), mode);
        let mut puppet = puppet();
        let open = format!("open a densite rw {}", place.db().display());
        puppet.must(&open);
        puppet.must("sql a PRAGMA user_version = 1");
        puppet.must(&format!("panic {point}"));
        let answer = if command == "reopen" {
            puppet.must("close a");
            puppet.obey(&open)
        } else {
            puppet.obey(command)
        };
        // A close has no caller that could receive its error.
        if point != "closing-locked" {
            answer.expect_err(&what);
        }
        puppet.must(&format!("resume {point}"));
        puppet.must(&open);
        let sum: i64 = puppet.must(read).parse().expect("a number");
        assert!(sum == 0 || sum == 2000, "{what}: {sum}");
        puppet.must(write);
        assert_eq!(puppet.must(read), (sum + 2000).to_string(), "{what}");
        assert_eq!(puppet.must("ask a PRAGMA integrity_check"), "ok", "{what}");
        puppet.must("close a");
        store::assert_whole(&place.db(), &what);
    }
}

/// Rule S17: a checkpoint that panics while it publishes moves no reader to the database file,
/// although SQLite ignores the result of CKPT_DONE.
///
/// Take out: `Checkpoint::publishes` in `MainFile::checkpoint_done`.
#[test]
fn rule_17_a_checkpoint_that_panics_does_not_advance_readers() {
    let place = Place::new();
    make_table(&place.db(), "WAL");
    let (mut writer, mut reader) = (puppet(), puppet());
    writer.open("w", Subject::Densite, &place.db());
    writer.must("sql w PRAGMA wal_autocheckpoint=0; UPDATE t SET v = 1");
    // A snapshot that keeps the checkpoint from reaching the end of the WAL.
    reader.open("r", Subject::Densite, &place.db());
    reader.must("sql r BEGIN");
    assert_eq!(reader.must("ask r SELECT sum(v) FROM t"), "2000");
    writer.must("sql w UPDATE t SET v = 2 WHERE id <= 10");
    writer.must("panic before-publish");
    // SQLite may report success.
    let _ = writer.obey("ask w PRAGMA wal_checkpoint(PASSIVE)");
    assert_eq!(super::seeing::backfilled(&place), 0);
    let mut third = puppet();
    third.open("t", Subject::Densite, &place.db());
    assert_eq!(third.must("ask t SELECT sum(v) FROM t"), "2010");
    writer.kill();
    assert_eq!(third.must("ask t SELECT sum(v) FROM t"), "2010");
    assert_eq!(
        third
            .must("ask t PRAGMA wal_checkpoint(PASSIVE)")
            .split('|')
            .next(),
        Some("0")
    );
    assert_eq!(reader.must("ask r SELECT sum(v) FROM t"), "2000");
}
