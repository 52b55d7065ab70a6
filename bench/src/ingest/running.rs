//! A writing process, controlled by the process that measures.

use std::io::BufReader;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::record_pipe::{Kind, Record};
use super::writers::Write;
use crate::result::{About as _, Failure, Result};

/// A writing process. It is killed when this is dropped.
pub(super) struct Running {
    child: Child,
    records: Option<JoinHandle<Result<Vec<Record>>>>,
    news: Receiver<Kind>,
    /// The time at which it was ready.
    pub(super) begun: Instant,
}

impl Running {
    /// Starts the process and waits until it writes.
    ///
    /// # Errors
    /// If it ends before that. It has printed the reason itself.
    pub(super) fn start(job: &Write) -> Result<Running> {
        let me = std::env::current_exe().about("find", Path::new("this program"))?;
        let mut child = Command::new(&me)
            .args(["run-ingest", "write"])
            .args(job.arguments()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .about("run", &me)?;
        let (sender, news) = channel();
        let records = child.stdout.take().map(|out| {
            std::thread::spawn(move || {
                let mut out = BufReader::new(out);
                let mut records = Vec::new();
                while let Some(record) = Record::read(&mut out)? {
                    match record.kind {
                        // The receiver can be dropped already.
                        kind @ (Kind::Ready | Kind::Done) => drop(sender.send(kind)),
                        _ => records.push(record),
                    }
                }
                Ok(records)
            })
        });
        let mut running = Running {
            child,
            records,
            news,
            begun: Instant::now(),
        };
        running.wait_for(Kind::Ready, Duration::from_secs(120))?;
        running.begun = Instant::now();
        Ok(running)
    }

    fn wait_for(&self, kind: Kind, time: Duration) -> Result<()> {
        match self.news.recv_timeout(time) {
            Ok(got) if got == kind => Ok(()),
            Err(RecvTimeoutError::Timeout) => Err(Failure(format!(
                "a writing process was not {kind:?} in {time:?}"
            ))),
            _ => Err(Failure(
                "a writing process ended early, for the reason above".into(),
            )),
        }
    }

    /// Sleeps until this time after the process was ready.
    pub(super) fn sleep_until(&self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.begun.elapsed()));
    }

    /// Waits until the writers have stopped. The process keeps running.
    pub(super) fn written(&self) -> Result<()> {
        self.wait_for(Kind::Done, Duration::from_secs(4000))
    }

    fn end(&mut self) -> Result<(ExitStatus, Vec<Record>)> {
        let records = match self.records.take().map(JoinHandle::join) {
            Some(Ok(records)) => records?,
            _ => return Err(Failure("the thread that reads records panicked".into())),
        };
        let status = self
            .child
            .wait()
            .about("wait for", Path::new("a writing process"))?;
        Ok((status, records))
    }

    /// Lets the process end, and returns its records.
    pub(super) fn finish(mut self) -> Result<Vec<Record>> {
        drop(self.child.stdin.take());
        let (status, records) = self.end()?;
        match status.success() {
            true => Ok(records),
            false => Err(Failure(format!("a writing process failed: {status}"))),
        }
    }

    /// Kills the process with SIGKILL, and returns the records that it has sent.
    pub(super) fn kill(mut self) -> Result<Vec<Record>> {
        self.child
            .kill()
            .about("kill", Path::new("a writing process"))?;
        let (status, records) = self.end()?;
        match status.code() {
            None => Ok(records),
            Some(code) => Err(Failure(format!(
                "a writing process ended by itself with {code} before it was killed"
            ))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Usually the process has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Rows per second that were acknowledged within `time`.
pub(super) fn rate(records: &[Record], batch: u64, time: Duration) -> f64 {
    let acknowledged = records
        .iter()
        .filter(|r| r.kind == Kind::Acknowledged && r.at <= time);
    acknowledged.count() as f64 * batch as f64 / time.as_secs_f64()
}
