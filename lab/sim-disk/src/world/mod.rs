//! The state behind all handles on one simulated disk, and the rules for every call.
//!
//! A call is counted first. Then the cut is checked, then the faults, and then the call is done.
//! The call at which the cut comes is done and then fails: its change is in the cache and can
//! survive like any other.

mod directories;
mod files;
mod lives;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::counters::{Counters, CountersTable, StatNo};
use super::entries::{Entries, InodeNo};
use super::fault::{FaultKind, Faults, Strike};
use super::inode::Inode;
use super::locks::Locks;
use super::policy::Policy;
use densite_disk::{Error, ErrorKind, Op, Result};
pub use lives::Capture;
use lives::Captures;

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();

/// The free bytes that an unlimited disk reports.
const PLENTY: u64 = 1 << 50;

/// Everything of one disk.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) policy: Policy,
    pub(crate) faults: Faults,
    pub(crate) locks: Locks,
    pub(crate) table: CountersTable,
    /// Decides what a failed sync loses.
    rng: Xoshiro256PlusPlus,
    dead: bool,
    /// Calls so far, and those of them that change or sync something.
    pub(crate) calls: u64,
    pub(crate) changes: u64,
    pub(crate) cut_at_call: Option<u64>,
    pub(crate) cut_at_change: Option<u64>,
    captures: Captures,
    /// Changes in words, while tracing is on.
    trace: Option<Vec<String>>,
    /// The place of the next change in the order of the disk.
    seq: u64,
    /// Bytes of all files that a name or a handle leads to.
    used: u64,
    inodes: BTreeMap<InodeNo, Inode>,
    inode_next: InodeNo,
    dirs: BTreeMap<String, Entries>,
}

/// The result of a call that was let in.
#[must_use]
#[derive(Clone, Copy)]
struct Pass {
    op: Op,
    /// The cut comes at this call: it is done, but fails.
    dying: bool,
}

impl Pass {
    fn done<T>(self, value: T) -> Result<T> {
        if self.dying {
            Err(dead(self.op))
        } else {
            Ok(value)
        }
    }
}

fn dead(op: Op) -> Error {
    Error {
        kind: ErrorKind::Io,
        op,
        code: Some(EIO),
    }
}

fn full(op: Op) -> Error {
    Error {
        kind: ErrorKind::Full,
        op,
        code: Some(ENOSPC),
    }
}

fn struck(op: Op, strike: Strike) -> Error {
    let code = match strike.kind {
        FaultKind::Io => EIO,
        FaultKind::Full => ENOSPC,
    };
    Error {
        kind: strike.error_kind(),
        op,
        code: Some(code),
    }
}

/// Splits a path into its directory and its last component: `/a/b.db` is `/a` and `b.db`.
///
/// The root directory is the empty string, and a missing first slash is added.
fn split(path: &str) -> (String, &str) {
    match path.rsplit_once('/') {
        None => (String::new(), path),
        Some((dir, name)) => (clean_dir(dir), name),
    }
}

/// The key of a directory: no slash at the end, one at the start, the root empty.
pub(crate) fn clean_dir(path: &str) -> String {
    let path = path.trim_matches('/');
    if path.is_empty() {
        String::new()
    } else {
        format!("/{path}")
    }
}

impl World {
    pub(crate) fn new(seed: u64, policy: Policy) -> World {
        World {
            policy,
            faults: Faults::default(),
            locks: Locks::default(),
            table: CountersTable::default(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            dead: false,
            calls: 0,
            changes: 0,
            cut_at_call: None,
            cut_at_change: None,
            captures: Captures::default(),
            trace: None,
            seq: 0,
            used: 0,
            inodes: BTreeMap::new(),
            inode_next: 0,
            dirs: BTreeMap::new(),
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead
    }

    pub(crate) fn kill(&mut self) {
        self.dead = true;
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Counts a call and lets it in, or returns why it fails. The caller turns `Err(Some(strike))`,
    /// a fault, into an error after it has done what the failing call does.
    fn try_enter(
        &mut self,
        op: Op,
        path: &str,
        changes: bool,
    ) -> std::result::Result<Pass, Option<Strike>> {
        if self.dead {
            return Err(None);
        }
        // A capture at a change is taken when that change is done, which is now. A sync counts as
        // in progress, so its capture is taken before it is done.
        self.capture_due();
        self.calls += 1;
        self.changes += u64::from(changes);
        if op == Op::Sync {
            self.capture_due();
        }
        let dying = self.cut_at_call.is_some_and(|n| self.calls >= n)
            || (changes && self.cut_at_change.is_some_and(|n| self.changes >= n));
        if dying {
            self.dead = true;
            return Ok(Pass { op, dying });
        }
        match self.faults.check(op, path) {
            Some(strike) => Err(Some(strike)),
            None => Ok(Pass { op, dying }),
        }
    }

    /// For calls that do nothing if they fail.
    fn enter(&mut self, op: Op, path: &str, changes: bool) -> Result<Pass> {
        let pass = self.try_enter(op, path, changes);
        pass.map_err(|strike| match strike {
            Some(strike) => struck(op, strike),
            None => dead(op),
        })
    }

    pub(crate) fn set_trace(&mut self, on: bool) {
        self.trace = on.then(Vec::new);
    }

    pub(crate) fn take_trace(&mut self) -> Vec<String> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{}: {}", self.changes, what()));
        }
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq - 1
    }

    fn lookup(&self, dir: &str, name: &str) -> Option<InodeNo> {
        self.dirs.get(dir)?.names.get(name).copied()
    }

    /// Reserves room for a file to grow from `old` to `new` bytes.
    fn reserve(&mut self, op: Op, old: u64, new: u64) -> Result<()> {
        let more = new.saturating_sub(old);
        let room = (self.policy.capacity).is_none_or(|c| self.used.saturating_add(more) <= c);
        if new > Policy::LEN_MAX || (more > 0 && !room) {
            return Err(full(op));
        }
        self.used += more;
        self.used = self.used.saturating_sub(old.saturating_sub(new));
        Ok(())
    }

    // ---- for tests: these calls are not counted and never fail ----

    pub(crate) fn contents(&self, path: &str) -> Option<Vec<u8>> {
        let (dir, name) = split(path);
        let inode = self.inodes.get(&self.lookup(&dir, name)?)?;
        Some(inode.data().to_vec())
    }

    pub(crate) fn put_file(&mut self, path: &str, data: Vec<u8>) {
        let (dir, name) = split(path);
        if let Some(inode) = self
            .lookup(&dir, name)
            .and_then(|no| self.inodes.get_mut(&no))
        {
            // In place, so that open handles see it.
            self.used = self.used.saturating_sub(inode.charged()) + data.len() as u64;
            inode.replace(data);
            self.dirs.entry(dir).or_default().sync();
            return;
        }
        let no = self.add(Inode::durable(data));
        self.dirs.entry(dir).or_default().create_durable(name, no);
        self.forget_all_unreachable();
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let of_dir = |(dir, entries): (&String, &Entries)| {
            let full = |name: &String| format!("{dir}/{name}");
            entries.names.keys().map(full).collect::<Vec<_>>()
        };
        self.dirs.iter().flat_map(of_dir).collect()
    }

    pub(crate) fn counters(&self, path: &str) -> Counters {
        let (dir, name) = split(path);
        self.table.of(&format!("{dir}/{name}"))
    }
}

/// A file as a handle refers to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRef {
    pub(crate) no: InodeNo,
    pub(crate) stat: StatNo,
}
