//! Finds whole transactions in a damaged log.
//!
//! A record is accepted if its header and its payload match their checks, and if it belongs to the
//! log ([`Bytes::is_part`]). One flipped bit in a header or a table is corrected ([`flipped`]). A
//! transaction is kept if its first record is known: it follows the last record of another
//! transaction, its number follows, or it begins a group.

use super::bytes::{Bytes, End, Next};
use super::flipped;
use crate::batch::{Txn, TxnId};
use crate::encoded::EncodedBatch;
use crate::end_word::find_word;
use crate::files::{Files, Segment, segment_name};
use crate::format::record_header::{Kind, RECORD_LEN, RecordHeader};
use crate::format::segment::HEADER_LEN;
use crate::format::word::EndWord;
use crate::format::{DATA_OFF, SEGMENT_MAX};
use crate::op::Op;
use crate::scan::{Peek, Walk};
use crate::state::State;
use crate::table::Table;
use crate::{Error, Result, Seq};
use densite_disk::OpenMode;
use densite_disk::hash::xxh3_64;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Lost rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Number of the first lost row.
    pub first: Seq,
    /// Number of the last lost row; `None` if no file says how far the log reached.
    pub last: Option<Seq>,
    /// Name of the file that is damaged.
    pub segment: String,
    /// Offset at which the damage begins, bytes.
    pub offset: u64,
    /// What is wrong there.
    pub problem: String,
}

/// Damage behind the last transaction that was found.
struct Gap {
    segment: u64,
    offset: u64,
    problem: String,
}

/// A transaction with records still to come.
struct Open {
    id: TxnId,
    first: Seq,
    parts: Vec<Arc<EncodedBatch>>,
    /// No record is missing before its first one.
    has_head: bool,
}

/// At most so many tables are searched, so that a forged log does not take forever.
const TABLE_SEARCHES: u32 = 64;

/// Reads all segments, one at a time in memory.
pub(super) struct Finder<'a> {
    files: &'a Files,
    word: Option<EndWord>,
    /// Numbers of the segment files that exist. Without gaps, the next one is `following` and the
    /// last one is `highest`.
    numbers: VecDeque<u64>,
    following: u64,
    highest: u64,
    found: VecDeque<(Seq, Txn)>,
    open: Option<Open>,
    gap: Option<Gap>,
    /// The next record begins a transaction.
    at_start: bool,
    first_seq: Seq,
    /// Number of the next row if no row is missing.
    expected: Seq,
    lost: Vec<Lost>,
    /// Damaged tables that can still be searched.
    searches: u32,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        files: &'a Files,
        state: Option<&State>,
        applied: Option<Seq>,
    ) -> Result<Finder<'a>> {
        let there = files.numbers(state.map_or(0, |s| s.first_segment))?;
        let word = find_word(files)?;
        let lowest = state.map(|s| s.first_segment).or(there.first().copied());
        let highest = there.last().copied().max(word.map(|w| w.segment));
        let (Some(lowest), Some(highest)) = (lowest, highest) else {
            return Err(Error::Missing);
        };
        // The first row that the database or a subscriber lacks.
        let slowest = state.and_then(State::slowest);
        let lacking = slowest.into_iter().chain(applied).min().map(|seq| seq + 1);
        let mut finder = Finder {
            files,
            word,
            numbers: there.iter().copied().collect(),
            following: lowest,
            highest,
            found: VecDeque::new(),
            open: None,
            gap: None,
            at_start: true,
            // Used until a header is read.
            first_seq: lacking.unwrap_or(1),
            expected: 1,
            lost: Vec::new(),
            searches: TABLE_SEARCHES,
        };
        for number in there {
            if let Some(first_seq) = finder.header(number)?.ok().map(|s| s.header.first_seq) {
                // If there were segments before this one, their rows are unknown. Only rows that
                // the database or a subscriber lacks are known to have existed.
                let is_first = number == lowest && (state.is_some() || number == 1);
                finder.first_seq = match lacking {
                    Some(lacking) if !is_first => first_seq.min(lacking),
                    _ => first_seq,
                };
                if number == lowest && finder.first_seq < first_seq {
                    finder.damage(number - 1, 0, "the segment is missing");
                }
                break;
            }
        }
        finder.expected = finder.first_seq;
        Ok(finder)
    }

    /// Number of the first row of the log.
    pub(super) fn first_seq(&self) -> Seq {
        self.first_seq
    }

    /// Number of the row behind all rows that were ever written, as far as the files tell.
    pub(super) fn next_seq(&self) -> Seq {
        self.expected.max(self.word.map_or(0, |w| w.next_seq))
    }

    pub(super) fn into_lost(self) -> Vec<Lost> {
        self.lost
    }

    /// The next whole transaction, and the number of its first row.
    pub(super) fn next(&mut self) -> Result<Option<(Seq, Txn)>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Ok(Some(found));
            }
            let number = self.numbers.pop_front();
            if number.unwrap_or(self.highest + 1) > self.following {
                self.damage(self.following, 0, "the segment is missing");
            }
            let Some(number) = number else {
                self.following = self.highest + 1;
                self.end();
                return Ok(None);
            };
            self.following = number + 1;
            self.segment(number)?;
        }
    }

    /// A segment, or its problem.
    fn header(&self, number: u64) -> Result<std::result::Result<Segment, String>> {
        match self.files.segment(number, OpenMode::Read) {
            Ok(Some(segment)) => Ok(Ok(segment)),
            Ok(None) => Ok(Err("the segment is missing".to_owned())),
            Err(Error::Damaged { problem, .. }) => Ok(self.corrected(number)?.ok_or(problem)),
            Err(e) => Err(e),
        }
    }

    /// A segment whose header has one flipped bit.
    fn corrected(&self, number: u64) -> Result<Option<Segment>> {
        let file = match self.files.open(&segment_name(number), OpenMode::Read) {
            Ok(Some(file)) => file,
            Ok(None) | Err(Error::Damaged { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut bytes = [0; HEADER_LEN];
        file.read_at(&mut bytes, 0)?;
        let header = flipped::segment(&bytes, self.files.id, number);
        Ok(header.map(|header| Segment { file, header }))
    }

    /// The end of a segment, if the next segment's header or the end word tells it.
    fn end_of(&self, number: u64) -> Result<Option<End>> {
        if let Ok(next) = self.header(number + 1)? {
            return Ok(Some(End {
                off: next.header.prev_end,
                check: next.header.prev_check,
                is_final: true,
            }));
        }
        // The word can be older than the last record.
        let word = self.word.filter(|w| w.segment == number);
        Ok(word.map(|w| End {
            off: w.off,
            check: w.check,
            is_final: w.sealed(),
        }))
    }

    fn segment(&mut self, number: u64) -> Result<()> {
        let segment = match self.header(number)? {
            Ok(segment) => segment,
            Err(problem) => {
                self.damage(number, 0, &problem);
                return Ok(());
            }
        };
        // A transaction never spans segments.
        self.open = None;
        self.at_start = true;
        let mut bytes = Bytes::read(&segment, self.end_of(number)?)?;
        let mut tables = HashMap::new();
        let mut at = DATA_OFF;
        let mut next = Some(Next {
            at,
            prev: segment.header.check(),
            is_start: true,
        });
        // The offset at which the records stopped, while the next one is searched.
        let mut stopped = None;
        while bytes.from(at).len() >= RECORD_LEN {
            let here = next.filter(|next| next.at == at);
            let header = bytes.header(at, here);
            let is_part = header.is_some_and(|h| bytes.is_part(at, &h, here, stopped));
            let payload = match &header {
                Some(header) if is_part => self.payload(&bytes, at, header)?,
                _ => None,
            };
            let Some((header, payload)) = header.zip(payload) else {
                stopped.get_or_insert(at);
                // If only the payload is damaged, the header still tells where the next record is,
                // and whether it begins a transaction.
                match header.filter(|_| is_part) {
                    Some(header) => next = Some(Next::behind(&header, at)),
                    None if here.is_some() => next = None,
                    None => {}
                }
                at += 8;
                continue;
            };
            if let Some(place) = stopped.take() {
                self.damage(number, place, "records that cannot be read");
                self.at_start = here.is_some_and(|here| here.is_start);
            }
            self.record(number, at, &header, &payload, &mut tables);
            next = Some(Next::behind(&header, at));
            at += header.padded_len();
        }
        let place = stopped.unwrap_or(at);
        if bytes.end.is_some_and(|end| place < end.off) {
            self.damage(number, place, "records that cannot be read");
        }
        Ok(())
    }

    /// The payload of a record. That of a damaged table is corrected, or it is that of another
    /// record with the same check.
    fn payload<'b>(
        &mut self,
        bytes: &'b Bytes,
        at: u64,
        header: &RecordHeader,
    ) -> Result<Option<Cow<'b, [u8]>>> {
        let len = header.stored_len as usize;
        let Some(payload) = bytes.from(at).get(RECORD_LEN..RECORD_LEN + len) else {
            return Ok(None);
        };
        if xxh3_64(payload) == header.payload_check {
            return Ok(Some(Cow::Borrowed(payload)));
        }
        if header.kind != Kind::Table || self.searches == 0 {
            return Ok(None);
        }
        self.searches -= 1;
        let table = match flipped::table(payload, header.payload_check) {
            Some(table) => Some(table),
            None => self.table_like(header)?,
        };
        Ok(table.map(Cow::Owned))
    }

    /// The payload of an intact record of the same table.
    fn table_like(&self, header: &RecordHeader) -> Result<Option<Vec<u8>>> {
        for number in self.files.numbers(0)? {
            let Ok(segment) = self.header(number)? else {
                continue;
            };
            let len = segment.file.len()?.min(SEGMENT_MAX);
            let mut walk = Walk::new(segment);
            while let Peek::Record(found) = walk.peek(len)? {
                let same = |h: &RecordHeader| (h.kind, h.stored_len, h.payload_check);
                if same(&found) == same(header) {
                    return Ok(Some(walk.payload(&found).to_vec()));
                }
                walk.pass(&found);
            }
        }
        Ok(None)
    }

    fn record(
        &mut self,
        number: u64,
        at: u64,
        header: &RecordHeader,
        payload: &[u8],
        tables: &mut HashMap<u32, Arc<Table>>,
    ) {
        // A group begins where everything before it was synced, and with a transaction.
        self.at_start |= u64::from(header.synced) == at;
        if header.kind == Kind::Table {
            if let Some(table) = Table::decode(payload) {
                tables.insert(at as u32, table);
            }
            return;
        }
        let (Some(table), Some(op)) = (tables.get(&header.table), Op::of(header.op)) else {
            self.damage(number, at, "rows whose table cannot be read");
            self.at_start = header.ends_transaction();
            return;
        };
        let id = TxnId(header.txn);
        let mut open = match self.open.take() {
            Some(open) if open.id == id => open,
            _ => Open {
                id,
                first: header.first_seq,
                parts: Vec::new(),
                has_head: self.at_start || header.first_seq == self.expected,
            },
        };
        let batch = EncodedBatch::of_record(header, table, op, payload);
        open.parts.push(Arc::new(batch));
        self.at_start = header.ends_transaction();
        if !header.ends_transaction() {
            self.open = Some(open);
            return;
        }
        // A transaction with a missing record is dropped. The next whole one tells how far the loss
        // reaches.
        if open.has_head {
            self.note(Some(open.first - 1));
            self.expected = header.last_seq() + 1;
            self.found
                .push_back((open.first, Txn::of_parts(id, open.parts)));
        }
    }

    /// Notes a place that cannot be read. The transaction around it is lost.
    fn damage(&mut self, segment: u64, offset: u64, problem: &str) {
        self.open = None;
        self.at_start = false;
        self.gap.get_or_insert(Gap {
            segment,
            offset,
            problem: problem.to_owned(),
        });
    }

    /// Reports the rows up to `last` as lost if there was damage. Without damage, numbers can be
    /// skipped for other reasons.
    fn note(&mut self, last: Option<Seq>) {
        if let Some(gap) = self.gap.take()
            && last.is_none_or(|last| last >= self.expected)
        {
            self.lost.push(Lost {
                first: self.expected,
                last,
                segment: segment_name(gap.segment),
                offset: gap.offset,
                problem: gap.problem,
            });
        }
    }

    fn end(&mut self) {
        let last = self.word.map(|w| w.last_seq());
        self.note(last);
    }
}
