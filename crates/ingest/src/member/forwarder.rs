//! Sending the rows of the log to the stream, exactly once.
//!
//! The last message of this origin in the stream says which rows are in it. The next message has
//! the rows behind them, and the stream takes it only behind that last message. So nothing has to
//! be remembered, whatever crashes: a message that was sent and not acknowledged is found, or it
//! never comes. A stream that lost messages gets the rows again, as long as the log has them.

use super::SCHEMA;
use super::message::{Body, HEADER_LEN, Joined, Message, ROW_BITS};
use super::retained::Retained;
use super::sent::Last;
use super::settled::Settled;
use super::shared::Shared;
use super::tables::Membership;
use crate::open_log::OpenLog;
use densite_disk::sync::Mutex;
use densite_log::{LogId, Reader, Record, Seq};
use densite_stream::{Durability, Error, Name, Result, Stream, SyncInterval};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A message is sent when its rows take this many bytes, before compression. One transaction can
/// take more.
const GOAL: usize = 512 << 10;
/// How long one wait for rows lasts. A member that stopped keeps its log open for so long at most.
const WAIT: Duration = Duration::from_millis(250);
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(1);
/// Bytes of the stream's largest message that are left to its headers.
const MARGIN: usize = HEADER_LEN + 1024;

/// The largest transaction of a member whose stream takes messages of this many bytes.
pub(crate) fn largest_transaction(max_payload: usize) -> usize {
    max_payload.saturating_sub(MARGIN)
}

/// See the module.
pub(crate) struct Forwarder {
    shared: Arc<Shared>,
    open: Weak<OpenLog>,
    origin: Name,
    begun: Seq,
    /// The last message that was applied when this began.
    applied: u64,
    rows: Mutex<Rows>,
    retained: Mutex<Retained>,
}

/// Rows that were read and not sent.
#[derive(Default)]
struct Rows {
    reader: Option<Reader>,
    /// The next transaction.
    next: Vec<Record>,
}

/// What comes next.
enum Found {
    Message(Vec<u8>, Seq),
    /// There are no rows.
    Nothing,
    /// The log is closed.
    Closed,
}

impl Forwarder {
    pub(crate) fn new(
        shared: Arc<Shared>,
        open: Weak<OpenLog>,
        membership: &Membership,
        applied: u64,
    ) -> Forwarder {
        Forwarder {
            shared,
            open,
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
            self.log(retained.sent(open.log(), at.to, Instant::now()))?;
        }
        if let Some(body) = self.shared.outbox.first() {
            let message = self.message(at.to, at.to, body)?;
            match self.append(&*stream, at.sequence, &message)? {
                Some(sequence) => {
                    at.sequence = sequence;
                    self.shared.outbox.sent();
                }
                None => self.begin_again(settled),
            }
            return Ok(true);
        }
        match self.next(at)? {
            Found::Closed => Ok(false),
            Found::Nothing => {
                let to = at.to;
                if at.is_doubtful(stream.seen()?) {
                    self.begin_again(settled);
                }
                Ok(self.wait(to))
            }
            Found::Message(bytes, to) => {
                match self.append(&*stream, at.sequence, &bytes)? {
                    Some(sequence) => (at.sequence, at.to) = (sequence, to),
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

    /// Finds out what the stream has of this origin.
    fn settle(&self, stream: &dyn Stream, open: &OpenLog) -> Result<Settled> {
        let seen = stream.seen()?;
        let max_payload = stream.max_payload()?;
        let durability = match stream.durability() {
            // A monitoring port that is away stops no rows: they are kept longer.
            Err(Error::TryAgain(_)) => Durability {
                replicas: 1,
                sync: SyncInterval::Unknown,
            },
            found => found?,
        };
        *self.retained.lock() = self.log(Retained::begin(open.log(), durability))?;
        let last = Last::of(stream, &self.origin)?;
        let Some((_, message)) = last.message else {
            let first = stream.extent()?.first;
            if self.applied + 1 < first {
                // It was declared gone, and its messages were removed.
                return Err(Error::Lost {
                    wanted: self.applied + 1,
                    first,
                });
            }
            return Ok(Settled {
                sequence: self.join_again(stream, last.sequence)?,
                to: self.begun,
                max_payload,
                at: Instant::now(),
                seen,
            });
        };
        let refused = |why: String| Err(Error::Refused(why));
        if matches!(message.body, Body::Left) {
            return refused(format!(
                "the stream says that {} has left, so this member sends no rows: `densite join` makes it a member again",
                self.origin
            ));
        }
        let end = self.log(open.log().last())?;
        if message.log != open.id() || message.to > end {
            return refused(format!(
                "another database appends to the stream as {}: this one is a copy of it, or an older state; `densite join` gives it a name of its own",
                self.origin
            ));
        }
        self.log(open.log().set_config(|config| {
            config.max_transaction_bytes = largest_transaction(max_payload) as u64;
        }))?;
        Ok(Settled {
            sequence: last.sequence,
            to: message.to,
            max_payload,
            at: Instant::now(),
            seen,
        })
    }

    /// Announces this member once more, because the stream lost all its messages.
    fn join_again(&self, stream: &dyn Stream, expected: u64) -> Result<u64> {
        let joined = Body::Joined(Joined {
            is_empty: false,
            applied: 0,
        });
        let joined = self.message(self.begun, self.begun, joined)?;
        let sent = self.append(stream, expected, &joined)?;
        sent.ok_or_else(|| {
            Error::TryAgain(format!(
                "the stream has other messages of {} than this process expected",
                self.origin
            ))
        })
    }

    /// A result of the log as one of the stream.
    fn log<T>(&self, result: densite_log::Result<T>) -> Result<T> {
        result.map_err(|e| match e {
            densite_log::Error::Pruned { wanted, first } => Error::Refused(format!(
                "the stream lost rows of {} from {wanted} on, and the log begins at {first}: restore this database from a copy, and the stream's server from a backup if it has one",
                self.origin
            )),
            e => Error::TryAgain(e.to_string()),
        })
    }

    fn message(&self, from: Seq, to: Seq, body: Body) -> Result<Vec<u8>> {
        let log = self.open.upgrade().map_or(LogId([0; 16]), |open| open.id());
        let message = Message {
            log,
            from,
            to,
            body,
        };
        message.encode().map_err(|e| Error::Refused(e.to_string()))
    }

    /// The next message with rows.
    fn next(&self, at: &Settled) -> Result<Found> {
        let Some(open) = self.open.upgrade() else {
            return Ok(Found::Closed);
        };
        let mut rows = self.rows.lock();
        let (mut records, mut bytes, mut count) = (Vec::new(), 0, 0);
        let most = largest_transaction(at.max_payload);
        let mut to = at.to;
        loop {
            if rows.next.is_empty() {
                rows.next = self.log(read(&mut rows.reader, &open, to))?;
            }
            if rows.next.is_empty() {
                // Numbers that no row has may follow.
                to = to.max(rows.reader.as_ref().map_or(0, Reader::position));
                break;
            }
            let size: usize = rows.next.iter().map(Record::packed_max).sum();
            let more: usize = rows.next.iter().map(|record| record.rows.len()).sum();
            if size > most || more > 1 << ROW_BITS {
                return Err(Error::TooLarge {
                    bytes: size,
                    max: most,
                });
            }
            let is_schema = rows.next.iter().any(|record| record.table.name() == SCHEMA);
            let is_full = bytes + size > GOAL.min(most) || count + more > 1 << ROW_BITS;
            if !records.is_empty() && (is_full || is_schema) {
                break;
            }
            (bytes, count) = (bytes + size, count + more);
            to = rows.next.last().map_or(to, Record::last);
            records.append(&mut rows.next);
            if is_schema {
                break;
            }
        }
        drop(rows);
        drop(open);
        match to > at.to {
            true => Ok(Found::Message(
                self.message(at.to, to, Body::Rows(records))?,
                to,
            )),
            false => Ok(Found::Nothing),
        }
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

/// The next transaction behind a row; empty at the end of the log.
fn read(
    reader: &mut Option<Reader>,
    open: &OpenLog,
    after: Seq,
) -> densite_log::Result<Vec<Record>> {
    if reader
        .as_ref()
        .is_none_or(|reader| reader.position() < after)
    {
        *reader = Some(open.log().read_after(after)?);
    }
    let mut records = Vec::new();
    let Some(reader) = reader else {
        return Ok(records);
    };
    while let Some(record) = reader.next()? {
        let is_end = record.ends_transaction;
        records.push(record);
        if is_end {
            break;
        }
    }
    Ok(records)
}
