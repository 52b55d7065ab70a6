//! `densite_wait(seq, 'stream' [, seconds])`: until the stream has a row.

use crate::member::{Membership, Running};
use densite_disk::wait::{Deadline, pause};
use densite_ingest::Position;
use densite_ingest::parts::{DatabaseWorker, OpenLog, refused};
use densite_log::Seq;
use densite_sqlite::{Connection, Result};
use std::time::Duration;

/// How often the database is read while another process sends the rows: a row that was applied was
/// in the stream.
const POLL: Duration = Duration::from_millis(20);

/// Waits until the stream has acknowledged the rows up to this one, and returns `seq`. After the
/// deadline it returns how far they are, which is less.
///
/// # Errors
/// SQLite's; an error if the database is no member, or while it stands still.
pub(crate) fn wait(
    open: &OpenLog,
    worker: &DatabaseWorker,
    connection: &Connection,
    seq: Seq,
    until: Deadline,
) -> Result<Seq> {
    let member = Membership::read(connection)?.ok_or_else(|| {
        refused("densite_wait: this database is no member of a stream (densite join)")
    })?;
    if let Some(reason) = member.stands_still(open) {
        return Err(reason);
    }
    loop {
        let member = Running::at_work(&*worker.applying(connection)?);
        if let Some(member) = &member
            && member.acknowledged().wait(seq, POLL)
        {
            return Ok(seq);
        }
        let applied = Position::read(connection)?.map_or(0, |position| position.seq);
        if applied >= seq {
            return Ok(seq);
        }
        if until.is_over() {
            let sent = member.and_then(|member| member.acknowledged().get());
            return Ok(sent.unwrap_or(0).max(applied).min(seq.saturating_sub(1)));
        }
        // Without a deadline the wait would not end.
        let lasting = member.as_ref().filter(|_| until.is_never());
        if let Some(why) = lasting.and_then(|member| member.troubles().lasting()) {
            return Err(refused(format!(
                "densite_wait: row {seq} is in the log and not in the stream: {why}"
            )));
        }
        if member.is_none() {
            pause(POLL);
        }
        connection.check_interrupt()?;
    }
}
