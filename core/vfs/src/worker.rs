//! The background worker: reclaims space in open files that no connection writes to.
//! docs/decisions/maintenance.md (The background worker) says why that is sound in a process that
//! belongs to the application, and which files it skips.
//!
//! Its thread takes files from the [queue](crate::idle_queue). A second after the last write of
//! this process to a file, it does the same as `densite_maintain`, slice by slice, if more than half
//! of `densite_dead_limit` is dead or free. It drops free pages in any case. Frames in the WAL wait
//! for their checkpoint.
//!
//! An application that never rests gets its space back, too. If a commit or checkpoint left more to
//! reclaim than its share, the worker helps while others write, down to half of
//! `densite_dead_limit`.

use crate::idle_queue::{End, Job};
use crate::main_file::{MainFile, OpenedBy};
use crate::maintain::Occasion;
use crate::open_files::OpenFile;
use crate::slice::Rest;
use densite_sqlite::{OwnedName, ffi, fork_gate};
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

/// The pause between two slices, so that other connections and processes get the locks.
const PAUSE: Duration = Duration::from_millis(10);
/// The session ends after this many slices in a row without a lock.
const TRIES: u32 = 30;
/// The pause after a slice that got no lock, and when others write all the time.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
const SHORT_PAUSE: Duration = Duration::from_millis(5);

/// Reclaims space in an idle file until a connection writes or all have closed it.
pub(crate) fn session(job: &Job) -> End {
    let Some(file) = job.file() else {
        return End::Over;
    };
    let idle = file.idle();
    idle.unlist();
    let helps = idle.catches_up();
    if !helps {
        idle.rests();
    }
    let wrote = idle.wrote();
    let Some(session) = idle.begin() else {
        return End::Over;
    };
    let inside = fork_gate::enter();
    let Some(mut own) = Own::open(job, &file) else {
        return End::Over;
    };
    let mut due = helps;
    drop(inside);
    let mut tries = 0;
    let mut occasion = match helps {
        true => Occasion::Busy,
        false => Occasion::Idle { begun: false },
    };
    let end = loop {
        let inside = fork_gate::enter();
        if due && idle.has_wal_users() {
            // Without a lock: makes the slot durable that the last checkpoint wrote, so that the
            // next one can use what was freed before.
            if own.file.sync_unlocked().is_err() {
                break End::Over;
            }
        }
        let rest = own.file.idle_slice(occasion);
        let pause = match rest {
            Some(Rest::More | Rest::Sync | Rest::Wait) => {
                if !helps {
                    occasion = Occasion::Idle { begun: true };
                }
                tries = 0;
                PAUSE
            }
            None if tries < TRIES => {
                tries += 1;
                if helps { SHORT_PAUSE } else { BUSY_PAUSE }
            }
            None if helps => break End::Disturbed,
            None => break End::Locked,
            // The rest is for when no connection writes.
            Some(Rest::Done) if helps => break End::Disturbed,
            Some(Rest::Done) => break End::Over,
        };
        drop(inside);
        if !session.pause(pause) {
            break End::Over;
        }
        // In WAL mode a checkpoint waits for one slice, and commits for none.
        due = helps && idle.has_wal_users() && idle.catches_up();
        let goes_on = helps && idle.has_wal_users();
        if idle.wrote() != wrote && !goes_on {
            break End::Disturbed;
        }
    };
    let inside = fork_gate::enter();
    drop(own);
    drop(inside);
    drop(session);
    end
}

/// The worker's file. Dropping it closes the file. Fields are dropped in order, so the name goes
/// last.
struct Own {
    file: MainFile,
    _name: OwnedName,
}

impl Own {
    /// Opens the file once more; `None` if the name now leads to another file.
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
