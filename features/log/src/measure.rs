//! How many bytes of the log follow a row.
//!
//! Only headers are read, from a remembered place: the next call usually asks about a later row. A
//! place is the use of a segment (its salt) and the offset of a record. So it is valid as long as
//! the segment exists.

use crate::files::{Files, Segment, segment_name};
use crate::format::record_header::{Kind, RECORD_LEN, RecordHeader};
use crate::format::word::EndWord;
use crate::format::{DATA_OFF, SEGMENT_MAX};
use crate::{Error, Result, Seq};
use densite_disk::sync::Mutex;
use densite_disk::{File, OpenMode};

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Number of remembered places.
const PLACES: usize = 4;

/// All rows before this place have numbers up to `seq`.
#[derive(Debug, Clone, Copy)]
struct Place {
    number: u64,
    salt: u64,
    at: u64,
    seq: Seq,
}

/// Places of recent calls.
#[derive(Debug, Default)]
pub(crate) struct Measured(Mutex<Vec<Place>>);

impl Measured {
    /// The offset in a segment at which to begin looking for rows after `seq`.
    fn near(&self, segment: &Segment, seq: Seq) -> u64 {
        let places = self.0.lock();
        let some = places.iter().filter(|p| {
            p.number == segment.header.number && p.salt == segment.header.salt && p.seq <= seq
        });
        some.map(|p| p.at).max().unwrap_or(DATA_OFF)
    }

    fn remember(&self, segment: &Segment, seq: Seq, at: u64) {
        let mut places = self.0.lock();
        let (number, salt) = (segment.header.number, segment.header.salt);
        places.retain(|p| p.seq != seq);
        places.truncate(PLACES - 1);
        places.insert(
            0,
            Place {
                number,
                salt,
                at,
                seq,
            },
        );
    }

    /// Bytes between the row `seq` and the end of the log; see
    /// [`Log::bytes_after`](crate::Log::bytes_after). `first` is the first segment of the log.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub(crate) fn bytes_after(
        &self,
        files: &Files,
        word: EndWord,
        first: u64,
        seq: Seq,
    ) -> Result<u64> {
        let (mut number, mut end, mut bytes) = (word.segment, word.off, 0);
        // From the end backwards, while segments have rows after `seq`.
        while let Some(segment) = files.segment(number, OpenMode::Read)? {
            if segment.header.first_seq <= seq {
                let (file, salt) = (segment.file.as_ref(), segment.header.salt);
                let at = passed(file, salt, self.near(&segment, seq), end, seq)?;
                self.remember(&segment, seq, at);
                return Ok(bytes + end.saturating_sub(at));
            }
            bytes += end.saturating_sub(DATA_OFF);
            if number <= first || segment.header.first_seq <= seq + 1 {
                break;
            }
            number -= 1;
            end = files.end_of(number)?;
        }
        Ok(bytes)
    }
}

/// The end of the last record without a row after `seq`. Reads from the record at `from` up to
/// `limit`. A table record behind it belongs to the rows that follow. Damage is counted, not
/// reported: readers report it.
fn passed(file: &dyn File, salt: u64, from: u64, limit: u64, seq: Seq) -> Result<u64> {
    let (mut at, mut end) = (from, from);
    let (mut buf, mut buf_at, mut got) = (vec![0; CHUNK], from, 0);
    while at + RECORD_LEN as u64 <= limit {
        if at + RECORD_LEN as u64 > buf_at + got as u64 {
            got = file.read_at(&mut buf, at)?;
            buf_at = at;
        }
        let begin = (at - buf_at) as usize;
        let head = buf.get(begin..got.min(begin + RECORD_LEN));
        let header = head.and_then(|head| RecordHeader::decode(head, salt, at));
        let Some(header) = header.filter(|h| h.last_seq() <= seq) else {
            break;
        };
        at += header.padded_len();
        if header.kind == Kind::Batch {
            end = at;
        }
    }
    Ok(end.min(limit))
}

impl Files {
    /// The end of a segment that is not the last one.
    fn end_of(&self, number: u64) -> Result<u64> {
        match self.sealed_end(number) {
            Ok((end, _)) => Ok(end),
            Err(Error::Damaged { .. }) => {
                let file = self.open(&segment_name(number), OpenMode::Read)?;
                Ok(file
                    .map_or(Ok(0), |f| f.len())?
                    .clamp(DATA_OFF, SEGMENT_MAX))
            }
            Err(e) => Err(e),
        }
    }
}
