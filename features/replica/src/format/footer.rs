//! The footer of an object: a base, a delta, or a compacted delta.
//!
//! ```text
//! offset  size  field
//!      0    16  magic      "Densite replica\n"
//!     16     4  version    format version, 1
//!     20     4  kind       1 base, 2 delta, 3 compacted, 4 end
//!     24     8  first      the first restore point that it takes the file to
//!     32     8  last       the last one
//!     40     8  writer     random for each process that ships
//!     48     8  time       when the last one was taken, in milliseconds since 1970
//!     56    48  from       mark of the commit before the first one; zeros in a base
//!    104    48  to         mark of the commit of the last one
//!    152     8  image_len  bytes of the file then
//!    160     8  body_len   bytes of the extents, before the table
//!    168     4  extents    entries of the table
//!    172     4  state_len  bytes of the log's state
//!    176     8  log_first  number of the first segment of the log; 0: there is no log
//!    184    64  log_end    the end word of the log; zeros: there is no log
//!    248    16  previous   chain value of the restore point before the first one
//!    264    16  chain      chain value of the last one; zeros: it is the hash
//!    280    16  body_hash  xxh3-128 of the extents
//!    296    16  table_hash xxh3-128 of the table
//!    312    16  hash       xxh3-128 of the 312 bytes above
//! ```
//!
//! An object is the bytes of its extents, one after the other, then a table with offset in the file
//! and length of each, then this footer. So it can be written without knowing its end, and its end
//! alone says what it is. Where extents overlap, the later one has the bytes. Those of the log lie
//! behind those of the file (`features/replica/src/log_place.rs`).
//!
//! Invariant: following `previous` from a restore point leads to the base of its generation. Two
//! writers that both continue one chain make two different hashes, so that a fork is seen.

use crate::error::{Error, Result};
use densite_disk::Fields;
use densite_disk::hash::xxh3_128;
use densite_log::Span;
use densite_store::CommitId;

/// The version that this program writes, and the newest that it reads.
pub(crate) const REPLICA_FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 16] = b"Densite replica\n";
/// Bytes of a footer.
pub(crate) const FOOTER_LEN: usize = 328;
/// So many bytes at the end of an object say that it is one.
pub const OBJECT_END: usize = FOOTER_LEN;
/// Bytes of an entry of the table.
pub(crate) const EXTENT_LEN: usize = 16;
/// No chain value.
pub(crate) const NO_HASH: [u8; 16] = [0; 16];

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An image of the whole file.
    Base,
    /// What changed with one restore point.
    Delta,
    /// What changed with several restore points.
    Compacted,
    /// In the place of a delta: the head says what follows.
    End,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Kind::Base => 1,
            Kind::Delta => 2,
            Kind::Compacted => 3,
            Kind::End => 4,
        }
    }

    fn of(number: u32) -> Option<Kind> {
        [Kind::Base, Kind::Delta, Kind::Compacted, Kind::End]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// What a restore point has of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) span: Span,
    /// Bytes of the state.
    pub(crate) state_len: u32,
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) kind: Kind,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) writer: u64,
    pub(crate) time_ms: u64,
    pub(crate) from: Option<CommitId>,
    pub(crate) to: Option<CommitId>,
    pub(crate) image_len: u64,
    pub(crate) body_len: u64,
    pub(crate) extents: u32,
    pub(crate) log: Option<Logged>,
    pub(crate) previous: [u8; 16],
    pub(crate) chain: [u8; 16],
    pub(crate) body_hash: [u8; 16],
    pub(crate) table_hash: [u8; 16],
}

/// Whether these are the last [`OBJECT_END`] bytes of an object of a replica.
#[must_use]
pub fn is_object(end: &[u8]) -> bool {
    matches!(Footer::decode("", end), Ok(_) | Err(Error::Newer { .. }))
}

impl Footer {
    /// The footer as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mark = |mark: Option<CommitId>| mark.map_or([0; CommitId::LEN], |mark| mark.encode());
        let mut out = Vec::with_capacity(FOOTER_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&REPLICA_FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.kind.number().to_le_bytes());
        for number in [self.first, self.last, self.writer, self.time_ms] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&mark(self.from));
        out.extend_from_slice(&mark(self.to));
        out.extend_from_slice(&self.image_len.to_le_bytes());
        out.extend_from_slice(&self.body_len.to_le_bytes());
        out.extend_from_slice(&self.extents.to_le_bytes());
        let log = self
            .log
            .map_or((0, [0; Span::LEN]), |l| (l.state_len, l.span.encode()));
        out.extend_from_slice(&log.0.to_le_bytes());
        out.extend_from_slice(&log.1);
        for hash in [self.previous, self.chain, self.body_hash, self.table_hash] {
            out.extend_from_slice(&hash);
        }
        let hash = xxh3_128(&out).to_le_bytes();
        out.extend_from_slice(&hash);
        out
    }

    /// Decodes the footer at the end of `bytes`, the end of the object `name`. Returns it with its
    /// chain value.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`].
    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<(Footer, [u8; 16])> {
        let damaged = |problem: &str| Error::Damaged {
            object: name.to_owned(),
            problem: problem.to_owned(),
        };
        let at = bytes.len().checked_sub(FOOTER_LEN);
        let bytes = at.and_then(|at| bytes.get(at..));
        let bytes = bytes.ok_or_else(|| damaged("it is too short"))?;
        let mut fields = Fields::new(bytes);
        if fields.bytes(MAGIC.len()) != Some(MAGIC) {
            return Err(damaged("it is no object of a replica"));
        }
        let version = fields.u32().unwrap_or_default();
        if version > REPLICA_FORMAT_VERSION {
            return Err(Error::Newer {
                object: name.to_owned(),
                found: version,
                supported: REPLICA_FORMAT_VERSION,
            });
        }
        let (head, hash) = bytes.split_at(FOOTER_LEN - 16);
        if xxh3_128(head).to_le_bytes() != *hash {
            return Err(damaged("the checksum of its footer is wrong"));
        }
        let footer = Footer::take(fields).ok_or_else(|| damaged("a field is out of range"))?;
        let chain = match footer.chain {
            NO_HASH => hash.try_into().unwrap_or(NO_HASH),
            chain => chain,
        };
        Ok((footer, chain))
    }

    /// The fields after the version.
    fn take(mut fields: Fields<'_>) -> Option<Footer> {
        let kind = Kind::of(fields.u32()?)?;
        let (first, last) = (fields.u64()?, fields.u64()?);
        let (writer, time_ms) = (fields.u64()?, fields.u64()?);
        let mut mark = || -> Option<Option<CommitId>> {
            match fields.array()? {
                bytes if bytes == [0; CommitId::LEN] => Some(None),
                bytes => CommitId::decode(&bytes).map(Some),
            }
        };
        let (from, to) = (mark()?, mark()?);
        let (image_len, body_len) = (fields.u64()?, fields.u64()?);
        let (extents, state_len) = (fields.u32()?, fields.u32()?);
        let log = match fields.array()? {
            bytes if bytes == [0; Span::LEN] => None,
            bytes => Some(Logged {
                span: Span::decode(&bytes)?,
                state_len,
            }),
        };
        Some(Footer {
            kind,
            first,
            last,
            writer,
            time_ms,
            from,
            to,
            image_len,
            body_len,
            extents,
            log,
            previous: fields.array()?,
            chain: fields.array()?,
            body_hash: fields.array()?,
            table_hash: fields.array()?,
        })
    }

    /// Bytes of the table and the footer, at the end of the object.
    pub(crate) fn end_len(&self) -> u64 {
        u64::from(self.extents) * EXTENT_LEN as u64 + FOOTER_LEN as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_format_doc::{Tables, le4, le8};

    fn mark(commit: u64) -> CommitId {
        let mut bytes = [0; CommitId::LEN];
        bytes[..8].copy_from_slice(&77u64.to_le_bytes());
        bytes[8..16].copy_from_slice(&commit.to_le_bytes());
        CommitId::decode(&bytes).expect("a mark")
    }

    fn span() -> Span {
        let mut word = vec![9; 16];
        for field in [5, 5000, 77, 12, 0u64] {
            word.extend_from_slice(&field.to_le_bytes());
        }
        let sum = densite_disk::hash::xxh3_64(&word);
        let bytes = [le8(2), word, le8(sum)].concat();
        Span::decode(&bytes.try_into().expect("72 bytes")).expect("a span")
    }

    fn footer() -> Footer {
        Footer {
            kind: Kind::Compacted,
            first: 3,
            last: 9,
            writer: 2,
            time_ms: 0x0102_0304_0506,
            from: Some(mark(5)),
            to: Some(mark(11)),
            image_len: 70_000,
            body_len: 1234,
            extents: 7,
            log: Some(Logged {
                span: span(),
                state_len: 88,
            }),
            previous: [1; 16],
            chain: [2; 16],
            body_hash: [3; 16],
            table_hash: [4; 16],
        }
    }

    #[test]
    fn the_footer_is_as_documented() {
        let footer = footer();
        let b = footer.encode();
        assert_eq!(b.len(), FOOTER_LEN);
        assert_eq!(Footer::decode("x", &b), Ok((footer, [2; 16])));
        let tables = Tables::of("replica table");
        tables.check_module("footer", include_str!("footer.rs"));
        tables.check(
            "footer",
            &b,
            &[
                ("magic", MAGIC.to_vec()),
                ("version", le4(1)),
                ("kind", le4(3)),
                ("first", le8(3)),
                ("last", le8(9)),
                ("writer", le8(2)),
                ("time", le8(0x0102_0304_0506)),
                ("from", mark(5).encode().to_vec()),
                ("to", mark(11).encode().to_vec()),
                ("image_len", le8(70_000)),
                ("body_len", le8(1234)),
                ("extents", le4(7)),
                ("state_len", le4(88)),
                ("log_first", le8(2)),
                ("log_end", span().encode()[8..].to_vec()),
                ("previous", vec![1; 16]),
                ("chain", vec![2; 16]),
                ("body_hash", vec![3; 16]),
                ("table_hash", vec![4; 16]),
                ("hash", xxh3_128(&b[..312]).to_le_bytes().to_vec()),
            ],
        );
    }

    #[test]
    fn an_entry_of_the_table_is_as_documented() {
        let entry = [le8(0x0102_0304), le8(77)].concat();
        assert_eq!(entry.len(), EXTENT_LEN);
        let fields = [("offset", le8(0x0102_0304)), ("len", le8(77))];
        Tables::of("replica table").check("extent", &entry, &fields);
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let whole = footer().encode();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(Footer::decode("x", &bytes).is_err(), "byte {at}");
        }
        assert!(Footer::decode("x", &whole[1..]).is_err());
        let mut newer = whole;
        newer[16] = 2;
        let found = Footer::decode("x", &newer);
        assert!(
            matches!(found, Err(Error::Newer { found: 2, .. })),
            "{found:?}"
        );
    }

    #[test]
    fn without_a_chain_value_the_hash_is_it() {
        let mut footer = footer();
        footer.chain = NO_HASH;
        let bytes = footer.encode();
        let (_, chain) = Footer::decode("x", &bytes).expect("a footer");
        assert_eq!(chain.as_slice(), &bytes[312..]);
    }
}
