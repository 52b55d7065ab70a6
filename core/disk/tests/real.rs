//! The real disk keeps the contracts of `File` and `Dir`.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use densite_disk::{
    Dir, Error, ErrorKind, File, Op, OpenMode, RealDir, RealFile, SyncKind, random,
};

fn kind_of<T>(result: Result<T, Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("the call should have failed"),
        Err(e) => e.kind,
    }
}

#[test]
fn a_write_can_be_read_back() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let dir = RealDir::new(tmp.path());
    let file = dir.open("a", OpenMode::CreateNew).expect("create");
    file.write_at(b"hello", 3).expect("write");
    assert_eq!(file.len().expect("length"), 8);
    let mut buf = [9u8; 16];
    assert_eq!(file.read_at(&mut buf, 0).expect("read"), 8);
    assert_eq!(&buf[..9], b"\0\0\0hello\x09");
    assert_eq!(file.read_at(&mut buf, 100).expect("read past the end"), 0);
    file.set_len(4).expect("shorten");
    file.set_len(6).expect("lengthen");
    assert_eq!(file.read_at(&mut buf, 0).expect("read"), 6);
    assert_eq!(&buf[..6], b"\0\0\0h\0\0");
    file.sync(SyncKind::Data).expect("fdatasync");
    file.sync(SyncKind::Full).expect("fsync");
    dir.sync().expect("directory sync");
}

#[test]
fn a_large_write_is_whole() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let path = tmp.path().join("big");
    let file = RealFile::open(&path, OpenMode::Create).expect("create");
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
    file.write_at(&bytes, 1).expect("write");
    let mut back = vec![0; bytes.len()];
    assert_eq!(file.read_at(&mut back, 1).expect("read"), bytes.len());
    assert!(back == bytes);
}

#[test]
fn open_modes() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let dir = RealDir::new(tmp.path());
    assert_eq!(kind_of(dir.open("a", OpenMode::Read)), ErrorKind::NotFound);
    assert_eq!(kind_of(dir.open("a", OpenMode::Write)), ErrorKind::NotFound);
    let file = dir.open("a", OpenMode::Create).expect("create");
    file.write_at(b"x", 0).expect("write");
    let again = dir.open("a", OpenMode::Create).expect("open");
    assert_eq!(again.len().expect("length"), 1, "Create does not truncate");
    assert_eq!(
        kind_of(dir.open("a", OpenMode::CreateNew)),
        ErrorKind::Exists
    );
    let reader = dir.open("a", OpenMode::Read).expect("open for reading");
    let refused = reader
        .write_at(b"y", 0)
        .expect_err("opened for reading only");
    assert_eq!(refused.op, Op::Write);
    for name in ["", ".", "..", "a/b", "a\0b"] {
        let refused = match dir.open(name, OpenMode::Read) {
            Ok(_) => panic!("{name:?} is no single component"),
            Err(e) => e,
        };
        assert_eq!((refused.kind, refused.code), (ErrorKind::Io, Some(22)));
    }
}

#[test]
fn names() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let dir = RealDir::new(tmp.path());
    for name in ["b", "c", "a"] {
        dir.open(name, OpenMode::CreateNew).expect("create");
    }
    dir.rename("c", "a").expect("rename over a file");
    assert_eq!(dir.list().expect("list"), ["a", "b"]);
    dir.remove("b").expect("remove");
    assert!(!dir.exists("b").expect("probe"));
    assert!(dir.exists("a").expect("probe"));
    assert_eq!(kind_of(dir.remove("b")), ErrorKind::NotFound);
    assert_eq!(kind_of(dir.rename("b", "d")), ErrorKind::NotFound);
    std::os::unix::fs::symlink("nowhere", tmp.path().join("dangling")).expect("link");
    assert!(dir.exists("dangling").expect("probe"), "its name is taken");
    assert!(dir.free_space().expect("statvfs") > 0);
    let missing = RealDir::new(tmp.path().join("missing"));
    assert_eq!(kind_of(missing.list()), ErrorKind::NotFound);
    assert_eq!(kind_of(missing.sync()), ErrorKind::NotFound);
    assert_eq!(kind_of(missing.free_space()), ErrorKind::NotFound);
}

#[test]
fn a_removed_file_lives_on_for_its_handles() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let dir = RealDir::new(tmp.path());
    let file = dir.open("a", OpenMode::CreateNew).expect("create");
    dir.remove("a").expect("remove");
    file.write_at(b"still here", 0).expect("write");
    assert_eq!(file.len().expect("length"), 10);
}

/// The descriptor must not leak into a child that runs another program.
#[test]
fn descriptors_are_closed_on_exec() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let path = tmp.path().join("held-open");
    let _file = RealFile::open(&path, OpenMode::CreateNew).expect("create");
    let output = std::process::Command::new("sh")
        .args(["-c", "ls -l /proc/$$/fd"])
        .output()
        .expect("run sh");
    let listing = String::from_utf8_lossy(&output.stdout);
    assert!(
        listing.contains(" 1 -> "),
        "the listing is empty: {listing}"
    );
    assert!(!listing.contains("held-open"), "{listing}");
}

#[test]
fn full_disk_quota_and_length_limits_are_full() {
    for (errno, kind) in [
        (28, ErrorKind::Full),  // ENOSPC
        (122, ErrorKind::Full), // EDQUOT
        (27, ErrorKind::Full),  // EFBIG
        (5, ErrorKind::Io),     // EIO
        (13, ErrorKind::Permission),
        (1, ErrorKind::Permission),
        (30, ErrorKind::Permission), // EROFS
        (2, ErrorKind::NotFound),
        (17, ErrorKind::Exists),
        (21, ErrorKind::Io), // EISDIR
        (24, ErrorKind::TooManyFiles),
        (23, ErrorKind::TooManyFiles),
        (0, ErrorKind::Io), // the host has set none
        (-1, ErrorKind::Io),
        (i32::MAX, ErrorKind::Io),
    ] {
        let e = Error::from_io(Op::Write, &std::io::Error::from_raw_os_error(errno));
        assert_eq!((e.kind, e.code), (kind, Some(errno)));
    }
}

/// Every write to /dev/full fails because the disk is full.
#[test]
fn a_full_device_is_full() {
    let file = RealFile::open("/dev/full", OpenMode::Write).expect("open");
    let refused = file.write_at(b"x", 0).expect_err("the disk is full");
    assert_eq!((refused.kind, refused.op), (ErrorKind::Full, Op::Write));
}

#[test]
fn new_files_get_the_permissions_of_their_model() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let mode = |path: &std::path::Path| {
        let meta = std::fs::metadata(path).expect("stat");
        meta.permissions().mode() & 0o7777
    };
    for (of, file, dir) in [
        (0o600, 0o600, 0o700),
        (0o660, 0o660, 0o770),
        (0o444, 0o644, 0o755),
        (0o4755, 0o644, 0o755),
    ] {
        let (like, at) = (tmp.path().join("like"), tmp.path().join(format!("{of:o}")));
        RealFile::open(&like, OpenMode::Create).expect("create");
        std::fs::set_permissions(&like, std::fs::Permissions::from_mode(of)).expect("chmod");
        let made = RealDir::new(&at).like(&like).made().expect("made");
        assert_eq!(mode(&at), dir, "{of:o}");
        for (name, how) in [("a", OpenMode::Create), ("b", OpenMode::CreateNew)] {
            made.open(name, how).expect("made");
            assert_eq!(mode(&at.join(name)), file, "{of:o}");
        }
        // An existing file keeps its permissions and can be opened.
        std::fs::set_permissions(at.join("a"), std::fs::Permissions::from_mode(0o606))
            .expect("chmod");
        made.open("a", OpenMode::Create).expect("open");
        let again = made.open("a", OpenMode::CreateNew).map(|_| ());
        assert_eq!(kind_of(again), ErrorKind::Exists);
        made.clone().made().expect("it is there");
        assert_eq!((mode(&at.join("a")), mode(&at)), (0o606, dir), "{of:o}");
        std::fs::remove_file(&like).expect("removed");
        made.open("c", OpenMode::Create)
            .expect("created without it, too");
    }
}

/// Positioned calls let many threads share one descriptor. (Signals interrupt only slow calls.)
#[test]
fn positioned_calls_share_a_descriptor() {
    let tmp = tempfile::tempdir().expect("temporary directory");
    let path = tmp.path().join("shared");
    let file = Arc::new(RealFile::open(path, OpenMode::CreateNew).expect("create"));
    std::thread::scope(|scope| {
        for t in 0..4u8 {
            let file = file.clone();
            scope.spawn(move || {
                for i in 0..100u64 {
                    let at = (i * 4 + u64::from(t)) * 100;
                    file.write_at(&[t + 1; 100], at).expect("write");
                }
            });
        }
    });
    let mut all = vec![0; 40_000];
    assert_eq!(file.read_at(&mut all, 0).expect("read"), all.len());
    for (i, chunk) in all.chunks(100).enumerate() {
        assert_eq!(chunk, [(i % 4) as u8 + 1; 100]);
    }
}

#[test]
fn randomness_differs() {
    assert_ne!(
        random::random_u64().expect("random"),
        random::random_u64().expect("random")
    );
    let mut bytes = [0u8; 32];
    random::random_bytes(&mut bytes).expect("random");
    assert_ne!(bytes, [0u8; 32]);
}

#[test]
fn creating_an_existing_directory_succeeds() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = tmp.path().join("app.db-log");
    RealDir::create(&path).expect("made");
    RealDir::create(&path).expect("it exists already");
    let missing = RealDir::create(tmp.path().join("no/such")).expect_err("nothing above it");
    assert_eq!(missing.kind, ErrorKind::NotFound);
    std::fs::write(tmp.path().join("file"), b"x").expect("write");
    assert!(RealDir::create(tmp.path().join("file")).is_err());
}

#[test]
fn only_ordinary_files_are_opened_in_a_directory() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = |name: &str| tmp.path().join(name);
    std::fs::write(path("victim"), b"x").expect("write");
    std::os::unix::fs::symlink("victim", path("link")).expect("symlink");
    std::os::unix::fs::symlink("nowhere", path("dangling")).expect("symlink");
    let pipe = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), pipe, mode, 0).expect("mknod");
    std::fs::create_dir(path("dir")).expect("mkdir");
    let plain = RealDir::new(tmp.path());
    for dir in [plain.clone(), plain.like(path("victim"))] {
        for name in ["link", "dangling", "pipe", "dir"] {
            for how in [OpenMode::Read, OpenMode::Write, OpenMode::Create] {
                let refused = dir.open(name, how).map(|_| ()).expect_err("refused");
                assert_eq!(refused.op, Op::Open, "{name} {how:?}");
            }
        }
    }
    assert!(!path("nowhere").exists());
}

/// Another user could replace the directory beside a file by a link, so that root writes to its
/// target.
#[test]
fn a_directory_beside_a_file_is_not_entered_through_a_link() {
    let tmp = tempfile::tempdir().expect("a directory");
    let path = |name: &str| tmp.path().join(name);
    std::fs::write(path("a.db"), b"x").expect("write");
    std::fs::create_dir(path("victim")).expect("mkdir");
    std::fs::write(path("victim/end"), b"mine").expect("write");
    std::os::unix::fs::symlink("victim", path("a.db-log")).expect("symlink");
    let dir = RealDir::new(path("a.db-log")).like(path("a.db"));
    let refused = [
        kind_of(dir.clone().made()),
        kind_of(dir.open("end", OpenMode::Read)),
        kind_of(dir.open("new", OpenMode::Create)),
        kind_of(dir.exists("end")),
        kind_of(dir.identity("end")),
        kind_of(dir.remove("end")),
        kind_of(dir.rename("end", "other")),
        kind_of(dir.list()),
        kind_of(dir.sync()),
    ];
    assert_eq!(refused, [ErrorKind::NotADirectory; 9]);
    assert_eq!(std::fs::read(path("victim/end")).expect("read"), b"mine");
    assert!(!path("victim/new").exists());
    // If a user names a directory by a link, the link is followed.
    let named = RealDir::new(path("a.db-log"));
    assert!(named.exists("end").expect("it can be entered"));
}

/// A wait ends when a file that was open for writing is closed, but not when it was open for
/// reading.
#[cfg(target_os = "linux")]
#[test]
fn a_watch_reports_that_a_file_is_closed() {
    use std::time::Duration;
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = RealDir::create(tmp.path()).expect("made");
    let open = |mode| dir.open("a.lock", mode).expect("opens");
    let (first, reader) = (open(OpenMode::Create), open(OpenMode::Read));
    let watch = dir.watch().expect("a watch");
    assert!(watch.add_closing("a.lock"));
    assert!(!watch.add_closing("missing"));
    drop(reader);
    first.write_at(b"x", 0).expect("writes");
    assert!(!watch.wait(Duration::from_millis(50)));
    drop(first);
    assert!(watch.wait(Duration::from_secs(60)));
    watch.ring();
    assert!(
        !watch.wait(Duration::from_secs(60)),
        "rung, without an event"
    );
}
