//! Waiting until a file is written to or closed, by whatever process.
//!
//! Only Linux has it (inotify), and only for files of this machine's kernel; each watch takes one of the user's instances, of which there are 128 as a rule. So there may be none, and whoever
//! waits looks by itself now and then.

use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(target_os = "linux")]
mod kernel {
    use super::Event;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::{read, write};
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) struct Kernel {
        files: OwnedFd,
        bell: OwnedFd,
    }

    impl Kernel {
        pub(super) fn new() -> Option<Kernel> {
            Some(Kernel {
                files: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?,
                bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?,
            })
        }

        pub(super) fn add(&self, path: &Path, event: Event) -> bool {
            let event = match event {
                Event::Write => WatchFlags::MODIFY,
                Event::Close => WatchFlags::CLOSE_WRITE,
            };
            let flags = event | WatchFlags::DONT_FOLLOW;
            inotify::add_watch(&self.files, path, flags).is_ok()
        }

        pub(super) fn wait(&self, time: Duration) -> bool {
            let mut both = [&self.files, &self.bell].map(|fd| PollFd::new(fd, PollFlags::IN));
            let time = Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            };
            // Interrupted by a signal it is over as well.
            poll(&mut both, Some(&time)).ok();
            let mut events = [0u8; 4096];
            let mut has_event = false;
            while read(&self.files, &mut events).is_ok_and(|got| got > 0) {
                has_event = true;
            }
            read(&self.bell, &mut [0u8; 8]).ok();
            has_event
        }

        pub(super) fn ring(&self) {
            write(&self.bell, &1u64.to_ne_bytes()).ok();
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::path::Path;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) struct Kernel;

    impl Kernel {
        pub(super) fn new() -> Option<Kernel> {
            None
        }
        pub(super) fn add(&self, _: &Path, _: super::Event) -> bool {
            false
        }
        pub(super) fn wait(&self, _: Duration) -> bool {
            false
        }
        pub(super) fn ring(&self) {}
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Write,
    Close,
}

/// Files of one directory that are watched.
#[derive(Debug)]
pub struct Watch {
    kernel: kernel::Kernel,
    dir: PathBuf,
}

impl Watch {
    /// Of no file yet.
    pub(crate) fn of(dir: &Path) -> Option<Watch> {
        Some(Watch {
            kernel: kernel::Kernel::new()?,
            dir: dir.to_owned(),
        })
    }

    /// Watches writes to this file, too; whether it does. What is written from now on ends a wait, also one that begins later.
    pub fn add(&self, name: &str) -> bool {
        self.add_event(name, Event::Write)
    }

    /// Watches this file for a process that closes it after it opened it for writing, or ends. The event comes just before the locks of that process are released.
    pub fn add_closing(&self, name: &str) -> bool {
        self.add_event(name, Event::Close)
    }

    fn add_event(&self, name: &str, event: Event) -> bool {
        crate::real::check_name(name, crate::Op::Open).is_ok()
            && self.kernel.add(&self.dir.join(name), event)
    }

    /// Waits until one of the files had an event since the last wait, until [`Watch::ring`], or so long. Returns whether there was an event. For one thread at a time.
    pub fn wait(&self, time: Duration) -> bool {
        self.kernel.wait(time)
    }

    /// Ends the wait, or the next one.
    pub fn ring(&self) {
        self.kernel.ring();
    }
}
