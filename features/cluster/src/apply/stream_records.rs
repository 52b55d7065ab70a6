//! The rows of a stream as a queue reads them.
//!
//! A row's number is the sequence of its message, shifted by [`ROW_BITS`], plus its place in it. So
//! it is the same on all members. Reading stops in front of a message that has no rows for tables,
//! until that is applied.

use super::control::Control;
use super::message::ControlMessage;
use super::own::Own;
use crate::member::{Body, Came, Incoming, Item, NO_LOG, Origins, ROW_BITS, Running, of_stream};
use densite_ingest::Position;
use densite_ingest::parts::{
    Reached, RecordSource, SourceState, StreamMessage, StreamPlace, StreamSource, refused,
};
use densite_log::{LogId, Next, Record, Seq, TxnId};
use densite_sqlite::{Connection, Result};
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

/// A position, and how far the rows of each origin are applied there, of those that moved.
struct Behind {
    position: Position,
    origins: Origins,
}

impl Behind {
    fn at(position: Position) -> Behind {
        Behind {
            position,
            origins: Origins::default(),
        }
    }
}

impl From<Behind> for Reached {
    fn from(behind: Behind) -> Reached {
        Reached {
            position: behind.position,
            state: Some(Arc::new(behind.origins)),
        }
    }
}

impl SourceState for Origins {
    fn write(&self, connection: &Connection) -> Result<()> {
        Origins::write(self, connection)
    }
}

/// See the module.
pub(super) struct StreamRecords {
    incoming: Arc<Incoming>,
    own: Arc<dyn Own>,
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
    /// For a member at work.
    pub(super) fn of(running: &Arc<Running>) -> StreamRecords {
        StreamRecords::reading(running.incoming(), Arc::clone(running) as Arc<dyn Own>)
    }

    fn reading(incoming: &Arc<Incoming>, own: Arc<dyn Own>) -> StreamRecords {
        StreamRecords {
            incoming: Arc::clone(incoming),
            own,
            records: VecDeque::new(),
            messages: VecDeque::new(),
            origins: Origins::default(),
            control: None,
            skip: 0,
        }
    }

    /// The message without rows in front of which reading stopped, once all before it is applied.
    fn control(&self) -> Option<&Control> {
        self.control.as_ref().filter(|_| self.messages.is_empty())
    }

    /// The position behind [`StreamRecords::control`].
    fn behind_control(&self, named: &Position) -> Behind {
        let mut reached = Behind::at(*named);
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

    fn is_own(&self, origin: &str) -> bool {
        self.own.origin() == origin
    }

    /// Whether all rows of a message were applied before: a stream that lost messages got them again.
    fn is_applied(&self, item: &Item) -> bool {
        let Ok(message) = &item.message else {
            return false;
        };
        let known = self.origins.applied(item.origin.as_str(), message.log);
        matches!(message.body, Body::Rows(_)) && known.is_some_and(|seq| message.to <= seq)
    }

    /// Takes a message in: its records, or itself as a control.
    fn take(&mut self, mut item: Item) -> Result<()> {
        if let Ok(message) = &mut item.message
            && message.log == NO_LOG
            && let Some((log, _)) = self.origins.get(item.origin.as_str())
        {
            message.log = log;
        }
        if let Ok(message) = &item.message
            && self.is_own(item.origin.as_str())
        {
            self.own.check(&item.origin, message)?;
        }
        let is_applied = self.is_applied(&item);
        let (position, origin, message) = match Control::of(item) {
            Ok(control) if !is_applied => {
                self.control = Some(control);
                return Ok(());
            }
            Ok(control) => {
                self.messages.push_back(Message::passed_over(control));
                return Ok(());
            }
            Err(rows) => *rows,
        };
        let sequence = position.sequence;
        let origin = origin.as_str();
        // Without one, it has another log since it joined again, or its first message was removed.
        let known = self.origins.applied(origin, message.log);
        let known = known.unwrap_or(message.from);
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
            position,
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

    /// The position behind row `last`.
    fn behind(&self, named: &Position, last: Seq) -> Behind {
        let mut reached = Behind::at(*named);
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

    /// The position behind everything that was read, if it is not `named`.
    fn behind_all(&self, named: &Position) -> Option<Behind> {
        let last = self.messages.back()?.last;
        let applied = RecordSource::applied(self, named);
        let reached = self.behind(named, last.unwrap_or(applied).max(applied));
        (reached.position != *named).then_some(reached)
    }
}

impl RecordSource for StreamRecords {
    fn applied(&self, named: &Position) -> Seq {
        named.stream.map_or(0, |place| place.row)
    }

    fn restart(&mut self, named: &Position) -> Result<()> {
        let place = named.stream.unwrap_or(StreamPlace::start([0; 16]));
        self.records.clear();
        self.messages.clear();
        self.control = None;
        self.skip = place.row;
        self.incoming.restart(StreamPosition {
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
            match self.incoming.next() {
                Came::Item(item) => self.take(*item)?,
                Came::Nothing => return Ok(Next::End),
                Came::Failed(error) => return Err(of_stream(error)),
            }
        }
    }

    fn at(&self, named: &Position, last: Seq) -> Reached {
        self.behind(named, last).into()
    }

    fn end(&self, named: &Position) -> Option<Reached> {
        self.behind_all(named).map(Reached::from)
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
        if let Some(control) = self.control.take_if(is_passed)
            && control.is_of_member()
        {
            self.origins.set(&control.origin, control.log, control.to);
        }
    }
}

impl StreamSource for StreamRecords {
    fn begin(&mut self, connection: &Connection) -> Result<()> {
        self.origins = Origins::read(connection)?;
        Ok(())
    }

    fn message(&self) -> Option<Box<dyn StreamMessage>> {
        let control = self.control()?.clone();
        let own = Arc::clone(&self.own);
        Some(Box::new(ControlMessage::of(control, own)))
    }

    fn after_message(&self, named: &Position) -> Reached {
        self.behind_control(named).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Digests, Message as Sent};
    use densite_log::{Batch, Op, Table, Value};
    use densite_stream::Name;

    const LOG: LogId = LogId([1; 16]);

    /// The database a.
    struct Database;

    impl Own for Database {
        fn origin(&self) -> &str {
            "a"
        }

        fn check(&self, _: &Name, _: &Sent) -> Result<()> {
            Ok(())
        }

        fn answer(&self, _: Digests) {}
    }

    /// A message of the origin b with these rows of its log, as one transaction.
    fn message(sequence: u64, from: Seq, to: Seq) -> Item {
        let table = Table::new("vote", ["id"], 1, []).expect("a table");
        let mut batch = Batch::new(&table, Op::Insert);
        for id in from + 1..=to {
            batch.push(&[Value::Int(id as i64)]).expect("a row");
        }
        let record = Record {
            first: from + 1,
            skip: 0,
            txn: TxnId(1),
            ends_transaction: true,
            rows: batch.rows().expect("rows"),
            table,
            op: Op::Insert,
        };
        let sent = Sent {
            log: LOG,
            from,
            to,
            last: crate::member::LastTransaction::default(),
            body: Body::Rows(vec![record]),
        };
        let position = StreamPosition {
            sequence,
            mark: sequence,
        };
        Item::new(position, "b".parse().expect("a name"), sent)
    }

    fn named(place: StreamPlace) -> Position {
        Position {
            stream: Some(place),
            ..Position::at(LogId([2; 16]), 0)
        }
    }

    /// Numbers in the stream and ids of the rows that are left to apply.
    fn rows(records: &mut StreamRecords) -> Vec<(Seq, Value<'static>)> {
        let mut found = Vec::new();
        while let Ok(Next::Record(record)) = records.next_within(usize::MAX) {
            for row in record.skip..record.rows.len() {
                let Some(Value::Int(id)) = record.rows.get(row, 0) else {
                    panic!("{record:?}");
                };
                found.push((record.first + row as u64, Value::Int(id)));
            }
        }
        found
    }

    fn reader(named: &Position, origins: &Origins) -> StreamRecords {
        let mut records = StreamRecords::reading(&Arc::default(), Arc::new(Database));
        records.origins = origins.clone();
        records.restart(named).expect("it begins");
        records
    }

    #[test]
    fn a_part_that_was_applied_is_not_applied_again() {
        let begin = named(StreamPlace::start([0; 16]));
        let number = |sequence: u64, row: u64| (sequence << ROW_BITS) + row;
        let mut records = reader(&begin, &Origins::default());
        records.take(message(4, 0, 10)).expect("a message");
        assert_eq!(rows(&mut records).len(), 10);
        // Six of ten rows are applied.
        let reached = records.behind(&begin, number(4, 5));
        let place = reached.position.stream.expect("a place");
        assert_eq!((place.message, place.row), (0, number(4, 5)));
        assert_eq!(reached.origins.get("b"), Some((LOG, 6)));
        let rest = |at: u64| -> Vec<_> {
            (6..10)
                .map(|row| (number(at, row), Value::Int(row as i64 + 1)))
                .collect()
        };
        // The worker begins again.
        let mut records = reader(&reached.position, &reached.origins);
        records.take(message(4, 0, 10)).expect("a message");
        assert_eq!(rows(&mut records), rest(4));
        let all = records.behind_all(&reached.position).expect("a position");
        let place = all.position.stream.expect("a place");
        assert_eq!((place.message, all.origins.get("b")), (4, Some((LOG, 10))));
        // The stream lost the message, and got it again with another number.
        let mut records = reader(&begin, &reached.origins);
        records.take(message(2, 0, 10)).expect("a message");
        assert_eq!(rows(&mut records), rest(2));
        // And once more when all of it is applied.
        let mut records = reader(&begin, &all.origins);
        records.take(message(2, 0, 10)).expect("a message");
        assert!(rows(&mut records).is_empty());
        let end = records.behind_all(&begin).expect("a position");
        assert_eq!(end.position.stream.map(|place| place.message), Some(2));
    }

    #[test]
    fn missing_messages_of_an_origin_are_an_error() {
        let begin = named(StreamPlace::start([0; 16]));
        let mut records = reader(&begin, &Origins::default());
        records.take(message(1, 0, 3)).expect("a message");
        let error = records.take(message(2, 5, 7)).expect_err("a gap");
        assert!(
            error.message.contains("follows row 5 of b"),
            "{}",
            error.message
        );
    }
}
