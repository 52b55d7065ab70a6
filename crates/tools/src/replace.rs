//! A new file in the place of a database that is held alone.
//!
//! A rename replaces the file ([`crate::temp`]), under EXCLUSIVE. A process can have the file open
//! without a lock. It would go on with the old file, and find the journal or WAL of the new one by
//! name. Where the system shows such a process, it counts as one that holds a lock: when the work
//! begins ([`wait_for_others`]), and before the rename. Other processes read the old file, which is
//! retired. The VFS keeps them away from the new journal and WAL (`crates/vfs/src/place.rs`).
//! docs/decisions/vacuum.md has the details, and what plain SQLite does.

use crate::error::{Error, Result};
use crate::holders::openers;
use crate::lock::patiently;
use crate::progress::Progress;
use crate::source::Source;
use crate::target::{Target, still_there};
use crate::temp::Temp;
use densite_sqlite::Api;
use densite_vfs::pause;
use std::time::Duration;

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
