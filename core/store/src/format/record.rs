//! Records: everything after the preamble is one of these.
//!
//! ```text
//! offset  size  field
//!      0     1  kind       low 3 bits: 1 frame, 2 map node, 3 dictionary, 4 space chunk or index,
//!                          5 jump, 6 trailer; high 5 bits: codec, how the payload is coded
//!      1     1  log2s      low 5 bits: frame: log2 of the page size; map node, space index: level;
//!                          high 3 bits: frame: log2 of the number of pages in it
//!      2     4  number     frame: first page; map node: first page it covers; dictionary, space
//!                          chunk or index: its number
//!      6     3  stored_len payload bytes that follow the header
//!      9     3  model      dictionary or model the codec needs; 0 none
//!     12     6  version    number of the commit it was written in; a frame that was moved keeps it
//!     18     4  raw_check  low half of xxh3-64 of the decoded payload
//!     22     8  checksum   xxh3-64 of the payload, seeded with the xxh3-64 of the 22 bytes above,
//!                          which is seeded with salt XOR offset
//! ```
//!
//! Valid if and only if kind and lengths are in range and the checksum matches. The checksum is
//! seeded with the offset, so a record copied to another place is invalid. Number and version
//! distinguish the right frame from another one in a reused place (rule S6).
//!
//! A void record ([`void`]) replaces the first record of an attempt at a commit that was given up:
//! see `attempt`. It is not valid, so reading ends there.
//!
//! The fields are as narrow as their bounds allow ([`MAX_PAYLOAD`], [`MAX_DICT`], [`MAX_COMMIT`]).
//! A frame of a typed page has only a few hundred bytes, and each has a header.

use super::{MAX_COMMIT, MAX_DICT};
use crate::bytes::Put;
use densite_disk::Fields;
use densite_disk::hash::{Xxh3_128, xxh3_64, xxh3_64_with_seed};

/// Length of a record's header in bytes.
pub(crate) const RECORD_LEN: usize = CHECKED + 8;
/// The number of header bytes that the checksum covers.
pub(crate) const CHECKED: usize = 22;
/// The kind of a void record.
const VOID: u8 = 7;
/// Where the version begins.
const VERSION: usize = 12;
const VERSION_END: usize = VERSION + 6;
/// The maximum payload. The largest run, 64 pages of 64 KiB, has 4 MiB.
pub(crate) const MAX_PAYLOAD: u32 = 8 << 20;
/// Length of a jump record: its payload is the target offset.
pub(crate) const JUMP_LEN: u64 = RECORD_LEN as u64 + 8;

/// The highest level of a map node: four levels reach all possible pages.
const MAX_LEVEL: u8 = 3;
/// The highest level of a part: three levels reach all possible units.
pub(crate) const SPACE_LEVEL_MAX: u8 = 2;

/// Bits of the kind in its byte. The codec has the others.
const KIND_BITS: u8 = 3;
/// Bits of the page's logarithm (or the node's level) in its byte. The run's logarithm has the
/// others.
const PAGE_BITS: u8 = 5;
const _: () = assert!(MAX_PAYLOAD < 1 << 24 && MAX_DICT <= 1 << 24 && MAX_COMMIT <= 1 << 48);

/// A void record over an attempt of this number: kind 7, the number as its version, otherwise
/// zeros.
pub(crate) fn void(attempt: u64) -> [u8; RECORD_LEN] {
    let mut bytes = [0; RECORD_LEN];
    bytes[0] = VOID;
    let version = attempt.to_le_bytes();
    for (byte, of) in bytes[VERSION..VERSION_END].iter_mut().zip(version) {
        *byte = of;
    }
    bytes
}

/// The attempt's number, if this header is a void record.
pub(crate) fn voided(header: &[u8]) -> Option<u64> {
    let number = written_by(header)?;
    (*header == void(number)).then_some(number)
}

/// The number of the commit or attempt in which a record says it was written. It trusts no other
/// field, because a void record may have reached the disk only in part. The number has the same
/// place in both kinds of record. `None` if there never was a record.
pub(crate) fn written_by(header: &[u8]) -> Option<u64> {
    let kind = header.first()? & ((1 << KIND_BITS) - 1);
    let mut version = [0; 8];
    let bytes = header.get(VERSION..VERSION_END)?;
    version.get_mut(..bytes.len())?.copy_from_slice(bytes);
    (kind != 0).then(|| u64::from_le_bytes(version))
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Frame = 1,
    Node = 2,
    Dictionary = 3,
    Space = 4,
    Jump = 5,
    Trailer = 6,
}

impl Kind {
    fn of(b: u8) -> Option<Kind> {
        Some(match b {
            1 => Kind::Frame,
            2 => Kind::Node,
            3 => Kind::Dictionary,
            4 => Kind::Space,
            5 => Kind::Jump,
            6 => Kind::Trailer,
            _ => return None,
        })
    }
}

/// A record's header, without the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) codec: u8,
    pub(crate) page_log2: u8,
    pub(crate) run_log2: u8,
    pub(crate) number: u32,
    pub(crate) stored_len: u32,
    pub(crate) model: u32,
    pub(crate) version: u64,
    pub(crate) raw_check: u32,
}

impl Record {
    /// A record of `kind` whose other fields are zero.
    pub(crate) fn plain(kind: Kind, number: u32, version: u64) -> Record {
        Record {
            kind,
            codec: 0,
            page_log2: 0,
            run_log2: 0,
            number,
            stored_len: 0,
            model: 0,
            version,
            raw_check: 0,
        }
    }

    /// Appends header and payload to `out`, and returns the checksum. `offset` is where the record
    /// will be.
    pub(crate) fn put(&self, payload: &[u8], salt: u64, offset: u64, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        debug_assert!(self.codec < 1 << (8 - KIND_BITS) && self.run_log2 < 1 << (8 - PAGE_BITS));
        debug_assert!(self.page_log2 < 1 << PAGE_BITS && payload.len() <= MAX_PAYLOAD as usize);
        debug_assert!(self.model < MAX_DICT && self.version < MAX_COMMIT);
        out.put_u8(self.kind as u8 | self.codec << KIND_BITS);
        out.put_u8(self.page_log2 | self.run_log2 << PAGE_BITS);
        out.put_u32(self.number);
        out.put_u24(payload.len() as u32);
        out.put_u24(self.model);
        out.put_u48(self.version);
        out.put_u32(self.raw_check);
        let sum = checksum(out.get(start..).unwrap_or_default(), payload, salt, offset);
        out.put_u64(sum);
        out.extend_from_slice(payload);
        sum
    }

    /// The header's fields, if they are in range, and the checksum, which is not verified.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Record, u64)> {
        let mut f = Fields::new(bytes);
        let (kind, logs) = (f.u8()?, f.u8()?);
        let (kind, codec) = (Kind::of(kind & ((1 << KIND_BITS) - 1))?, kind >> KIND_BITS);
        let (page_log2, run_log2) = (logs & ((1 << PAGE_BITS) - 1), logs >> PAGE_BITS);
        let (number, stored_len, model) = (f.u32()?, f.u24()?, f.u24()?);
        let (version, raw_check, sum) = (f.u48()?, f.u32()?, f.u64()?);
        let logs_ok = match kind {
            Kind::Frame => (9..=16).contains(&page_log2) && run_log2 <= 6,
            Kind::Node => page_log2 <= MAX_LEVEL && run_log2 == 0,
            Kind::Space => page_log2 <= SPACE_LEVEL_MAX && run_log2 == 0,
            _ => logs == 0,
        };
        (stored_len <= MAX_PAYLOAD && logs_ok).then_some((
            Record {
                kind,
                codec,
                page_log2,
                run_log2,
                number,
                stored_len,
                model,
                version,
                raw_check,
            },
            sum,
        ))
    }

    /// Whether these bytes can begin a frame of pages of 2^`page_log2` bytes, or another record.
    /// Checks two bytes.
    pub(crate) fn may_begin(bytes: &[u8], page_log2: u8) -> bool {
        let [kind, logs, ..] = bytes else {
            return false;
        };
        match kind & ((1 << KIND_BITS) - 1) {
            1 => logs & ((1 << PAGE_BITS) - 1) == page_log2,
            2 => *logs <= MAX_LEVEL,
            4 => *logs <= SPACE_LEVEL_MAX,
            3 | 5 | 6 => *logs == 0,
            _ => false,
        }
    }

    /// Header and payload of the whole record `bytes`, verified.
    pub(crate) fn open(bytes: &[u8], salt: u64, offset: u64) -> Option<(Record, u64, &[u8])> {
        let (r, sum) = Record::parse(bytes)?;
        let payload = bytes.get(RECORD_LEN..RECORD_LEN + r.stored_len as usize)?;
        (checksum(bytes.get(..CHECKED)?, payload, salt, offset) == sum).then_some((r, sum, payload))
    }

    /// Bytes of header and payload.
    pub(crate) fn total_len(&self) -> u32 {
        RECORD_LEN as u32 + self.stored_len
    }
}

/// The low half of the hash of decoded bytes, as `raw_check` holds it.
pub(crate) fn raw_check(raw: &[u8]) -> u32 {
    xxh3_64(raw) as u32
}

fn checksum(head: &[u8], payload: &[u8], salt: u64, offset: u64) -> u64 {
    // The header's fields are part of the seed, so that the payload is hashed at once. That is much
    // faster than a streamed hash.
    let seed = xxh3_64_with_seed(head, salt ^ offset);
    xxh3_64_with_seed(payload, seed)
}

/// The chain hash: over the previous trailer's hash, the checksums of all records since, and the
/// trailer's own fields.
#[derive(Clone)]
pub(crate) struct Chain(Xxh3_128);

impl Chain {
    pub(crate) fn after(prev: &[u8; 16]) -> Chain {
        let mut h = Xxh3_128::default();
        h.update(prev);
        Chain(h)
    }

    pub(crate) fn record(&mut self, checksum: u64) {
        self.0.update(&checksum.to_le_bytes());
    }

    pub(crate) fn finish(&self, trailer_fields: &[u8]) -> [u8; 16] {
        let mut h = self.0.clone();
        h.update(trailer_fields);
        h.digest().to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts() {
        let r = Record {
            codec: 1,
            page_log2: 12,
            number: 7,
            model: 3,
            raw_check: 9,
            ..Record::plain(Kind::Frame, 7, 11)
        };
        let mut b = Vec::new();
        r.put(b"payload", 42, 1000, &mut b);
        let (got, _, payload) = Record::open(&b, 42, 1000).expect("valid");
        assert_eq!(payload, b"payload");
        assert_eq!(got, Record { stored_len: 7, ..r });
        assert!(Record::open(&b, 42, 1001).is_none(), "another place");
        assert!(Record::open(&b, 43, 1000).is_none(), "another file");
        for bit in 0..b.len() * 8 {
            let mut c = b.clone();
            c[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::open(&c, 42, 1000).is_none(), "bit {bit}");
        }
    }
}
