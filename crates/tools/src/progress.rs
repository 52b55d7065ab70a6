//! How long work tells its caller where it is, and asks whether to go on.

/// Told about the progress of long work; every method has a default, so that [`Silent`] is empty.
pub trait Progress {
    /// A new phase begins ("compressing", "verifying"); `total` is in the unit of
    /// [`Progress::done`], bytes unless the phase says otherwise, 0 when not known.
    fn phase(&mut self, name: &'static str, total: u64) {
        let _ = (name, total);
    }
    /// `done` of the phase's total are done.
    fn done(&mut self, done: u64) {
        let _ = done;
    }
    /// Something worth telling a user that is no error.
    fn message(&mut self, text: &str) {
        let _ = text;
    }
    /// Whether to stop; asked at least once for each MiB of work.
    fn cancelled(&mut self) -> bool {
        false
    }
}

/// Says nothing and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {}
