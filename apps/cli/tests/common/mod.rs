//! Shared by the tests of the command: running it, creating databases, and comparing them.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod shipping;

use densite_sqlite_format::header::page_size;
use densite_sqlite_format::page::Page;
use rusqlite::Connection;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The command under test.
pub(crate) const DENSITE: &str = env!("CARGO_BIN_EXE_densite");

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The one JSON object on stdout.
    pub(crate) fn json(&self) -> Value {
        let v: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: not one JSON value: {self:?}"));
        assert!(v.is_object(), "{self:?}");
        v
    }

    /// Asserts the exit code, and that a failure prints one message to stderr.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "{self:?}");
        if code != 0 && code != 2 && self.err.lines().count() != 1 {
            // `check` prints damage to stdout.
            assert!(
                code == 5 && self.err.is_empty(),
                "not one sentence: {self:?}"
            );
        }
        self
    }

    /// Asserts that stderr contains this text.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Ran {
        assert!(self.err.contains(words), "no {words:?} in {self:?}");
        self
    }
}

/// Runs the command with these arguments.
pub(crate) fn densite<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Ran {
    run(Command::new(DENSITE).args(args))
}

/// Runs the command with these arguments and this text on stdin.
pub(crate) fn piped(args: &[&str], text: &[u8]) -> Ran {
    let mut child = Command::new(DENSITE)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text)
        .expect("it reads");
    let out = child.wait_with_output().expect("it ends");
    Ran {
        code: out.status.code().unwrap_or(-1),
        out: String::from_utf8(out.stdout).expect("UTF-8"),
        err: String::from_utf8(out.stderr).expect("UTF-8"),
    }
}

/// Runs any command.
pub(crate) fn run(command: &mut Command) -> Ran {
    command.stdin(Stdio::null());
    let mut tries = 0;
    let out = loop {
        match command.output() {
            // A child that another thread has just forked can hold a freshly copied program open
            // for writing until it calls exec.
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy && tries < 100 => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            done => break done.expect("the command runs"),
        }
    };
    use std::os::unix::process::ExitStatusExt;
    Ran {
        code: out
            .status
            .code()
            .unwrap_or_else(|| -out.status.signal().unwrap_or(0)),
        out: String::from_utf8(out.stdout).expect("UTF-8"),
        err: String::from_utf8(out.stderr).expect("UTF-8"),
    }
}

/// A path in a directory, as text.
pub(crate) fn at(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().expect("UTF-8").to_string()
}

/// Writes a file, and returns its path.
pub(crate) fn write(dir: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = at(dir, name);
    std::fs::write(&path, bytes).expect("written");
    path
}

/// Rows as `densite sql` prints them in CSV, without the header.
pub(crate) fn rows(db: &str, sql: &str) -> Vec<String> {
    let ran = densite(&["sql", db, sql, "--format", "csv"]).expect(0);
    ran.out.lines().skip(1).map(str::to_owned).collect()
}

/// Runs `densite load` with more arguments.
pub(crate) fn load(db: &str, table: &str, file: &str, more: &[&str]) -> Ran {
    let mut args = vec!["load", db, table, file];
    args.extend(more);
    densite(&args)
}

pub(crate) fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Makes a file a minute older. nginx names versions by the second, so a new file is waited for.
pub(crate) fn age(path: &Path) {
    let file = std::fs::File::options().write(true).open(path);
    let then = std::time::SystemTime::now() - Duration::from_secs(60);
    file.and_then(|file| file.set_modified(then))
        .expect("older");
}

/// Files of a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("a directory")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Names and contents of all files of a directory. If they are equal before and after, nothing was
/// changed.
pub(crate) fn snapshot(dir: &Path) -> Vec<(String, Vec<u8>)> {
    names(dir)
        .into_iter()
        .map(|name| {
            let bytes = std::fs::read(dir.join(&name)).unwrap_or_default();
            (name, bytes)
        })
        .collect()
}

/// A plain database with rows, an index, long values, and pages freed again.
pub(crate) fn plain(path: &str, page_size: u32, rows: u32) {
    let db = Connection::open(path).expect("open");
    fill(&db, page_size, rows);
}

/// Creates a sparse database that is longer than any disk and still valid, because SQLite reads
/// only the pages it needs. Returns its length in bytes.
pub(crate) fn longer_than_any_disk(path: &str) -> u64 {
    plain(path, 65536, 100);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("open");
    [8u64 << 40, 1 << 40]
        .into_iter()
        .find(|len| file.set_len(*len).is_ok())
        .expect("a long file")
}

/// Fills a new database.
pub(crate) fn fill(db: &Connection, page_size: u32, rows: u32) {
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size};
         PRAGMA user_version=42;
         CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, score REAL, body BLOB);
         CREATE INDEX by_name ON t(name);
         CREATE TABLE gone(a);
         CREATE VIEW v AS SELECT count(*) AS n FROM t;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{rows})
           INSERT INTO t SELECT i, 'name ' || (i*7919 % 1000), i/3.0, CASE i%50 WHEN 0 THEN randomblob(9000) END FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{rows})
           INSERT INTO gone SELECT 'some text that goes away ' || i FROM n;
         DROP TABLE gone;
         DELETE FROM t WHERE id%3=0;"
    ))
    .expect("fill");
}

/// Whether a file begins with the magic of a Densite file.
pub(crate) fn is_compressed(path: &str) -> bool {
    std::fs::read(path)
        .expect("read")
        .starts_with(b"Densite format\r\n")
}

/// All rows of `t`, for comparisons.
pub(crate) fn dump(path: &str) -> String {
    let ran = densite(&[
        "sql",
        path,
        "SELECT id, name, score, hex(body) FROM t ORDER BY id",
        "--format",
        "csv",
    ])
    .expect(0);
    assert!(ran.out.lines().count() > 1, "no rows");
    ran.out
}

/// Asserts that `got` equals the plain database `want`, except for unused bytes, which must be
/// zeros.
pub(crate) fn assert_same_but_unused(want: &[u8], got: &[u8]) {
    assert_eq!(want.len(), got.len(), "length");
    let size = page_size(want).expect("a header") as usize;
    let free = free_leaves(want, size);
    for (i, (w, g)) in want.chunks(size).zip(got.chunks(size)).enumerate() {
        let number = i as u32 + 1;
        if w == g || free.contains(&number) && g.iter().all(|b| *b == 0) {
            continue;
        }
        let mut unused = vec![false; size];
        let mut parsed = Page::new();
        if parsed.parse(w, size, i == 0) {
            parsed.unallocated(|from, to| unused[from..to].fill(true));
        }
        for (at, ((a, b), unused)) in w.iter().zip(g).zip(unused).enumerate() {
            assert!(
                a == b || *b == 0 && unused,
                "page {number} differs at byte {at}"
            );
        }
    }
}

/// Leaf pages of the freelist.
pub(crate) fn free_leaves(db: &[u8], size: usize) -> Vec<u32> {
    let u32_at = |at: usize| u32::from_be_bytes(db[at..at + 4].try_into().expect("four bytes"));
    let mut leaves = Vec::new();
    let mut trunk = u32_at(32);
    while trunk != 0 {
        let at = (trunk as usize - 1) * size;
        leaves.extend((0..u32_at(at + 4) as usize).map(|i| u32_at(at + 8 + 4 * i)));
        trunk = u32_at(at);
    }
    leaves
}

/// The recovered and checkpointed file that SQLite itself makes of a database with its journal or
/// WAL.
pub(crate) fn recovered(path: &str) -> Vec<u8> {
    let dir = temp();
    let copy = at(&dir, "copy.db");
    for suffix in ["", "-journal", "-wal", "-djournal", "-dwal"] {
        let from = format!("{path}{suffix}");
        if Path::new(&from).exists() {
            std::fs::copy(from, format!("{copy}{suffix}")).expect("copy");
        }
    }
    let db = Connection::open(&copy).expect("open");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("checkpoint");
    db.close().expect("close");
    std::fs::read(&copy).expect("read")
}

/// Another process that has the database open and executes statements. Killed on drop.
pub(crate) struct Other {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Other {
    /// Starts `densite sql` on the database, and creates it if it does not exist.
    pub(crate) fn on(path: &str) -> Other {
        Other::with(path, |command| {
            command.arg("--create");
        })
    }

    /// Starts `densite sql` with changes of the command.
    pub(crate) fn with(path: &str, change: impl FnOnce(&mut Command)) -> Other {
        let mut command = Command::new(DENSITE);
        command.args(["sql", path, "--format", "csv"]);
        change(&mut command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Other { child, out }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has the file open.
    pub(crate) fn opens(&self, path: &str) {
        let started = Instant::now();
        let fds = format!("/proc/{}/fd", self.pid());
        let has_it = || {
            let mut fds = std::fs::read_dir(&fds).expect("it runs").flatten();
            fds.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(path)))
        };
        while !has_it() {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "it never opened {path}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Runs statements in the process and waits for their end.
    pub(crate) fn run(&mut self, sql: &str) {
        self.ask(sql);
    }

    /// The same. Returns what they print.
    pub(crate) fn ask(&mut self, sql: &str) -> String {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{sql};\nSELECT 'done' AS done;").expect("it reads");
        stdin.flush().expect("it reads");
        let (mut line, mut printed) = (String::new(), String::new());
        loop {
            line.clear();
            assert!(
                self.out.read_line(&mut line).expect("it writes") > 0,
                "it ended while running {sql}"
            );
            if line == "done\n" {
                break;
            }
            printed.push_str(&line);
        }
        self.out.read_line(&mut line).expect("it writes");
        printed
    }

    /// Kills it at once (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command, stopped at a point of `densite_vfs::failpoint`.
pub(crate) struct Stopped {
    child: Option<Child>,
    go: String,
    // The files of the point. They are not beside the database, because its directory is compared.
    _dir: tempfile::TempDir,
}

impl Stopped {
    /// Runs the command up to this point.
    pub(crate) fn at_point(point: &str, args: &[&str]) -> Stopped {
        let dir = temp();
        let go = at(&dir, "go");
        let child = Command::new(DENSITE)
            .args(args)
            .env("DENSITE_PAUSE", format!("{point}:{go}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let reached = format!("{go}.reached");
        let started = Instant::now();
        while !Path::new(&reached).exists() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{point} was never reached"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        Stopped {
            child: Some(child),
            go,
            _dir: dir,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub(crate) fn signal(&self, name: &str) {
        run(Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()])).expect(0);
    }

    /// Lets the command continue to its end.
    pub(crate) fn finish(mut self) -> Ran {
        std::fs::write(&self.go, b"").expect("write");
        let out = self.child.take().expect("it runs").wait_with_output();
        let out = out.expect("it ends");
        Ran {
            code: out.status.code().unwrap_or(-1),
            out: String::from_utf8(out.stdout).expect("UTF-8"),
            err: String::from_utf8(out.stderr).expect("UTF-8"),
        }
    }

    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the command without privileges. Root can do everything, so as root it runs as another user,
/// with a copy of the program that this user can execute.
pub(crate) fn unprivileged(dir: &tempfile::TempDir, args: &[&str]) -> Ran {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    if std::fs::metadata(dir.path()).expect("metadata").uid() != 0 {
        return densite(args);
    }
    let bin_dir = temp();
    let bin: PathBuf = bin_dir.path().join("densite");
    std::fs::copy(DENSITE, &bin).expect("copy");
    for path in [bin_dir.path(), &bin] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    }
    run(Command::new(&bin).args(args).uid(NOBODY).gid(NOBODY))
}

/// A user and group without any files.
pub(crate) const NOBODY: u32 = 65534;

/// Sets the mode of a file or directory.
pub(crate) fn chmod(path: impl AsRef<Path>, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
}
