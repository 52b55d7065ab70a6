//! Messages of the stream that have no rows for tables, and what a member does with them.
//!
//! Each is applied in a transaction of its own, between the rows before and behind it.

use crate::member::{Body, Item, Message, NO_LOG, ROW_BITS, SCHEMA};
use densite_log::{LogId, Record, Seq};
use densite_stream::{Name, Position};

/// A message without rows for tables.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    /// The position behind it.
    pub(crate) position: Position,
    pub(crate) origin: String,
    pub(crate) log: LogId,
    /// The last row of that log up to this message.
    pub(crate) to: Seq,
    pub(crate) what: What,
}

/// What a [`Control`] is about.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A change of the schema.
    Schema(Record),
    /// Another kind of message.
    Body(Body),
    /// No member wrote it, for this reason.
    Foreign(&'static str),
}

impl Control {
    /// The control of a message, or the message itself if it has rows for tables.
    ///
    /// # Errors
    /// The position behind the message, its origin, and the message.
    pub(crate) fn of(item: Item) -> std::result::Result<Control, Box<(Position, Name, Message)>> {
        let (position, origin) = (item.position, item.origin);
        let (log, to, what) = match item.message {
            Err(why) => (NO_LOG, 0, What::Foreign(why)),
            Ok(message) => match &message.body {
                Body::Rows(records) => match records.as_slice() {
                    [record] if record.table.name() == SCHEMA => {
                        let mut record = record.clone();
                        record.first = position.sequence << ROW_BITS;
                        (message.log, message.to, What::Schema(record))
                    }
                    _ => return Err(Box::new((position, origin, message))),
                },
                body => (message.log, message.to, What::Body(body.clone())),
            },
        };
        Ok(Control {
            position,
            origin: origin.as_str().to_owned(),
            log,
            to,
            what,
        })
    }

    /// Whether a member wrote it.
    pub(crate) fn is_of_member(&self) -> bool {
        !matches!(self.what, What::Foreign(_))
    }

    /// The number of its last row in the stream.
    pub(crate) fn row(&self) -> Seq {
        self.position.sequence << ROW_BITS
    }

    /// Whether it is about the rows of the origin's log.
    pub(crate) fn is_schema(&self) -> bool {
        matches!(self.what, What::Schema(_))
    }
}
