//! The directory of an open log, and the check that it is still the log that was opened.
//!
//! The log is the directory that its name leads to. A user can move, remove or replace the
//! directory without any lock. So each operation that acknowledges or changes something checks a
//! name first. If the directory is removed after that check, the change is lost with it, like
//! everything before.

use crate::files::{Files, damaged};
use crate::named::Named;
use crate::recover;
use crate::state::State;
use crate::{Error, Result, Seq};
use densite_disk::sync::Mutex;
use densite_disk::{File, OpenMode};

/// See the module.
pub(crate) struct OpenDir {
    pub(crate) files: Files,
    /// The process that opened it.
    pid: u32,
    /// A name that leads to the same file as long as the directory has this log; `None` if the log
    /// has no such file yet.
    mark: Option<Named>,
    /// That file, if nothing else keeps it open.
    _marked: Option<Mutex<Box<dyn File>>>,
}

impl OpenDir {
    /// For this process. `mark` is the name of a file that is open as long as this value exists;
    /// `marked` is the file, unless the caller keeps it open.
    pub(crate) fn new(files: Files, mark: Option<Named>, marked: Option<Box<dyn File>>) -> OpenDir {
        OpenDir {
            files,
            pid: std::process::id(),
            mark,
            _marked: marked.map(Mutex::new),
        }
    }

    /// Rule S15: a child of the process that opened the log shares its locks and must not use them.
    ///
    /// # Errors
    /// `Forked`.
    pub(crate) fn is_ours(&self) -> Result<()> {
        match self.pid == std::process::id() {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }

    /// Checks that the directory's name still leads to the log that was opened.
    ///
    /// # Errors
    /// `Replaced`; `Io`.
    pub(crate) fn is_in_place(&self) -> Result<()> {
        let mark = self.mark.as_ref();
        mark.map_or(Ok(()), |mark| mark.check(&self.files))
    }

    /// Changes the state durably, if the directory still is in its place. `change` returns the
    /// answer and whether to store the state.
    ///
    /// # Errors
    /// `Replaced`, `Locked`; `Full`, `Io`, `Damaged`; those of `change`.
    pub(crate) fn with_state<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<(T, bool)>,
    ) -> Result<T> {
        self.is_in_place()?;
        self.files.with_state(|state| {
            // The state lock can have been waited for.
            self.is_in_place()?;
            change(state)
        })
    }

    /// The state as it is now.
    ///
    /// # Errors
    /// `Forked`, `Replaced`; `Io`, `Damaged`.
    pub(crate) fn state(&self) -> Result<State> {
        self.is_ours()?;
        // A log that is no longer in its place is not called damaged.
        recover::state(&self.files).map_err(|e| self.is_in_place().err().unwrap_or(e))
    }

    /// Number of the first row that is still there.
    ///
    /// # Errors
    /// As [`OpenDir::state`].
    pub(crate) fn first_seq(&self) -> Result<Seq> {
        loop {
            let first = self.state()?.first_segment;
            // If another process prunes it meanwhile, the state names a later segment.
            if let Some(segment) = self.files.segment(first, OpenMode::Read)? {
                return Ok(segment.header.first_seq);
            }
            if self.state()?.first_segment == first {
                return Err(damaged(first, 0, "the segment is missing"));
            }
        }
    }
}
