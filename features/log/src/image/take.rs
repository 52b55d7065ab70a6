//! Reading a log for a copy.
//!
//! A copy of a database and its log is taken in this order: the segments are held, then the
//! restore point of the database is taken, then the end of the log is read. So the copy of the log
//! begins at or before the position of the copied database, and ends at or after it: what was pruned
//! before the hold had been applied, and what the database has applied was synced before it was
//! applied.
//!
//! Invariant: nothing is pruned while it is held. A pruner needs the exclusive lock of the first
//! segment. So the state still names all rollbacks of rows that the copy has.

use super::Span;
use crate::end_word::find_whole_word;
use crate::files::{Files, LogDir, Segment, damaged};
use crate::format::DATA_OFF;
use crate::format::record_header::{RECORD_LEN, RecordHeader};
use crate::format::word::EndWord;
use crate::scan::{Peek, Walk};
use crate::state::State;
use crate::{Error, Result, id_in, recover};
use std::collections::BTreeMap;

/// How often the segments are listed again because others prune.
const TRIES: u32 = 10;

/// The segments of a log, held: while this exists, none of them is recycled.
pub struct Hold {
    files: Files,
    first: u64,
    segments: BTreeMap<u64, Segment>,
}

impl Hold {
    /// Holds all segments of the log in a directory. `None` if there is no log, or if others prune
    /// it faster than it can be listed.
    ///
    /// # Errors
    /// `Damaged`, `NewerFormat`, `Io`.
    pub fn take(dir: LogDir) -> Result<Option<Hold>> {
        for _ in 0..TRIES {
            let Some(id) = id_in(dir.clone())? else {
                return Ok(None);
            };
            let files = Files {
                dir: dir.clone(),
                id,
            };
            let numbers = recover::segments(&files)?;
            let mut hold = Hold {
                first: numbers.first().copied().unwrap_or(1),
                files,
                segments: BTreeMap::new(),
            };
            if hold.add(numbers)? && hold.is_not_pruned()? {
                return Ok(Some(hold));
            }
        }
        Ok(None)
    }

    /// Holds these segments, too. Returns false if one of them is gone.
    fn add(&mut self, numbers: impl IntoIterator<Item = u64>) -> Result<bool> {
        for number in numbers {
            match self.files.held(number)? {
                Some(segment) => self.segments.insert(number, segment),
                None => return Ok(false),
            };
        }
        Ok(true)
    }

    /// Whether the log still begins with the first segment that is held.
    fn is_not_pruned(&self) -> Result<bool> {
        Ok(recover::state(&self.files)?.first_segment == self.first)
    }

    /// The log as of now. `None` if it was replaced since it is held.
    ///
    /// # Errors
    /// `Damaged`, `NewerFormat`, `Io`.
    pub fn settle(mut self) -> Result<Option<Image>> {
        match self.settled() {
            Ok(Some((end, state))) => Ok(Some(Image {
                hold: self,
                end,
                state,
            })),
            Ok(None) | Err(Error::OtherLog { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn settled(&mut self) -> Result<Option<(EndWord, State)>> {
        // The word comes before the state: a row that was rolled back is then either behind the
        // word, or named by the state.
        let word = match find_whole_word(&self.files)? {
            Some(word) => word,
            None => recover::end_as_read(&self.files)?,
        };
        let last = self.segments.keys().next_back().copied();
        let next = last.map_or(self.first, |last| last + 1);
        if !self.add(next..=word.segment)? {
            return Ok(None);
        }
        let state = recover::state(&self.files)?;
        // A segment can have been begun since the word was read.
        self.segments.retain(|number, _| *number <= word.segment);
        let end = EndWord { writers: 0, ..word };
        Ok(Some((end, state)))
    }
}

/// Bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the segment.
    pub segment: u64,
    /// Where they begin.
    pub from: u64,
    /// Where they end.
    pub to: u64,
}

/// What a copy lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Its bytes, in their order.
    pub parts: Vec<Part>,
    /// Whether they follow what the copy has without a gap.
    pub continues: bool,
}

impl News {
    /// How many bytes these are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.to - part.from).sum()
    }
}

/// A log as of a moment. While this exists, its segments are not recycled.
pub struct Image {
    hold: Hold,
    end: EndWord,
    state: State,
}

impl Image {
    /// What a copy of all of it has.
    #[must_use]
    pub fn span(&self) -> Span {
        Span {
            first: self.hold.first,
            end: self.end,
        }
    }

    /// The state: settings, subscribers and rollbacks.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        self.state.encode()
    }

    /// The state without the positions of subscribers. Those change with each acknowledgement, and
    /// with an older one a subscriber gets rows a second time.
    #[must_use]
    pub fn settings(&self) -> Vec<u8> {
        let mut state = State {
            first_segment: 1,
            ..self.state.clone()
        };
        state.subscribers.values_mut().for_each(|seq| *seq = 0);
        state.encode()
    }

    /// What a copy lacks that has the bytes of `has`. A copy of another log, or of a log that went
    /// on in another way, lacks everything.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    pub fn after(&self, has: Option<&Span>) -> Result<News> {
        let (mut from, mut continues) = ((self.hold.first, 0), false);
        if let Some(has) = has
            && self.follows(&has.end)?
        {
            (from, continues) = (has.end(), true);
        }
        let mut parts = Vec::new();
        for segment in from.0..=self.end.segment {
            let (from, to) = match segment == from.0 {
                true => (from.1, self.segment_end(segment)?.0),
                false => (0, self.segment_end(segment)?.0),
            };
            if from < to {
                parts.push(Part { segment, from, to });
            }
        }
        Ok(News { parts, continues })
    }

    /// Whether the log went on from this end. The check of what lies before it tells.
    fn follows(&self, has: &EndWord) -> Result<bool> {
        let Some(segment) = self.hold.segments.get(&has.segment) else {
            return Ok(false);
        };
        let (end, check) = self.segment_end(has.segment)?;
        if has.id != self.hold.files.id || has.off > end {
            return Ok(false);
        }
        if has.off == end {
            return Ok(has.check == check);
        }
        let mut bytes = [0; RECORD_LEN];
        segment.file.read_at(&mut bytes, has.off)?;
        let record = RecordHeader::decode(&bytes, segment.header.salt, has.off);
        Ok(record.is_some_and(|record| record.prev == has.check))
    }

    /// Where a segment ends, and the check of its last record.
    fn segment_end(&self, number: u64) -> Result<(u64, u64)> {
        if number == self.end.segment {
            return Ok((self.end.off, self.end.check));
        }
        match self.hold.segments.get(&(number + 1)) {
            Some(next) if next.header.prev_end >= DATA_OFF => {
                Ok((next.header.prev_end, next.header.prev_check))
            }
            _ => Err(damaged(
                number + 1,
                0,
                "it does not name the end of the previous segment",
            )),
        }
    }

    /// Reads all records, and checks that they follow one another up to the end.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    pub fn check(&self) -> Result<()> {
        for number in self.hold.segments.keys().copied() {
            let segment = self.hold.files.held(number)?;
            let segment = segment.ok_or_else(|| damaged(number, 0, "the segment is missing"))?;
            let (end, check) = self.segment_end(number)?;
            let mut walk = Walk::new(segment);
            while walk.at() < end {
                match walk.peek(end)? {
                    Peek::Record(record) => walk.pass(&record),
                    Peek::Nothing(problem) => return Err(damaged(number, walk.at(), problem)),
                }
            }
            if walk.at() != end || walk.prev() != check {
                return Err(damaged(number, end, "it does not end where it should"));
            }
        }
        Ok(())
    }

    /// Reads bytes of a segment that [`Image::after`] named.
    ///
    /// # Errors
    /// `Damaged` if the file is shorter; `Io`.
    pub fn read(&self, segment: u64, buf: &mut [u8], offset: u64) -> Result<()> {
        let held = self.hold.segments.get(&segment);
        let held = held.ok_or_else(|| damaged(segment, 0, "the segment is missing"))?;
        match held.file.read_at(buf, offset)? == buf.len() {
            true => Ok(()),
            false => Err(damaged(segment, offset, "the file ends too early")),
        }
    }
}
