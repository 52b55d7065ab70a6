//! The end of the log, where one thread of one process at a time writes, under the append lock.
//!
//! A turn: [`Tail::catch_up`] with other processes, [`Tail::write`] a group and sync it,
//! [`Tail::publish`] the end word. All records before the word's `off` are synced when it is
//! published; no others count as appended. A segment without room for a group, or with a failed
//! sync, is left unchanged, and the next one begins ([`Tail::rotate`]). So the remains of a failed
//! group lie behind the end that the next segment's header names.

use crate::end_word::read_word;
use crate::files::{Files, Segment, damaged, segment_name};
use crate::format::record::{ENDS, Kind, RECORD_LEN, RecordHeader};
use crate::format::segment::SegmentHeader;
use crate::format::word::{EndWord, SEALED};
use crate::format::{DATA_OFF, LOG_FORMAT_VERSION, MAX_SEQ};
use crate::named::Named;
use crate::pieces::Pieces;
use crate::recover;
use crate::txn::{Appended, Txn};
use crate::{Error, Options, Result, Seq};
use densite_disk::hash::xxh3_64;
use densite_disk::{File, OpenMode, Stamp, SyncKind};
use std::collections::HashMap;
use std::sync::Arc;

/// No real log reaches this limit, but a damaged file can claim it.
pub(crate) const NO_NUMBERS: Error =
    Error::Limit("the log has no numbers left for more rows or segments");

/// What one process knows of the end of the log.
pub(crate) struct Tail {
    files: Files,
    options: Options,
    end_file: Box<dyn File>,
    /// Names of the end file and of the append lock.
    names: Vec<Named>,
    /// Stamp of the directory when these names and the segment's name were last checked.
    sure: Option<Stamp>,
    word: EndWord,
    /// The last segment and its name, once they are needed.
    segment: Option<(Segment, Named)>,
    /// Length of the segment's file.
    len: u64,
    /// Tables that this process wrote to the segment, and their offsets.
    tables: HashMap<Arc<[u8]>, u32>,
    /// Buffer for the bytes of a group, or of a part of it; kept to reuse its memory.
    buf: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(
        files: Files,
        options: Options,
        end_file: Box<dyn File>,
        names: Vec<Named>,
        word: EndWord,
    ) -> Tail {
        Tail {
            files,
            options,
            end_file,
            names,
            sure: None,
            word,
            segment: None,
            len: 0,
            tables: HashMap::new(),
            buf: Vec::new(),
        }
    }

    pub(crate) fn word(&self) -> EndWord {
        self.word
    }

    /// Learns what other processes appended. The caller holds the append lock.
    ///
    /// # Errors
    /// `Replaced` if the lock belongs to another log now, or other processes would not read what
    /// this process writes. Then nothing was changed.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        // One stamp of the directory covers all names, unless one of them changed just now.
        let stamp = self.files.dir.stamp()?;
        let is_sure = stamp.is_some() && stamp == self.sure;
        if !is_sure {
            self.names.iter().try_for_each(|n| n.check(&self.files))?;
        }
        let word = match read_word(self.end_file.as_ref(), &self.files)? {
            Some(word) => word,
            // Its writer was killed in the middle of writing the word.
            None => recover::end(&self.files)?,
        };
        // A process that failed to write the word can have begun another segment.
        let word = match self.files.dir.exists(&segment_name(word.segment + 1))? {
            true => recover::end(&self.files)?,
            false => word,
        };
        let (known, sealed) = (self.word.segment, self.word.sealed());
        self.word = word;
        if word.segment != known {
            self.leave();
        } else if sealed {
            // This process sealed the segment, and could not write the word.
            self.word.flags |= SEALED;
        }
        if !is_sure {
            let written = self.segment.as_ref();
            written.map_or(Ok(()), |(_, name)| name.check(&self.files))?;
            self.sure = stamp.filter(Stamp::is_past_tick);
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.segment = None;
        self.tables.clear();
    }

    /// Tells all processes that the log is synced up to here.
    pub(crate) fn publish(&mut self, writers: u32) -> Result<()> {
        self.word.writers = self.word.writers.max(writers);
        self.end_file.write_at(&self.word.encode(), 0)?;
        Ok(())
    }

    /// Syncs the word itself, so that the next process that opens the log finds the end at once.
    pub(crate) fn sync_word(&mut self) -> Result<()> {
        Ok(self.end_file.sync(SyncKind::Data)?)
    }

    /// Whether a transaction of at most `more` bytes fits behind `taken` bytes of the same group.
    pub(crate) fn fits(&self, taken: u64, more: u64) -> bool {
        let room = self.options.segment_bytes.saturating_sub(self.word.off);
        taken == 0 || taken + more <= room.min(self.options.group_bytes_max as u64)
    }

    /// Writes a group, makes it durable and publishes it. Returns the rows of each transaction.
    /// After an error, none of it is in the log.
    ///
    /// `announce` is called between the sync and the end word, so other processes know its effect
    /// before they can read the group.
    pub(crate) fn write(
        &mut self,
        group: &[Arc<Txn>],
        announce: impl FnOnce(&[Appended]) -> Result<()>,
    ) -> Result<Vec<Appended>> {
        let bytes: u64 = group.iter().map(|t| t.stored_max()).sum();
        let rows: u64 = group.iter().map(|t| t.rows()).sum();
        if self.word.next_seq + rows >= MAX_SEQ {
            return Err(NO_NUMBERS);
        }
        let fits = self.word.off + bytes <= self.options.segment_bytes;
        if self.word.sealed() || (!fits && self.word.off > DATA_OFF) {
            self.rotate()?;
        }
        self.open()?;
        let mut buf = std::mem::take(&mut self.buf);
        let mut put = Put {
            next: self.word,
            tables: HashMap::new(),
            appended: Vec::with_capacity(group.len()),
        };
        let done = self.write_durably(group, bytes, &mut put, &mut buf);
        buf.clear();
        buf.shrink_to(self.options.group_bytes_max);
        self.buf = buf;
        done?;
        let Put {
            next,
            tables,
            appended,
        } = put;
        let before = std::mem::replace(&mut self.word, next);
        match announce(&appended).and_then(|()| self.publish(0)) {
            Ok(()) => self.tables.extend(tables),
            Err(e) => {
                // It is synced, but other processes would overwrite it.
                self.word = before;
                self.seal();
                return Err(e);
            }
        }
        Ok(appended)
    }

    /// Appends the records of a transaction to the group.
    fn put(&self, txn: &Txn, salt: u64, to: &mut Put, pieces: &mut Pieces<'_>) -> Result<()> {
        let synced = self.word.off as u32;
        let first = to.next.next_seq;
        let mut parts = txn.parts().iter().peekable();
        while let Some(part) = parts.next() {
            let mut header = RecordHeader {
                kind: Kind::Table,
                op: 0,
                codec: 0,
                flags: 0,
                stored_len: 0,
                raw_len: 0,
                count: 0,
                table: 0,
                synced,
                first_seq: to.next.next_seq,
                txn: txn.id().0,
                payload_check: 0,
                prev: to.next.check,
                check: 0,
            };
            let bytes = part.table().encoded();
            let known = self.tables.get(bytes).or_else(|| to.tables.get(bytes));
            let table = match known {
                Some(at) => *at,
                None => {
                    let at = to.next.off as u32;
                    to.tables.insert(bytes.clone(), at);
                    header.payload_check = xxh3_64(bytes);
                    put_record(&mut header, bytes, salt, &mut to.next, pieces)?;
                    at
                }
            };
            header = RecordHeader {
                kind: Kind::Batch,
                op: part.op() as u8,
                codec: part.codec(),
                flags: if parts.peek().is_none() { ENDS } else { 0 },
                raw_len: part.bytes() as u32,
                count: part.len() as u32,
                table,
                payload_check: part.payload_check(),
                prev: to.next.check,
                ..header
            };
            put_record(&mut header, part.payload(), salt, &mut to.next, pieces)?;
            to.next.next_seq += part.len() as u64;
        }
        to.appended.push(Appended {
            first,
            last: to.next.last_seq(),
        });
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        if self.segment.is_none() {
            let number = self.word.segment;
            let segment = self.files.segment(number, OpenMode::Write)?;
            let segment = segment.ok_or_else(|| damaged(number, 0, "the segment is missing"))?;
            self.len = segment.file.len()?;
            self.keep(segment)?;
        }
        Ok(())
    }

    fn keep(&mut self, segment: Segment) -> Result<()> {
        let name = segment_name(segment.header.number);
        let name = Named::of(name, segment.file.as_ref())?;
        self.segment = Some((segment, name));
        Ok(())
    }

    /// Writes and syncs a group of at most `bytes`.
    fn write_durably(
        &mut self,
        group: &[Arc<Txn>],
        bytes: u64,
        to: &mut Put,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        let at = self.word.off;
        let Some((segment, _)) = &self.segment else {
            return Err(Error::Missing);
        };
        let (file, salt) = (segment.file.as_ref(), segment.header.salt);
        let most = self.options.group_bytes_max;
        let mut pieces = Pieces::new(file, at, buf, bytes, most);
        let mut txns = group.iter();
        let written = txns
            .try_for_each(|txn| self.put(txn, salt, to, &mut pieces))
            .and_then(|()| pieces.write());
        let end = pieces.end();
        let written = written.and_then(|()| {
            if end > self.len {
                // A file that grows in large steps changes its metadata once for many syncs.
                let step = end.next_multiple_of(self.options.grow_bytes.max(1));
                let to = step.min(self.options.segment_bytes).max(end);
                crate::free_segment::write_zeros(file, end, to)?;
                self.len = to;
            }
            Ok(())
        });
        if let Err(e) = written {
            // A complete part of the group must not appear in the log later.
            let gone = file.len().and_then(|len| {
                self.len = len;
                crate::free_segment::blank(file, at, end)
            });
            if gone.is_err() {
                self.seal();
            }
            return Err(e);
        }
        if let Err(e) = file.sync(SyncKind::Data) {
            self.seal();
            return Err(Error::SyncFailed(e));
        }
        Ok(())
    }

    /// Leaves the segment for good: no process may write behind a failed sync. The word tells
    /// running processes, the next segment's header tells later ones. What cannot be written is tried
    /// again before the next group, by [`Tail::retry_seal`], and at the close.
    fn seal(&mut self) {
        self.word.flags |= SEALED;
        let told = self.publish(0);
        let left = self.rotate();
        if told.and(left).is_err() {
            self.leave();
        }
    }

    /// Tries again to leave a segment that could not be left. Otherwise a process that opens the log
    /// later would take the failed group for one of a killed process. The caller holds the append
    /// lock and has caught up.
    pub(crate) fn retry_seal(&mut self) {
        if self.word.sealed() {
            self.seal();
        }
    }

    /// Begins the next segment. The current one ends at the word's `off`.
    fn rotate(&mut self) -> Result<()> {
        if self.word.segment + 1 >= MAX_SEQ {
            return Err(NO_NUMBERS);
        }
        let header = SegmentHeader {
            version: LOG_FORMAT_VERSION,
            id: self.files.id,
            number: self.word.segment + 1,
            first_seq: self.word.next_seq,
            prev_end: self.word.off,
            prev_check: self.word.check,
            salt: densite_disk::random::random_u64()?,
        };
        let file = self.files.make_segment(&header)?;
        self.leave();
        self.len = file.len()?;
        self.word = EndWord {
            segment: header.number,
            off: DATA_OFF,
            check: header.check(),
            flags: self.word.flags & !SEALED,
            ..self.word
        };
        self.keep(Segment { file, header })?;
        self.publish(0)
    }

    /// Whether more than half of the segment's room is used.
    pub(crate) fn is_half_full(&self) -> bool {
        self.word.off > self.options.segment_bytes / 2
    }

    /// The next row gets a number above this one.
    ///
    /// # Errors
    /// `Limit` if no numbers are left.
    pub(crate) fn raise(&mut self, above: Seq) -> Result<()> {
        if above >= MAX_SEQ - 1 {
            return Err(NO_NUMBERS);
        }
        self.word.next_seq = self.word.next_seq.max(above + 1);
        Ok(())
    }
}

/// The state of a group while its records are written.
struct Put {
    /// The end of the log behind the group so far.
    next: EndWord,
    /// Tables that the group writes to the segment, and their offsets.
    tables: HashMap<Arc<[u8]>, u32>,
    /// The rows of each transaction.
    appended: Vec<Appended>,
}

fn put_record(
    header: &mut RecordHeader,
    payload: &[u8],
    salt: u64,
    next: &mut EndWord,
    pieces: &mut Pieces<'_>,
) -> Result<()> {
    header.stored_len = payload.len() as u32;
    if header.kind == Kind::Table {
        header.raw_len = header.stored_len;
    }
    header.put(salt, next.off, pieces.room(RECORD_LEN)?);
    pieces.put(payload)?;
    next.off += header.padded_len();
    next.check = header.check;
    let padding = next.off - pieces.end();
    pieces.put([0; 8].get(..padding as usize).unwrap_or_default())
}
