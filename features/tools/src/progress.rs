//! Reports the progress of long work to its caller, and asks whether to continue.

/// Receives the progress of long work. Every method has a default, so [`Silent`] is empty.
pub trait Progress {
    /// A new phase begins ("compressing", "verifying"). `total` has the unit of [`Progress::done`],
    /// which is bytes unless the phase says otherwise; 0 if unknown.
    fn phase(&mut self, name: &'static str, total: u64) {
        let _ = (name, total);
    }
    /// `done` of the phase's total is complete.
    fn done(&mut self, done: u64) {
        let _ = done;
    }
    /// So much of the phase's total was complete before it began, and says nothing about its speed.
    fn resumed(&mut self, done: u64) {
        self.done(done);
    }
    /// The phase has another total than it began with.
    fn total(&mut self, total: u64) {
        let _ = total;
    }
    /// A message for the user that is not an error.
    fn message(&mut self, text: &str) {
        let _ = text;
    }
    /// Whether to stop. Called at least once for each MiB of work.
    fn cancelled(&mut self) -> bool {
        false
    }
}

/// Ignores all reports and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {}
