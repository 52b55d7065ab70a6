//! The role `fork`: a process that forks while it is busy, and whose children work independently.
//! Each child opens and reads the same file, creates its own file with threads, and ends.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use densite_disk::{File, FileAbove, OpenMode, RealFile, Result};
use densite_store::{DecodedCache, Handle, Options};
use densite_vfs::failpoint;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::Subject;

const FORKS: u32 = 12;
/// A child that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

/// Runs the role.
///
/// Arguments: `store` or `sqlite`, and the path of a Densite file with a table t of 2000 rows.
///
/// - `store`: one thread is stuck inside a publish with all its locks. Other threads open and close
///   the same file and keep the pool busy. SQLite is not used, because its own mutexes would not
///   survive a fork either.
/// - `sqlite`: a connection has read and written, so there are threads and caches. Another one is
///   stuck inside xLock with SHARED, and a third one inside the close of a file with EXCLUSIVE.
///
/// # Panics
/// If a child fails or hangs.
pub fn run(args: &[String]) {
    let [part, path] = args else {
        panic!("fork wants a part and a path")
    };
    match part.as_str() {
        "store" => store(Path::new(path)),
        "sqlite" => sqlite(Path::new(path)),
        other => panic!("there is no part {other}"),
    }
}

/// Forks and waits for the child, which runs `body` and ends.
fn in_child(what: &str, body: impl FnOnce()) {
    std::io::stderr().flush().expect("flush");
    // SAFETY: the child runs only `body` and leaves by _exit. The test is about what `body` needs
    // of the threads of this process.
    let child = unsafe { fork() };
    assert!(child >= 0, "no fork");
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends this process at once, without running what belongs to the parent.
        unsafe { _exit(if done.is_ok() { 0 } else { 1 }) };
    }
    let pid = Pid::from_raw(child).expect("a process id");
    let begin = Instant::now();
    loop {
        match waitpid(Some(pid), WaitOptions::NOHANG).expect("wait for a child") {
            Some((_, status)) => {
                assert_eq!(status.exit_status(), Some(0), "{what}: the child failed");
                return;
            }
            None if begin.elapsed() > PATIENCE => {
                kill_process(pid, Signal::KILL).expect("kill");
                panic!("{what}: the child hangs");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A file whose next write does not return once the flag is set.
struct Stuck {
    file: RealFile,
    stick: &'static AtomicBool,
    stuck: mpsc::Sender<()>,
}

impl FileAbove for Stuck {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        while self.stick.load(Ordering::Relaxed) {
            // Sent once. The receiver can be gone.
            let _ = self.stuck.send(());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.file.write_at(buf, offset)
    }
}

fn options() -> Options {
    Options {
        threads: 2,
        decoded_cache: DecodedCache::Bytes(1 << 20),
        ..Options::default()
    }
}

fn open(path: &Path) -> Handle {
    let file = RealFile::open(path, OpenMode::Create).expect("open");
    Handle::open(Box::new(file), &path.display().to_string(), options()).expect("open the store")
}

fn text(page: u32) -> Vec<u8> {
    format!("page {page} of a file; ")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(4096)
        .collect()
}

fn fill(handle: &mut Handle, pages: u32) {
    for page in 0..pages {
        handle
            .write_at(&text(page), u64::from(page) * 4096)
            .expect("write");
    }
    handle.publish().expect("publish");
}

fn verify(handle: &mut Handle, pages: u32) {
    for page in 0..pages {
        let mut got = vec![0; 4096];
        handle
            .read_at(&mut got, u64::from(page) * 4096)
            .expect("read");
        assert!(got == text(page), "page {page}");
    }
}

fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}

fn store(path: &Path) {
    static STICK: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    let shared = beside(path, "shared.store");
    fill(&mut open(&shared), 200);
    let (sender, stuck) = mpsc::channel();
    std::thread::scope(|scope| {
        let file = RealFile::open(&shared, OpenMode::Write).expect("open");
        let file = Stuck {
            file,
            stick: &STICK,
            stuck: sender,
        };
        let mut writer =
            Handle::open(Box::new(file), &shared.display().to_string(), options()).expect("open");
        let release = scope.spawn(move || {
            writer.write_at(&text(0), 0).expect("write");
            STICK.store(true, Ordering::Relaxed);
            writer.publish().expect("publish");
        });
        stuck.recv().expect("the writer gets stuck");
        // The pool is busy, and the registry is always in use.
        let busy = beside(path, "busy.store");
        scope.spawn(move || {
            let mut handle = open(&busy);
            while !STOP.load(Ordering::Relaxed) {
                fill(&mut handle, 300);
            }
        });
        let looked_at = &shared;
        scope.spawn(move || {
            while !STOP.load(Ordering::Relaxed) {
                drop(open(looked_at));
            }
        });
        for n in 0..FORKS {
            in_child(&format!("fork {n} of the store"), || {
                let mut same = open(&shared);
                verify(&mut same, 200);
                // Every close asks for this. In the parent, the answer waits for its stuck publish.
                assert!(!same.unslotted());
                let own = beside(path, &format!("own-{n}.store"));
                let mut handle = open(&own);
                fill(&mut handle, 400);
                // The threads of the parent do not exist in the child.
                let threads = std::fs::read_dir("/proc/self/task").expect("tasks").count();
                assert!(threads > 1, "the child has no pool of its own");
                verify(&mut handle, 400);
                handle.close_clean().expect("close");
            });
        }
        STICK.store(false, Ordering::Relaxed);
        STOP.store(true, Ordering::Relaxed);
        release.join().expect("the publish comes to its end");
    });
}

fn sqlite(path: &Path) {
    static STICK: AtomicBool = AtomicBool::new(true);
    let db = Subject::Densite.open(path).expect("open");
    db.execute_batch("UPDATE t SET v = v + 1").expect("write");
    let closing = beside(path, "closing.db");
    let other = Subject::Densite.open(&closing).expect("open");
    other.execute_batch("CREATE TABLE u(x)").expect("make");
    let (sender, stuck) = mpsc::channel();
    let (closer_sender, closer_stuck) = mpsc::channel();
    std::thread::scope(|scope| {
        let closer = scope.spawn(move || {
            let me = std::thread::current().id();
            failpoint::arm("closing-locked", move || {
                while std::thread::current().id() == me && STICK.load(Ordering::Relaxed) {
                    // Sent once.
                    let _ = closer_sender.send(());
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            other.close().map_err(|(_, e)| e).expect("close");
        });
        closer_stuck.recv().expect("the close gets stuck");
        let reader = scope.spawn(|| {
            let me = std::thread::current().id();
            failpoint::arm("shared-taken", move || {
                while std::thread::current().id() == me && STICK.load(Ordering::Relaxed) {
                    // Sent once.
                    let _ = sender.send(());
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let db = Subject::Densite.open(path).expect("open");
            db.query_row("SELECT count(*) FROM t", [], |r| r.get::<_, i64>(0))
                .expect("read")
        });
        stuck.recv().expect("the reader gets stuck");
        for n in 0..FORKS {
            in_child(&format!("fork {n} under SQLite"), || {
                let db = Subject::Densite.open(path).expect("open");
                let count: i64 = db
                    .query_row("SELECT count(*) FROM t", [], |r| r.get(0))
                    .expect("read");
                assert_eq!(count, 2000);
                let own = Subject::Densite
                    .open(&beside(path, &format!("own-{n}.db")))
                    .expect("open");
                own.execute_batch(
                    "CREATE TABLE u(x); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)
                     INSERT INTO u SELECT printf('%0200d', i) FROM c; PRAGMA journal_mode=WAL; DELETE FROM u WHERE rowid % 2",
                )
                .expect("write");
                let check: String = own
                    .query_row("PRAGMA integrity_check", [], |r| r.get(0))
                    .expect("check");
                assert_eq!(check, "ok");
                own.close().map_err(|(_, e)| e).expect("close");
                // The parent is closing this file and holds EXCLUSIVE, so it is busy. The close
                // belongs to the parent, so the child does not wait for its end.
                let begin = Instant::now();
                let busy = Subject::Densite.open(&closing).and_then(|db| {
                    db.busy_timeout(Duration::ZERO)?;
                    db.query_row("SELECT count(*) FROM u", [], |r| r.get::<_, i64>(0))
                });
                assert!(
                    busy.is_err() && begin.elapsed() < Duration::from_secs(3),
                    "{:?}",
                    begin.elapsed()
                );
                // Reads the file as bytes: the child created it, so no lock of the parent is lost.
                let mut magic = [0; 7];
                std::fs::File::open(beside(path, &format!("own-{n}.db")))
                    .and_then(|mut f| f.read_exact(&mut magic))
                    .expect("read");
                assert_eq!(&magic, b"Densite");
            });
        }
        STICK.store(false, Ordering::Relaxed);
        assert_eq!(reader.join().expect("no panic"), 2000);
        closer.join().expect("no panic");
    });
    failpoint::disarm("closing-locked");
    failpoint::disarm("shared-taken");
    db.execute_batch("UPDATE t SET v = v + 1")
        .expect("the parent works on");
    db.close().map_err(|(_, e)| e).expect("close");
}
