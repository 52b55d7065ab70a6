//! Waiting for the worker: `densite_wait`, and writers past the limit of unapplied bytes.
//!
//! Rule 6: a connection whose own transaction stops the worker gets an error at once. `densite_wait`
//! never waits while its connection has a transaction open on main. A writer waits for room when its
//! transaction begins to write, before it holds anything, and again at COMMIT. By then it may have
//! read: in a rollback mode that stops the worker, in WAL mode it does not.

use crate::database_file::still_has_its_name;
use crate::database_log::DatabaseLog;
use crate::error::{refused, unnamed};
use crate::position::Position;
use densite_log::Seq;
use densite_sqlite::{Code, Connection, Error, Result, TxnState, ValueRef};
use std::time::{Duration, Instant};

/// How often the database is asked while another process applies.
const POLL: Duration = Duration::from_millis(5);
/// How long somebody waits for others' transactions before his own, which are decided at once unless their process is stopped or a disk is not.
const PREPARED: Duration = Duration::from_secs(2);
/// How long the answer about unapplied bytes is good for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// After so long without any row applied it is asked whether the connection itself is in the way.
const STUCK: Duration = Duration::from_secs(2);

/// The longest time that may be asked for, a year: more is a mistake.
const LONGEST: f64 = 366.0 * 86400.0;

/// What `densite_wait([seq [, seconds]])`, or another function of this name, was given: which row (`None` and NULL: the last one), and until when.
pub(crate) fn asked(
    name: &str,
    arguments: &[ValueRef<'_>],
) -> Result<(Option<Seq>, Option<Instant>)> {
    let seconds = match arguments.get(1) {
        None | Some(ValueRef::Null) => None,
        Some(ValueRef::Integer(n)) => Some(*n as f64),
        Some(ValueRef::Real(x)) => Some(*x),
        Some(_) => Some(-1.0),
    };
    let seq = match arguments.first() {
        None | Some(ValueRef::Null) => Some(None),
        Some(ValueRef::Integer(seq)) => u64::try_from(*seq).ok().map(Some),
        Some(_) => None,
    };
    match (seq, seconds) {
        (Some(seq), None) if arguments.len() <= 2 => Ok((seq, None)),
        (Some(seq), Some(s)) if arguments.len() <= 2 && (0.0..=LONGEST).contains(&s) => {
            Ok((seq, Instant::now().checked_add(Duration::from_secs_f64(s))))
        }
        _ => Err(refused(format!(
            "{name} takes a sequence number (NULL: the last one), and then for how many seconds it waits at most; or nothing"
        ))),
    }
}

fn holds_main(connection: &Connection) -> bool {
    connection.txn_state(Some(c"main")) != TxnState::None
}

/// Whether the connection's own transaction keeps the worker from committing. In WAL mode a reader
/// only keeps checkpoints from completing.
fn stops_the_worker(connection: &Connection) -> Result<bool> {
    Ok(match connection.txn_state(Some(c"main")) {
        TxnState::None => false,
        TxnState::Read => {
            let mode = connection.query_string("PRAGMA main.journal_mode")?;
            !mode.is_some_and(|mode| mode.eq_ignore_ascii_case("wal"))
        }
        _ => true,
    })
}

/// What a writer does when too much is unapplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It gets an error.
    Fail,
    /// It waits as long as `busy_timeout` says.
    Wait,
    /// It waits too. But if its own transaction stops the worker its rows are accepted, because
    /// there was room when the transaction began.
    WaitOrPass,
}

/// Somebody who waits for the worker.
struct Wait {
    since: Instant,
    /// How far rows were applied, and since when they are.
    applied: Option<(Seq, Instant)>,
}

impl Wait {
    fn begin() -> Wait {
        Wait {
            since: Instant::now(),
            applied: None,
        }
    }

    /// Rows are applied up to here. A connection that keeps its locks when a transaction ends may be why they are no further, and nobody would ever know.
    ///
    /// # Errors
    /// When that may be so.
    fn check_locks(&mut self, connection: &Connection, applied: Seq) -> Result<()> {
        let since = match self.applied {
            Some((known, since)) if known == applied => since,
            _ => {
                let now = Instant::now();
                self.applied = Some((applied, now));
                now
            }
        };
        if since.elapsed() < STUCK {
            return Ok(());
        }
        let mode = connection.query_string("PRAGMA main.locking_mode")?;
        match mode.as_deref() {
            Some("exclusive") => Err(Error::new(
                Code::BUSY,
                "this connection keeps its locks (PRAGMA locking_mode = EXCLUSIVE), which the worker has to wait for; set it to NORMAL and read a table",
            )),
            _ => Ok(()),
        }
    }
}

impl DatabaseLog {
    /// Waits until all rows up to `seq` are applied or rejected, as far as this connection would see them, and answers `seq`; or, when the time is over, how far they are, which is less.
    pub(crate) fn wait_applied(
        &self,
        connection: &Connection,
        seq: Seq,
        until: Option<Instant>,
    ) -> Result<Seq> {
        let mut wait = Wait::begin();
        let since = wait.since;
        loop {
            // Numbers of another log say nothing of what was acknowledged into this one.
            self.log().is_in_place().map_err(|e| self.failed(e))?;
            if holds_main(connection) {
                return Err(Error::new(
                    Code::BUSY,
                    "densite_wait: this connection has a transaction open on main, which the worker may have to wait for; end it first",
                ));
            }
            let position = match Position::read(connection) {
                Ok(Some(position)) => position.seq,
                // Its making was rolled back, and it never had a row.
                Ok(None) if self.is_unused(seq).map_err(|e| self.failed(e))? => return Ok(seq),
                Ok(None) => return Err(unnamed(self.dir())),
                // In a rollback mode the worker itself locks readers out for a moment, whether or not this connection has a busy_timeout.
                Err(e) if e.is_busy() => {
                    let known = self.applying(connection)?.progress(Duration::ZERO, since).0;
                    known.min(seq.saturating_sub(1))
                }
                Err(e) => return Err(e),
            };
            let says_so = position >= seq;
            if says_so {
                self.overwritten().check()?;
                // Who leads must know of it, or the database was overwritten with another state.
                if self.known_worker().is_none_or(|w| w.confirms(seq)) {
                    return Ok(seq);
                }
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(position.min(seq.saturating_sub(1)));
            }
            wait.check_locks(connection, position)?;
            still_has_its_name(connection)?;
            let applying = self.applying(connection)?;
            let (applied, trouble) = applying.wait_for_progress(seq, POLL, since);
            if says_so == (applied < seq) {
                // The database went back, or on: somebody restored it in place.
                applying.progress(POLL, since);
            }
            if let Some(error) = trouble.filter(|e| !says_so && !e.is_busy()) {
                // It may have got so far before it met that.
                if matches!(Position::read(connection), Ok(Some(now)) if now.seq >= seq) {
                    continue;
                }
                return Err(Error::new(
                    error.code,
                    format!("rows of the log cannot be applied: {}", error.message),
                ));
            }
        }
    }

    /// Waits until the connection's own last row may be read. It is acknowledged, but rows before it may be of transactions that are just being committed.
    ///
    /// # Errors
    /// When that takes too long.
    pub(crate) fn wait_visible(&self, own: Seq) -> Result<()> {
        let before = own.saturating_sub(1);
        let seen = self.log().wait_after(before, PREPARED);
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

    /// Waits for room for a transaction that begins to write, if the connection holds nothing yet.
    /// Answers whether there is room.
    ///
    /// # Errors
    /// As [`DatabaseLog::hold_back`].
    pub(crate) fn room_to_begin(&self, connection: &Connection) -> Result<bool> {
        if holds_main(connection) {
            return Ok(false);
        }
        match self.hold_back(connection, WhenFull::Wait) {
            Ok(()) => Ok(true),
            Err(e) => {
                // The log that could not be read may be that of another file.
                still_has_its_name(connection)?;
                Err(e)
            }
        }
    }

    /// Back-pressure: waits while more is unapplied than `max_unapplied_bytes` allows, or refuses.
    ///
    /// # Errors
    /// `FULL` for a writer that does not wait. `BUSY` when `busy_timeout` is over, or when the
    /// connection itself stops the worker. The worker's error, if rows cannot be applied.
    pub(crate) fn hold_back(&self, connection: &Connection, when_full: WhenFull) -> Result<()> {
        let (asked, full) = *self.pressure().lock();
        if asked.is_some_and(|t: Instant| t.elapsed() < LOOK_EVERY) && !full {
            return Ok(());
        }
        let mut wait = Wait::begin();
        let since = wait.since;
        let mut limit_of_time = None;
        loop {
            let limit = self
                .log()
                .config()
                .map_err(|e| self.failed(e))?
                .max_unapplied_bytes;
            if limit == 0 {
                break;
            }
            let applying = self.applying(connection)?;
            // This connection is in the middle of a commit: what it read of the database would stay as it is.
            let (applied, trouble) = applying.progress(Duration::ZERO, since);
            let bytes = self
                .log()
                .bytes_after(applied)
                .map_err(|e| self.failed(e))?;
            if bytes <= limit {
                break;
            }
            *self.pressure().lock() = (Some(Instant::now()), true);
            let what = format!(
                "{bytes} bytes of the log are not applied yet, and max_unapplied_bytes is {limit}"
            );
            if when_full == WhenFull::Fail {
                return Err(Error::new(Code::FULL, format!("{what}; try again later")));
            }
            if stops_the_worker(connection)? {
                if when_full == WhenFull::WaitOrPass {
                    return Ok(());
                }
                return Err(Error::new(
                    Code::BUSY,
                    format!(
                        "{what}; this transaction has read before it wrote, and outside of WAL mode the worker has to wait for it: roll it back and try again, or write first"
                    ),
                ));
            }
            if let Some(error) = trouble.filter(|e| !e.is_busy()) {
                let said = format!("{what}; they cannot be applied: {}", error.message);
                return Err(match holds_main(connection) {
                    false => refused(said),
                    // A reader that keeps the WAL from being checkpointed may be this one.
                    true => Error::new(
                        Code::BUSY,
                        format!(
                            "{said}; this transaction has read, too: roll it back and try again"
                        ),
                    ),
                });
            }
            still_has_its_name(connection)?;
            self.log().is_in_place().map_err(|e| self.failed(e))?;
            // Asks nothing of the database, but whether somebody has interrupted the connection.
            connection.query_i64("SELECT 1")?;
            let most = match limit_of_time {
                Some(most) => most,
                None => *limit_of_time.insert(busy_timeout(connection)?),
            };
            if since.elapsed() >= most {
                return Err(Error::new(
                    Code::BUSY,
                    format!(
                        "{what}; there was no room within {} ms, which is this connection's busy_timeout: try again, or set a longer one",
                        most.as_millis()
                    ),
                ));
            }
            wait.check_locks(connection, applied)?;
            applying.progress(POLL, since);
        }
        *self.pressure().lock() = (Some(Instant::now()), false);
        Ok(())
    }
}

/// How long the connection waits for locks of others.
fn busy_timeout(connection: &Connection) -> Result<Duration> {
    let ms = connection.query_i64("PRAGMA busy_timeout")?;
    let ms = ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
    Ok(Duration::from_millis(ms))
}
