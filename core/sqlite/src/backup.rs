//! The online backup: copies a database page by page.

use crate::connection::Connection;
use crate::ffi;
use crate::{Code, Result};
use std::ffi::CStr;
use std::ptr::NonNull;

/// A backup under way.
pub struct Backup<'a> {
    to: &'a Connection,
    _from: &'a Connection,
    backup: NonNull<ffi::Backup>,
}

/// The result of a step of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupStep {
    /// There is more to copy.
    More,
    /// Everything is copied.
    Done,
}

impl<'a> Backup<'a> {
    /// Starts to copy schema `from_schema` of `from` over `to_schema` of `to`.
    ///
    /// # Errors
    /// SQLite's, with its message.
    pub fn new(
        to: &'a Connection,
        to_schema: &CStr,
        from: &'a Connection,
        from_schema: &CStr,
    ) -> Result<Backup<'a>> {
        // SAFETY: terminated strings, and two open connections of one library: a connection of
        // another library is refused here. SQLite itself checks that the connections differ.
        let backup = unsafe {
            if to.api() != from.api() {
                return Err(Code::MISUSE.into());
            }
            (to.api().raw().backup_init)(
                to.as_ptr(),
                to_schema.as_ptr(),
                from.as_ptr(),
                from_schema.as_ptr(),
            )
        };
        match NonNull::new(backup) {
            Some(backup) => Ok(Backup {
                to,
                _from: from,
                backup,
            }),
            None => Err(to.error(Code::ERROR.0)),
        }
    }

    /// Copies up to `pages` pages; all remaining ones if negative.
    ///
    /// # Errors
    /// SQLite's. After [`Code::BUSY`] and [`Code::LOCKED`] the caller can try again.
    pub fn step(&mut self, pages: i32) -> Result<BackupStep> {
        // SAFETY: a live backup.
        match unsafe { (self.to.api().raw().backup_step)(self.backup.as_ptr(), pages) } {
            rc if rc == Code::OK.0 => Ok(BackupStep::More),
            rc if rc == Code::DONE.0 => Ok(BackupStep::Done),
            rc => Err(Code(rc).into()),
        }
    }

    /// The remaining pages and all pages, after the last step.
    pub fn progress(&self) -> (i32, i32) {
        let t = self.to.api().raw();
        // SAFETY: a live backup.
        unsafe {
            (
                (t.backup_remaining)(self.backup.as_ptr()),
                (t.backup_pagecount)(self.backup.as_ptr()),
            )
        }
    }

    /// Ends the backup.
    ///
    /// # Errors
    /// SQLite's, from the last step that failed permanently.
    pub fn finish(self) -> Result<()> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: a live backup, finished once: `drop` does not run.
        Ok(Code(unsafe { (this.to.api().raw().backup_finish)(this.backup.as_ptr()) }).ok()?)
    }
}

impl Drop for Backup<'_> {
    fn drop(&mut self) {
        // SAFETY: a live backup, finished once.
        unsafe { (self.to.api().raw().backup_finish)(self.backup.as_ptr()) };
    }
}
