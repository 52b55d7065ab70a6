//! `densite replicate` while it runs.

use super::DENSITE;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// `densite replicate` in the background, which is killed on drop.
pub(crate) struct Shipping {
    child: Child,
    events: BufReader<ChildStdout>,
}

impl Shipping {
    pub(crate) fn start(db: &str, url: &str, more: &[&str]) -> Shipping {
        Shipping::start_with(db, url, more, |_| {})
    }

    /// The same with other settings of the process.
    pub(crate) fn start_with(
        db: &str,
        url: &str,
        more: &[&str],
        set: impl FnOnce(&mut Command),
    ) -> Shipping {
        let mut command = Command::new(DENSITE);
        set(&mut command);
        let mut child = command
            .args(["replicate", db, url, "--json"])
            .args(match more {
                [] => &["--interval", "0.1"],
                more => more,
            })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let events = BufReader::new(child.stdout.take().expect("stdout"));
        Shipping { child, events }
    }

    /// The next event of this name.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str) -> Value {
        loop {
            let event = self.next_event();
            if event["event"] == name {
                return event;
            }
        }
    }

    /// The next event.
    #[track_caller]
    pub(crate) fn next_event(&mut self) -> Value {
        let mut line = String::new();
        let n = self.events.read_line(&mut line).expect("a line");
        assert!(n > 0, "it ended");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Reads the events that it has printed, so that the next one is of later.
    pub(crate) fn drop_events(&mut self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let is_readable = |events: &BufReader<ChildStdout>| {
            let mut fds = [PollFd::new(events.get_ref(), PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        while !self.events.buffer().is_empty() || is_readable(&self.events) {
            let mut line = String::new();
            assert!(
                self.events.read_line(&mut line).expect("a line") > 0,
                "it ended"
            );
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Waits until it ends by itself. Returns its exit code, and the last line that it prints.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let last = (&mut self.events).lines().last().expect("a line");
        let code = self.child.wait().expect("ended").code();
        (code, last.expect("a line"))
    }

    /// Ends it as a service manager does. Returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("signalled");
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
