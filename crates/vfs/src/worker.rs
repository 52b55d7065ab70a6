//! The background worker: it gives space back in files that nobody writes to any more, while they are open.
//!
//! One thread for each process, started by the first write to a file of the store, ended by itself when there is nothing to do. Once nobody in this process has
//! written to a file or its WAL for [`QUIET`], it does what `densite_maintain` does, slice by slice (`maintain`), if more than half of `densite_dead_limit` is dead or free; and it
//! drops free pages in any case.
//!
//! Why that is sound in a process that is not ours:
//!
//! - **It has a file of its own**, opened through the host's VFS under the same name, and uses no connection and no file of one. To SQLite's VFS it is
//!   one more connection of this process, with locks of its own; nothing is opened beside it (rule 14). That it is the same file is checked by its identity.
//! - **The library takes part in threads**: it has mutexes ([`densite_sqlite::Api::has_mutexes`]). Where it has none there is no worker.
//! - **The VFS below is SQLite's own "unix"**, whose locks keep connections of one process apart. Others need not ("unix-none" has none), so there is no worker
//!   over them.
//! - **It uses SQLite only while the application does**: the last connection to close waits until the worker has closed its file (`idle`). So it
//!   is not there when SQLite shuts down or is unloaded. A process that ends does not wait for it; what it leaves is what a kill leaves.
//! - **It calls nothing of the application's**: what it has to say is told by the next connection that writes or closes.
//! - **Forks** wait for the end of the slice ([`densite_sqlite::gate`]); a child has no worker until it writes itself.
//!
//! Left out, besides: `maintain=off`, files opened for reading only, `nolock` and `immutable`; with `locking_mode=EXCLUSIVE`
//! (a WAL index on the heap included) SHARED is busy. In WAL mode a slice is done only while a connection of this process holds the shared memory: so the worker never
//! makes this process look as if it used a WAL that it does not use, and never makes a WAL index. What lies in the WAL waits for its checkpoint.

use crate::main_file::{MainFile, State};
use crate::neighbours::Neighbours;
use crate::settings::Settings;
use crate::slice::Rest;
use densite_disk::sync::{Condvar, Mutex};
use densite_sqlite::{FileName, HostVfs, OwnedName, PerProcess, ffi, gate};
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A file is idle when nobody in this process has written to it for so long.
const QUIET: Duration = Duration::from_secs(1);
/// Between two slices: others get the locks then, those of other processes too.
const PAUSE: Duration = Duration::from_millis(10);
/// Slices in a row for which there was no lock, after which the session ends and another one is tried later.
const TRIES: u32 = 30;
/// The pause after a slice for which there was no lock, and after such a session.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// How long the thread waits for work before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// The only VFS over which there is a worker.
const UNIX: &str = "unix";

static KEEPER: PerProcess<Keeper> = PerProcess::new();

#[derive(Default)]
struct Keeper {
    list: Mutex<List>,
    more: Condvar,
}

#[derive(Default)]
struct List {
    files: Vec<Job>,
    running: bool,
}

/// A file that was written to.
struct Job {
    neighbours: Weak<Neighbours>,
    spec: ConnectionSpec,
    /// It was locked; not before this.
    not_before: Option<Instant>,
}

/// How a file is opened once more.
struct ConnectionSpec {
    vfs: HostVfs,
    path: CString,
    parameters: Vec<(CString, CString)>,
    settings: Settings,
}

impl ConnectionSpec {
    fn to(vfs: HostVfs, name: FileName<'_>, settings: &Settings) -> ConnectionSpec {
        let value = |key: &CStr| name.parameter(key).unwrap_or(c"").to_owned();
        ConnectionSpec {
            vfs,
            path: name.path().to_owned(),
            parameters: name
                .keys()
                .map(|key| (key.to_owned(), value(key)))
                .collect(),
            settings: settings.clone(),
        }
    }
}

impl MainFile {
    /// This connection has published something, or written to the WAL: the worker is told, if there may be one, and its messages are passed on.
    pub(crate) fn tell_worker(&mut self) {
        if self.of_worker {
            return;
        }
        let Some(neighbours) = &self.neighbours else {
            return;
        };
        neighbours.idle.writes();
        let off =
            self.settings.maintain_off || self.settings.options.read_only || self.settings.unlocked;
        if off {
            return;
        }
        let limit = self.maintenance.dead_limit;
        neighbours.idle.dead_limit.store(limit, Ordering::Relaxed);
        if neighbours.idle.listed.load(Ordering::Relaxed) {
            return;
        }
        let (Some(vfs), Some(name)) = (self.host_vfs, self.name()) else {
            return;
        };
        if !neighbours.idle.is_ours()
            || vfs.name() != UNIX
            || !self.api.has_mutexes()
            || !gate::guard_forks()
        {
            return;
        }
        self.tell_messages();
        if !neighbours.idle.listed.swap(true, Ordering::AcqRel) {
            let neighbours = Arc::downgrade(neighbours);
            let spec = ConnectionSpec::to(vfs, name, &self.settings);
            KEEPER.get().add(Job {
                neighbours,
                spec,
                not_before: None,
            });
        }
    }

    /// Tells what the worker could not.
    pub(crate) fn tell_messages(&self) {
        for (code, message) in self.neighbours.iter().flat_map(|n| n.idle.take_messages()) {
            self.report(code, &message);
        }
    }
}

impl Keeper {
    fn add(&'static self, job: Job) {
        let mut list = self.list.lock();
        list.files.push(job);
        if !list.running {
            let thread = std::thread::Builder::new().name("densite-idle".into());
            // Without a thread nothing is given back by it; the next close or write does.
            list.running = thread.spawn(|| self.work()).is_ok();
        }
        self.more.notify_all();
    }

    fn work(&'static self) {
        while let Some(mut job) = self.next() {
            // A panic ends this session, not the thread; the file is closed on the way.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.session()));
            match done {
                Ok(End::Locked) => {
                    job.not_before = Some(Instant::now() + BUSY_WAIT);
                    self.again(job);
                }
                Ok(End::Disturbed) => {
                    job.not_before = None;
                    self.again(job);
                }
                Ok(End::Over) => {}
                Err(payload) => std::mem::forget(payload),
            }
        }
    }

    /// Puts a file on the list again, unless a writer did.
    fn again(&self, job: Job) {
        let listed = |n: Arc<Neighbours>| n.idle.listed.swap(true, Ordering::AcqRel);
        if job.neighbours.upgrade().map(listed) == Some(false) {
            self.list.lock().files.push(job);
        }
    }

    /// Waits for a file that has become idle; `None` ends the thread.
    fn next(&self) -> Option<Job> {
        let mut list = self.list.lock();
        let mut patience = Instant::now() + PATIENCE;
        loop {
            let now = Instant::now();
            list.files.retain(|job| job.neighbours.strong_count() > 0);
            let due = |job: &Job| {
                let quiet = job.neighbours.upgrade()?.idle.wrote() + QUIET;
                Some(job.not_before.map_or(quiet, |at| at.max(quiet)))
            };
            let first = list.files.iter().enumerate();
            let first = first.filter_map(|(i, job)| Some((due(job)?, i))).min();
            match first {
                Some((at, i)) if at <= now => return Some(list.files.swap_remove(i)),
                Some((at, _)) => {
                    patience = at + PATIENCE;
                    list = self.more.wait_until(list, at);
                }
                None if now >= patience => {
                    list.running = false;
                    return None;
                }
                None => {
                    list = self.more.wait_until(list, patience);
                }
            }
        }
    }
}

/// How a session ended.
enum End {
    /// Nothing is left to do, or nobody has the file open.
    Over,
    /// Somebody writes. To the WAL at least: who publishes puts the file on the list, but that may be a while.
    Disturbed,
    /// Others held their locks all the time.
    Locked,
}

impl Job {
    /// Gives back what is to be given back, until somebody writes or all have closed.
    fn session(&self) -> End {
        let Some(neighbours) = self.neighbours.upgrade() else {
            return End::Over;
        };
        let idle = &neighbours.idle;
        idle.listed.store(false, Ordering::Release);
        let wrote = idle.wrote();
        let Some(session) = idle.begin() else {
            return End::Over;
        };
        let inside = gate::enter();
        let Some(mut own) = self.open(&neighbours) else {
            return End::Over;
        };
        drop(inside);
        let mut tries = 0;
        let mut begun = false;
        let end = loop {
            let inside = gate::enter();
            let rest = own.file.idle_slice(begun);
            let pause = match rest {
                Some(Rest::More | Rest::Sync) => {
                    begun = true;
                    tries = 0;
                    PAUSE
                }
                None if tries < TRIES => {
                    tries += 1;
                    BUSY_PAUSE
                }
                None => break End::Locked,
                Some(Rest::Done) => break End::Over,
            };
            drop(inside);
            if !session.pause(pause) {
                break End::Over;
            }
            if idle.wrote() != wrote {
                break End::Disturbed;
            }
        };
        let inside = gate::enter();
        drop(own);
        drop(inside);
        drop(session);
        end
    }

    /// Opens the file once more; `None` if that is not the one that was written to.
    fn open(&self, neighbours: &Arc<Neighbours>) -> Option<Own> {
        let spec = &self.spec;
        let parameters: Vec<(&CStr, &CStr)> = spec
            .parameters
            .iter()
            .map(|(key, value)| (key.as_c_str(), value.as_c_str()))
            .collect();
        let name = OwnedName::new(spec.vfs.api(), &spec.path, &parameters).ok()?;
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_MAIN_DB;
        // SAFETY: the name is dropped after the file (see `Own`).
        let (host, flags) = unsafe { spec.vfs.open(Some(name.as_name()), flags) }.ok()?;
        // SAFETY: as above.
        let mut file = unsafe {
            MainFile::of_worker(spec.vfs, host, name.as_name(), flags, spec.settings.clone())
        };
        let same = matches!(file.state, State::Store(_))
            && file
                .neighbours
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, neighbours));
        file.maintenance.dead_limit = neighbours.idle.dead_limit.load(Ordering::Relaxed);
        (same && !file.settings.options.read_only).then_some(Own { file, _name: name })
    }
}

/// The worker's file. Closed when dropped: fields go in their order, the name last.
struct Own {
    file: MainFile,
    _name: OwnedName,
}
