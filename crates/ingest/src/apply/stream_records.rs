//! The rows of a stream as a queue reads them.
//!
//! A row's number is the sequence of its message, shifted by [`ROW_BITS`], plus its place in it. So
//! it is the same on all members. Reading stops in front of a message that has no rows for tables,
//! until that is applied.

use super::records::{Reached, RecordSource};
use crate::error::refused;
use crate::member::{Body, Came, Control, Incoming, Item, Origins, ROW_BITS, Running, described};
use crate::position::{Position, StreamPlace};
use densite_log::{LogId, Next, Record, Seq, TxnId};
use densite_sqlite::Result;
use densite_stream::Position as StreamPosition;
use std::collections::VecDeque;
use std::sync::Arc;

/// A message whose rows were read and are not applied yet.
struct Message {
    position: StreamPosition,
    origin: String,
    log: LogId,
    /// The last row of the origin's log up to this message.
    to: Seq,
    /// The number of its last row in the stream; `None`: it has none to apply.
    last: Option<Seq>,
    /// Where its records are: number in the stream, number in the origin's log.
    records: Vec<(Seq, Seq)>,
}

impl Message {
    /// A change of the schema that was applied before.
    fn passed_over(control: Control) -> Message {
        Message {
            position: control.position,
            origin: control.origin,
            log: control.log,
            to: control.to,
            last: None,
            records: Vec::new(),
        }
    }
}

/// See the module.
pub(super) struct StreamRecords {
    running: Arc<Running>,
    /// Records of the last message that was read, which the queue did not take yet.
    records: VecDeque<Record>,
    messages: VecDeque<Message>,
    /// How far each origin was read.
    origins: Origins,
    control: Option<Control>,
    /// Rows up to this one were applied before: they are not read again.
    skip: Seq,
}

impl StreamRecords {
    pub(super) fn of(running: &Arc<Running>) -> StreamRecords {
        StreamRecords {
            running: Arc::clone(running),
            records: VecDeque::new(),
            messages: VecDeque::new(),
            origins: Origins::default(),
            control: None,
            skip: 0,
        }
    }

    /// These are the origins at the position at which the queue restarts.
    pub(super) fn begin(&mut self, origins: Origins) {
        self.origins = origins;
    }

    /// The message in front of which reading stopped.
    pub(super) fn control(&self) -> Option<&Control> {
        self.control.as_ref().filter(|_| self.messages.is_empty())
    }

    /// The position behind [`StreamRecords::control`].
    pub(super) fn after_control(&self, named: &Position) -> Reached {
        let mut reached = Reached::at(*named);
        let (Some(control), Some(place)) = (&self.control, &mut reached.position.stream) else {
            return reached;
        };
        place.message = control.position.sequence;
        place.mark = control.position.mark;
        place.row = place.row.max(control.row());
        if control.is_schema() {
            if self.is_own(&control.origin) {
                reached.position.seq = reached.position.seq.max(control.to);
            }
            reached
                .origins
                .set(&control.origin, control.log, control.to);
        }
        reached
    }

    fn incoming(&self) -> &Incoming {
        self.running.incoming()
    }

    fn is_own(&self, origin: &str) -> bool {
        self.running.membership().origin.as_str() == origin
    }

    /// Whether all rows of a message were applied before: a stream that lost messages got them again.
    fn is_applied(&self, item: &Item) -> bool {
        let message = &item.message;
        let known = self.origins.get(item.origin.as_str());
        matches!(message.body, Body::Rows(_))
            && known.is_some_and(|(log, seq)| log == message.log && message.to <= seq)
    }

    /// Takes a message in: its records, or itself as a control.
    fn take(&mut self, item: Item) -> Result<()> {
        let is_applied = self.is_applied(&item);
        let item = match Control::of(item) {
            Ok(control) if !is_applied => {
                self.control = Some(control);
                return Ok(());
            }
            Ok(control) => {
                self.messages.push_back(Message::passed_over(control));
                return Ok(());
            }
            Err(item) => item,
        };
        let sequence = item.position.sequence;
        let origin = item.origin.as_str();
        let message = item.message;
        let known = match self.origins.get(origin) {
            Some((log, seq)) if log == message.log => seq,
            // It has another log since it joined again, or its first message was removed.
            _ => message.from,
        };
        if message.from > known {
            return Err(refused(format!(
                "message {sequence} of the stream follows row {} of {origin}, and this database has its rows up to {known}: messages between are missing; restore the database from a newer copy",
                message.from
            )));
        }
        let Body::Rows(records) = message.body else {
            return Ok(());
        };
        let mut place = Message {
            position: item.position,
            origin: origin.to_owned(),
            log: message.log,
            to: message.to,
            last: None,
            records: Vec::new(),
        };
        let mut next = sequence << ROW_BITS;
        let mut txn = TxnId(next);
        let mut begins = true;
        for mut record in records {
            let (first, rows) = (next, record.rows.len() as u64);
            next += rows;
            if std::mem::replace(&mut begins, record.ends_transaction) {
                txn = TxnId(first);
            }
            // A stream that lost messages got them again.
            if record.last() <= known || next - 1 <= self.skip {
                continue;
            }
            place.records.push((first, record.first));
            place.last = Some(next - 1);
            let skip = (self.skip + 1).saturating_sub(first);
            record.skip = skip.max((known + 1).saturating_sub(record.first)) as usize;
            record.first = first;
            record.txn = txn;
            self.records.push_back(record);
        }
        self.origins.set(origin, message.log, message.to.max(known));
        self.messages.push_back(place);
        Ok(())
    }
}

impl RecordSource for StreamRecords {
    fn applied(&self, named: &Position) -> Seq {
        named.stream.map_or(0, |place| place.row)
    }

    fn restart(&mut self, named: &Position) -> Result<()> {
        let place = named.stream.unwrap_or(StreamPlace {
            identity: [0; 16],
            message: 0,
            mark: 0,
            row: 0,
        });
        self.records.clear();
        self.messages.clear();
        self.control = None;
        self.skip = place.row;
        self.incoming().restart(StreamPosition {
            sequence: place.message,
            mark: place.mark,
        });
        Ok(())
    }

    fn next_within(&mut self, bytes: usize) -> Result<Next> {
        loop {
            if let Some(first) = self.records.front() {
                if first.rows.bytes() > bytes {
                    return Ok(Next::Larger);
                }
                let record = self.records.pop_front();
                return Ok(record.map_or(Next::End, Next::Record));
            }
            if self.control.is_some() {
                return Ok(Next::End);
            }
            match self.incoming().next() {
                Came::Item(item) => self.take(*item)?,
                Came::Nothing => return Ok(Next::End),
                Came::Failed(error) => return Err(refused(described(&error))),
            }
        }
    }

    fn at(&self, named: &Position, last: Seq) -> Reached {
        let mut reached = Reached::at(*named);
        let Some(place) = &mut reached.position.stream else {
            return reached;
        };
        place.row = place.row.max(last);
        for message in &self.messages {
            if message.last.is_none_or(|end| end <= last) {
                place.message = message.position.sequence;
                place.mark = message.position.mark;
                if self.is_own(&message.origin) {
                    reached.position.seq = reached.position.seq.max(message.to);
                }
                reached
                    .origins
                    .set(&message.origin, message.log, message.to);
                continue;
            }
            // A part of it is applied. If the stream loses the message, that part comes again with
            // other numbers.
            let begun = message.records.iter().rfind(|(first, _)| *first <= last);
            if let Some((first, seq)) = begun {
                let seq = seq + (last - first);
                if self.is_own(&message.origin) {
                    reached.position.seq = reached.position.seq.max(seq);
                }
                reached.origins.set(&message.origin, message.log, seq);
            }
            break;
        }
        reached
    }

    fn end(&self, named: &Position) -> Option<Reached> {
        let last = self.messages.back()?.last;
        let applied = self.applied(named);
        let reached = self.at(named, last.unwrap_or(applied).max(applied));
        (reached.position != *named).then_some(reached)
    }

    fn passed(&mut self, position: &Position) {
        let Some(place) = position.stream else {
            return;
        };
        while (self.messages.front())
            .is_some_and(|message| message.position.sequence <= place.message)
        {
            self.messages.pop_front();
        }
        let is_passed = |control: &mut Control| control.position.sequence <= place.message;
        if let Some(control) = self.control.take_if(is_passed) {
            self.origins.set(&control.origin, control.log, control.to);
        }
    }
}
