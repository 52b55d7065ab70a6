//! Waiting for the worker.
//!
//! Rule L6: a connection whose own transaction blocks the worker gets an error at once.
//! `densite_wait` never waits while its connection has a transaction open on main.

use crate::database::database_file::still_has_its_name;
use crate::database::paused;
use crate::database::position::Position;
use crate::error::{refused, unnamed};
use crate::log::database_log::DatabaseLog;
use crate::waiting::self_block::{Waiter, holds_main};
use densite_disk::wait::Deadline;
use densite_log::Seq;
use densite_sqlite::{Code, Connection, Error, Result};
use std::time::Duration;

/// How often the database is read while another process applies.
const POLL: Duration = Duration::from_millis(5);
/// How long a connection waits until earlier transactions are decided. They are decided at once,
/// unless their process is stopped or a disk hangs.
const PREPARED: Duration = Duration::from_secs(2);

/// The error of a wait for rows that this error keeps from being applied.
fn not_applied(error: Error) -> Error {
    Error::new(
        error.code,
        format!("rows of the log cannot be applied: {}", error.message),
    )
}

impl DatabaseLog {
    /// Waits until all rows up to `seq` are applied or rejected, as this connection sees them, and
    /// returns `seq`. After the deadline it returns how far they are, which is less.
    pub fn wait_applied(&self, connection: &Connection, seq: Seq, until: Deadline) -> Result<Seq> {
        let mut wait = Waiter::begin();
        let since = wait.since();
        loop {
            // The numbers of another log do not belong to rows of this one.
            self.open()
                .log()
                .is_in_place()
                .map_err(|e| self.failed(e))?;
            if holds_main(connection) {
                return Err(Error::new(
                    Code::LOCKED,
                    "densite_wait: this connection has a transaction open on main, which the worker may have to wait for; end it first",
                ));
            }
            let position = match Position::read(connection) {
                // Only the applier's process knows it otherwise.
                Ok(Some(position)) if position.is_paused && position.seq < seq => {
                    return Err(not_applied(paused::reason(connection)?));
                }
                Ok(Some(position)) => position.seq,
                // The transaction that made the log was rolled back, and the log never had a row.
                Ok(None) if self.open().is_unused(seq).map_err(|e| self.failed(e))? => {
                    return Ok(seq);
                }
                Ok(None) => return Err(unnamed(self.dir())),
                // In a rollback mode the worker itself blocks readers for a moment, even if this
                // connection has no busy_timeout.
                Err(e) if e.is_busy() => {
                    let known = self
                        .worker()
                        .applying(connection)?
                        .progress(Duration::ZERO, since)
                        .0;
                    known.min(seq.saturating_sub(1))
                }
                Err(e) => return Err(e),
            };
            let says_so = position >= seq;
            if says_so {
                self.open().database_ahead().check()?;
                // The worker of the applier must know of it. Otherwise another state has
                // overwritten the database.
                if self.worker().known().is_none_or(|w| w.confirms(seq)) {
                    return Ok(seq);
                }
            }
            if until.is_over() {
                return Ok(position.min(seq.saturating_sub(1)));
            }
            wait.check_locks(connection, position)?;
            still_has_its_name(connection)?;
            let applying = self.worker().applying(connection)?;
            let (applied, trouble) = applying.wait_for_progress(seq, POLL, since);
            if says_so == (applied < seq) {
                // The database has moved back or forward: it was restored in place.
                applying.progress(POLL, since);
            }
            // Without a deadline the wait would not end.
            let lasting =
                (applying.member().filter(|_| until.is_never())).and_then(|m| m.lasting_trouble());
            let of_member = trouble.is_none() && lasting.is_some();
            let trouble = trouble.or_else(|| lasting.map(refused));
            if let Some(error) = trouble.filter(|e| !says_so && !e.is_busy()) {
                // The worker can have got this far before the error. A member that has left is at
                // work until the worker's next round.
                if let Ok(Some(now)) = Position::read(connection)
                    && (now.seq >= seq || of_member && now.stream.is_none())
                {
                    continue;
                }
                return Err(not_applied(error));
            }
        }
    }

    /// Waits until the connection's own last row can be read. It is acknowledged, but earlier rows
    /// can belong to transactions whose commit is still running.
    ///
    /// # Errors
    /// An error if that takes too long.
    pub(crate) fn wait_visible(&self, own: Seq) -> Result<()> {
        let before = own.saturating_sub(1);
        let seen = self.open().log().wait_after(before, PREPARED);
        match seen.map_err(|e| self.failed(e))? {
            true => Ok(()),
            false => Err(Error::new(
                Code::BUSY,
                format!(
                    "row {own} of this connection is in the log, behind rows of another transaction that is not decided yet; try again"
                ),
            )),
        }
    }
}
