//! Appends records: chooses the place of the next one, and buffers the bytes before they are
//! written.
//!
//! Records are adjacent in an extent. At the end of an extent, or when a free extent is preferred,
//! a jump record leads to the next one. Every extent keeps room for a jump. The open end of the
//! file is an extent without end.

use crate::error::{Damage, Error, Result};
use crate::format::entry::NodeRef;
use crate::format::record::{Chain, JUMP_LEN, Kind, Record};
use crate::format::trailer::OPEN_END;
use crate::format::{LOCK_UNIT, MAX_OFF, UNIT_LEN};
use crate::space::{Lane, Lanes, Space};
use densite_disk::File;

/// Bytes that are collected before they are written.
const BUFFER_LEN: usize = 512 << 10;
/// Units of the largest extent taken from the free ones: for new records, and for moved ones.
const EXTENT_UNITS: u64 = 64;
const MOVED_UNITS: u64 = 4;
/// A commit has at most so many pieces in free extents. Its trailer lists them, and the length of a
/// record is bounded.
const MOST_PIECES: usize = 1 << 16;

/// A place to which an appender can go back while nothing after it is written.
pub(crate) struct AppendState {
    pos: u64,
    tail_off: u64,
    buf_off: u64,
    buffered: usize,
    pieces: usize,
    chain: Chain,
    written: u64,
    frame_bytes: u64,
}

impl AppendState {
    /// The offset of the next record.
    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }
}

/// Writes records of one commit.
pub(crate) struct Appender {
    salt: u64,
    pos: u64,
    room_end: u64,
    tail_off: u64,
    /// Records of finished pieces that are not written yet: (offset, bytes).
    closed: Vec<(u64, Vec<u8>)>,
    buf: Vec<u8>,
    buf_off: u64,
    piece_start: u64,
    pieces: Vec<(u64, u64)>,
    /// Extents taken from the free ones. They become free again if the commit fails.
    taken: Vec<(u64, u64)>,
    /// Unused ends of extents. They become free with the commit.
    left: Vec<(u64, u64)>,
    /// The kind of records that are appended.
    lane: Lane,
    /// The lanes after the commit, if this commit changed the lane.
    turned: Option<Lanes>,
    /// Records are not placed from this offset on while there is a free extent before it.
    avoid: u64,
    chain: Chain,
    written: u64,
    frame_bytes: u64,
}

impl Appender {
    /// Appends after a commit: `pos`, `room_end` and `tail_off` are as in its trailer, `prev` is
    /// its hash.
    pub(crate) fn new(
        salt: u64,
        pos: u64,
        room_end: u64,
        tail_off: u64,
        prev: &[u8; 16],
    ) -> Appender {
        Appender {
            salt,
            pos,
            room_end,
            tail_off,
            closed: Vec::new(),
            buf: Vec::new(),
            buf_off: pos,
            piece_start: pos,
            pieces: Vec::new(),
            taken: Vec::new(),
            left: Vec::new(),
            lane: Lane::New,
            turned: None,
            avoid: u64::MAX,
            chain: Chain::after(prev),
            written: 0,
            frame_bytes: 0,
        }
    }

    /// Treats the bytes from `end` on as reusable and cut off. The open end then begins at `end`,
    /// or in the present extent if that is the last one. Call it before anything is appended.
    pub(crate) fn cut(&mut self, end: u64) {
        let end = if self.room_end != OPEN_END && self.room_end >= end {
            self.room_end = OPEN_END;
            self.pos
        } else {
            end
        };
        if end < self.tail_off {
            let up = |off: u64| off.next_multiple_of(UNIT_LEN);
            self.taken.push((up(end), up(self.tail_off)));
            self.tail_off = end;
        }
    }

    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    pub(crate) fn room_end(&self) -> u64 {
        self.room_end
    }

    pub(crate) fn tail_off(&self) -> u64 {
        self.tail_off
    }

    pub(crate) fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }

    pub(crate) fn taken(&self) -> &[(u64, u64)] {
        &self.taken
    }

    pub(crate) fn left(&self) -> &[(u64, u64)] {
        &self.left
    }

    /// Records go before `off` as long as there is a free extent.
    pub(crate) fn avoid_from(&mut self, off: u64) {
        self.avoid = off;
    }

    /// Appends to the extent of this lane. Call it before anything is appended.
    pub(crate) fn keep_to(&mut self, lane: Lane) {
        self.lane = lane;
    }

    /// The lanes after the commit, if this commit changed the lane.
    pub(crate) fn turned(&self) -> Option<Lanes> {
        self.turned
    }

    /// Bytes appended so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes of frames appended so far.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }

    /// The pieces written so far, and one that ends after a record of `last_len` bytes at the
    /// present position.
    pub(crate) fn pieces_with(&self, last_len: u64) -> Vec<(u64, u64)> {
        let mut pieces = self.pieces.clone();
        pieces.push((self.piece_start, self.pos + last_len));
        pieces
    }

    /// Makes sure that a record of `len` bytes fits at the present position. If it does not fit,
    /// appends a jump to another place.
    pub(crate) fn make_room(&mut self, space: &mut Space, len: u64, version: u64) -> Result<()> {
        let need = len + JUMP_LEN;
        let lock = LOCK_UNIT * UNIT_LEN;
        let end = if self.room_end == OPEN_END && self.pos < lock {
            lock
        } else {
            self.room_end.min(MAX_OFF)
        };
        let turn = self.written == 0 && space.lanes().lane != self.lane;
        // At the very start of a commit a free extent is better than the end of the file.
        let prefer_free =
            turn || self.written == 0 && (self.room_end == OPEN_END || self.pos >= self.avoid);
        let fits = self.pos + need <= end;
        if fits && !prefer_free {
            return Ok(());
        }
        let aside = space.lanes().aside.filter(|_| turn);
        let goes_on = aside.filter(|(start, end)| start + need <= *end && *end <= self.avoid);
        let most = match self.lane {
            Lane::New => EXTENT_UNITS,
            Lane::Moved => MOVED_UNITS,
        };
        let taken = match goes_on {
            None if self.pieces.len() < MOST_PIECES => space.take_run(need, most, self.avoid),
            _ => None,
        };
        if goes_on.is_none() && taken.is_none() && fits {
            return Ok(());
        }
        let rest = (self.room_end != OPEN_END).then_some((self.pos + JUMP_LEN, self.room_end));
        if turn {
            self.turned = Some(Lanes {
                lane: self.lane,
                aside: rest,
            });
            self.left.extend(aside.filter(|_| goes_on.is_none()));
        } else {
            self.left.extend(rest);
        }
        if let Some((start, end)) = taken {
            self.taken.push((start, end));
            // The free extent can contain the unit in which the open end began.
            self.tail_off = self.tail_off.max(end);
        }
        let (target, room_end) = goes_on
            .or(taken)
            .unwrap_or_else(|| (self.tail_start(need), OPEN_END));
        if target + need > MAX_OFF {
            return Err(Error::Setting(
                "a stored file cannot be larger than 256 TiB".to_owned(),
            ));
        }
        self.push(Record::plain(Kind::Jump, 0, version), &target.to_le_bytes());
        self.closed
            .push((self.buf_off, std::mem::take(&mut self.buf)));
        self.pieces.push((self.piece_start, self.pos));
        self.pos = target;
        self.buf_off = target;
        self.piece_start = target;
        self.room_end = room_end;
        Ok(())
    }

    /// Where the open end begins for a record that needs `need` bytes. It leaves out the unit that
    /// SQLite locks.
    fn tail_start(&self, need: u64) -> u64 {
        let (lock, behind) = (LOCK_UNIT * UNIT_LEN, (LOCK_UNIT + 1) * UNIT_LEN);
        let tail = self.tail_off.max(if self.room_end == OPEN_END {
            self.pos + JUMP_LEN
        } else {
            0
        });
        if tail < behind && tail + need > lock {
            behind
        } else {
            tail
        }
    }

    /// Appends a record and returns its place. There must be room.
    pub(crate) fn push(&mut self, record: Record, payload: &[u8]) -> NodeRef {
        let off = self.pos;
        let before = self.buf.len();
        let sum = record.put(payload, self.salt, off, &mut self.buf);
        let len = (self.buf.len() - before) as u64;
        self.chain.record(sum);
        self.pos += len;
        self.written += len;
        if record.kind == Kind::Frame {
            self.frame_bytes += len;
        }
        if self.room_end == OPEN_END {
            self.tail_off = self.tail_off.max(self.pos);
        }
        NodeRef {
            off,
            version: record.version,
            len: len as u32,
        }
    }

    /// The present place.
    pub(crate) fn mark(&self) -> AppendState {
        AppendState {
            pos: self.pos,
            tail_off: self.tail_off,
            buf_off: self.buf_off,
            buffered: self.buf.len(),
            pieces: self.pieces.len(),
            chain: self.chain.clone(),
            written: self.written,
            frame_bytes: self.frame_bytes,
        }
    }

    /// The records since the mark. `None` if some of them were written to the file, or if they are
    /// in several extents.
    pub(crate) fn since(&self, mark: &AppendState) -> Option<&[u8]> {
        let is_here = self.buf_off == mark.buf_off && self.pieces.len() == mark.pieces;
        self.buf.get(mark.buffered..).filter(|_| is_here)
    }

    /// Takes back the records of [`Appender::since`].
    pub(crate) fn go_back(&mut self, mark: &AppendState) -> Vec<u8> {
        if self.since(mark).is_none() {
            return Vec::new();
        }
        (self.pos, self.tail_off, self.chain) = (mark.pos, mark.tail_off, mark.chain.clone());
        (self.written, self.frame_bytes) = (mark.written, mark.frame_bytes);
        self.buf.split_off(mark.buffered)
    }

    /// Writes the buffer if it is long. After a failure the buffer is kept and can be written
    /// again.
    pub(crate) fn flush_if_long(&mut self, file: &dyn File) -> Result<()> {
        if self.buf.len() + self.closed.iter().map(|c| c.1.len()).sum::<usize>() >= BUFFER_LEN {
            self.flush(file)
        } else {
            Ok(())
        }
    }

    /// Writes the buffer. After a failure the bytes that were not written are kept and can be
    /// written again.
    pub(crate) fn flush(&mut self, file: &dyn File) -> Result<()> {
        while let Some((off, bytes)) = self.closed.first() {
            file.write_at(bytes, *off)?;
            self.closed.remove(0);
        }
        if !self.buf.is_empty() {
            file.write_at(&self.buf, self.buf_off)?;
            self.buf_off += self.buf.len() as u64;
            self.buf.clear();
        }
        Ok(())
    }

    /// Writes the buffer and `last` after it. After a failure the buffer is unchanged.
    pub(crate) fn flush_with(&mut self, file: &dyn File, last: &[u8]) -> Result<()> {
        if !self.closed.is_empty() || self.buf.len() > BUFFER_LEN {
            self.flush(file)?;
        }
        let before = self.buf.len();
        self.buf.extend_from_slice(last);
        let written = file.write_at(&self.buf, self.buf_off);
        self.buf.truncate(before);
        Ok(written?)
    }

    /// The stored bytes of a record of this commit, from the buffer or the file.
    pub(crate) fn read(&self, file: &dyn File, off: u64, len: u32) -> Result<Vec<u8>> {
        let buffered = self
            .closed
            .iter()
            .map(|(o, b)| (*o, b))
            .chain(std::iter::once((self.buf_off, &self.buf)));
        for (start, buf) in buffered {
            let at = off
                .checked_sub(start)
                .and_then(|at| usize::try_from(at).ok());
            if let Some(b) = at.and_then(|at| buf.get(at..at.checked_add(len as usize)?)) {
                return Ok(b.to_vec());
            }
        }
        let mut bytes = vec![0; len as usize];
        let n = file.read_at(&mut bytes, off)?;
        if n < bytes.len() {
            return Err(Error::Corrupt(Damage {
                what: "frame of an open transaction".to_owned(),
                offset: off,
                page: None,
                problem: "the file ends before it".to_owned(),
            }));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction of 40 GB in a file with scattered free units would have a trailer that is too
    /// long to read.
    #[test]
    fn a_commit_does_not_go_to_and_fro_without_end() {
        let units = 2 * MOST_PIECES as u64 + 1000;
        let mut space = Space::default();
        space.add(0, units * UNIT_LEN);
        for unit in (1..units).step_by(2) {
            space.sub(unit * UNIT_LEN, UNIT_LEN, 1);
        }
        space.slot_durable(1, (0, 1));
        let end = units * UNIT_LEN;
        let mut appender = Appender::new(1, end, OPEN_END, end, &[0; 16]);
        for _ in 0..MOST_PIECES + 1000 {
            appender
                .make_room(&mut space, UNIT_LEN - JUMP_LEN - 1, 2)
                .expect("room");
            appender.push(Record::plain(Kind::Jump, 0, 2), &[0; 8]);
        }
        assert_eq!(appender.pieces.len(), MOST_PIECES + 1);
        assert!(appender.pos() > end && appender.room_end() == OPEN_END);
    }
}
