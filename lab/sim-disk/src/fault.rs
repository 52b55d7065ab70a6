//! Calls that fail, by countdown: "the n-th write from now", once or forever.

use densite_disk::{ErrorKind, Op};

/// A set of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpSet(u16);

impl OpSet {
    /// Every call.
    pub const ALL: OpSet = OpSet(u16::MAX);

    /// The given calls.
    pub const fn of(ops: &[Op]) -> OpSet {
        let mut bits = 0;
        let mut rest = ops;
        while let [op, tail @ ..] = rest {
            bits |= 1 << *op as u16;
            rest = tail;
        }
        OpSet(bits)
    }

    /// Whether `op` is one of them.
    pub const fn has(self, op: Op) -> bool {
        self.0 & (1 << op as u16) != 0
    }
}

impl From<Op> for OpSet {
    fn from(op: Op) -> OpSet {
        OpSet::of(&[op])
    }
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// `EIO`.
    Io,
    /// `ENOSPC`.
    Full,
}

/// How often a fault strikes after its countdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// At one call; later ones succeed.
    Once,
    /// At every matching call until [`clear_faults`](super::SimDisk::clear_faults).
    Forever,
}

/// Calls that fail. Build it with [`Fault::new`]; a fault belongs to one disk.
#[derive(Debug, Clone)]
pub struct Fault {
    /// How they fail.
    pub kind: FaultKind,
    /// Which calls count and fail.
    pub on: OpSet,
    /// Matching calls that still succeed before the first failure.
    pub after: u64,
    /// Once or forever.
    pub times: Times,
    /// Only calls on paths with this suffix; `None` for all.
    pub path_suffix: Option<String>,
    /// How many bytes a failing write still writes.
    pub prefix: usize,
}

impl Fault {
    /// The next matching call fails, once, and changes nothing.
    pub fn new(kind: FaultKind, on: impl Into<OpSet>) -> Fault {
        Fault {
            kind,
            on: on.into(),
            after: 0,
            times: Times::Once,
            path_suffix: None,
            prefix: 0,
        }
    }

    /// Lets `after` matching calls succeed first.
    pub fn after(mut self, after: u64) -> Fault {
        self.after = after;
        self
    }

    /// Strikes at every matching call from then on.
    pub fn forever(mut self) -> Fault {
        self.times = Times::Forever;
        self
    }

    /// Strikes only files (and, for directory syncs, directories) whose path ends in `suffix`.
    pub fn on_path(mut self, suffix: &str) -> Fault {
        self.path_suffix = Some(suffix.to_owned());
        self
    }

    /// A failing write still writes its first `bytes`.
    pub fn with_prefix(mut self, bytes: usize) -> Fault {
        self.prefix = bytes;
        self
    }
}

/// A fault that strikes now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strike {
    pub(super) kind: FaultKind,
    pub(super) prefix: usize,
}

impl Strike {
    pub(super) fn error_kind(self) -> ErrorKind {
        match self.kind {
            FaultKind::Io => ErrorKind::Io,
            FaultKind::Full => ErrorKind::Full,
        }
    }
}

/// The faults of one disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    armed: Vec<Fault>,
    pub(super) hits: u64,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Fault) {
        self.armed.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.armed.clear();
    }

    /// Counts a call down in every fault that it matches. The first one that is due strikes.
    pub(super) fn check(&mut self, op: Op, path: &str) -> Option<Strike> {
        let mut strike = None;
        self.armed.retain_mut(|fault| {
            let matches = fault.on.has(op)
                && fault
                    .path_suffix
                    .as_ref()
                    .is_none_or(|suffix| path.ends_with(suffix));
            if !matches || strike.is_some() {
                return true;
            }
            if fault.after > 0 {
                fault.after -= 1;
                return true;
            }
            strike = Some(Strike {
                kind: fault.kind,
                prefix: fault.prefix,
            });
            fault.times == Times::Forever
        });
        self.hits += u64::from(strike.is_some());
        strike
    }
}
