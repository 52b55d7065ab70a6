//! The thread that prepares the file of the next segment while the current segment fills.

use crate::files::Files;
use densite_disk::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after each mebibyte of a prepared segment.
const PAUSE: Duration = Duration::from_millis(5);

/// See the module. There is at most one thread at a time.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The segment during which a free segment was last requested.
    asked: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    ends: Arc<AtomicBool>,
}

impl Ahead {
    /// Prepares a file of this size in the background, at most once for each segment. If no thread
    /// can be started or the disk has no room, the next segment grows as it is written.
    pub(crate) fn ask(&self, files: &Files, segment: u64, bytes: u64) {
        if self.asked.swap(segment, Ordering::Relaxed) == segment {
            return;
        }
        let (files, ends) = (files.clone(), self.ends.clone());
        let prepare = move || {
            let ends = || ends.load(Ordering::Acquire);
            files.prepare_free_segment(bytes, PAUSE, &ends).ok();
        };
        let builder = std::thread::Builder::new().name("densite-log".into());
        // A thread that is still running already prepares the requested file.
        let mut thread = self.thread.lock();
        if thread.as_ref().is_none_or(JoinHandle::is_finished) {
            *thread = builder.spawn(prepare).ok();
        }
    }

    /// Ends the thread and removes an unfinished file. After this, no file is prepared.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            thread.join().ok();
        }
    }
}
