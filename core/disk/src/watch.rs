//! Waiting until any process writes to or closes a file.
//!
//! Only Linux supports this (inotify), and only for changes that this machine's kernel makes. Each
//! watch takes one of the user's inotify instances, usually 128. So a watch may be unavailable, and
//! a waiting caller must also poll now and then.

use crate::error::Op;
use crate::file_name::check_name;
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
            // A signal ends the wait too.
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

/// Watched files of one directory.
#[derive(Debug)]
pub struct Watch {
    kernel: kernel::Kernel,
    dir: PathBuf,
}

impl Watch {
    /// A watch without files.
    pub(crate) fn of(dir: &Path) -> Option<Watch> {
        Some(Watch {
            kernel: kernel::Kernel::new()?,
            dir: dir.to_owned(),
        })
    }

    /// Also watches writes to this file; returns whether it does. A write from now on ends a wait,
    /// even a wait that begins later.
    pub fn add(&self, name: &str) -> bool {
        self.add_event(name, Event::Write)
    }

    /// Watches for a process that closes this file after opening it for writing, or that ends. The
    /// event comes just before the locks of that process are released.
    pub fn add_closing(&self, name: &str) -> bool {
        self.add_event(name, Event::Close)
    }

    fn add_event(&self, name: &str, event: Event) -> bool {
        check_name(name, Op::Open).is_ok() && self.kernel.add(&self.dir.join(name), event)
    }

    /// Waits for an event on one of the files since the last wait, for [`Watch::ring`], or for at
    /// most `time`. Returns whether there was an event. Only one thread may wait at a time.
    pub fn wait(&self, time: Duration) -> bool {
        self.kernel.wait(time)
    }

    /// Ends the current wait, or the next one.
    pub fn ring(&self) {
        self.kernel.ring();
    }
}
