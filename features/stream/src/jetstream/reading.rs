//! Reading messages in order, through a consumer of the server that lasts from call to call.
//!
//! The consumer is in the server's memory and belongs to the stream that it was made for: a stream
//! that is removed, and a server that restarts, end it. Then it is made again, and whether the
//! stream still has the message of the position is checked each time. A cluster can begin a consumer
//! again by itself. So each begins with the message of the position, and a message that comes a
//! second time has the position checked again. Messages that a server lost are thus noticed before
//! anything behind them is read.

use super::connection::{Connection, extent};
use super::settings;
use crate::{Error, Extent, Message, Position, Result, Take};
use async_nats::connection::State;
use async_nats::jetstream::consumer::pull::{Config, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How long a request for messages lasts.
const EXPIRES: Duration = Duration::from_secs(600);

/// The pauses between two questions to the server while no message comes: the first and the longest
/// one. A consumer that is gone does not answer, if the client stays connected to another server.
const QUESTION: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(75));

/// How long the server keeps a consumer without a reader.
const INACTIVE: Duration = Duration::from_secs(300);

/// How many messages, and how many bytes at least, are requested at once.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 8 << 20;

/// The pause before a consumer that ended is made again.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a read waits for messages that the server has.
const ARRIVAL: Duration = Duration::from_secs(5);

/// How often the connection's task gets a turn before a read that has messages returns them.
const TURNS: u32 = 3;

/// A reader at one position.
pub(super) struct Reading {
    at: Position,
    /// Whether the consumer sends the message of the position first.
    begins_at: bool,
    /// The last sequence of the stream when the consumer was made.
    last: u64,
    messages: Messages,
    /// The name of the consumer.
    name: String,
    /// When the server is asked next, and the pause after that.
    question: (Instant, Duration),
    /// A message that had no room in the last read.
    kept: Option<Message>,
    connected: watch::Receiver<u64>,
}

impl Reading {
    /// Begins behind a position.
    async fn begin(connection: &Connection, after: Position) -> Result<Reading> {
        connection.seen.lock().begun += 1;
        let mut connected = connection.connected.clone();
        connected.mark_unchanged();
        let failed = |e: &(dyn std::error::Error + 'static)| connection.failed("a consumer", e);
        let config = Config {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: after.sequence.max(1),
            },
            ack_policy: AckPolicy::None,
            filter_subject: settings::subject(&connection.database, "*"),
            inactive_threshold: INACTIVE,
            num_replicas: 1,
            memory_storage: true,
            ..Config::default()
        };
        let consumer = connection.stream.create_consumer(config).await;
        let consumer = consumer.map_err(|e| match e.kind() {
            async_nats::jetstream::stream::ConsumerErrorKind::JetStream(said) => failed(&said),
            _ => failed(&e),
        })?;
        let name = consumer.cached_info().name.clone();
        let begun = async {
            // After the consumer was made: one of the wrong stream is noticed here.
            let extent = check(connection, after).await?;
            let max_payload = connection.context.client().server_info().max_payload;
            let messages = consumer
                .stream()
                .max_messages_per_batch(BATCH)
                .max_bytes_per_batch(BATCH_BYTES.max(2 * max_payload))
                .expires(EXPIRES)
                .messages();
            Ok((extent, messages.await.map_err(|e| failed(&e))?))
        };
        let (extent, messages) = match begun.await {
            Ok(begun) => begun,
            Err(e) => {
                remove(connection, &name).await;
                return Err(e);
            }
        };
        Ok(Reading {
            at: after,
            begins_at: after.sequence >= extent.first,
            last: extent.last,
            messages,
            name,
            question: first_question(),
            kept: None,
            connected,
        })
    }

    /// Whether the next read at a position can go on with this.
    fn continues(&self, after: Position) -> bool {
        self.at == after && !self.connected.has_changed().unwrap_or(true)
    }

    /// Ends it, and removes its consumer.
    pub(super) async fn end(self, connection: &Connection) {
        remove(connection, &self.name).await;
    }

    /// The next message. `Ok(None)`: the consumer has ended.
    async fn next(&mut self, connection: &Connection) -> Result<Option<Message>> {
        loop {
            if let Some(message) = self.kept.take() {
                return Ok(Some(message));
            }
            let found = tokio::select! {
                biased;
                found = self.messages.next() => found,
                _ = self.connected.changed() => return Ok(None),
            };
            let Some(Ok(found)) = found else {
                return Ok(None);
            };
            let place = found.info().map_err(|e| {
                Error::TryAgain(format!("a message of the stream is not as expected: {e}"))
            })?;
            let (sequence, time) = (place.stream_sequence, place.published);
            if sequence > self.at.sequence + 1 {
                return Err(Error::Lost {
                    wanted: self.at.sequence + 1,
                    first: sequence,
                });
            }
            let time = time.unix_timestamp_nanos();
            let message = found.message;
            let bytes = message.payload.into();
            let parsed = connection.parsed(&message.subject, sequence, time, bytes)?;
            if sequence > self.at.sequence {
                return Ok(Some(parsed));
            }
            if !std::mem::take(&mut self.begins_at) || parsed.position() != self.at {
                return Ok(None);
            }
        }
    }

    /// Asks the server whether the reader is really at the end.
    async fn is_served(&mut self, connection: &Connection) -> Result<bool> {
        let pause = (self.question.1 * 2).min(QUESTION.1);
        self.question = (Instant::now() + pause, pause);
        let last = extent(&connection.info().await?).last;
        let mut seen = connection.seen.lock();
        (seen.asked, seen.last) = (seen.asked + 1, last);
        Ok(last == self.at.sequence)
    }

    /// Messages until the deadline for the first one, and then those that are here. `Ok(None)`: the
    /// consumer has ended.
    async fn take(
        &mut self,
        connection: &Connection,
        take: Take,
        until: Instant,
    ) -> Result<Option<Vec<Message>>> {
        let (mut found, mut bytes, mut turns) = (Vec::new(), 0, 0);
        while found.len() < take.messages {
            let next = if found.is_empty() {
                let (question, _) = self.question;
                match timeout_at(until.min(question), self.next(connection)).await {
                    Ok(next) => Some(next?),
                    Err(_) if Instant::now() < question => return Ok(Some(found)),
                    Err(_) if self.is_served(connection).await? => continue,
                    Err(_) => return Ok(None),
                }
            } else {
                match self.next(connection).now_or_never() {
                    // The next read begins with this error.
                    Some(Err(_)) => break,
                    Some(Ok(next)) => Some(next),
                    None => None,
                }
            };
            match next {
                Some(Some(message)) => {
                    bytes += message.bytes.len();
                    if bytes > take.bytes && !found.is_empty() {
                        self.kept = Some(message);
                        break;
                    }
                    self.at = message.position();
                    self.question = first_question();
                    found.push(message);
                    turns = 0;
                }
                Some(None) if found.is_empty() => return Ok(None),
                Some(None) => break,
                None if turns == TURNS => break,
                None => {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(Some(found))
    }
}

/// Removes a consumer. Otherwise the server keeps it for [`INACTIVE`], and a stream can have only so
/// many (1,000, unless nats-server 2.15 is told otherwise): a member that stopped, and tries again
/// now and then, would use them up.
async fn remove(connection: &Connection, name: &str) {
    if connection.context.client().connection_state() == State::Connected {
        let _ = connection.stream.delete_consumer(name).await;
    }
}

fn first_question() -> (Instant, Duration) {
    (Instant::now() + QUESTION.0, QUESTION.0)
}

/// Which messages the stream has, after the check that it still has that of a position.
async fn check(connection: &Connection, after: Position) -> Result<Extent> {
    let extent = extent(&connection.info().await?);
    let diverged = Error::Diverged {
        sequence: after.sequence,
        last: extent.last,
    };
    if after.sequence > extent.last {
        return Err(diverged);
    }
    if after.sequence + 1 < extent.first {
        return Err(Error::Lost {
            wanted: after.sequence + 1,
            first: extent.first,
        });
    }
    // The message itself can have been removed: then it cannot be compared.
    if after.sequence > 0 && after.sequence >= extent.first {
        let found = connection.message(after.sequence).await?;
        if found.is_some_and(|found| found.position() != after) {
            return Err(diverged);
        }
    }
    Ok(extent)
}

/// Reads behind a position, and returns the reader for the next read.
pub(super) async fn read(
    connection: &Connection,
    kept: Option<Reading>,
    after: Position,
    take: Take,
) -> Result<(Vec<Message>, Option<Reading>)> {
    let until = Instant::now() + take.wait;
    let mut kept = kept;
    loop {
        let (goes_on, over) = match kept.take() {
            Some(reading) if reading.continues(after) => (Some(reading), None),
            other => (None, other),
        };
        if let Some(over) = over {
            over.end(connection).await;
        }
        let mut reading = match goes_on {
            Some(reading) => reading,
            None => match Reading::begin(connection, after).await {
                Ok(reading) => reading,
                // The server restarts, or its consumer is not ready.
                Err(Error::TryAgain(_)) if Instant::now() + PAUSE < until => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(e) => return Err(e),
            },
        };
        let until = match reading.at.sequence < reading.last {
            true => until.max(Instant::now() + ARRIVAL),
            false => until,
        };
        let found = match reading.take(connection, take, until).await {
            Ok(found) => found,
            Err(e) => {
                reading.end(connection).await;
                return Err(e);
            }
        };
        match found {
            Some(found) => {
                let state = connection.context.client().connection_state();
                if found.is_empty() && state != State::Connected {
                    return Err(Error::TryAgain("the server cannot be reached".into()));
                }
                return Ok((found, Some(reading)));
            }
            None => {
                reading.end(connection).await;
                if Instant::now() >= until {
                    return Ok((Vec::new(), None));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_reader_sends_at_most_one_message_a_minute() {
        let minute = Duration::from_secs(60).as_secs_f64();
        let sent = minute / QUESTION.1.as_secs_f64() + minute / EXPIRES.as_secs_f64();
        assert!(sent <= 1.0, "{sent}");
    }
}
