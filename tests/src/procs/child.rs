//! A running child process: what it has reported, and how it ends.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// A child that takes longer than this for a task counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// A child process. It is killed when dropped.
pub struct Child {
    child: std::process::Child,
    errors: tempfile::NamedTempFile,
    /// Reported bytes that have not been taken.
    reported: Vec<u8>,
}

impl Child {
    /// Starts the worker binary at `program`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Child {
        let errors = tempfile::NamedTempFile::new().expect("temporary file");
        let mut command = Command::new(program);
        command
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.reopen().expect("temporary file"));
        let child = command.spawn().expect("start a child");
        let pipe = child.stdout.as_ref().expect("a pipe");
        fcntl_setfl(pipe, OFlags::NONBLOCK).expect("non-blocking pipe");
        Child {
            child,
            errors,
            reported: Vec::new(),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Reads its reports so far, for [`Child::take`]. Returns false if the pipe has ended.
    ///
    /// # Panics
    /// If the pipe fails.
    pub fn drain(&mut self) -> bool {
        let pipe = self.child.stdout.as_mut().expect("a pipe");
        let mut buf = [0; 4096];
        loop {
            match pipe.read(&mut buf) {
                Ok(0) => return false,
                Ok(n) => self.reported.extend_from_slice(&buf[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => panic!("reading from a child: {e}"),
            }
        }
    }

    /// Complete reports of `N` bytes that were read and not taken before.
    pub fn take<const N: usize>(&mut self) -> Vec<[u8; N]> {
        let whole = self.reported.len() / N * N;
        let (reports, _) = self.reported[..whole].as_chunks::<N>();
        let reports = reports.to_vec();
        self.reported.drain(..whole);
        reports
    }

    /// Waits until it has reported at least `bytes` bytes that were not taken.
    ///
    /// # Panics
    /// If it ends before or takes too long.
    pub fn await_report(&mut self, bytes: usize) {
        let begin = Instant::now();
        while self.reported.len() < bytes {
            let open = self.drain();
            if self.reported.len() >= bytes {
                break;
            }
            assert!(open, "the child ended early: {}", self.errors());
            assert!(
                begin.elapsed() < PATIENCE,
                "the child says nothing: {}",
                self.errors()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether a complete line was reported and not taken.
    pub fn has_line(&mut self) -> bool {
        self.drain();
        self.reported.contains(&b'\n')
    }

    /// The next line it reports.
    ///
    /// # Panics
    /// If it ends before or takes too long.
    pub fn line(&mut self) -> String {
        let begin = Instant::now();
        loop {
            let open = self.drain();
            if let Some(end) = self.reported.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.reported.drain(..=end).collect();
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            assert!(open, "the child ended early: {}", self.errors());
            assert!(
                begin.elapsed() < PATIENCE,
                "the child says nothing: {}",
                self.errors()
            );
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Lets it run for a time, and reads its reports. Returns true early if it has ended.
    pub fn run_for(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            if !self.drain() {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
    }

    /// Writes a line to its standard input.
    ///
    /// # Panics
    /// If it does not read any more.
    pub fn say(&mut self, line: &str) {
        use std::io::Write;
        let pipe = self.child.stdin.as_mut().expect("a pipe");
        writeln!(pipe, "{line}")
            .and_then(|()| pipe.flush())
            .expect("tell a child");
    }

    /// Closes its standard input, which asks it to end.
    pub fn hang_up(&mut self) {
        self.child.stdin = None;
    }

    /// Stops it (SIGSTOP) and waits until it has stopped. Returns false if it ended instead.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn stop(&mut self) -> bool {
        if kill_process(self.pid(), Signal::STOP).is_err() {
            return false;
        }
        // NOWAIT: the exit status of a child is left for `wait`.
        let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid()), either).expect("wait for a child to stop");
        if !status.is_some_and(|s| s.stopped()) {
            return false;
        }
        self.drain();
        true
    }

    /// Lets a stopped child continue.
    pub fn go_on(&mut self) {
        kill_process(self.pid(), Signal::CONT).expect("continue a child");
    }

    /// Kills it (SIGKILL) and reads its last reports. Returns whether it had already ended with
    /// success.
    ///
    /// # Panics
    /// If it had already ended in any other way.
    pub fn kill(&mut self) -> bool {
        let ended = self.child.try_wait().expect("look at a child");
        if ended.is_none() {
            self.child.kill().expect("kill a child");
        }
        let status = self.child.wait().expect("wait for a child");
        while self.drain() {
            std::thread::sleep(Duration::from_millis(1));
        }
        use std::os::unix::process::ExitStatusExt;
        if status.signal() == Some(9) {
            return false;
        }
        self.check(status);
        true
    }

    /// Waits until it ends.
    ///
    /// # Panics
    /// If it fails or does not end in time.
    pub fn finish(&mut self) {
        let begin = Instant::now();
        while self.drain() {
            assert!(
                begin.elapsed() < PATIENCE,
                "the child does not end: {}",
                self.errors()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let status = self.child.wait().expect("wait for a child");
        self.check(status);
    }

    fn check(&self, status: ExitStatus) {
        assert!(
            status.success(),
            "a child failed ({status}): {}",
            self.errors()
        );
    }

    /// The content of its standard error.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.errors.path()).unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It can have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies a database file with its journal and WAL in their current state. The directory of `to`
/// must exist.
///
/// # Panics
/// If a file cannot be copied.
pub fn copy_database(from: &Path, to: &Path) {
    for suffix in ["", "-journal", "-wal", "-djournal", "-dwal"] {
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            std::path::PathBuf::from(name)
        };
        let target = beside(to);
        if target.exists() {
            std::fs::remove_file(&target).expect("remove an old copy");
        }
        if beside(from).exists() {
            std::fs::copy(beside(from), target).expect("copy");
        }
    }
}
