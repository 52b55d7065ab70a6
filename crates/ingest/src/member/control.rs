//! Messages of the stream that have no rows for tables, and what a member does with them.
//!
//! Each is applied in a transaction of its own, between the rows before and behind it.

use super::SCHEMA;
use super::incoming::Item;
use super::message::{Body, ROW_BITS};
use densite_log::{LogId, Record, Seq};
use densite_stream::Position;

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
}

impl Control {
    /// The control of a message, or the message itself if it has rows for tables.
    ///
    /// # Errors
    /// The message.
    pub(crate) fn of(item: Item) -> std::result::Result<Control, Item> {
        let what = match &item.message.body {
            Body::Rows(records) => match records.as_slice() {
                [record] if record.table.name() == SCHEMA => {
                    let mut record = record.clone();
                    record.first = item.position.sequence << ROW_BITS;
                    What::Schema(record)
                }
                _ => return Err(item),
            },
            body => What::Body(body.clone()),
        };
        Ok(Control {
            position: item.position,
            origin: item.origin.as_str().to_owned(),
            log: item.message.log,
            to: item.message.to,
            what,
        })
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
