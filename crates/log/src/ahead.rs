//! The thread that prepares the next segment's file while the present one fills.

use crate::files::Files;
use densite_disk::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between the mebibytes of a segment that is prepared.
const PAUSE: Duration = Duration::from_millis(5);

/// See the module. One at a time.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The segment while which a free segment was last asked for.
    asked: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    ends: Arc<AtomicBool>,
}

impl Ahead {
    /// Prepares a file of this size, unless that was asked for in this segment. Without a thread, or without room for it, the next segment grows as it is written.
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
        // One that is still at it makes what is asked for.
        let mut thread = self.thread.lock();
        if thread.as_ref().is_none_or(JoinHandle::is_finished) {
            *thread = builder.spawn(prepare).ok();
        }
    }

    /// Ends it: after this it makes no file any more. What it had begun is removed.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            thread.join().ok();
        }
    }
}
