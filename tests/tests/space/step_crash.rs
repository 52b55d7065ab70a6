//! Kills and power cuts, during a step or after it.

use rand::RngExt as _;

use super::Durable;
use super::changes::content;
use super::run::Run;

impl Run<'_> {
    /// A step with a crash during it or after it: a kill, which loses no written data, or a power
    /// cut.
    pub(crate) fn crash(&mut self) {
        let disk = self.host.disk();
        let acknowledged = self.states.len();
        let inside = self.rng.random_range(0..3) > 0;
        if inside {
            disk.cut_at_change(disk.changes() + self.rng.random_range(1..60));
        }
        let before = disk.changes();
        let done = if inside { self.step() } else { Ok(()) };
        let whole = done.is_ok() && !disk.is_dead();
        assert!(
            whole || disk.is_dead(),
            "{done:?} after {} changes",
            disk.changes() - before
        );
        let power = self.rng.random_range(0..3) > 0;
        let after = if power || !whole {
            self.count("power cuts");
            disk.power_cut(self.rng.random())
        } else {
            self.count("kills");
            disk.snapshot()
        };
        drop(self.reader.take());
        drop(self.db.take());
        assert_eq!(
            self.host.open_files(),
            0,
            "files are open although every connection is closed"
        );
        self.host.reboot(after);
        let found =
            content(self.open().expect("opens after a crash")).expect("reads after a crash");
        // A power cut after the step keeps all acknowledged states. One during the step keeps all
        // states before it.
        let safe = match self.kind.durable {
            _ if !power && whole => self.states.len() - 1,
            Durable::Last => {
                (if whole {
                    self.states.len()
                } else {
                    acknowledged
                }) - 1
            }
            Durable::LastTwo => (if whole {
                self.states.len()
            } else {
                acknowledged
            })
            .saturating_sub(2),
            Durable::Any => 0,
        };
        let at = self.states[safe..].iter().rposition(|s| *s == found);
        assert!(
            at.is_some(),
            "after a crash: none of the {} states that are possible",
            self.states.len() - safe
        );
        let db = self.db.as_ref().expect("open");
        let sound: String = db
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .expect("checks");
        assert_eq!(sound, "ok");
        // Recovery may not be durable before the next commit. So after the next crash the state can
        // be this one again, but not an earlier one.
        let from = safe;
        self.states.drain(..from);
        self.states.push(found);
    }
}
