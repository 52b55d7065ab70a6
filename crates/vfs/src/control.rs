//! xFileControl.

use crate::main_file::{MainFile, State};
use crate::private::{self, Query};
use crate::trim::Reach;
use densite_sqlite::{Code, ffi};
use std::ffi::{CStr, c_char, c_void};

impl MainFile {
    /// # Safety
    /// `arg` is what SQLite's documentation, or [`private`], says for `op`.
    pub(crate) unsafe fn control(&mut self, op: i32, arg: *mut c_void) -> Code {
        match op {
            // SAFETY: the operation's argument, as the caller vouches.
            private::OPCODE => return unsafe { Query::answer(self, arg) },
            // SAFETY: this operation takes a `char**`.
            ffi::FCNTL_VFSNAME => return unsafe { self.vfs_name(arg.cast::<*mut c_char>()) },
            ffi::FCNTL_PRAGMA => {
                // SAFETY: this operation takes an array of three `char*` at least.
                let answer = unsafe { self.pragma(arg.cast::<*mut c_char>()) };
                if answer != Code::NOTFOUND {
                    return answer;
                }
            }
            _ => {}
        }
        match op {
            ffi::FCNTL_BUSYHANDLER => self.busy.set_handler(arg),
            ffi::FCNTL_PDB => self.busy.set_connection(arg),
            _ => {}
        }
        match (&self.state, op) {
            (State::Refused(_), _) => Code::NOTFOUND,
            (State::Plain, _) => self.forward(op, arg),
            // The file does not grow as SQLite thinks, and nothing of it can be mapped.
            (_, ffi::FCNTL_SIZE_HINT | ffi::FCNTL_CHUNK_SIZE) => Code::OK,
            (_, ffi::FCNTL_MMAP_SIZE) => {
                // SAFETY: this operation takes an `i64*`, for the limit now in force.
                unsafe { *arg.cast::<i64>() = 0 };
                Code::OK
            }
            (_, ffi::FCNTL_SYNC) => {
                self.checkpoint.is_over();
                self.trim(Reach::Due);
                Code::of(self.publish())
            }
            (_, ffi::FCNTL_COMMIT_PHASETWO) => Code::of(self.phase_two()),
            (_, ffi::FCNTL_CKPT_START) => {
                self.checkpoint_start();
                Code::OK
            }
            (_, ffi::FCNTL_CKPT_DONE) => Code::of(self.checkpoint_done()),
            // A batch of writes is atomic by the host's means, which know other writes.
            (
                _,
                ffi::FCNTL_BEGIN_ATOMIC_WRITE
                | ffi::FCNTL_COMMIT_ATOMIC_WRITE
                | ffi::FCNTL_ROLLBACK_ATOMIC_WRITE
                | ffi::FCNTL_OVERWRITE,
            ) => Code::NOTFOUND,
            // HAS_MOVED, PERSIST_WAL, POWERSAFE_OVERWRITE, LOCK_TIMEOUT, LOCKSTATE,
            // LAST_ERRNO, TEMPFILENAME and the rest are about the file, its locks or its
            // companions.
            _ => self.forward(op, arg),
        }
    }

    fn forward(&self, op: i32, arg: *mut c_void) -> Code {
        // SAFETY: the argument of the same operation, as the caller of `control` vouches.
        unsafe { self.host.file_control(op, arg) }
    }

    /// `densite/unix`, in SQLite's memory.
    ///
    /// # Safety
    /// `out` is a place for a pointer.
    unsafe fn vfs_name(&self, out: *mut *mut c_char) -> Code {
        let mut below: *mut c_char = std::ptr::null_mut();
        let rc = self.forward(ffi::FCNTL_VFSNAME, (&raw mut below).cast::<c_void>());
        let host = if rc == Code::OK && !below.is_null() {
            // SAFETY: terminated text that the host allocated for us.
            unsafe { CStr::from_ptr(below) }
                .to_string_lossy()
                .into_owned()
        } else {
            self.host_vfs
                .map(densite_sqlite::HostVfs::name)
                .unwrap_or_default()
        };
        // SAFETY: null, or allocated by the host for us; not used again.
        unsafe { self.api.free(below.cast()) };
        // SAFETY: as the caller vouches.
        unsafe { *out = self.api.string(&format!("{}/{host}", self.vfs_name)) };
        Code::OK
    }
}
