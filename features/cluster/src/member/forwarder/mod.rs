//! Sending the rows of the log to the stream, exactly once.
//!
//! The last message of this origin in the stream says which rows are in it. The next message has
//! the rows behind them, and the stream takes it only behind that last message. So nothing has to
//! be remembered, whatever crashes: a message that was sent and not acknowledged is found, or it
//! never comes. A stream that lost messages gets the rows again, as long as the log has them.

mod next_message;
mod settle;
mod settled;

use self::next_message::{Found, Rows};
use self::settled::Settled;
use super::message::{Body, LastTransaction, Message};
use super::retained::Retained;
use super::shared::Shared;
use super::tables::Membership;
use densite_disk::sync::Mutex;
use densite_disk::wait::Deadline;
use densite_ingest::parts::OpenLog;
use densite_log::{LogId, Seq};
use densite_stream::{Error, Name, Result, Stream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long one wait for rows lasts. A member that stopped keeps its log open for so long at most.
const WAIT: Duration = Duration::from_millis(250);
/// Messages with rows begin at least so long apart while no program waits for the stream. Each
/// costs a sync of the server and work of all members, however few rows it has.
const GATHER: Duration = Duration::from_millis(5);
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Forwarder {
    shared: Arc<Shared>,
    open: Weak<OpenLog>,
    /// The id of that log, which each message names, also when the log is being closed.
    log: LogId,
    origin: Name,
    begun: Seq,
    /// The last message that was applied when this began.
    applied: u64,
    rows: Mutex<Rows>,
    retained: Mutex<Retained>,
}

impl Forwarder {
    pub(crate) fn new(
        shared: Arc<Shared>,
        open: Weak<OpenLog>,
        log: LogId,
        membership: &Membership,
        applied: u64,
    ) -> Forwarder {
        Forwarder {
            shared,
            open,
            log,
            origin: membership.origin.clone(),
            begun: membership.begun,
            applied,
            rows: Mutex::default(),
            retained: Mutex::default(),
        }
    }

    /// What the thread does until the member stops.
    pub(crate) fn run(&self) {
        let mut settled = None;
        while !self.shared.outbox.is_stopped() {
            match self.step(&mut settled) {
                Ok(true) => self.shared.troubles.forwarding(None),
                Ok(false) => break,
                Err(error) => {
                    self.begin_again(&mut settled);
                    self.shared.link.failed(&error);
                    self.shared.troubles.forwarding(Some(&error));
                    self.shared.outbox.pause(RETRY);
                }
            }
        }
        *self.rows.lock() = Rows::default();
    }

    /// Sends one message, or waits for rows. Returns false if the log is closed.
    fn step(&self, settled: &mut Option<Settled>) -> Result<bool> {
        let stream = self.shared.link.stream()?;
        let at = match settled {
            Some(settled) => settled,
            None => {
                let Some(open) = self.open.upgrade() else {
                    return Ok(false);
                };
                settled.insert(self.settle(&*stream, &open)?)
            }
        };
        self.shared.acknowledged.set(at.to);
        if let Some(open) = self.open.upgrade() {
            let mut retained = self.retained.lock();
            self.of_log(retained.sent(open.log(), at.to, Instant::now()))?;
        }
        if let Some(body) = self.shared.outbox.first() {
            let message = self.message(at.to, at.to, at.last, body)?;
            match self.append(&*stream, at.sequence, &message)? {
                Some(sequence) => {
                    at.sequence = sequence;
                    self.shared.outbox.sent();
                }
                None => self.begin_again(settled),
            }
            return Ok(true);
        }
        if let Some(begun) = at.begun {
            let until = Deadline::after(GATHER.saturating_sub(begun.elapsed()));
            self.shared.acknowledged.gather(until);
        }
        let begun = Instant::now();
        match self.next(at)? {
            Found::Closed => Ok(false),
            Found::Nothing => {
                let to = at.to;
                if at.is_doubtful(stream.seen()?) {
                    self.begin_again(settled);
                }
                Ok(self.wait(to))
            }
            Found::Message(bytes, to, last) => {
                match self.append(&*stream, at.sequence, &bytes)? {
                    Some(sequence) => {
                        (at.sequence, at.to, at.last) = (sequence, to, last);
                        at.begun = Some(begun);
                        self.shared.own_log.sent(to);
                    }
                    None => self.begin_again(settled),
                }
                Ok(true)
            }
        }
    }

    /// What the stream has of this origin is asked again. It can have lost rows that the reader of
    /// the log has passed.
    fn begin_again(&self, settled: &mut Option<Settled>) {
        *settled = None;
        *self.rows.lock() = Rows::default();
    }

    /// Appends a message for as long as it takes. It stays the same until the stream has it or has
    /// another one: then this returns `None`.
    fn append(&self, stream: &dyn Stream, expected: u64, bytes: &[u8]) -> Result<Option<u64>> {
        loop {
            match stream.append(&self.origin, expected, bytes) {
                Err(error @ Error::TryAgain(_)) if !self.shared.outbox.is_stopped() => {
                    self.shared.troubles.forwarding(Some(&error));
                    self.shared.outbox.pause(RETRY / 10);
                }
                Err(Error::Conflict { found, .. }) => {
                    // An earlier attempt arrived; or another process of this member, another
                    // member, or a program that is none sent a message under this name; or the
                    // stream lost some.
                    let last = stream.last_of(&self.origin)?;
                    let is_same = |last: densite_stream::Message| {
                        last.sequence == found && last.bytes == bytes
                    };
                    return Ok(last.is_some_and(is_same).then_some(found));
                }
                done => return done.map(Some),
            }
        }
    }

    /// A result of the log as one of the stream.
    fn of_log<T>(&self, result: densite_log::Result<T>) -> Result<T> {
        result.map_err(|e| match e {
            densite_log::Error::Pruned { wanted, first } => Error::Refused(format!(
                "the stream lost rows of {} from {wanted} on, and the log begins at {first}: restore this database from a copy, and the stream's server from a backup if it has one",
                self.origin
            )),
            e => Error::TryAgain(e.to_string()),
        })
    }

    fn message(&self, from: Seq, to: Seq, last: LastTransaction, body: Body) -> Result<Vec<u8>> {
        let message = Message {
            log: self.log,
            from,
            to,
            last,
            body,
        };
        message.encode().map_err(|e| Error::Refused(e.to_string()))
    }

    /// Waits for rows behind this one. Returns false if the log is closed.
    fn wait(&self, after: Seq) -> bool {
        let Some(open) = self.open.upgrade() else {
            return false;
        };
        let log = open.log();
        let waited = log
            .rings()
            .and_then(|rings| log.wait_after_or_ring(after, WAIT, rings));
        drop(open);
        if waited.is_err() {
            self.shared.outbox.pause(RETRY);
        }
        true
    }
}
