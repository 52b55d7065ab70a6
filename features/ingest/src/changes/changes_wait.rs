//! Waiting for changes that any process commits: `densite_changes_wait`.
//!
//! A commit writes to the database or its WAL. So these files are watched, and the database is read
//! after each write. A commit can be seen a moment after its last write, and some file systems
//! report no writes. So it is also read every few milliseconds, less often the longer nothing
//! happens.

use super::{queue, subscribers};
use crate::storage::{FORMS, StorageBackend};
use crate::waiting::self_block::holds_main;
use densite_disk::Watch;
use densite_disk::wait::{Deadline, Retry, pause};
use densite_sqlite::{Code, Connection, Error, Result};
use std::path::Path;
use std::time::Duration;

/// The pause after a write.
const PAUSE: Duration = Duration::from_micros(300);
/// The shortest interval between two reads,
const POLL_MIN: Duration = Duration::from_millis(2);
/// the longest one if the files cannot be watched,
const POLL_MAX: Duration = Duration::from_millis(200);
/// and if they are. In between, the interval is an eighth of the time without news.
const LOOK: Duration = Duration::from_millis(500);

/// The files of a database whose writes can be commits.
struct Files {
    watch: Option<Watch>,
    names: Vec<String>,
}

impl Files {
    fn of(connection: &Connection, storage: &dyn StorageBackend) -> Files {
        let path = connection.filename(c"main").unwrap_or_default();
        let (parent, name) = (Path::new(&path).parent(), Path::new(&path).file_name());
        let watch = parent.and_then(|parent| storage.dir(parent).watch());
        let name = name.map(|name| name.to_string_lossy().into_owned());
        let names = name.map_or(Vec::new(), |name| {
            let wals = FORMS.iter().map(|form| format!("{name}{}", form.wal));
            wals.chain([name.clone()]).collect()
        });
        Files { watch, names }
    }

    /// Begins to watch. The caller reads the database after this. A WAL can be made at any time, so
    /// this is called before each read.
    fn listen(&self) -> bool {
        let add = |watch: &Watch| self.names.iter().filter(|name| watch.add(name)).count();
        self.watch.as_ref().map_or(0, add) > 0
    }

    /// Waits for a write, or for `time`. Returns whether there was a write.
    fn wait(&self, time: Duration) -> bool {
        match &self.watch {
            Some(watch) => watch.wait(time),
            None => {
                pause(time);
                false
            }
        }
    }
}

/// Waits until there is a change that the subscriber has not acknowledged. Returns the number of
/// such changes; 0 after the deadline.
///
/// # Errors
/// SQLite's, also if the connection was interrupted; no such subscriber; a transaction that is open,
/// because it does not see later changes.
pub(super) fn wait(
    connection: &Connection,
    storage: &dyn StorageBackend,
    name: &str,
    until: Deadline,
) -> Result<i64> {
    let files = Files::of(connection, storage);
    let mut quiet = Retry::until(until);
    loop {
        let is_watched = files.listen();
        match unacknowledged(connection, name) {
            Ok(0) => {}
            // A writer of a rollback mode keeps readers away for a moment.
            Err(e) if e.is_busy() => {}
            found => return found,
        }
        if holds_main(connection) {
            return Err(Error::new(
                Code::LOCKED,
                "densite_changes_wait: this connection has a transaction open, in which it sees no later changes; end it first",
            ));
        }
        if until.is_over() {
            return Ok(0);
        }
        let longest = if is_watched { LOOK } else { POLL_MAX };
        if files.wait(quiet.between(POLL_MIN, longest).next_pause()) {
            quiet = Retry::until(until);
            // Writers that never pause must not make this thread read all the time.
            pause(PAUSE.min(until.left()));
        }
    }
}

fn unacknowledged(connection: &Connection, name: &str) -> Result<i64> {
    let position = subscribers::position(connection, name)?;
    Ok(queue::last(connection)? - position)
}
