//! What an open main file is, and what that means for its caller.
//!
//! Invariants: a file that was judged without a lock is judged again under the first SHARED,
//! because another connection can have been writing at that moment (rule S7). An empty file is
//! judged again whenever SQLite asks its size, reads or writes it, or takes a lock, until it is no
//! longer empty. A judgement is valid while the file has the same contents (see `overwritten`).

use crate::codes::code_of;
use crate::overwritten::Overwritten;
use crate::store_file::Stored;
use densite_sqlite::Code;
use densite_store::{Error, Kind};

/// What the file is.
///
/// ```text
///             empty ──────────────▶ Undecided ──first write──▶ Store
///             plain SQLite ───────▶ Plain (every method is the host's)
/// xOpen ──▶   Densite ────────────▶ Store
///             unreadable ─────────▶ Broken ──judged again──▶ any of the others
///             a wrong setting, or a foreign journal or WAL beside a Densite file ────▶ Refused
/// ```
pub(crate) enum State {
    /// Empty: it can still become plain or Densite.
    Undecided,
    /// Not a Densite file: passed through to the host.
    Plain,
    /// A Densite file.
    Store(Stored),
    /// It could not be judged, or it is a Densite file that cannot be opened.
    Broken(Error),
    /// Its URI has an invalid setting, or a foreign journal or WAL is beside it. The file itself was
    /// not touched.
    Refused(String),
}

/// What an open file is, and how certain that is.
pub(crate) struct Contents {
    state: State,
    /// It was judged under a lock, or SQLite never locks it.
    judged_locked: bool,
    overwritten: Overwritten,
}

impl Contents {
    /// For a file that is still to be judged. `unlocked`: SQLite never locks it.
    pub(crate) fn unjudged(unlocked: bool) -> Contents {
        Contents {
            state: State::Undecided,
            judged_locked: unlocked,
            overwritten: Overwritten::default(),
        }
    }

    /// For a file whose settings are wrong, with the reason.
    pub(crate) fn refused(message: String) -> Contents {
        Contents {
            state: State::Refused(message),
            ..Contents::unjudged(true)
        }
    }

    /// What the file is.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The store, if the file is a Densite file.
    pub(crate) fn store(&self) -> Option<&Stored> {
        match &self.state {
            State::Store(stored) => Some(stored),
            _ => None,
        }
    }

    /// The store, if the file is a Densite file.
    pub(crate) fn store_mut(&mut self) -> Option<&mut Stored> {
        match &mut self.state {
            State::Store(stored) => Some(stored),
            _ => None,
        }
    }

    /// The state of contents that replaced others.
    pub(crate) fn overwritten(&mut self) -> &mut Overwritten {
        &mut self.overwritten
    }

    /// SQLite has read the change counter, which is in `buf`. If SQLite can have cached pages of
    /// other contents, this changes the counter in `buf`, so that SQLite drops them.
    pub(crate) fn force_reset(&mut self, buf: &mut [u8]) {
        if self.store_mut().is_some_and(Stored::is_unproved) {
            self.overwritten.keeps_pages();
        }
        self.overwritten.forces_reset(buf);
    }

    /// Whether the file is still to be judged.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.state, State::Undecided | State::Broken(_))
    }

    /// The file's first lock was taken. Returns whether it is to be judged again. A file that is
    /// already the store's is not: checksums decided that.
    pub(crate) fn is_due_under_lock(&mut self) -> bool {
        if std::mem::replace(&mut self.judged_locked, true) {
            return self.is_pending();
        }
        !matches!(self.state, State::Store(_) | State::Refused(_))
    }

    /// Judges the file by what was found in it; `open` opens the store. Returns what is wrong, and
    /// whether that is new: it is the same again at each call for a file that stays damaged.
    pub(crate) fn judge(
        &mut self,
        found: Result<Kind, Error>,
        keep_plain: bool,
        open: impl FnOnce() -> Result<Stored, Error>,
    ) -> Option<(&Error, bool)> {
        let state = match found {
            Ok(Kind::Empty) if !keep_plain => State::Undecided,
            Ok(Kind::Empty | Kind::Other) => State::Plain,
            Ok(Kind::Densite) => match open() {
                Ok(stored) if self.overwritten.awaits(stored.view()) => {
                    State::Broken(Error::Overwritten)
                }
                Ok(stored) => State::Store(stored),
                Err(error) => State::Broken(error),
            },
            Err(error) => State::Broken(error),
        };
        if matches!(state, State::Store(_) | State::Plain) {
            self.overwritten.set_whole();
        }
        let before = match std::mem::replace(&mut self.state, state) {
            State::Broken(before) => Some(before.to_string()),
            _ => None,
        };
        match &self.state {
            State::Broken(error) => Some((error, before.as_ref() != Some(&error.to_string()))),
            _ => None,
        }
    }

    /// An empty file becomes the store's.
    pub(crate) fn become_store(&mut self, stored: Stored) {
        self.state = State::Store(stored);
    }

    /// Notes that a plain file is empty, and so can become a Densite file.
    pub(crate) fn plain_is_empty(&mut self) {
        self.state = State::Undecided;
    }

    /// Nothing may be done with the file, for this reason.
    pub(crate) fn refuse(&mut self, message: String) {
        self.state = State::Refused(message);
    }

    /// The file is closed: the store is released, and every later call fails.
    pub(crate) fn close(&mut self) {
        self.state = State::Refused(String::new());
    }

    /// Why the file at `path` cannot be used, if that will not change: a wrong setting, a foreign
    /// file beside it, or a format that is too new.
    pub(crate) fn refusal(&self, path: &str) -> Option<String> {
        match &self.state {
            State::Refused(message) => Some(message.clone()),
            State::Broken(error @ Error::NewerFormat { .. }) => Some(format!("{path}: {error}")),
            _ => None,
        }
    }

    /// The code for calls that this state cannot answer.
    pub(crate) fn useless(&self) -> Code {
        match &self.state {
            State::Broken(error) => code_of(error),
            State::Refused(_) => Code::CANTOPEN,
            State::Undecided | State::Plain | State::Store(_) => Code::INTERNAL,
        }
    }
}
