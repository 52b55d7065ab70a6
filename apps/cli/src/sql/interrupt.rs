//! Signals that stop the statement that runs, and not the process: Ctrl-C at the prompt.

use crate::failure::Failure;
use rusqlite::{Connection, InterruptHandle};
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Catches SIGINT, once it is asked to.
#[derive(Default)]
pub(crate) struct Interrupts {
    /// Whether a signal has come since the last command began; `None` if signals end the process.
    came: Option<Arc<AtomicBool>>,
    /// The connection whose statement they stop.
    handle: Option<Arc<Mutex<InterruptHandle>>>,
}

impl Interrupts {
    /// From now on one of the signals stops the connection's statement.
    pub(crate) fn catch(&mut self, db: &Connection, signals: &[c_int]) -> Result<(), Failure> {
        let handle = Arc::new(Mutex::new(db.get_interrupt_handle()));
        self.handle = Some(Arc::clone(&handle));
        let mut signals = Signals::new(signals)?;
        let came = Arc::new(AtomicBool::new(false));
        self.came = Some(Arc::clone(&came));
        std::thread::Builder::new()
            .name("densite-interrupt".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    came.store(true, Ordering::Relaxed);
                    handle
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .interrupt();
                }
            })?;
        Ok(())
    }

    /// From now on the signals stop the statements of another connection.
    pub(crate) fn follow(&mut self, db: &Connection) {
        if let Some(handle) = &self.handle {
            *handle.lock().unwrap_or_else(PoisonError::into_inner) = db.get_interrupt_handle();
        }
    }

    /// Whether signals stop a statement instead of the process.
    pub(crate) fn are_caught(&self) -> bool {
        self.came.is_some()
    }

    /// Forgets earlier signals, at the beginning of a command.
    pub(crate) fn clear(&self) {
        if let Some(came) = &self.came {
            came.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a signal has come since.
    pub(crate) fn has_come(&self) -> bool {
        let came = self.came.as_ref();
        came.is_some_and(|came| came.load(Ordering::Relaxed))
    }
}
