//! An attempt at a commit that was not published must never be taken for a commit (rule S8;
//! docs/decisions/store-commits.md, Unpublished attempts).
//!
//! Invariant: while a writer writes after a commit, no combination of the bytes that the file held
//! since its last sync contains another whole attempt there. So the writer checks before its first
//! write, and before each cut of the file. If the file has a whole attempt, or a void record that
//! can be not yet durable, the writer overwrites the attempt's first record with a void record and
//! syncs.

use crate::chain::{self, Next};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::format::TIP_OFF;
use crate::format::record::{self, RECORD_LEN};
use crate::format::tip::read_tip;
use crate::format::tip::{TIP_LEN, Tip};
use crate::shared::Shared;
use densite_disk::{File, SyncKind};

/// Bytes that are read to find out whether an attempt is whole. A longer attempt counts as whole,
/// so a killed bulk load costs one sync and not a scan.
const MOST_READ: u64 = 4 << 20;

/// Each attempt takes a number that is one larger than all before it. Bytes with a number beyond
/// this distance are not a record.
const MOST_ATTEMPTS: u64 = 1 << 32;

/// Makes an attempt behind the newest commit void, durably: one that another writer left, or one
/// that this connection gave up. The caller has the right to write, and calls this before it writes
/// there or cuts the file.
///
/// # Errors
/// I/O.
pub(crate) fn void_left(connection: &mut Connection, shared: &Shared) -> Result<()> {
    let (tip, next_off) = {
        let state = shared.state.read();
        (state.tip(), state.next_off())
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

/// Makes the attempt `tried` of this connection void, durably, if its trailer was written. Call it
/// before anything more is written for the transaction. `before` is the tip block at the
/// transaction's begin.
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
    // The tip is torn and could not be put back then. A reader that looked meanwhile took the
    // attempt for the newest commit.
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
    let tip = shared.state.read().tip();
    (connection.sync_rewritten(shared, tip, SyncKind::Data)).map(drop)
}

/// An attempt behind the newest commit.
struct Left {
    /// The largest number that its records show.
    number: u64,
    /// The disk may have all of it, or a part of its void record.
    may_be_whole: bool,
}

impl Left {
    /// Returns what was written after the commit of `tip`, whose next record would begin at
    /// `next_off`. Returns `None` if no record of an attempt begins there. After most commits there
    /// are zeros, or parts of old records.
    fn behind(file: &dyn File, salt: u64, tip: &Tip, next_off: u64) -> Result<Option<Left>> {
        let mut header = [0; RECORD_LEN];
        if file.read_at(&mut header, next_off)? < RECORD_LEN {
            return Ok(None);
        }
        let version = record::written_by(&header);
        let Some(version) = version.filter(|v| *v <= tip.commit + MOST_ATTEMPTS) else {
            return Ok(None);
        };
        // A moved frame keeps the number of an older commit. An attempt that begins with one
        // changes no page, and its trailer has the attempt's number.
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
