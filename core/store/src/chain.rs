//! Following the chain of commits: forward from a slot, with every record verified, and reading the
//! trailer of the tip.

use crate::error::{Damage, Error, Result};
use crate::format::record::{Chain, Kind, MAX_PAYLOAD, RECORD_LEN, Record, voided};
use crate::format::tip::Tip;
use crate::format::trailer::Trailer;
use crate::format::{DATA_OFF, MAX_OFF};
use densite_disk::File;

/// Reads the trailer that `tip` names.
///
/// I/O; [`Error::Corrupt`] if that trailer is not there.
pub(crate) fn read_trailer(file: &dyn File, salt: u64, tip: &Tip) -> Result<Trailer> {
    let damage = |problem: &str| {
        let what = format!("trailer of commit {}", tip.commit);
        Error::Corrupt(Damage {
            what,
            offset: tip.off,
            page: None,
            problem: problem.to_owned(),
        })
    };
    if tip.off < DATA_OFF || tip.off > MAX_OFF || tip.len > MAX_PAYLOAD + RECORD_LEN as u32 {
        return Err(damage("its place is out of range"));
    }
    let mut bytes = vec![0; tip.len as usize];
    let n = file.read_at(&mut bytes, tip.off)?;
    if n < bytes.len() {
        return Err(damage("the file ends before it"));
    }
    let (record, _, payload) =
        Record::open(&bytes, salt, tip.off).ok_or_else(|| damage("checksum mismatch"))?;
    let decoded = if record.kind == Kind::Trailer {
        Trailer::decode(payload)
    } else {
        None
    };
    let (trailer, hash) = decoded.ok_or_else(|| damage("it is not a trailer"))?;
    if trailer.commit != tip.commit || hash != tip.hash {
        return Err(damage("the trailer of another commit is there"));
    }
    if trailer.next_off != tip.off + u64::from(tip.len) {
        return Err(damage(
            "it says that the next record is not directly after it",
        ));
    }
    Ok(trailer)
}

/// Reads adjacent records through a buffer.
struct Scanner<'a> {
    file: &'a dyn File,
    buf: Vec<u8>,
    buf_off: u64,
}

/// Bytes of one read.
const WINDOW: usize = 128 << 10;

impl Scanner<'_> {
    /// `len` bytes at `off`, or fewer at the end of the file.
    fn bytes(&mut self, off: u64, len: usize) -> Result<&[u8]> {
        let inside =
            off >= self.buf_off && off + len as u64 <= self.buf_off + self.buf.len() as u64;
        if !inside {
            self.buf.resize(len.max(WINDOW), 0);
            let n = self.file.read_at(&mut self.buf, off)?;
            self.buf.truncate(n);
            self.buf_off = off;
        }
        let at = (off - self.buf_off) as usize;
        let end = (at + len).min(self.buf.len());
        Ok(self.buf.get(at..end).unwrap_or_default())
    }
}

/// What follows a commit.
pub(crate) enum Next {
    /// A commit with all of its records.
    Commit(Box<(Tip, Trailer)>),
    /// A void record, before any trailer, with the number of the attempt that it replaced.
    Void(u64),
    /// Valid records, but more bytes of them than the limit of the read.
    Further,
    /// No valid commit.
    Nothing,
}

/// The commit after `prev`, whose records begin at `next_off`. Every record is verified and the
/// chain hash is recomputed. Returns `None` if there is no valid commit there.
pub(crate) fn next_commit(
    file: &dyn File,
    salt: u64,
    prev: &Tip,
    next_off: u64,
) -> Result<Option<(Tip, Trailer)>> {
    Ok(match follow(file, salt, prev, next_off, u64::MAX)? {
        Next::Commit(commit) => Some(*commit),
        Next::Void(_) | Next::Further | Next::Nothing => None,
    })
}

/// What follows `prev`, as [`next_commit`] reads it. Stops after `most` bytes of valid records.
pub(crate) fn follow(
    file: &dyn File,
    salt: u64,
    prev: &Tip,
    next_off: u64,
    most: u64,
) -> Result<Next> {
    let mut scanner = Scanner {
        file,
        buf: Vec::new(),
        buf_off: 0,
    };
    let mut chain = Chain::after(&prev.hash);
    let mut off = next_off;
    // Records of a commit do not overlap. If more bytes are read than the file has, a jump led
    // back.
    let len = file.len()?;
    let mut read = 0;
    loop {
        let header = scanner.bytes(off, RECORD_LEN)?;
        let Some((record, _)) = Record::parse(header) else {
            return Ok(voided(header).map_or(Next::Nothing, Next::Void));
        };
        let total = record.total_len() as usize;
        let Some((record, sum, payload)) = Record::open(scanner.bytes(off, total)?, salt, off)
        else {
            return Ok(Next::Nothing);
        };
        read += total as u64;
        if read > len {
            return Ok(Next::Nothing);
        }
        if read > most {
            return Ok(Next::Further);
        }
        match record.kind {
            Kind::Trailer => {
                let Some((trailer, hash)) = Trailer::decode(payload) else {
                    return Ok(Next::Nothing);
                };
                let fields = payload
                    .get(..payload.len().saturating_sub(16))
                    .unwrap_or_default();
                let right = trailer.prev == *prev
                    && trailer.commit > prev.commit
                    && trailer.next_off == off + total as u64
                    && chain.finish(fields) == hash;
                let tip = Tip {
                    commit: trailer.commit,
                    off,
                    len: total as u32,
                    hash,
                };
                return Ok(if right {
                    Next::Commit(Box::new((tip, trailer)))
                } else {
                    Next::Nothing
                });
            }
            Kind::Jump => {
                chain.record(sum);
                let target: Option<[u8; 8]> = payload.try_into().ok();
                let target = target
                    .map(u64::from_le_bytes)
                    .filter(|t| (DATA_OFF..MAX_OFF).contains(t));
                let Some(target) = target else {
                    return Ok(Next::Nothing);
                };
                off = target;
            }
            _ => {
                chain.record(sum);
                off += total as u64;
            }
        }
    }
}
