//! A new file in the place of a database that is held alone.
//!
//! The file is replaced by a rename ([`crate::temp`]), under EXCLUSIVE. A process that has it open without a lock would go on with the old
//! file and take the new one's journal or WAL for its own, by their names: where the system tells of it, it counts as one that holds a lock,
//! when the work begins ([`wait_for_others`]) and before the rename. Others (of other users, connections of this process, one that comes between that look and the
//! rename) read the old file, which is retired. Our VFS keeps them away from the new one's journal and WAL (`crates/vfs/src/place.rs`); of plain SQLite they
//! are for the documentation: it refuses them to write as long as nobody has begun a journal or WAL of the new one.

use crate::error::{Error, Result};
use crate::holders::openers;
use crate::paths::Target;
use crate::progress::Progress;
use crate::source::{Source, still_there};
use crate::temp::Temp;
use densite_sqlite::Api;
use densite_vfs::pause;
use std::time::{Duration, Instant};

/// Between two looks at who has the file open.
const LOOK_MS: i32 = 10;

/// Makes `new` the content of `target`, which `source` holds alone.
pub(crate) fn replace(
    api: Api,
    source: &Source,
    target: &Target,
    new: Temp,
    wait: Duration,
    progress: &mut dyn Progress,
) -> Result<()> {
    // Who came while it was written waits for our lock, with the old file open.
    wait_for_others(api, target, wait)?;
    let done = new.replace(target);
    if done.is_err() && still_there(target).is_ok() {
        return done;
    }
    // From here on the old file has no name, whatever failed after that.
    pause::at("replaced");
    // One that came just now is to give up waiting before the lock goes.
    let _ = wait_for_others(api, target, wait);
    if source.retire().is_err() {
        progress.message(&format!(
            "programs that opened {} before and begin to write only now must be closed first",
            target.given.display()
        ));
    }
    done
}

/// Waits until no other process has the file open that may be known of.
pub(crate) fn wait_for_others(api: Api, target: &Target, wait: Duration) -> Result<()> {
    patiently(api, wait, LOOK_MS, || match openers(target.inode) {
        by if by.is_empty() => Ok(()),
        by => Err(Error::Locked {
            path: target.given.clone(),
            by,
        }),
    })
}

/// Tries again for so long what finds the database locked.
pub(crate) fn patiently<T>(
    api: Api,
    wait: Duration,
    pause_ms: i32,
    mut f: impl FnMut() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + wait;
    loop {
        match f() {
            Err(Error::Locked { .. }) if Instant::now() < deadline => api.sleep_ms(pause_ms),
            done => return done,
        }
    }
}
