//! A stream in the place of the log: what the worker asks of the crate above, which knows streams.
//!
//! If the position of a database has a place in a stream ([`StreamPlace`]), the database is a
//! member of it, and its rows come from there, also its own. The crate above registers [`Streams`].
//! The worker has it start the [`Member`], and applies what its [`StreamSource`] reads.

use super::DatabaseWorker;
use super::queue::{Reached, RecordSource};
use crate::database::open_log::OpenLog;
use crate::database::position::{Position, StreamPlace};
use crate::error::refused;
use densite_disk::wait::Deadline;
use densite_log::Seq;
use densite_sqlite::{Connection, Error, Result};
use std::any::Any;
use std::sync::{Arc, OnceLock};

static STREAMS: OnceLock<&'static dyn Streams> = OnceLock::new();

/// Lets this process apply rows of streams. The first call counts.
pub fn register(streams: &'static dyn Streams) {
    STREAMS.get_or_init(|| streams);
}

/// What was registered.
///
/// # Errors
/// An error if nothing was.
pub(crate) fn streams() -> Result<&'static dyn Streams> {
    let streams = STREAMS.get().copied();
    streams.ok_or_else(|| refused("this program was built without streams: use one that has them"))
}

/// The streams of which databases can be members.
pub trait Streams: Send + Sync {
    /// The member of a database at this place, as the database has it now. `known` is the one at
    /// work in this process.
    ///
    /// # Errors
    /// SQLite's; an error if the member cannot start.
    fn begin(
        &self,
        connection: &Connection,
        open: &Arc<OpenLog>,
        place: StreamPlace,
        known: Option<&Arc<dyn Member>>,
    ) -> Result<Begun>;

    /// Waits until the stream has acknowledged the rows of the log up to this one, and returns
    /// `seq`. After the deadline it returns how far they are, which is less.
    ///
    /// # Errors
    /// SQLite's; an error if the database is no member, or while it stands still.
    fn wait(
        &self,
        open: &OpenLog,
        worker: &DatabaseWorker,
        connection: &Connection,
        seq: Seq,
        until: Deadline,
    ) -> Result<Seq>;
}

/// See [`Streams::begin`].
pub enum Begun {
    /// The known one goes on.
    Known,
    /// Another one was started.
    New(Arc<dyn Member>),
    /// It may not go on, for this reason.
    StandsStill(Error),
}

/// A member of a stream at work: it exists while this process applies, and ends when it is dropped.
pub trait Member: Any + Send + Sync {
    /// The rows of the stream.
    fn source(self: Arc<Self>) -> Box<dyn StreamSource>;

    /// Whether something came from the stream that was not read.
    fn has_news(&self) -> bool;

    /// Rows were applied.
    fn applied(&self);

    /// Everything that came is applied.
    fn rests(&self);

    /// What the user should know.
    fn trouble(&self) -> Option<String>;

    /// Why no row will be applied until the user has done something.
    fn lasting_trouble(&self) -> Option<String>;
}

/// The rows of a stream, and messages between them that have none.
pub trait StreamSource: RecordSource {
    /// Reads what the database says of the source. Called before [`RecordSource::restart`].
    ///
    /// # Errors
    /// SQLite's.
    fn begin(&mut self, connection: &Connection) -> Result<()>;

    /// The message without rows in front of which reading stopped. [`RecordSource::passed`] takes
    /// it away.
    fn message(&self) -> Option<Box<dyn StreamMessage>>;

    /// The position behind [`StreamSource::message`].
    fn after_message(&self, named: &Position) -> Reached;
}

/// A message of a stream that has no rows for tables. It is applied in a transaction of its own.
pub trait StreamMessage {
    /// Computes what the message wants to know. No transaction is open.
    ///
    /// # Errors
    /// SQLite's.
    fn prepare(&mut self, connection: &Connection) -> Result<()>;

    /// Applies the message, within the connection's transaction.
    ///
    /// # Errors
    /// SQLite's.
    fn write(&self, connection: &Connection) -> Result<()>;

    /// Called when the transaction is committed.
    fn done(self: Box<Self>);
}
