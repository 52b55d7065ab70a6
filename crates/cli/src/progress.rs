//! Progress on a terminal, and the wish to stop.

use crate::args::Common;
use crate::out;
use densite_tools::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two turns of the sign that shows work of unknown length.
const TURN: Duration = Duration::from_millis(100);

/// Shows a bar on stderr when that is a terminal; stops when a signal asked for it.
pub(crate) struct Bar {
    common: Common,
    shown: bool,
    /// That of the present phase.
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Bar {
    /// A bar that nothing stops.
    pub(crate) fn new(common: Common) -> Bar {
        let shown = !common.quiet && std::io::stderr().is_terminal();
        Bar {
            common,
            shown,
            bar: ProgressBar::hidden(),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// A bar that SIGINT, SIGTERM and SIGHUP stop: the work notices, undoes what it began and returns.
    pub(crate) fn interruptible(common: Common) -> std::io::Result<Bar> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let bar = Bar::new(common);
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&bar.stop))?;
        }
        Ok(bar)
    }
}

impl Progress for Bar {
    fn phase(&mut self, name: &'static str, total: u64) {
        self.bar.finish_and_clear();
        if !self.shown {
            return;
        }
        // Some terminals are narrow: name, bar, then the three figures a user asks for.
        let template = match total {
            0 => "{msg:12} {spinner} {elapsed}",
            _ => {
                "{msg:12} {bar:24} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
            }
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr())
            .with_style(style)
            .with_message(name);
        if total == 0 {
            self.bar.enable_steady_tick(TURN);
        }
    }

    fn done(&mut self, done: u64) {
        self.bar.set_position(done);
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
