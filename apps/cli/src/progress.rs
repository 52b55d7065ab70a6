//! Shows progress on a terminal, and handles signals to stop.

use crate::args::Common;
use crate::out;
use densite_disk::wait::pause;
use densite_tools::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval between two updates of the spinner for work of unknown length.
const TURN: Duration = Duration::from_millis(100);

/// How long work goes on in silence before a spinner shows it.
const SILENCE: Duration = Duration::from_millis(500);

/// How long a phase has no estimate of the rest: much work begins slowly, with training.
const UNKNOWN: Duration = Duration::from_secs(3);

/// Shows a progress bar if stderr is a terminal, and stops the work after a signal.
pub(crate) struct Bar {
    common: Common,
    shown: bool,
    /// The bar of the current phase.
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Bar {
    /// A bar without signal handling.
    pub(crate) fn new(common: Common) -> Bar {
        let shown = !common.quiet && std::io::stderr().is_terminal();
        let bar = match shown {
            true => later("preparing"),
            false => ProgressBar::hidden(),
        };
        Bar {
            common,
            shown,
            bar,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// A bar that handles SIGINT, SIGTERM and SIGHUP: the work stops, undoes its changes and
    /// returns.
    pub(crate) fn interruptible(common: Common) -> std::io::Result<Bar> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let bar = Bar::new(common);
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&bar.stop))?;
        }
        Ok(bar)
    }
}

impl Bar {
    /// Removes the bar until the next phase.
    pub(crate) fn rest(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A spinner for the time before the first phase, which is shown only if that takes long.
fn later(name: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        .with_style(style(0))
        .with_message(name);
    let again = bar.clone();
    std::thread::spawn(move || {
        pause(SILENCE);
        if !again.is_finished() {
            again.enable_steady_tick(TURN);
        }
    });
    bar
}

/// The look of a phase; 0: of unknown length.
fn style(total: u64) -> ProgressStyle {
    // For narrow terminals: name, bar, then the three figures.
    let template = match total {
        0 => "{msg:12} {spinner} {elapsed}",
        _ => {
            "{msg:12} {bar:24} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}{left}"
        }
    };
    let left = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        if state.elapsed() >= UNKNOWN {
            let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
        }
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("left", left)
}

/// Shows on a terminal what a statement has fetched from a remote database.
pub(crate) struct Fetching(ProgressBar);

impl Fetching {
    /// Shows nothing unless `is_remote`.
    pub(crate) fn new(common: Common, is_remote: bool) -> Fetching {
        if !is_remote || common.quiet || !std::io::stderr().is_terminal() {
            return Fetching(ProgressBar::hidden());
        }
        let fetched = |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            let (requests, bytes) = densite_vfs::remote_cost();
            let (requests, bytes) = (out::thousands(requests), indicatif::BinaryBytes(bytes));
            let _ = write!(out, "{bytes} in {requests} requests");
        };
        let style = ProgressStyle::with_template("fetching {spinner} {fetched}, {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner())
            .with_key("fetched", fetched);
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let bar = bar.with_style(style);
        bar.enable_steady_tick(TURN);
        Fetching(bar)
    }

    /// Removes the line. A terminal shows rows in its place.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.end();
    }
}

impl Progress for Bar {
    fn phase(&mut self, name: &'static str, total: u64) {
        self.bar.finish_and_clear();
        if !self.shown {
            return;
        }
        self.bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr())
            .with_style(style(total))
            .with_message(name);
        if total == 0 {
            self.bar.enable_steady_tick(TURN);
        }
    }

    fn done(&mut self, done: u64) {
        self.bar.set_position(done);
    }

    fn resumed(&mut self, done: u64) {
        self.bar.set_position(done);
        // The estimate of the speed begins at this position.
        self.bar.tick();
        self.bar.reset_eta();
    }

    fn total(&mut self, total: u64) {
        self.bar.set_length(total);
    }

    fn message(&mut self, text: &str) {
        self.bar.suspend(|| out::message(self.common, text));
    }

    fn cancelled(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar() -> Bar {
        let mut bar = Bar::new(Common {
            json: false,
            quiet: true,
            yes: false,
        });
        bar.bar = ProgressBar::with_draw_target(Some(100 << 30), ProgressDrawTarget::hidden());
        bar
    }

    #[test]
    fn what_an_earlier_run_has_done_is_no_speed() {
        let mut bar = bar();
        bar.resumed(50 << 30);
        std::thread::sleep(Duration::from_millis(20));
        bar.done((50 << 30) + (1 << 20));
        let speed = bar.bar.per_sec();
        assert!(speed < (100 << 20) as f64, "{speed}");
        bar.total(200 << 30);
        assert_eq!(bar.bar.length(), Some(200 << 30));
        assert_eq!(bar.bar.position(), (50 << 30) + (1 << 20));
    }
}
