//! Named points at which race tests stop a connection.
//!
//! They work only in builds with debug assertions or the feature `pause`; in other builds a call
//! does nothing. A disarmed call is one relaxed load.
//!
//! Within a process a test arms a point with a callback ([`arm`]). For a child process the test
//! sets an environment variable: with `DENSITE_PAUSE=point:file` it creates `file.reached` at
//! `point` and waits until `file` exists.

#[cfg(any(debug_assertions, feature = "pause"))]
mod armed {
    use densite_disk::sync::Mutex;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::time::Duration;

    type Callback = Arc<dyn Fn() + Send + Sync>;

    const UNKNOWN: u8 = 0;
    const DISARMED: u8 = 1;
    const ARMED: u8 = 2;

    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
    static POINTS: Mutex<Vec<(String, Callback)>> = Mutex::new(Vec::new());

    /// Passes a point.
    #[inline]
    pub fn at(point: &str) {
        if STATE.load(Ordering::Relaxed) != DISARMED {
            at_armed(point);
        }
    }

    #[cold]
    fn at_armed(point: &str) {
        if STATE.load(Ordering::Relaxed) == UNKNOWN {
            read_environment();
        }
        let found = {
            let points = POINTS.lock();
            points
                .iter()
                .find(|(name, _)| name == point)
                .map(|(_, call)| Arc::clone(call))
        };
        // Called without the lock, because a callback can run SQL that passes points itself.
        if let Some(call) = found {
            call();
        }
    }

    fn read_environment() {
        let mut points = POINTS.lock();
        if STATE.load(Ordering::Relaxed) != UNKNOWN {
            return;
        }
        if let Ok(value) = std::env::var("DENSITE_PAUSE")
            && let Some((point, file)) = value.split_once(':')
        {
            let file = file.to_string();
            let wait = move || {
                // A test waits for this file. If it cannot be created, the test times out.
                let _ = std::fs::write(format!("{file}.reached"), b"");
                while !Path::new(&file).exists() {
                    densite_disk::wait::pause(Duration::from_millis(1));
                }
            };
            points.push((point.to_string(), Arc::new(wait)));
        }
        let state = if points.is_empty() { DISARMED } else { ARMED };
        STATE.store(state, Ordering::Relaxed);
    }

    /// Runs `call` whenever `point` is passed, until [`disarm`].
    pub fn arm(point: &str, call: impl Fn() + Send + Sync + 'static) {
        let mut points = POINTS.lock();
        points.retain(|(name, _)| name != point);
        points.push((point.to_string(), Arc::new(call)));
        STATE.store(ARMED, Ordering::Relaxed);
    }

    /// Removes a point's callback.
    pub fn disarm(point: &str) {
        let mut points = POINTS.lock();
        points.retain(|(name, _)| name != point);
        if points.is_empty() {
            STATE.store(DISARMED, Ordering::Relaxed);
        }
    }
}

#[cfg(any(debug_assertions, feature = "pause"))]
pub use armed::{arm, at, disarm};

/// Passes a point. Does nothing in this build.
#[cfg(not(any(debug_assertions, feature = "pause")))]
#[inline(always)]
pub fn at(_point: &str) {}
