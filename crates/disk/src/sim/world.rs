//! The state behind all handles on one simulated disk, and the rules that every call passes.
//!
//! A call is counted first, then the cut, then the faults are looked at, then it is done. The
//! call at which the cut comes is done and then fails: its change is in the cache and may
//! survive like any other.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::counters::{Counters, CountersTable, StatNo};
use super::entries::{Entries, InodeNo};
use super::fate::Survival;
use super::fault::{FaultKind, Faults, Strike};
use super::inode::Inode;
use super::policy::{EntryPolicy, FailedSync, MetadataOrder, Policy};
use crate::{Error, ErrorKind, Op, OpenMode, Result, SyncKind};

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();

/// What an unlimited disk reports as free, bytes.
const PLENTY: u64 = 1 << 50;

/// Everything of one disk.
#[derive(Debug)]
pub(super) struct World {
    pub(super) policy: Policy,
    pub(super) faults: Faults,
    pub(super) table: CountersTable,
    /// Decides what a failed sync loses.
    rng: Xoshiro256PlusPlus,
    dead: bool,
    /// Calls so far, and those of them that change or sync something.
    pub(super) calls: u64,
    pub(super) changes: u64,
    pub(super) cut_at_call: Option<u64>,
    pub(super) cut_at_change: Option<u64>,
    captures: Captures,
    /// Changes in words, while somebody wants them.
    trace: Option<Vec<String>>,
    /// Place of the next change in the order of the disk.
    seq: u64,
    /// Bytes of all files that a name or a handle leads to.
    used: u64,
    inodes: BTreeMap<InodeNo, Inode>,
    inode_next: InodeNo,
    dirs: BTreeMap<String, Entries>,
}

/// How a call that was let in ends.
#[must_use]
#[derive(Clone, Copy)]
struct Pass {
    op: Op,
    /// The cut comes at this call: it is done and nobody hears of it.
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
/// The root directory is the empty string, and a missing first slash is supplied.
fn split(path: &str) -> (String, &str) {
    match path.rsplit_once('/') {
        None => (String::new(), path),
        Some((dir, name)) => (clean_dir(dir), name),
    }
}

/// The key of a directory: no slash at the end, one at the start, the root empty.
pub(super) fn clean_dir(path: &str) -> String {
    let path = path.trim_matches('/');
    if path.is_empty() {
        String::new()
    } else {
        format!("/{path}")
    }
}

impl World {
    pub(super) fn new(seed: u64, policy: Policy) -> World {
        World {
            policy,
            faults: Faults::default(),
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

    pub(super) fn is_dead(&self) -> bool {
        self.dead
    }

    pub(super) fn kill(&mut self) {
        self.dead = true;
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Counts a call and lets it in, or says why it fails. `Err(Some(strike))` is a fault that
    /// the caller turns into an error after doing what the failing call does.
    fn try_enter(
        &mut self,
        op: Op,
        path: &str,
        changes: bool,
    ) -> std::result::Result<Pass, Option<Strike>> {
        if self.dead {
            return Err(None);
        }
        // What was asked for at a change is taken once that change is done, that is now; a
        // sync counts as under way, so before it is done.
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

    /// For calls that do nothing when they fail.
    fn enter(&mut self, op: Op, path: &str, changes: bool) -> Result<Pass> {
        let pass = self.try_enter(op, path, changes);
        pass.map_err(|strike| match strike {
            Some(strike) => struck(op, strike),
            None => dead(op),
        })
    }

    pub(super) fn set_trace(&mut self, on: bool) {
        self.trace = on.then(Vec::new);
    }

    pub(super) fn take_trace(&mut self) -> Vec<String> {
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

    // ---- files ----

    fn inode(&mut self, no: InodeNo, op: Op) -> Result<&mut Inode> {
        self.inodes.get_mut(&no).ok_or(dead(op))
    }

    pub(super) fn open(&mut self, path: &str, mode: OpenMode) -> Result<(InodeNo, StatNo)> {
        let (dir, name) = split(path);
        let path = format!("{dir}/{name}");
        let found = self.lookup(&dir, name);
        let creates = found.is_none() && matches!(mode, OpenMode::Create | OpenMode::CreateNew);
        let pass = self.enter(Op::Open, &path, creates)?;
        let no = match found {
            Some(_) if mode == OpenMode::CreateNew => {
                return Err(Error::new(ErrorKind::Exists, Op::Open));
            }
            Some(no) => no,
            None if !creates => return Err(Error::new(ErrorKind::NotFound, Op::Open)),
            None => {
                self.note(|| format!("create {path}"));
                let no = self.add(Inode::default());
                let seq = self.next_seq();
                self.dirs.entry(dir).or_default().create(seq, name, no);
                no
            }
        };
        let stat = self.table.number(&path);
        let opened = pass.done((no, stat))?;
        self.inode(no, Op::Open)?.handles += 1;
        Ok(opened)
    }

    fn add(&mut self, inode: Inode) -> InodeNo {
        let no = self.inode_next;
        self.inode_next += 1;
        self.used += inode.data().len() as u64;
        self.inodes.insert(no, inode);
        no
    }

    /// A name or a handle on the file went away.
    fn released(&mut self, no: InodeNo) {
        let Some(inode) = self.inodes.get_mut(&no) else {
            return;
        };
        if inode.handles > 0 || self.dirs.values().any(|d| d.leads_to(no)) {
            return;
        }
        // Its room is free at once, although a cut may bring the file back.
        self.used = self.used.saturating_sub(inode.charged());
        inode.charge_nothing();
        self.forget_unreachable(no);
    }

    /// A handle went away.
    pub(super) fn close(&mut self, no: InodeNo) {
        if let Some(inode) = self.inodes.get_mut(&no) {
            inode.handles = inode.handles.saturating_sub(1);
        }
        self.released(no);
    }

    /// Frees a file that nobody can see any more, not even after a cut.
    fn forget_unreachable(&mut self, no: InodeNo) {
        let Some(inode) = self.inodes.get(&no) else {
            return;
        };
        if inode.handles == 0 && !self.dirs.values().any(|d| d.may_lead_to(no)) {
            self.used = self.used.saturating_sub(inode.charged());
            self.inodes.remove(&no);
        }
    }

    fn forget_all_unreachable(&mut self) {
        let numbers: Vec<InodeNo> = self.inodes.keys().copied().collect();
        for no in numbers {
            self.forget_unreachable(no);
        }
    }

    pub(super) fn read(&mut self, file: FileRef, buf: &mut [u8], offset: u64) -> Result<usize> {
        let path = self.table.path(file.stat);
        let pass = self.enter(Op::Read, &path, false)?;
        self.table.at(file.stat).reads += 1;
        let data = self.inode(file.no, Op::Read)?.data();
        let tail = usize::try_from(offset).ok().and_then(|o| data.get(o..));
        let tail = tail.unwrap_or_default();
        let n = tail.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), tail.get(..n)) {
            to.copy_from_slice(from);
        }
        pass.done(n)
    }

    pub(super) fn write(&mut self, file: FileRef, buf: &[u8], offset: u64) -> Result<()> {
        let path = self.table.path(file.stat);
        match self.try_enter(Op::Write, &path, true) {
            Ok(pass) => {
                self.put(file, buf, offset)?;
                pass.done(())
            }
            Err(None) => Err(dead(Op::Write)),
            Err(Some(strike)) => {
                let prefix = buf.get(..strike.prefix.min(buf.len())).unwrap_or_default();
                self.put(file, prefix, offset)?;
                Err(struck(Op::Write, strike))
            }
        }
    }

    fn put(&mut self, file: FileRef, bytes: &[u8], offset: u64) -> Result<()> {
        let path = self.table.path(file.stat);
        self.note(|| format!("write {path} {offset}+{}", bytes.len()));
        if bytes.is_empty() {
            return Ok(());
        }
        let old_len = self.inode(file.no, Op::Write)?.data().len() as u64;
        let end = offset.saturating_add(bytes.len() as u64);
        self.reserve(Op::Write, old_len, end.max(old_len))?;
        let seq = self.next_seq();
        let counters = self.table.at(file.stat);
        counters.writes += 1;
        counters.bytes_written += bytes.len() as u64;
        self.inode(file.no, Op::Write)?
            .write(seq, offset as usize, bytes);
        Ok(())
    }

    pub(super) fn set_len(&mut self, file: FileRef, len: u64) -> Result<()> {
        let path = self.table.path(file.stat);
        let pass = self.enter(Op::Truncate, &path, true)?;
        self.note(|| format!("set length {path} {len}"));
        let old_len = self.inode(file.no, Op::Truncate)?.data().len() as u64;
        self.reserve(Op::Truncate, old_len, len)?;
        let seq = self.next_seq();
        self.inode(file.no, Op::Truncate)?
            .set_len(seq, len as usize);
        pass.done(())
    }

    /// Both kinds of sync are alike here: contents and length become durable.
    pub(super) fn sync(&mut self, file: FileRef, _kind: SyncKind) -> Result<()> {
        let path = self.table.path(file.stat);
        let pass = match self.try_enter(Op::Sync, &path, true) {
            Ok(pass) => pass,
            Err(None) => return Err(dead(Op::Sync)),
            Err(Some(strike)) => {
                if self.policy.failed_sync == FailedSync::Dropped {
                    let survival = Survival::each_file(&self.policy);
                    let mut rng = self.rng.clone();
                    self.inode(file.no, Op::Sync)?.settle(&survival, &mut rng);
                    self.rng = rng;
                }
                return Err(struck(Op::Sync, strike));
            }
        };
        self.note(|| format!("sync {path}"));
        if pass.dying {
            // The sync was under way: its writes survive as any mixture.
            return pass.done(());
        }
        self.table.at(file.stat).syncs += 1;
        let inode = self.inode(file.no, Op::Sync)?;
        let last = inode.last_set_len();
        inode.sync();
        self.sync_metadata_before(last);
        if self.policy.entries == EntryPolicy::FileSync {
            let dir = split(&path).0;
            if let Some(entries) = self.dirs.get_mut(&dir) {
                entries.sync();
            }
        }
        Ok(())
    }

    /// A change of metadata at this place is durable; with a journal, so are those before it.
    fn sync_metadata_before(&mut self, seq: Option<u64>) {
        let (Some(seq), MetadataOrder::Journalled) = (seq, self.policy.metadata) else {
            return;
        };
        for inode in self.inodes.values_mut() {
            inode.sync_lengths_before(seq);
        }
        for entries in self.dirs.values_mut() {
            entries.sync_before(seq);
        }
    }

    pub(super) fn len(&mut self, file: FileRef) -> Result<u64> {
        let path = self.table.path(file.stat);
        let pass = self.enter(Op::Len, &path, false)?;
        let len = self.inode(file.no, Op::Len)?.data().len() as u64;
        pass.done(len)
    }

    // ---- directories ----

    pub(super) fn exists(&mut self, path: &str) -> Result<bool> {
        let pass = self.enter(Op::List, path, false)?;
        let (dir, name) = split(path);
        pass.done(self.lookup(&dir, name).is_some())
    }

    pub(super) fn remove(&mut self, path: &str) -> Result<()> {
        let pass = self.enter(Op::Remove, path, true)?;
        self.note(|| format!("remove {path}"));
        let (dir, name) = split(path);
        let no = self
            .lookup(&dir, name)
            .ok_or(Error::new(ErrorKind::NotFound, Op::Remove))?;
        let seq = self.next_seq();
        if let Some(entries) = self.dirs.get_mut(&dir) {
            entries.remove(seq, name);
        }
        self.released(no);
        pass.done(())
    }

    pub(super) fn rename(&mut self, dir: &str, from: &str, to: &str) -> Result<()> {
        let pass = self.enter(Op::Rename, &format!("{dir}/{from}"), true)?;
        if self.lookup(dir, from).is_none() {
            return Err(Error::new(ErrorKind::NotFound, Op::Rename));
        }
        let replaced = self.lookup(dir, to);
        self.note(|| format!("rename {dir}/{from} to {to}"));
        let seq = self.next_seq();
        if let Some(entries) = self.dirs.get_mut(dir) {
            entries.rename(seq, from, to);
        }
        if let Some(no) = replaced {
            self.released(no);
        }
        pass.done(())
    }

    pub(super) fn list(&mut self, dir: &str) -> Result<Vec<String>> {
        let pass = self.enter(Op::List, dir, false)?;
        let names = self
            .dirs
            .get(dir)
            .map(|d| d.names.keys().cloned().collect());
        pass.done(names.unwrap_or_default())
    }

    pub(super) fn sync_dir(&mut self, dir: &str) -> Result<()> {
        // A failed one leaves the entries as they are: journals of metadata are retried.
        let pass = self.enter(Op::Sync, dir, true)?;
        self.note(|| format!("sync directory {dir}/"));
        if pass.dying {
            return pass.done(());
        }
        self.table.directory(dir).syncs += 1;
        if let Some(entries) = self.dirs.get_mut(dir) {
            let last = entries.last_pending();
            entries.sync();
            self.sync_metadata_before(last);
        }
        self.forget_all_unreachable();
        Ok(())
    }

    pub(super) fn free_space(&mut self, dir: &str) -> Result<u64> {
        let pass = self.enter(Op::List, dir, false)?;
        let capacity = self.policy.capacity.unwrap_or(PLENTY);
        pass.done(capacity.saturating_sub(self.used))
    }

    // ---- what tests look at and put there; neither counted nor failing ----

    pub(super) fn contents(&self, path: &str) -> Option<Vec<u8>> {
        let (dir, name) = split(path);
        let inode = self.inodes.get(&self.lookup(&dir, name)?)?;
        Some(inode.data().to_vec())
    }

    pub(super) fn place(&mut self, path: &str, data: Vec<u8>) {
        let (dir, name) = split(path);
        if let Some(inode) = self
            .lookup(&dir, name)
            .and_then(|no| self.inodes.get_mut(&no))
        {
            // In place: open handles see it.
            self.used = self.used.saturating_sub(inode.charged()) + data.len() as u64;
            inode.replace(data);
            self.dirs.entry(dir).or_default().sync();
            return;
        }
        let no = self.add(Inode::durable(data));
        self.dirs.entry(dir).or_default().create_durable(name, no);
        self.forget_all_unreachable();
    }

    pub(super) fn paths(&self) -> Vec<String> {
        let of_dir = |(dir, entries): (&String, &Entries)| {
            let full = |name: &String| format!("{dir}/{name}");
            entries.names.keys().map(full).collect::<Vec<_>>()
        };
        self.dirs.iter().flat_map(of_dir).collect()
    }

    pub(super) fn counters(&self, path: &str) -> Counters {
        let (dir, name) = split(path);
        self.table.of(&format!("{dir}/{name}"))
    }

    // ---- the next life ----

    pub(super) fn capture_at(&mut self, change: u64, how: Capture) {
        self.captures.wanted.entry(change).or_default().push(how);
    }

    pub(super) fn take_captures(&mut self) -> Vec<(u64, Capture, World)> {
        self.capture_due();
        std::mem::take(&mut self.captures.taken)
    }

    fn capture_due(&mut self) {
        while let Some(first) = self.captures.wanted.first_entry() {
            let change = *first.key();
            if change > self.changes {
                return;
            }
            for how in first.remove() {
                let world = match how {
                    Capture::Cut(seed) => self.survivor(seed),
                    Capture::Snapshot => self.snapshot(0),
                };
                self.captures.taken.push((change, how, world));
            }
        }
    }

    /// A disk with the contents that a power cut would leave now.
    pub(super) fn survivor(&self, seed: u64) -> World {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let first_of_files = self.inodes.values().filter_map(|i| i.pending().first());
        let first_of_dirs = self.dirs.values().filter_map(Entries::first_pending);
        let first = first_of_files.map(|p| p.seq).chain(first_of_dirs).min();
        let first = first.unwrap_or(self.seq);
        let survival = Survival::draw(first, self.seq, &self.policy, &mut rng);
        let mut next = World::new(seed, self.policy.clone());
        for (dir, entries) in &self.dirs {
            for (name, no) in entries.survivor(&survival, &mut rng) {
                let Some(inode) = self.inodes.get(&no) else {
                    continue;
                };
                let data = inode.survivor(&survival, &self.policy, &mut rng);
                next.place(&format!("{dir}/{name}"), data);
            }
        }
        next
    }

    /// A disk with the contents that processes see now, all of it durable.
    pub(super) fn snapshot(&self, seed: u64) -> World {
        let mut next = World::new(seed, self.policy.clone());
        for (dir, entries) in &self.dirs {
            for (name, no) in &entries.names {
                if let Some(inode) = self.inodes.get(no) {
                    next.place(&format!("{dir}/{name}"), inode.data().to_vec());
                }
            }
        }
        next
    }
}

/// What to take of a disk without disturbing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// What a power cut with this seed would leave.
    Cut(u64),
    /// What processes see.
    Snapshot,
}

/// Captures that were asked for, by change, and those taken.
#[derive(Debug, Default)]
struct Captures {
    wanted: BTreeMap<u64, Vec<Capture>>,
    taken: Vec<(u64, Capture, World)>,
}

/// A file as a handle knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileRef {
    pub(super) no: InodeNo,
    pub(super) stat: StatNo,
}
