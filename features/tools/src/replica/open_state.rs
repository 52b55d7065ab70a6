//! Whether a database that is shipped is open.
//!
//! An open connection to a database in WAL mode holds SHARED, so a vacuum or a conversion has to
//! wait for it. And it takes memory. So a database without changes is closed, and its files are
//! looked at.

use super::file_stamps::Files;
use super::shipped_database::Database;
use crate::error::Result;
use densite_replica::Step;
use densite_sqlite::Api;
use std::path::Path;
use std::time::{Duration, Instant};

/// A database without changes is closed after this time: later than its deltas are merged.
const REST: Duration = Duration::from_secs(12);

/// How closely a closed database is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It is opened if its files have changed.
    AtFiles,
    /// It is opened.
    Inside,
}

/// See the module's documentation.
pub(super) enum State {
    /// It is open, and has not changed since this moment, if one is given.
    Open(Box<Database>, Option<Instant>),
    /// It is closed.
    Closed {
        /// What its files looked like.
        files: Files,
        /// Whether a change after that gave them other time stamps. Otherwise the database is
        /// looked at once more when they are old enough.
        is_certain: bool,
        /// Readers or writers hold back a restore point: it is tried in each round.
        is_held_back: bool,
    },
}

impl State {
    /// An open database. `rests`: it is closed at once if it does not change, so that a process does
    /// not have a thousand databases open at its start.
    pub(super) fn open(database: Database, rests: bool) -> State {
        State::Open(Box::new(database), since_long(rests))
    }

    /// The database, opened again if it can have changed; `None` if it has not.
    ///
    /// # Errors
    /// Those of opening.
    pub(super) fn database(
        &mut self,
        api: Api,
        db: &Path,
        look: Look,
    ) -> Result<Option<&mut Database>> {
        if let State::Closed {
            files,
            is_certain,
            is_held_back,
        } = self
        {
            let now = Files::of(db);
            let is_same = now == *files;
            let looks_same = is_same && (*is_certain || !now.are_settled()) && !*is_held_back;
            if looks_same && look == Look::AtFiles {
                return Ok(None);
            }
            // Without a change it is closed again at once.
            let rests = is_same || *is_held_back;
            *self = State::open(Database::open(api, db)?, rests);
        }
        match self {
            State::Open(database, _) => {
                database.follow_name()?;
                Ok(Some(database))
            }
            State::Closed { .. } => Ok(None),
        }
    }

    /// Notes what a step found. Closes the database after a while without changes. Also if a restore
    /// point is held back for so long: what holds it back can be a vacuum, which waits until the
    /// database is closed.
    pub(super) fn rest(&mut self, step: &Step, db: &Path) {
        let State::Open(_, since) = self else {
            return;
        };
        let is_held_back = match step {
            Step::Idle => false,
            Step::HeldBack => true,
            Step::Shipped { .. } | Step::Compacted { .. } => {
                *since = None;
                return;
            }
        };
        if since.get_or_insert_with(Instant::now).elapsed() < REST {
            return;
        }
        // The last close of a WAL database removes its WAL.
        *self = State::Closed {
            files: Files::of(db),
            is_certain: false,
            is_held_back,
        };
        let files = Files::of(db);
        *self = State::Closed {
            is_certain: files.are_settled(),
            files,
            is_held_back,
        };
    }
}

/// A moment so long ago that a database without changes is closed; `None` if it does not rest.
fn since_long(rests: bool) -> Option<Instant> {
    rests.then(|| Instant::now().checked_sub(REST)).flatten()
}
