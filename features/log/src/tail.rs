//! The end of the log, where one thread of one process at a time writes, under the append lock.
//!
//! A turn: [`Tail::catch_up`] with other processes, [`Tail::append`] a group, and write the
//! *appended word*, which tells the next writer where to continue. No record counts before the *end
//! word* covers it: whoever has the sync lock syncs everything up to the appended word, and then
//! writes the end word ([`Tail::sync`]). What cannot go on like that is put in order under both
//! locks ([`Tail::settle`]): a segment that is full, a failed write, a failed sync.

use crate::batch::{Appended, Txn};
use crate::end_word::{read_whole_word, read_word};
use crate::files::{Files, Segment, damaged, segment_name};
use crate::format::word::EndWord;
use crate::format::{DATA_OFF, MAX_SEQ};
use crate::named::Named;
use crate::records::{Pieces, Records};
use crate::{Error, Options, Result, Seq};
use densite_disk::{File, OpenMode, Stamp};
use std::collections::HashMap;
use std::sync::Arc;

/// No real log reaches this limit, but a damaged file can claim it.
pub(crate) const NO_NUMBERS: Error =
    Error::Limit("the log has no numbers left for more rows or segments");

/// What a failed write can have left in the last segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remains {
    /// The end of the log before it.
    before: EndWord,
    /// Where its bytes end.
    end: u64,
    /// The appended word that it wrote or would have written.
    word: EndWord,
}

/// What one process knows of the end of the log.
pub(crate) struct Tail {
    pub(crate) files: Files,
    options: Options,
    pub(crate) end_file: Box<dyn File>,
    /// The file of the appended word and of the syncing word.
    pub(crate) appended_file: Box<dyn File>,
    /// Names of these two files and of the locks.
    names: Vec<Named>,
    /// Stamp of the directory when these names and the segment's name were last checked.
    sure: Option<Stamp>,
    /// How far the log is synced, as it was last read.
    pub(crate) end: EndWord,
    /// How far records are written.
    pub(crate) appended: EndWord,
    /// The last segment and its name, once they are needed.
    segment: Option<(Segment, Named)>,
    /// Length of the segment's file.
    len: u64,
    /// Tables that this process wrote to the segment, and their offsets.
    tables: HashMap<Arc<[u8]>, u32>,
    /// Buffer for the bytes of a group, or of a part of it; kept to reuse its memory.
    buf: Vec<u8>,
    /// What a failed write can have left.
    pub(crate) remains: Option<Remains>,
    /// [`Tail::settle`] has something to do, or did not complete.
    pub(crate) must_settle: bool,
}

impl Tail {
    /// For a log that is synced up to `end`. `names` are those of the files and of the locks.
    pub(crate) fn new(
        files: Files,
        options: Options,
        (end_file, appended_file): (Box<dyn File>, Box<dyn File>),
        names: Vec<Named>,
        end: EndWord,
    ) -> Tail {
        Tail {
            files,
            options,
            end_file,
            appended_file,
            names,
            sure: None,
            end,
            appended: end,
            segment: None,
            len: 0,
            tables: HashMap::new(),
            buf: Vec::new(),
            remains: None,
            must_settle: false,
        }
    }

    /// How far the log is synced, as it was last read.
    pub(crate) fn end(&self) -> EndWord {
        self.end
    }

    /// How far records are written.
    pub(crate) fn appended(&self) -> EndWord {
        self.appended
    }

    /// Whether [`Tail::settle`] has something to do.
    pub(crate) fn must_settle(&self) -> bool {
        self.must_settle
    }

    /// Learns what other processes appended. The caller holds the append lock.
    ///
    /// # Errors
    /// `Replaced` if a lock belongs to another log now, or other processes would not read what
    /// this process writes. Then nothing was changed.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        // One stamp of the directory covers all names, unless one of them changed just now.
        let stamp = self.files.dir.stamp()?;
        let is_sure = stamp.is_some() && stamp == self.sure;
        if !is_sure {
            self.names.iter().try_for_each(|n| n.check(&self.files))?;
        }
        let appended = read_word(self.appended_file.as_ref(), &self.files)?;
        let end = read_whole_word(self.end_file.as_ref(), &self.files)?;
        match end.zip(appended) {
            Some((end, appended)) if self.is_whole(&end, &appended)? => self.know(end, appended),
            _ => self.must_settle = true,
        }
        if !is_sure {
            let written = self.segment.as_ref();
            written.map_or(Ok(()), |(_, name)| name.check(&self.files))?;
            self.sure = stamp.filter(Stamp::is_past_tick);
        }
        Ok(())
    }

    /// Whether no process stopped in the middle of changing the segment.
    pub(crate) fn is_whole(&self, end: &EndWord, appended: &EndWord) -> Result<bool> {
        let next = segment_name(appended.segment + 1);
        Ok(end.segment == appended.segment && !self.files.dir.exists(&next)?)
    }

    /// Continues at these words.
    pub(crate) fn know(&mut self, end: EndWord, appended: EndWord) {
        if appended.segment != self.appended.segment {
            self.leave();
        }
        (self.end, self.appended) = (end, appended);
    }

    fn leave(&mut self) {
        self.segment = None;
        self.tables.clear();
    }

    /// Whether a group of at most this many bytes can be appended now.
    pub(crate) fn is_ready_for(&self, bytes: u64) -> bool {
        !self.must_settle && !self.end.sealed() && self.has_room_for(bytes)
    }

    /// Whether the segment has room for this many bytes. A new segment has room for any group.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let off = self.appended.off;
        off + bytes <= self.options.segment_bytes || off <= DATA_OFF
    }

    /// Whether a transaction of at most `more` bytes fits behind `taken` bytes of the same group.
    pub(crate) fn fits(&self, taken: u64, more: u64) -> bool {
        let room = (self.options.segment_bytes).saturating_sub(self.appended.off);
        taken == 0 || taken + more <= room.min(self.options.group_bytes_max as u64)
    }

    /// Writes a group, and then the appended word. Returns the rows of each transaction. The caller
    /// holds the append lock, and the tail [is ready](Tail::is_ready_for) for the group. After an
    /// error, none of the group is in the log, once [`Tail::settle`] was successful.
    ///
    /// `announce` is called before the appended word is written: then any process can sync the
    /// group, and readers must know already which rows are prepared.
    pub(crate) fn append(
        &mut self,
        group: &[Arc<Txn>],
        announce: impl FnOnce(&[Appended]) -> Result<()>,
    ) -> Result<Vec<Appended>> {
        let bytes: u64 = group.iter().map(|t| t.stored_max()).sum();
        let rows: u64 = group.iter().map(|t| t.rows()).sum();
        if self.appended.next_seq + rows >= MAX_SEQ {
            return Err(NO_NUMBERS);
        }
        self.open()?;
        let mut buf = std::mem::take(&mut self.buf);
        let mut put = Records::behind(self.appended, self.end.off as u32, group.len());
        let (end, done) = self.write(group, bytes, &mut put, &mut buf);
        buf.clear();
        buf.shrink_to(self.options.group_bytes_max);
        self.buf = buf;
        let before = self.appended;
        let done = done
            .and_then(|()| announce(&put.appended))
            .and_then(|()| self.write_appended(&put.next));
        if let Err(e) = done {
            // A complete part of the group must not appear in the log later.
            self.must_settle = true;
            self.remains = Some(Remains {
                before,
                end,
                word: put.next,
            });
            // A write that failed can have changed the word. While the word covers the group, other
            // processes append behind it, so its records must stay.
            if self.restore_appended(&before) {
                self.zero_remains().ok();
            }
            return Err(e);
        }
        self.appended = put.next;
        self.tables.extend(put.tables);
        Ok(put.appended)
    }

    /// Writes an earlier appended word again. Returns whether the file has it.
    fn restore_appended(&mut self, before: &EndWord) -> bool {
        let written = self.write_appended(before);
        let read = || read_word(self.appended_file.as_ref(), &self.files);
        written.is_ok() || matches!(read(), Ok(Some(word)) if word == *before)
    }

    fn write_appended(&mut self, word: &EndWord) -> Result<()> {
        Ok(self.appended_file.write_at(&word.encode(), 0)?)
    }

    /// Overwrites what a failed write left, except where other records were written since.
    pub(crate) fn zero_remains(&mut self) -> Result<()> {
        let Some(remains) = &self.remains else {
            return Ok(());
        };
        let (from, to) = (remains.before.off, remains.end);
        if remains.before.segment == self.appended.segment {
            self.open()?;
            let file = self.file()?;
            let to = to.min(file.len()?);
            let from = from.max(self.appended.off);
            crate::free_segment::write_zeros(file, from, to)?;
        }
        Ok(())
    }

    /// Takes the appended word back if it covers a group whose write failed, and nothing is behind
    /// the group or is synced. The caller holds both locks.
    pub(crate) fn take_back(&mut self) -> Result<()> {
        let Some(Remains { before, word, .. }) = self.remains else {
            return Ok(());
        };
        if self.appended == word && self.end.segment == before.segment && self.end.off <= before.off
        {
            self.write_appended(&before)?;
            self.appended = before;
        }
        Ok(())
    }

    /// Writes both words. The caller holds both locks.
    pub(crate) fn publish(&mut self, writers: u32) -> Result<()> {
        self.end.writers = self.end.writers.max(writers);
        self.appended.writers = self.end.writers;
        self.write_end()?;
        let appended = self.appended;
        self.write_appended(&appended)
    }

    /// Syncs the end word itself, so that the next process that opens the log finds the end at once.
    pub(crate) fn sync_word(&mut self) -> Result<()> {
        Ok(self.end_file.sync(densite_disk::SyncKind::Data)?)
    }

    pub(crate) fn open(&mut self) -> Result<()> {
        if self.segment.is_none() {
            let number = self.appended.segment;
            let segment = self.files.segment(number, OpenMode::Write)?;
            let segment = segment.ok_or_else(|| damaged(number, 0, "the segment is missing"))?;
            self.len = segment.file.len()?;
            self.keep(segment)?;
        }
        Ok(())
    }

    /// The file of the last segment, which is open.
    pub(crate) fn file(&self) -> Result<&dyn File> {
        let (segment, _) = self.segment.as_ref().ok_or(Error::Missing)?;
        Ok(segment.file.as_ref())
    }

    /// Begins to write to a new segment.
    pub(crate) fn enter(&mut self, segment: Segment) -> Result<()> {
        self.leave();
        self.len = segment.file.len()?;
        self.keep(segment)
    }

    fn keep(&mut self, segment: Segment) -> Result<()> {
        let name = segment_name(segment.header.number);
        let name = Named::of(name, segment.file.as_ref())?;
        self.segment = Some((segment, name));
        Ok(())
    }

    /// Writes a group of at most `bytes`. Returns where its bytes end.
    fn write(
        &mut self,
        group: &[Arc<Txn>],
        bytes: u64,
        to: &mut Records,
        buf: &mut Vec<u8>,
    ) -> (u64, Result<()>) {
        let at = self.appended.off;
        let Some((segment, _)) = &self.segment else {
            return (at, Err(Error::Missing));
        };
        let (file, salt) = (segment.file.as_ref(), segment.header.salt);
        let most = self.options.group_bytes_max;
        let mut pieces = Pieces::new(file, at, buf, bytes, most);
        let mut txns = group.iter();
        let written = txns
            .try_for_each(|txn| to.put(txn, salt, &self.tables, &mut pieces))
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
        if written.is_err() {
            self.len = file.len().unwrap_or(0);
        }
        (end, written)
    }

    /// Whether more than half of the segment's room is used.
    pub(crate) fn is_half_full(&self) -> bool {
        self.appended.off > self.options.segment_bytes / 2
    }

    /// The next row gets a number above this one. The caller holds both locks.
    ///
    /// # Errors
    /// `Limit` if no numbers are left.
    pub(crate) fn raise(&mut self, above: Seq) -> Result<()> {
        if above >= MAX_SEQ - 1 {
            return Err(NO_NUMBERS);
        }
        // Rows that are not synced yet must not count as synced.
        let is_synced = self.end.off == self.appended.off;
        self.appended.next_seq = self.appended.next_seq.max(above + 1);
        if is_synced {
            self.end.next_seq = self.appended.next_seq;
        }
        Ok(())
    }
}
