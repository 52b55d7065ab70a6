//! Reading the log in order.

use crate::batch::TxnId;
use crate::encoded::decoded;
use crate::files::{Segment, damaged, segment_name};
use crate::format::record_header::{Kind, RecordHeader};
use crate::op::Op;
use crate::rows::{Payload, Rows};
use crate::scan::{Peek, Walk};
use crate::shared::Shared;
use crate::state::is_cancelled;
use crate::table::Table;
use crate::visibility::Visible;
use crate::{Error, Result, Seq};
use densite_disk::OpenMode;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Some rows of a transaction: one batch.
#[derive(Debug, Clone)]
pub struct Record {
    /// Number of the first of `rows`.
    pub first: Seq,
    /// Number of first rows that were read before: a reader can begin within a batch.
    pub skip: usize,
    /// The transaction.
    pub txn: TxnId,
    /// Whether the next record is of another transaction.
    pub ends_transaction: bool,
    /// The table of the rows.
    pub table: Arc<Table>,
    /// The operation of the rows.
    pub op: Op,
    /// The rows.
    pub rows: Rows,
}

impl Record {
    /// Number of the last of its rows.
    pub fn last(&self) -> Seq {
        self.first + self.rows.len() as u64 - 1
    }
}

/// Drops the records behind the last whole transaction. For records in front of a place that cannot
/// be read: a transaction that is cut there stays incomplete.
pub fn keep_whole_transactions(records: &mut Vec<Record>) {
    let last = records.iter().rposition(|r| r.ends_transaction);
    records.truncate(last.map_or(0, |last| last + 1));
}

/// A place in a segment, which stays locked against recycling.
pub(crate) struct Place {
    number: u64,
    pub(crate) walk: Walk,
    /// Rows that follow have this number or a higher one.
    next_seq: Seq,
    /// The end of the segment and its last check, once another segment follows.
    end: Option<(u64, u64)>,
    tables: HashMap<u32, Arc<Table>>,
}

/// Reads records in order: those that are synced, decided and not rolled back. While it exists,
/// nothing from its place on is pruned.
pub struct Reader {
    shared: Arc<Shared>,
    after: Seq,
    visible: Visible,
    place: Option<Place>,
    /// When the reader last met the end and found the log in its place.
    looked: Option<Instant>,
}

/// How often a reader at the end checks that the log is in its place.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, after: Seq) -> Result<Reader> {
        let visible = shared.visible()?;
        let mut reader = Reader {
            shared,
            after,
            visible,
            place: None,
            looked: None,
        };
        match reader.find_place() {
            Ok(()) | Err(Error::Pruned { .. }) => Ok(reader),
            Err(e) => Err(e),
        }
    }

    /// The last row that was read or passed. After [`Reader::next`] returned `None`, it is the
    /// last number that can be read, even if the rows before it were rolled back or are lost.
    pub fn position(&self) -> Seq {
        self.after
    }

    /// The next record; `None` at the end of the log. The end can move: ask again later, or use
    /// [`Log::wait_after`](crate::Log::wait_after).
    ///
    /// # Errors
    /// `Pruned` if the rows are no longer in the log; `Damaged`; `Replaced` if a log that is open
    /// for reading only was repaired; `Io`. An error does not move the reader.
    #[expect(clippy::should_implement_trait, reason = "the end may move")]
    pub fn next(&mut self) -> Result<Option<Record>> {
        match self.next_within(usize::MAX)? {
            Next::Record(record) => Ok(Some(record)),
            Next::End | Next::Larger => Ok(None),
        }
    }

    /// As [`Reader::next`], but does not read a record whose decoded rows take more than `bytes`.
    /// The reader stays in front of it.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn next_within(&mut self, bytes: usize) -> Result<Next> {
        self.shared.dir.is_ours()?;
        let next = self.read_on(bytes);
        // If another log is in its place, this is not damage.
        if next.is_err() {
            self.shared.dir.is_in_place()?;
        }
        next
    }

    fn read_on(&mut self, bytes: usize) -> Result<Next> {
        let mut fresh = false;
        loop {
            self.find_place()?;
            match self.step(bytes)? {
                Step::Record(record) => return Ok(Next::Record(record)),
                Step::Larger => return Ok(Next::Larger),
                Step::Passed => {}
                Step::End if fresh => {
                    self.check_name()?;
                    // All decided rows were passed. Undecided rows have higher numbers.
                    self.after = self.after.max(self.visible.last);
                    return Ok(Next::End);
                }
                Step::End => {
                    // Read at most once for each record, because it reads another file.
                    self.visible = self.shared.visible()?;
                    fresh = true;
                }
            }
        }
    }

    /// Checks that the log was not moved away: then no more rows would ever come. It checks only once
    /// in each [`LOOK_EVERY`], because a caller can read very often.
    fn check_name(&mut self) -> Result<()> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.shared.dir.is_in_place()?;
            self.looked = Some(Instant::now());
        }
        Ok(())
    }

    /// Bytes of the log between this place and its end.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn bytes_left(&mut self) -> Result<u64> {
        self.visible = self.shared.visible()?;
        self.find_place()?;
        let Some(place) = &self.place else {
            return Ok(0);
        };
        let word = self.visible.word;
        let (mut number, mut at, mut bytes) = (place.number, place.walk.at(), 0);
        while number < word.segment {
            let (end, _) = self.shared.dir.files.sealed_end(number)?;
            bytes += end.saturating_sub(at);
            (number, at) = (number + 1, crate::format::DATA_OFF);
        }
        Ok(bytes + word.off.saturating_sub(at))
    }

    /// Opens the segment that contains the next row, unless one is open.
    fn find_place(&mut self) -> Result<()> {
        if self.place.is_some() {
            return Ok(());
        }
        loop {
            let wanted = self.after.saturating_add(1);
            let first = self.shared.dir.state()?.first_segment;
            // The segments that exist, whatever the end word says.
            let mut there = self.shared.dir.files.numbers(first)?;
            there.retain(|number| *number <= self.visible.word.segment);
            // Binary search for the last segment whose first row is not behind the wanted one.
            let (mut low, mut rest) = (first, there.as_slice());
            while let Some((before, after)) = rest.split_at_checked(rest.len() / 2)
                && !after.is_empty()
            {
                rest = match self.first_told(after)? {
                    Some((place, first)) if first <= wanted => {
                        low = after.get(place).copied().unwrap_or(low);
                        after.get(place + 1..).unwrap_or_default()
                    }
                    _ => before,
                };
            }
            match self.shared.dir.files.held(low)? {
                Some(segment) if segment.header.first_seq <= wanted => {
                    self.shared.dir.is_in_place()?;
                    self.place = Some(Place::new(segment));
                    return Ok(());
                }
                Some(segment) if low == self.shared.dir.state()?.first_segment => {
                    let first = segment.header.first_seq;
                    return Err(Error::Pruned { wanted, first });
                }
                None if low == self.shared.dir.state()?.first_segment => {
                    return Err(damaged(low, 0, "the segment is missing"));
                }
                // It was pruned meanwhile: try again.
                _ => {}
            }
        }
    }

    /// The first of these segments with a readable header: its index and its first row. Damaged and
    /// missing segments are skipped. A reader that reaches one reports it, and it hides no rows
    /// before or behind it.
    fn first_told(&self, numbers: &[u64]) -> Result<Option<(usize, Seq)>> {
        for (place, number) in numbers.iter().enumerate() {
            match self.shared.dir.files.segment(*number, OpenMode::Read) {
                Ok(Some(segment)) => return Ok(Some((place, segment.header.first_seq))),
                Ok(None) | Err(Error::Damaged { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    fn step(&mut self, bytes: usize) -> Result<Step> {
        let Some(place) = &mut self.place else {
            return Ok(Step::Passed);
        };
        let word = self.visible.word;
        if place.end.is_none() && place.number < word.segment {
            place.end = Some(self.shared.dir.files.sealed_end(place.number)?);
        }
        let limit = match place.end {
            Some((end, _)) => end,
            None if place.number == word.segment => word.off,
            None => return Ok(Step::End),
        };
        if place.walk.at() >= limit {
            let Some((end, check)) = place.end else {
                return Ok(Step::End);
            };
            if place.walk.at() > end || place.walk.prev() != check {
                let problem = "the next segment does not follow this one";
                return Err(damaged(place.number, end, problem));
            }
            // The next segment is locked before this one is released, so pruning never overtakes
            // the reader.
            let next = self.shared.dir.files.held(place.number + 1)?;
            let next =
                next.ok_or_else(|| damaged(place.number + 1, 0, "the segment is missing"))?;
            self.shared.dir.is_in_place()?;
            self.place = Some(Place::new(next));
            return Ok(Step::Passed);
        }
        if bytes < usize::MAX
            && let Some(header) = place.walk.header(limit)?
            && header.last_seq() > self.after
            && header.raw_len as usize > bytes
        {
            return Ok(Step::Larger);
        }
        let header = match place.walk.peek(limit)? {
            Peek::Record(header) => header,
            Peek::Nothing(problem) => {
                return Err(damaged(place.number, place.walk.at(), problem));
            }
        };
        if header.last_seq() > word.last_seq() {
            let problem = "rows behind the end of the log";
            return Err(damaged(place.number, place.walk.at(), problem));
        }
        if header.last_seq() > self.visible.last {
            return Ok(Step::End);
        }
        let record = place.read(&header, self.after, &self.visible.cancelled)?;
        place.pass(&header);
        self.after = self.after.max(header.last_seq());
        Ok(record.map_or(Step::Passed, Step::Record))
    }
}

/// The result of [`Reader::next_within`].
#[derive(Debug)]
pub enum Next {
    /// A record.
    Record(Record),
    /// The next record is larger than the limit.
    Larger,
    /// The end, which can move.
    End,
}

enum Step {
    Record(Record),
    Larger,
    /// Something that is not a record to return.
    Passed,
    /// No more rows can be read, as far as this reader knows.
    End,
}

impl Place {
    pub(crate) fn new(segment: Segment) -> Place {
        Place {
            number: segment.header.number,
            next_seq: segment.header.first_seq,
            walk: Walk::new(segment),
            end: None,
            tables: HashMap::new(),
        }
    }

    /// Passes the record here.
    pub(crate) fn pass(&mut self, header: &RecordHeader) {
        self.walk.pass(header);
        self.next_seq = header.last_seq() + 1;
    }

    /// Decodes the record here, for a reader that has read up to `after`; `None` if it has no rows
    /// for that reader.
    pub(crate) fn read(
        &mut self,
        header: &RecordHeader,
        after: Seq,
        cancelled: &[(Seq, Seq)],
    ) -> Result<Option<Record>> {
        let at = self.walk.at();
        let wrong = |problem: &str| Error::Damaged {
            segment: segment_name(self.number),
            offset: at,
            problem: problem.to_owned(),
        };
        if header.first_seq < self.next_seq {
            return Err(wrong("rows out of order"));
        }
        let stored = self.walk.payload(header);
        if header.kind == Kind::Table {
            let table =
                Table::decode(stored).ok_or_else(|| wrong("a table that cannot be read"))?;
            self.tables.insert(at as u32, table);
            return Ok(None);
        }
        if header.last_seq() <= after || is_cancelled(cancelled, header.first_seq) {
            return Ok(None);
        }
        let table = self.tables.get(&header.table);
        let table = table.ok_or_else(|| wrong("the record of its table is missing"))?;
        let rows = decoded(header.codec, stored, header.raw_len)?
            .and_then(|raw| Rows::decode(Payload::Own(raw), header.count as usize))
            .filter(|rows| rows.columns() == table.columns().len())
            .ok_or_else(|| wrong("rows that cannot be read"))?;
        Ok(Some(Record {
            first: header.first_seq,
            skip: (after + 1).saturating_sub(header.first_seq) as usize,
            txn: TxnId(header.txn),
            ends_transaction: header.ends_transaction(),
            table: table.clone(),
            op: Op::of(header.op).ok_or_else(|| wrong("an unknown operation"))?,
            rows,
        }))
    }
}
