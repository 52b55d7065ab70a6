//! What the background worker (`worker`) and this process's connections tell each other about a
//! file.
//!
//! A connection reports when it opens, writes and closes, and when a commit or checkpoint left more
//! to reclaim than its share. The worker begins a *session* on the file once no connection has
//! written for a while, or soon after such a report. The session ends when a connection writes. The
//! last connection waits for its end before it closes. So the worker uses SQLite only as long as the
//! application does.

use crate::maintain::DEAD_LIMIT;
use densite_disk::sync::{Condvar, Mutex};
use densite_disk::wait::Deadline;
use densite_sqlite::Code;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So long after a session, in milliseconds, commits to the WAL do not begin another one.
const RESTED: u64 = 10_000;

/// See the module's documentation. Belongs to the process that made it.
pub(crate) struct Idle {
    process: u32,
    begin: Instant,
    /// When a connection of this process last wrote: milliseconds since `begin`.
    wrote: AtomicU64,
    /// When a session last began to do all that is left: milliseconds since `begin`, and 1.
    rested: AtomicU64,
    /// The first time since the last session when a commit or checkpoint left more to reclaim than
    /// its share: milliseconds since `begin`, and 1; 0 if none did.
    behind: AtomicU64,
    /// A connection wrote since the last session began: the worker has the file on its list.
    listed: AtomicBool,
    /// The setting of the connection that wrote last: the per cent of the file that can be dead or
    /// free while writing.
    dead_limit: AtomicU8,
    /// Connections with a WAL index in shared memory.
    wal_users: AtomicU32,
    doing: Mutex<Doing>,
    changed: Condvar,
}

#[derive(Default)]
struct Doing {
    /// Open connections of this process.
    connections: u32,
    /// The worker has the file open.
    session: bool,
    /// Messages of the worker. It must not call the application, and SQLite's log callback would.
    messages: Vec<(Code, String)>,
}

/// While this exists, the worker can have the file open.
pub(crate) struct Session<'a>(&'a Idle);

impl Default for Idle {
    fn default() -> Self {
        Idle {
            process: std::process::id(),
            begin: Instant::now(),
            wrote: AtomicU64::new(0),
            rested: AtomicU64::new(0),
            behind: AtomicU64::new(0),
            listed: AtomicBool::new(false),
            dead_limit: AtomicU8::new(DEAD_LIMIT),
            wal_users: AtomicU32::new(0),
            doing: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl Idle {
    /// Whether this process made it. A forked child has a copy of its parent's.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// A connection has opened the file.
    pub(crate) fn opened(&self) {
        self.doing.lock().connections += 1;
    }

    /// A connection is about to close; the last one waits for the end of a session.
    pub(crate) fn closing(&self) {
        // In a forked child there is no worker that would end the session.
        if !self.is_ours() {
            return;
        }
        let mut doing = self.doing.lock();
        doing.connections = doing.connections.saturating_sub(1);
        self.changed.notify_all();
        while doing.connections == 0 && doing.session {
            doing = self.changed.wait(doing);
        }
    }

    /// A connection writes.
    pub(crate) fn writes(&self) {
        self.wrote.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When a connection last wrote.
    pub(crate) fn wrote(&self) -> Instant {
        self.begin + Duration::from_millis(self.wrote.load(Ordering::Relaxed))
    }

    /// A session begins to do all that is left.
    pub(crate) fn rests(&self) {
        self.rested.store(self.now() + 1, Ordering::Relaxed);
    }

    /// Whether one did so since the last write to the file itself, and not long ago. Only another
    /// process can have left something since.
    pub(crate) fn has_rested(&self) -> bool {
        let rested = self.rested.load(Ordering::Relaxed);
        let is_last = rested > self.wrote.load(Ordering::Relaxed);
        is_last && self.now() < rested + RESTED
    }

    /// A commit or checkpoint left more to reclaim than its share.
    pub(crate) fn falls_behind(&self) {
        let now = self.now() + 1;
        let first = Ordering::Relaxed;
        let _ = self.behind.compare_exchange(0, now, first, first);
    }

    /// Since when that is so.
    pub(crate) fn behind(&self) -> Option<Instant> {
        let at = self.behind.load(Ordering::Relaxed);
        (at > 0).then(|| self.begin + Duration::from_millis(at - 1))
    }

    /// A session begins, for what was left to reclaim if this returns true.
    pub(crate) fn catches_up(&self) -> bool {
        self.behind.swap(0, Ordering::Relaxed) > 0
    }

    /// Whether the worker has the file on its list.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    /// Notes that the worker has the file on its list. Returns false if it was already there.
    pub(crate) fn list(&self) -> bool {
        !self.listed.swap(true, Ordering::AcqRel)
    }

    /// Notes that the worker has taken the file from its list.
    pub(crate) fn unlist(&self) {
        self.listed.store(false, Ordering::Release);
    }

    /// Notes the dead limit of the connection that writes, in per cent.
    pub(crate) fn set_dead_limit(&self, limit: u8) {
        self.dead_limit.store(limit, Ordering::Relaxed);
    }

    /// The dead limit of the connection that wrote last, in per cent.
    pub(crate) fn dead_limit(&self) -> u8 {
        self.dead_limit.load(Ordering::Relaxed)
    }

    /// A connection has mapped a WAL index in shared memory.
    pub(crate) fn begins_wal(&self) {
        self.wal_users.fetch_add(1, Ordering::AcqRel);
    }

    /// A connection has unmapped its WAL index in shared memory.
    pub(crate) fn ends_wal(&self) {
        self.wal_users.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether a connection has a WAL index in shared memory.
    pub(crate) fn has_wal_users(&self) -> bool {
        self.wal_users.load(Ordering::Acquire) > 0
    }

    /// Begins a session, if a connection has the file open.
    pub(crate) fn begin(&self) -> Option<Session<'_>> {
        let mut doing = self.doing.lock();
        if doing.connections == 0 {
            return None;
        }
        doing.session = true;
        Some(Session(self))
    }

    /// Takes the worker's messages, for a thread of the application to report.
    pub(crate) fn take_messages(&self) -> Vec<(Code, String)> {
        // If another thread holds the lock, this returns no messages instead of waiting.
        let Some(mut doing) = self.doing.try_lock() else {
            return Vec::new();
        };
        std::mem::take(&mut doing.messages)
    }

    /// Keeps a message of the worker. At most eight are kept.
    pub(crate) fn keep_message(&self, code: Code, message: String) {
        let mut doing = self.doing.lock();
        if doing.messages.len() < 8 {
            doing.messages.push((code, message));
        }
    }
}

impl Session<'_> {
    /// Waits for this time, or until the last connection closes. Returns whether the session can go
    /// on.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let until = Deadline::after(time);
        let mut doing = self.0.doing.lock();
        while doing.connections > 0 {
            match self.0.changed.wait_until(doing, until) {
                Some(woken) => doing = woken,
                None => return true,
            }
        }
        false
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.0.doing.lock().session = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_connection_waits_for_the_session_and_ends_its_pause() {
        let idle = Idle::default();
        assert!(idle.begin().is_none(), "no connection has it open");
        idle.opened();
        idle.opened();
        let session = idle.begin().expect("two have it open");
        idle.closing();
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                let begin = Instant::now();
                idle.closing();
                begin.elapsed()
            });
            let begin = Instant::now();
            assert!(!session.pause(Duration::from_secs(60)));
            assert!(begin.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(50));
            drop(session);
            let waited = closer.join().expect("no panic");
            assert!(waited >= Duration::from_millis(40), "{waited:?}");
        });
        assert!(idle.begin().is_none());
    }
}
