//! Making appended records durable, under the sync lock, and everything else that ends a segment.
//!
//! A sync covers all records up to the appended word, whichever process wrote them. A process whose
//! records are covered by the sync of another one does not sync ([`Tail::fate`]).
//!
//! Rule L3, a failed sync is not tried again: before a sync, the *syncing word* says how far it is
//! to reach. If it is still ahead of the end word when the next process has the sync lock, then
//! that sync failed or its process ended. What it was to cover is not trusted, and the segment ends
//! at the end word. Records behind that are in no log; their processes append them again, except
//! the one whose sync failed.

use crate::end_word::{read_whole_word, read_word, read_word_at};
use crate::files::{Segment, segment_name};
use crate::format::segment::SegmentHeader;
use crate::format::word::{EndWord, SEALED, SYNCING_OFF};
use crate::format::{DATA_OFF, LOG_FORMAT_VERSION, MAX_SEQ};
use crate::recover;
use crate::tail::{NO_NUMBERS, Tail};
use crate::{Error, Result};
use densite_disk::{OpenMode, SyncKind};

/// What became of appended records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Durable,
    /// Their segment ends before them.
    Dead,
    /// They are not synced yet.
    Open,
}

impl Tail {
    /// What became of the records up to `goal`. The answer `Open` is only right for the holder of
    /// the sync lock.
    pub(crate) fn fate(&mut self, goal: &EndWord) -> Result<Fate> {
        let Some(end) = read_word(self.end_file.as_ref(), &self.files)? else {
            return Ok(Fate::Open);
        };
        if end.segment > goal.segment {
            let next = self.files.segment(goal.segment + 1, OpenMode::Read)?;
            // Only rows of a dead transaction do not keep the next segment from being pruned.
            let is_durable = next.is_some_and(|next| next.header.prev_end >= goal.off);
            return Ok(if is_durable {
                Fate::Durable
            } else {
                Fate::Dead
            });
        }
        self.end = end;
        Ok(if end.segment == goal.segment && end.off >= goal.off {
            Fate::Durable
        } else if end.segment == goal.segment && end.sealed() {
            Fate::Dead
        } else {
            Fate::Open
        })
    }

    /// Whether [`Tail::sync`] can make records of this segment durable; otherwise
    /// [`Tail::settle`] is needed. The caller holds the sync lock.
    pub(crate) fn can_sync(&self, segment: u64) -> Result<bool> {
        let end = read_word(self.end_file.as_ref(), &self.files)?;
        Ok(match end {
            Some(end) => end.segment == segment && !self.has_failed(&end)?,
            None => false,
        })
    }

    /// Whether the last sync behind `end` failed, or its process ended before it told the outcome.
    fn has_failed(&self, end: &EndWord) -> Result<bool> {
        let syncing = read_word_at(self.appended_file.as_ref(), &self.files, SYNCING_OFF)?;
        Ok(syncing.is_some_and(|s| s.segment == end.segment && s.off > end.off))
    }

    /// Makes everything durable that any process appended, and tells all processes. The caller
    /// holds the sync lock, and has read the end word under it.
    ///
    /// # Errors
    /// `SyncFailed`; `Io`. Then [`Tail::settle`] is needed.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.must_settle = true;
        let target = read_whole_word(self.appended_file.as_ref(), &self.files)?;
        // If another process was killed while it wrote the word, what this one knows is covered.
        let target = target
            .filter(|target| target.segment == self.end.segment)
            .unwrap_or(self.appended);
        self.write_syncing(&target)?;
        let synced = self.file()?.sync(SyncKind::Data);
        synced.map_err(Error::SyncFailed)?;
        self.end = EndWord {
            writers: self.end.writers,
            flags: self.end.flags,
            ..target
        };
        self.write_end()?;
        self.must_settle = false;
        Ok(())
    }

    /// Notes how far a sync is to reach. A log that was recovered notes its end: no sync failed.
    pub(crate) fn write_syncing(&mut self, target: &EndWord) -> Result<()> {
        Ok((self.appended_file).write_at(&target.encode(), SYNCING_OFF)?)
    }

    pub(crate) fn write_end(&mut self) -> Result<()> {
        Ok(self.end_file.write_at(&self.end.encode(), 0)?)
    }

    /// Puts the end of the log in order, and begins a new segment if the last one has no room for
    /// this many bytes. The caller holds both locks.
    ///
    /// # Errors
    /// As [`Log::append`](crate::Log::append). Then it is to be called again.
    pub(crate) fn settle(&mut self, bytes: u64) -> Result<()> {
        self.must_settle = true;
        self.read_words()?;
        if self.end.sealed() || self.has_failed(&self.end)? {
            self.seal()?;
        }
        if self.remains.is_some() {
            self.clean()?;
        }
        if !self.has_room_for(bytes) {
            self.open()?;
            let is_synced = self.end.off == self.appended.off;
            match if is_synced { Ok(()) } else { self.sync() } {
                Ok(()) => self.rotate()?,
                Err(Error::SyncFailed(_)) => self.seal()?,
                Err(e) => return Err(e),
            }
        }
        self.must_settle = false;
        Ok(())
    }

    fn read_words(&mut self) -> Result<()> {
        let end = read_word(self.end_file.as_ref(), &self.files)?;
        let appended = read_word(self.appended_file.as_ref(), &self.files)?;
        if let Some((end, appended)) = end.zip(appended)
            && self.is_whole(&end, &appended)?
        {
            self.know(end, appended);
            return Ok(());
        }
        // A process was killed in the middle of writing a word or of changing the segment, or could
        // not write a word.
        if let Some(end) = end
            && !self.files.dir.exists(&segment_name(end.segment + 1))?
            && (end.sealed() || self.has_failed(&end)?)
        {
            // The segment is about to end here. Numbers of rows behind that are not assigned again.
            let found = recover::end_as_read(&self.files)?;
            let next_seq = found.next_seq.max(end.next_seq);
            self.know(end, EndWord { next_seq, ..end });
            return Ok(());
        }
        let writers = self
            .end
            .writers
            .max(appended.map_or(0, |word| word.writers));
        let found = recover::end(&self.files)?;
        self.know(found, found);
        self.publish(writers)
    }

    /// Ends the segment at the end word: no process may write behind a failed sync. The word tells
    /// running processes, the next segment's header tells later ones.
    fn seal(&mut self) -> Result<()> {
        self.end.flags |= SEALED;
        // The next segment's header says the same.
        self.write_end().ok();
        self.rotate()
    }

    /// Makes durable that a failed write left no records behind the appended word.
    fn clean(&mut self) -> Result<()> {
        self.take_back()?;
        self.open()?;
        let zeroed = self.zero_remains();
        match (zeroed, self.sync()) {
            (Ok(()), Ok(())) => {}
            (Err(_), Ok(())) | (_, Err(Error::SyncFailed(_))) => self.seal()?,
            (_, Err(e)) => return Err(e),
        }
        self.remains = None;
        Ok(())
    }

    /// Begins the next segment. The current one ends at the end word.
    fn rotate(&mut self) -> Result<()> {
        if self.end.segment + 1 >= MAX_SEQ {
            return Err(NO_NUMBERS);
        }
        let header = SegmentHeader {
            version: LOG_FORMAT_VERSION,
            id: self.files.id,
            number: self.end.segment + 1,
            // Above the numbers of records behind the end, too: one of them can be stored as rolled
            // back.
            first_seq: self.appended.next_seq,
            prev_end: self.end.off,
            prev_check: self.end.check,
            salt: densite_disk::random::random_u64()?,
        };
        let file = self.files.make_segment(&header)?;
        let begin = EndWord {
            segment: header.number,
            off: DATA_OFF,
            check: header.check(),
            flags: self.end.flags & !SEALED,
            ..self.end
        };
        let appended = EndWord {
            next_seq: header.first_seq,
            ..begin
        };
        (self.end, self.appended) = (begin, appended);
        self.enter(Segment { file, header })?;
        self.publish(0)
    }
}
