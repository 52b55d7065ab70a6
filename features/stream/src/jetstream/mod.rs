//! A stream on a NATS server with JetStream.
//!
//! An origin publishes to the subject `densite.DATABASE.ORIGIN`, with the last sequence of that
//! subject that it expects. The server refuses a message with another one, so a message is stored
//! once, with no window of time. One thread of this value talks to the server.

mod connection;
mod monitor;
mod options;
mod problem;
mod reading;
mod settings;
mod thread;
mod tls;

use crate::{
    Durability, Error, Extent, Identity, Message, Name, Position, Result, Seen, Stream,
    SyncInterval, Take,
};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::PurgeErrorKind;
use connection::{Connection, extent};
use densite_disk::sync::Mutex;
pub use options::JetStreamOptions;
use problem::is_wrong_sequence;
use reading::Reading;
use std::sync::Arc;
use thread::Thread;

/// Requests that one call makes at most, one after the other.
const REQUESTS: u32 = 4;

/// A stream on a NATS server with JetStream, version 2.12 or newer.
pub struct JetStream {
    connection: Arc<Connection>,
    options: JetStreamOptions,
    /// The reader at the position where the last read ended.
    reading: Mutex<Option<Reading>>,
    thread: Thread,
}

impl JetStream {
    /// Connects to the server, and makes the stream of the database if it is missing.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server is too old or has no JetStream, or if the stream belongs to
    /// another database or has settings that can lose messages; [`Error::TryAgain`].
    pub fn open(options: JetStreamOptions, database: &Name) -> Result<JetStream> {
        let thread = Thread::start()?;
        let (database, wanted) = (database.clone(), options.clone());
        let connection = thread.run(options.timeout * REQUESTS, async move {
            Connection::open(&wanted, database).await
        })?;
        Ok(JetStream {
            connection: Arc::new(connection),
            options,
            reading: Mutex::new(None),
            thread,
        })
    }

    /// Runs requests on the thread.
    fn run<T, F>(&self, task: impl FnOnce(Arc<Connection>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let time = self.options.timeout * REQUESTS;
        self.thread.run(time, task(Arc::clone(&self.connection)))
    }

    /// Removes the consumer of a reader that is not needed.
    fn forget(&self, reading: Reading) {
        let connection = Arc::clone(&self.connection);
        self.thread
            .spawn(async move { reading.end(&connection).await });
    }
}

impl Stream for JetStream {
    fn identity(&self) -> Identity {
        self.connection.identity
    }

    fn max_payload(&self) -> Result<usize> {
        self.run(|connection| async move { connection.max_payload().await })
    }

    fn append(&self, origin: &Name, expected: u64, bytes: &[u8]) -> Result<u64> {
        let (origin, bytes) = (origin.clone(), bytes.to_vec());
        self.run(|connection| async move { append(&connection, origin, expected, bytes).await })
    }

    fn last_of(&self, origin: &Name) -> Result<Option<Message>> {
        let origin = origin.clone();
        self.run(|connection| async move {
            let last = connection.last_of(&origin).await?;
            connection.info().await?;
            Ok(last)
        })
    }

    fn message(&self, sequence: u64) -> Result<Option<Message>> {
        self.run(|connection| async move {
            let found = connection.message(sequence).await?;
            connection.info().await?;
            Ok(found)
        })
    }

    fn read_after(&self, after: Position, take: Take) -> Result<Vec<Message>> {
        let (connection, kept) = (Arc::clone(&self.connection), self.reading.lock().take());
        let time = take.wait + self.options.timeout * REQUESTS;
        let (found, reading) = self.thread.run(time, async move {
            reading::read(&connection, kept, after, take).await
        })?;
        let other = std::mem::replace(&mut *self.reading.lock(), reading);
        if let Some(other) = other {
            self.forget(other);
        }
        Ok(found)
    }

    fn seen(&self) -> Result<Seen> {
        self.thread.is_ours()?;
        Ok(*self.connection.seen.lock())
    }

    fn extent(&self) -> Result<Extent> {
        self.run(|connection| async move { Ok(extent(&connection.info().await?)) })
    }

    fn durability(&self) -> Result<Durability> {
        let options = self.options.clone();
        self.run(|connection| async move {
            let replicas = connection.info().await?.config.num_replicas;
            let sync = match options.monitors.is_empty() {
                true => SyncInterval::Unknown,
                false => {
                    let tls = tls::config(&options)?;
                    let found =
                        monitor::sync_interval(&options.monitors, tls, options.timeout).await;
                    match found {
                        // Three replicas suffice without it, and one of the servers can be away.
                        Err(Error::TryAgain(_)) if replicas >= 3 => SyncInterval::Unknown,
                        found => found?,
                    }
                }
            };
            Ok(Durability { replicas, sync })
        })
    }

    fn trim(&self, first: u64, origins: &[Name]) -> Result<()> {
        let origins = origins.to_vec();
        self.run(|connection| async move { trim(&connection, first, origins).await })
    }
}

async fn append(
    connection: &Connection,
    origin: Name,
    expected: u64,
    bytes: Vec<u8>,
) -> Result<u64> {
    let len = bytes.len();
    let message = PublishMessage::build()
        .expected_last_subject_sequence(expected)
        .expected_stream(&connection.name)
        .payload(bytes.into());
    let subject = settings::subject(&connection.database, origin.as_str());
    let sent = connection.context.send_publish(subject, message).await;
    let done = match sent {
        Ok(acknowledgement) => acknowledgement.await,
        Err(e) => Err(e),
    };
    let e = match done {
        Ok(done) => {
            if expected == 0 {
                // Another stream of this name would take a first message, too.
                connection.info().await?;
            }
            return Ok(done.sequence);
        }
        Err(e) => e,
    };
    let asked = "a message was not acknowledged";
    match e.kind() {
        _ if is_wrong_sequence(&e) => {
            let extent = extent(&connection.info().await?);
            let found = connection.last_of(&origin).await?;
            let found = found.map_or(0, |found| found.sequence);
            Err(if found == expected {
                Error::TryAgain(format!("an earlier message of {origin} is on its way"))
            } else if found == 0 && expected < extent.first {
                Error::Lost {
                    wanted: expected,
                    first: extent.first,
                }
            } else {
                Error::Conflict {
                    origin: origin.to_string(),
                    expected,
                    found,
                }
            })
        }
        PublishErrorKind::MaxPayloadExceeded => Err(Error::TooLarge {
            bytes: len,
            max: connection.max_payload().await?,
        }),
        PublishErrorKind::StreamNotFound => {
            // The server also says so while it starts.
            connection.info().await?;
            Err(Error::TryAgain(format!("{asked}: {e}")))
        }
        _ => {
            let max = connection.max_payload().await?;
            if len > max {
                return Err(Error::TooLarge { bytes: len, max });
            }
            Err(connection.failed(asked, &e))
        }
    }
}

async fn trim(connection: &Connection, first: u64, origins: Vec<Name>) -> Result<()> {
    let info = connection.info().await?;
    let last = extent(&info).last;
    if first > last + 1 {
        return Err(Error::Refused(format!(
            "the stream ends at {last}, before {first}"
        )));
    }
    for origin in origins {
        let last = connection.last_of(&origin).await?;
        if let Some(at) = last.map(|last| last.sequence).filter(|at| *at < first) {
            return Err(Error::Refused(format!(
                "message {at} has to stay: it is the last one of {origin}"
            )));
        }
    }
    if first <= extent(&info).first {
        return Ok(());
    }
    if info.config.deny_purge {
        return Err(Error::Refused(format!(
            "the stream {} was made so that nothing can be removed from it (deny_purge)",
            connection.name
        )));
    }
    let done = connection.stream.purge().sequence(first).await;
    done.map(drop).map_err(|e| match e.kind() {
        PurgeErrorKind::JetStream(said) => connection.failed("messages were not removed", &said),
        _ => connection.failed("messages were not removed", &e),
    })
}
