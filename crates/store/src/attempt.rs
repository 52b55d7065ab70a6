//! An attempt at a commit that was not published must never be taken for a commit (rule 8).
//!
//! An attempt whose trailer is written and whose tip is not (the write failed, the process was killed) is whole: it follows the newest commit
//! as a published one would. Recovery after a power cut cannot tell them apart where the tip is ahead of what survived, or torn.
//!
//! Invariant: while a writer writes behind a commit, no combination of what the file held since its last sync has another whole attempt there.
//! So before its first byte the writer looks. If an attempt is whole in the file, it writes a void record over the attempt's
//! first record and syncs; then it writes. A void record may not be durable yet: whoever finds one does the same.
//! What is not whole in the file cannot be whole on the disk: the disk has no more of an attempt than was written of it. Cutting the file's end would break that, so whoever cuts looks first, too.
//!
//! A transaction can begin with the same record as an attempt that is void, and would put it back in place. So no number is given to two attempts: every
//! record names the one it was written in, and the void record has the number of what was there.
//!
//! An attempt that fails can be made again with more pages. It keeps its frames, so its old trailer is made void and not its first record.

use crate::chain::{self, Next};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::format::TIP_OFF;
use crate::format::record::{self, RECORD_LEN};
use crate::format::tip::{TIP_LEN, Tip};
use crate::recover::read_tip;
use crate::shared::Shared;
use densite_disk::{File, SyncKind};

/// Bytes that are read to find out whether an attempt is whole; a longer one counts as whole. So a killed bulk load costs one sync, not a scan.
const MOST_READ: u64 = 4 << 20;

/// Each attempt takes one number more than all before it. What has a number so far ahead is no record.
const MOST_ATTEMPTS: u64 = 1 << 32;

/// Makes an attempt void, durably, that another writer left behind the newest commit, or this one gave up. For whoever has the writer's right,
/// before anything is written there or cut off.
///
/// # Errors
/// I/O.
pub(crate) fn void_left(connection: &mut Connection, shared: &Shared) -> Result<()> {
    let (tip, next_off) = {
        let state = shared.state.read();
        (state.tip, state.next_off)
    };
    let Some(left) = Left::behind(connection.open.file(), shared.salt, &tip, next_off)? else {
        return Ok(());
    };
    shared.writer.lock().attempts.tried(left.number);
    if left.may_be_whole {
        void(connection, shared, next_off, left.number)?;
    }
    Ok(())
}

/// Makes an attempt of this connection void, durably, if it got as far as its trailer, `tried`. Before anything more is written for the
/// transaction, which began when the tip block was `before`.
///
/// # Errors
/// I/O.
pub(crate) fn void_own(
    connection: &mut Connection,
    tried: &Tip,
    before: &[u8; TIP_LEN],
) -> Result<()> {
    let shared = connection.open.shared()?;
    let file = connection.open.file();
    // A tip that was torn, and could not be put back then: whoever looked meanwhile took the attempt for the newest commit.
    if Tip::decode(&read_tip(file)?, shared.salt).is_none() {
        file.write_at(before, TIP_OFF)?;
        shared.refresh(file)?;
    }
    match chain::read_trailer(file, shared.salt, tried) {
        Ok(_) => void(connection, &shared, tried.off, tried.commit),
        Err(Error::Corrupt(_)) => Ok(()),
        Err(e) => Err(e),
    }
}

fn void(connection: &mut Connection, shared: &Shared, off: u64, number: u64) -> Result<()> {
    (connection.open.file()).write_at(&record::void(number), off)?;
    let tip = shared.state.read().tip;
    (connection.sync_rewritten(shared, tip, SyncKind::Data)).map(drop)
}

/// An attempt behind the newest commit.
struct Left {
    /// Its number, as far as it is known.
    number: u64,
    /// The disk may have all of it, or a part of its void record.
    may_be_whole: bool,
}

impl Left {
    /// What was written behind the commit of `tip`, whose next record would lie at `next_off`. `None` if no record of an attempt begins there: behind most
    /// commits are zeros, or parts of records that lay elsewhere.
    fn behind(file: &dyn File, salt: u64, tip: &Tip, next_off: u64) -> Result<Option<Left>> {
        let mut header = [0; RECORD_LEN];
        if file.read_at(&mut header, next_off)? < RECORD_LEN {
            return Ok(None);
        }
        let version = record::written_by(&header);
        let Some(version) = version.filter(|v| *v <= tip.commit + MOST_ATTEMPTS) else {
            return Ok(None);
        };
        // A frame that was moved keeps the number of an older commit. An attempt that begins with one changes no page, and its trailer has its number.
        let whole = match chain::follow(file, salt, tip, next_off, MOST_READ)? {
            Next::Commit(commit) => Some(commit.0.commit),
            Next::Void(number) => Some(number),
            Next::Further => Some(version),
            Next::Nothing => None,
        };
        Ok(Some(Left {
            number: version.max(whole.unwrap_or(0)),
            may_be_whole: whole.is_some(),
        }))
    }
}
