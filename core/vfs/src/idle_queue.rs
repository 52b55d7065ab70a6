//! The background worker's queue: the files that this process has written to, until they are idle.
//!
//! Each process has one thread that takes files from here. The first file starts it, and it ends
//! when it has had nothing to do for a while. The caller that adds a file says what to do with it,
//! by a [`Session`] (`worker`).

use crate::open_files::OpenFile;
use crate::settings::Settings;
use densite_disk::sync::{Condvar, Mutex};
use densite_sqlite::{FileName, HostVfs, PerProcess, fork_gate};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A file is idle when no connection of this process has written to it for this long. Commits to a
/// WAL do not write to it, but checkpoints do.
const QUIET: Duration = Duration::from_secs(1);
/// If a commit left more to reclaim than its share, the worker helps in the first pause of this
/// length, because commits wait for its slices. In WAL mode only checkpoints do, and it helps at
/// once.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause after a session that got no locks.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// How long the thread waits for work before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// The worker runs only over this VFS.
const UNIX: &str = "unix";

static KEEPER: PerProcess<Keeper> = PerProcess::new();

/// The function that the worker runs on an idle file.
pub(crate) type Session = fn(&Job) -> End;

/// How a session ended.
pub(crate) enum End {
    /// Nothing is left to do, or no connection has the file open.
    Over,
    /// A connection writes, at least to the WAL. Its next publish puts the file on the list, but
    /// that can take a while.
    Disturbed,
    /// Others held their locks all the time.
    Locked,
}

/// A file that was written to.
pub(crate) struct Job {
    file: Weak<OpenFile>,
    spec: ConnectionSpec,
    session: Session,
    /// If it was locked: the time of the next try.
    not_before: Option<Instant>,
}

/// How to open a file once more.
pub(crate) struct ConnectionSpec {
    pub(crate) vfs: HostVfs,
    pub(crate) path: CString,
    pub(crate) parameters: Vec<(CString, CString)>,
    pub(crate) settings: Settings,
}

/// Whether a worker is possible for a file of this process over `vfs`. SQLite must be thread-safe,
/// and the VFS's locks must keep the connections of one process apart.
pub(crate) fn is_possible(vfs: HostVfs) -> bool {
    vfs.name() == UNIX && vfs.api().has_mutexes() && fork_gate::guard_forks()
}

/// Adds a file that was written to, unless it is already listed. The worker runs `session` on it
/// once it is idle.
pub(crate) fn add(
    file: &Arc<OpenFile>,
    vfs: HostVfs,
    name: FileName<'_>,
    settings: &Settings,
    session: Session,
) {
    if file.idle().list() {
        KEEPER.get().add(Job {
            file: Arc::downgrade(file),
            spec: ConnectionSpec::to(vfs, name, settings),
            session,
            not_before: None,
        });
    }
}

/// A file can be due earlier than when it was added.
pub(crate) fn look_again() {
    let keeper = KEEPER.get();
    // Otherwise the thread could be about to wait.
    drop(keeper.list.lock());
    keeper.more.notify_all();
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

impl Job {
    /// The file, if a connection has it open.
    pub(crate) fn file(&self) -> Option<Arc<OpenFile>> {
        self.file.upgrade()
    }

    /// How to open it once more.
    pub(crate) fn spec(&self) -> &ConnectionSpec {
        &self.spec
    }

    /// When its session is due, if a connection has it open.
    fn due(&self) -> Option<Instant> {
        let file = self.file()?;
        let idle = file.idle();
        let quiet = match idle.behind() {
            Some(behind) if idle.has_wal_users() => behind,
            Some(_) => idle.wrote() + PAUSE,
            None => idle.wrote() + QUIET,
        };
        Some(self.not_before.map_or(quiet, |at| at.max(quiet)))
    }
}

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

impl Keeper {
    fn add(&'static self, job: Job) {
        let mut list = self.list.lock();
        list.files.push(job);
        if !list.running {
            let thread = std::thread::Builder::new().name("densite-idle".into());
            // Without a thread the worker reclaims no space; the next close or write does.
            list.running = thread.spawn(|| self.work()).is_ok();
        }
        self.more.notify_all();
    }

    fn work(&'static self) {
        while let Some(mut job) = self.next() {
            let session = || (job.session)(&job);
            // A panic ends this session, not the thread. Unwinding closes the file.
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(session)) {
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

    /// Puts a file back on the list, unless a writer did.
    fn again(&self, job: Job) {
        if job.file().is_some_and(|file| file.idle().list()) {
            self.list.lock().files.push(job);
        }
    }

    /// Waits for a file that has become idle. `None` ends the thread.
    fn next(&self) -> Option<Job> {
        let mut list = self.list.lock();
        let mut patience = Instant::now() + PATIENCE;
        loop {
            let now = Instant::now();
            list.files.retain(|job| job.file.strong_count() > 0);
            let first = list.files.iter().enumerate();
            let first = first.filter_map(|(i, job)| Some((job.due()?, i))).min();
            match first {
                Some((at, i)) if at <= now => return Some(list.files.swap_remove(i)),
                Some((at, _)) => {
                    patience = at + PATIENCE;
                    list = self.more.wait_for(list, at - now);
                }
                None if now >= patience => {
                    list.running = false;
                    return None;
                }
                None => {
                    list = self.more.wait_for(list, patience - now);
                }
            }
        }
    }
}
