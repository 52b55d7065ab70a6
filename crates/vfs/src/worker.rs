//! The background worker: it gives space back in files that no connection writes to any more, while they
//! are open.
//!
//! Its thread takes files from the [queue](crate::idle_queue). Once no connection of this process has
//! written to a file or its WAL for a second, it does what `densite_maintain` does, slice by slice,
//! if more than half of `densite_dead_limit` is dead or free. It drops free pages in any case.
//!
//! Why that is sound in a process that is not ours:
//!
//! - **It has a file of its own**, opened through the host's VFS under the same name, and uses no
//!   connection and no file of one. To SQLite's VFS it is one more connection of this process, with
//!   locks of its own; nothing is opened beside it (rule 14). That it is the same file is checked
//!   by its identity.
//! - **The library takes part in threads**: it has mutexes
//!   ([`densite_sqlite::Api::has_mutexes`]). Where it has none there is no worker.
//! - **The VFS below is SQLite's own "unix"**, whose locks keep connections of one process apart.
//!   Others need not ("unix-none" has none), so there is no worker over them.
//! - **It uses SQLite only while the application does**: the last connection to close waits until
//!   the worker has closed its file (`idle`). So it is not there when SQLite shuts down or is
//!   unloaded. A process that ends does not wait for it; what it leaves is what a kill leaves.
//! - **It calls nothing of the application's**: its messages are told by the next connection that
//!   writes or closes.
//! - **Forks** wait for the end of the slice ([`densite_sqlite::gate`]); a child has no worker
//!   until it writes itself.
//!
//! Left out, besides: `maintain=off`, files opened for reading only, `nolock` and `immutable`. With
//! `locking_mode=EXCLUSIVE` (a WAL index on the heap included) SHARED is busy. In WAL mode a slice
//! is done only while a connection of this process holds the shared memory. So the worker never
//! makes this process look as if it used a WAL that it does not use, and never makes a WAL index.
//! What lies in the WAL waits for its checkpoint.

use crate::idle_queue::{End, Job};
use crate::main_file::{MainFile, OpenedBy};
use crate::open_files::OpenFile;
use crate::slice::Rest;
use densite_sqlite::{OwnedName, ffi, gate};
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

/// Between two slices: others get the locks then, those of other processes too.
const PAUSE: Duration = Duration::from_millis(10);
/// Slices in a row for which there was no lock, after which the session ends.
const TRIES: u32 = 30;
/// The pause after a slice for which there was no lock.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Gives back what is to be given back in an idle file, until somebody writes or all have closed.
pub(crate) fn session(job: &Job) -> End {
    let Some(file) = job.file() else {
        return End::Over;
    };
    let idle = file.idle();
    idle.unlist();
    let wrote = idle.wrote();
    let Some(session) = idle.begin() else {
        return End::Over;
    };
    let inside = gate::enter();
    let Some(mut own) = Own::open(job, &file) else {
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

/// The worker's file. Closed when dropped: fields go in their order, the name last.
struct Own {
    file: MainFile,
    _name: OwnedName,
}

impl Own {
    /// Opens a file once more; `None` if that is not the one that was written to.
    fn open(job: &Job, same: &Arc<OpenFile>) -> Option<Own> {
        let spec = job.spec();
        let parameters: Vec<(&CStr, &CStr)> = spec
            .parameters
            .iter()
            .map(|(key, value)| (key.as_c_str(), value.as_c_str()))
            .collect();
        let name = OwnedName::new(spec.vfs.api(), &spec.path, &parameters).ok()?;
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_MAIN_DB;
        let (settings, by) = (spec.settings.clone(), OpenedBy::Worker);
        // SAFETY: the name is dropped after the file.
        let opened = unsafe { MainFile::open(spec.vfs, name.as_name(), flags, settings, by) };
        let (mut file, _) = opened.ok()?;
        file.is_store_for_writing(same)
            .then_some(Own { file, _name: name })
    }
}
