//! Descriptors that a forked child does not share (docs/decisions/log-processes.md, Forks).
//!
//! A `flock` lock belongs to the open file. So before `fork` returns in the child, the child
//! replaces each of these descriptors by an end of a pipe. Then only the parent has the open file,
//! and its locks end with it. A fork is counted before it begins, and a descriptor is noted before
//! the count is read again, so a child copies each descriptor together with its note. Nothing
//! blocks, so fork handlers of other libraries can call this. A child of a raw `clone` shares the
//! descriptors.

use rustix::io::{DupFlags, dup3};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64};

const FREE: i32 = -1;

/// Descriptors of this process that its children must not share. There is no lock, because a child
/// would inherit it in a locked state.
struct Notes {
    fds: [AtomicI32; 64],
    more: AtomicPtr<Notes>,
}

static NOTES: Notes = Notes::new();
/// The number of forks of this process so far.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// The descriptor that a child puts in their place.
static NOTHING: AtomicI32 = AtomicI32::new(FREE);
static IS_GUARDED: AtomicBool = AtomicBool::new(false);

impl Notes {
    const fn new() -> Notes {
        Notes {
            fds: [const { AtomicI32::new(FREE) }; 64],
            more: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn following(&self) -> Option<&'static Notes> {
        // SAFETY: the pointer is null or was stored by `add`. A stored list is never freed.
        unsafe { self.more.load(SeqCst).as_ref() }
    }

    /// Notes a descriptor and returns its place in the list.
    fn add(&'static self, fd: i32) -> &'static AtomicI32 {
        let mut notes = self;
        loop {
            let take = |at: &&AtomicI32| at.compare_exchange(FREE, fd, SeqCst, SeqCst).is_ok();
            if let Some(taken) = notes.fds.iter().find(take) {
                return taken;
            }
            if notes.following().is_none() {
                let fresh = Box::into_raw(Box::new(Notes::new()));
                let added = (notes.more).compare_exchange(ptr::null_mut(), fresh, SeqCst, SeqCst);
                if added.is_err() {
                    // SAFETY: made above and not published, so no other thread has it.
                    drop(unsafe { Box::from_raw(fresh) });
                }
            }
            notes = notes.following().unwrap_or(notes);
        }
    }
}

/// An open file that a forked child does not share.
#[derive(Debug)]
pub(crate) struct Apart {
    file: ManuallyDrop<File>,
    note: &'static AtomicI32,
}

impl Apart {
    /// The file that `open` opens. If the process forked meanwhile, `open` is called again with the
    /// file that it opened before.
    ///
    /// # Errors
    /// Those of `open`; those of the system if no descriptor is left or a fork handler cannot be
    /// registered.
    pub(crate) fn open(
        mut open: impl FnMut(Option<&File>) -> io::Result<File>,
    ) -> io::Result<Apart> {
        guard()?;
        let mut before: Option<Apart> = None;
        loop {
            let forks = FORKS.load(SeqCst);
            let file = open(before.as_deref())?;
            let note = NOTES.add(file.as_raw_fd());
            let apart = Apart {
                file: ManuallyDrop::new(file),
                note,
            };
            if FORKS.load(SeqCst) == forks {
                return Ok(apart);
            }
            before = Some(apart);
        }
    }
}

impl Deref for Apart {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // This comes first: otherwise a child could replace a descriptor that another thread opened
        // under the same number. The caller releases a lock before this: after a fork in between,
        // the child keeps the open file.
        self.note.store(FREE, SeqCst);
        // SAFETY: this is the only place that drops it, and it is not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.file) };
    }
}

/// Registers the fork handlers. Registering them twice is harmless.
fn guard() -> io::Result<()> {
    if IS_GUARDED.load(SeqCst) {
        return Ok(());
    }
    let fd = OwnedFd::from(io::pipe()?.0).into_raw_fd();
    if NOTHING.compare_exchange(FREE, fd, SeqCst, SeqCst).is_err() {
        // SAFETY: made above and not published, so no other thread has it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    // SAFETY: both functions live as long as this library, which stays loaded. If it is unloaded,
    // the system drops its handlers.
    let rc = unsafe { pthread_atfork(Some(before), None, Some(in_child)) };
    if rc != 0 {
        return Err(io::Error::from_raw_os_error(rc));
    }
    IS_GUARDED.store(true, SeqCst);
    Ok(())
}

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<unsafe extern "C" fn()>,
        after: Option<unsafe extern "C" fn()>,
        in_child: Option<unsafe extern "C" fn()>,
    ) -> std::ffi::c_int;
}

unsafe extern "C" fn before() {
    FORKS.fetch_add(1, SeqCst);
}

/// Allocates nothing and takes no locks: in the child, no other thread exists to release a lock.
unsafe extern "C" fn in_child() {
    // SAFETY: `guard` opens it before it registers this function, and it is never closed.
    let nothing = unsafe { BorrowedFd::borrow_raw(NOTHING.load(SeqCst)) };
    let mut notes = Some(&NOTES);
    while let Some(some) = notes {
        for fd in some.fds.iter().map(|fd| fd.load(SeqCst)) {
            if fd != FREE {
                // SAFETY: the descriptor of an `Apart`, which is not closed here.
                let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) });
                dup3(nothing, &mut place, DupFlags::CLOEXEC).ok();
            }
        }
        notes = some.following();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    use std::fs::OpenOptions;
    use std::io::Read;
    use std::path::Path;

    unsafe extern "C" {
        fn fork() -> i32;
        fn pause() -> i32;
    }

    /// A child process that does nothing until this is dropped.
    struct Child(Pid);

    impl Child {
        fn fork() -> Child {
            let (mut is_made, made) = io::pipe().expect("a pipe");
            // SAFETY: the child writes one byte and then waits for a signal.
            let pid = unsafe { fork() };
            if pid == 0 {
                rustix::io::write(&made, b"x").ok();
                loop {
                    // SAFETY: as above.
                    unsafe { pause() };
                }
            }
            is_made.read_exact(&mut [0]).expect("the child is there");
            Child(Pid::from_raw(pid).expect("fork"))
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            kill_process(self.0, Signal::KILL).expect("the child is killed");
            waitpid(Some(self.0), WaitOptions::empty()).expect("the child has ended");
        }
    }

    fn open(path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
    }

    fn is_free(path: &Path) -> bool {
        let file = Apart::open(|_| open(path)).expect("open");
        let is_free = file.try_lock().is_ok();
        file.unlock().expect("unlock");
        is_free
    }

    #[test]
    fn a_lock_ends_with_its_parent_although_children_live_on() {
        let tmp = tempfile::tempdir().expect("a directory");
        let paths: Vec<_> = (0..200).map(|n| tmp.path().join(n.to_string())).collect();
        let held: Vec<Apart> = paths
            .iter()
            .map(|path| Apart::open(|_| open(path)).expect("open"))
            .collect();
        held.iter().for_each(|file| file.lock().expect("lock"));
        let before = Child::fork();
        assert!(paths.iter().all(|path| !is_free(path)), "still held");
        // As if the process was killed: no lock is released explicitly.
        drop(held);
        assert!(paths.iter().all(|path| is_free(path)), "the child has none");
        drop(before);
    }

    #[test]
    fn a_file_that_is_opened_while_the_process_forks_is_opened_again() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("x");
        let mut children = Vec::new();
        let file = Apart::open(|before| {
            let file = open(&path)?;
            if before.is_none() {
                children.push(Child::fork());
            }
            Ok(file)
        });
        let file = file.expect("open");
        file.lock().expect("lock");
        assert!(!is_free(&path));
        drop(file);
        assert!(is_free(&path), "the child shares what was opened first");
    }
}
