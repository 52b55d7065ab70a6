//! Files of the host's VFS as files of the disk contract.

use crate::common;

use densite_disk::{ErrorKind, File, SyncKind};
use densite_sqlite::{Code, HostFile, HostVfs, ffi};
use std::ffi::CString;

fn open(dir: &tempfile::TempDir, name: &str, flags: i32) -> Result<HostFile, Code> {
    let path = dir.path().join(name);
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    let vfs = HostVfs::find(common::api(), None).expect("a default VFS");
    let path = vfs.full_pathname(&path).expect("a path");
    vfs.open_path(&path, &[(c"level", c"3")], ffi::OPEN_MAIN_DB | flags)
        .map(|(file, _)| file)
        .map_err(|error| error.code)
}

const NEW: i32 = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;

#[test]
fn reads_return_the_bytes_before_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = open(&dir, "a", NEW).expect("opens");
    file.write_at(b"hello", 10).expect("writes");
    let mut buf = [9; 8];
    assert_eq!(file.read_at(&mut buf, 12).expect("reads"), 3);
    assert_eq!(&buf[..3], b"llo");
    assert_eq!(file.read_at(&mut buf, 15).expect("reads"), 0);
    assert_eq!(file.read_at(&mut buf, 1 << 40).expect("reads"), 0);
    assert_eq!(file.read_at(&mut buf, 0).expect("reads"), 8);
    assert_eq!(buf, [0; 8]);
    assert_eq!(file.read_at(&mut [], 0).expect("reads"), 0);
    file.write_at(&[], 3).expect("writes nothing");
    assert_eq!(file.len().expect("has a length"), 15);
}

#[test]
fn long_reads_and_writes_are_whole() {
    // SQLite's unix VFS uses only 17 bits of a length, so it would take 128 KiB as 0.
    let dir = tempfile::tempdir().expect("a directory");
    let file = open(&dir, "a", NEW).expect("opens");
    let data: Vec<u8> = (0..300_001u32).map(|i| (i % 251) as u8).collect();
    for len in [65_536, 65_537, 131_071, 131_072, 131_073, 300_001] {
        file.write_at(&data[..len], 7).expect("writes");
        let mut back = vec![0; len + 100];
        assert_eq!(file.read_at(&mut back, 7).expect("reads"), len);
        assert!(back[..len] == data[..len]);
        file.set_len(0).expect("empties");
    }
}

#[test]
fn the_length_can_be_set_both_ways() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = open(&dir, "a", NEW).expect("opens");
    file.set_len(10_000).expect("grows");
    assert_eq!(file.len().expect("has a length"), 10_000);
    file.set_len(10).expect("shrinks");
    assert_eq!(file.len().expect("has a length"), 10);
    file.sync(SyncKind::Data).expect("syncs");
    file.sync(SyncKind::Full).expect("syncs");
}

#[test]
fn locks_are_between_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (
        open(&dir, "a", NEW).expect("opens"),
        open(&dir, "a", NEW).expect("opens"),
    );
    a.lock(ffi::LOCK_SHARED).expect("free");
    a.lock(ffi::LOCK_RESERVED).expect("free");
    assert!(b.check_reserved().expect("answers"));
    b.lock(ffi::LOCK_SHARED).expect("compatible");
    assert_eq!(b.lock(ffi::LOCK_RESERVED), Err(Code::BUSY));
    assert_eq!(a.lock(ffi::LOCK_EXCLUSIVE), Err(Code::BUSY));
    b.unlock(ffi::LOCK_NONE).expect("unlocks");
    a.lock(ffi::LOCK_EXCLUSIVE).expect("free now");
    a.unlock(ffi::LOCK_NONE).expect("unlocks");
}

#[test]
fn closing_one_clone_closes_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = open(&dir, "a", NEW).expect("opens");
    let clone = file.clone();
    file.write_at(b"x", 0).expect("writes");
    file.close().expect("closes");
    let error = clone.read_at(&mut [0], 0).expect_err("closed");
    assert_eq!(error.kind, ErrorKind::Io);
    assert_eq!(error.code, Some(Code::IOERR_READ.0));
    assert!(clone.lock(ffi::LOCK_SHARED).is_err());
    assert!(clone.close().is_ok());
    assert!(HostFile::closed(common::api()).write(&[0], 0).is_err());
}

#[test]
fn a_missing_file_does_not_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = open(&dir, "missing", ffi::OPEN_READWRITE).expect_err("not there");
    assert_eq!(error.primary(), Code::CANTOPEN);
    let vfs = HostVfs::find(common::api(), None).expect("a default VFS");
    let name = CString::new(dir.path().join("missing").to_str().expect("UTF-8")).expect("no NUL");
    assert_eq!(vfs.access(&name, ffi::ACCESS_EXISTS), Ok(false));
    assert_eq!(vfs.delete(&name, false), Err(Code::IOERR_DELETE_NOENT));
    assert!(HostVfs::find(common::api(), Some(c"no such vfs")).is_none());
}

#[test]
fn writing_read_only_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    open(&dir, "a", NEW)
        .expect("opens")
        .write_at(b"x", 0)
        .expect("writes");
    let file = open(&dir, "a", ffi::OPEN_READONLY).expect("opens");
    assert!(file.write_at(b"y", 0).is_err());
}
