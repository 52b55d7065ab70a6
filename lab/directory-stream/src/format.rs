//! The bytes of a stream in a directory, as FORMAT.md of this crate describes them.

use densite_disk::Fields;
use densite_disk::hash::{Xxh3_64, xxh3_64, xxh3_64_with_seed};
use densite_stream::{Identity, Message, Name};

pub(crate) const MAGIC: &[u8; 16] = b"Densite stream \n";
pub(crate) const VERSION: u32 = 1;
/// Where the end word is. It is written again and again, so it has a part of the block for itself.
pub(crate) const END_OFFSET: u64 = 2048;
/// Where records begin.
pub(crate) const RECORDS: u64 = 4096;
pub(crate) const HEADER_LEN: usize = 56;
pub(crate) const END_LEN: usize = 32;
pub(crate) const RECORD_LEN: usize = 32;
/// The largest message, bytes.
pub(crate) const MAX_PAYLOAD: usize = 16 << 20;
/// The largest sequence of a first message: sequences behind it have room.
const FIRST_MAX: u64 = 1 << 62;

/// Which stream a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    /// The sequence of the first record.
    pub(crate) first: u64,
}

/// Why bytes are not a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// A newer program wrote it.
    Newer(u32),
    /// Anything else.
    Damaged,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut b = [0; HEADER_LEN];
        b[..16].copy_from_slice(MAGIC);
        b[16..20].copy_from_slice(&VERSION.to_le_bytes());
        b[24..40].copy_from_slice(&self.identity.0);
        b[40..48].copy_from_slice(&self.first.to_le_bytes());
        let sum = xxh3_64(&b[..48]);
        b[48..].copy_from_slice(&sum.to_le_bytes());
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<Header, NoHeader> {
        let read = || {
            let mut fields = Fields::new(b);
            let (magic, version) = (fields.array::<16>()?, fields.u32()?);
            fields.u32()?;
            let header = Header {
                identity: Identity(fields.array()?),
                first: fields.u64()?,
            };
            (&magic == MAGIC).then_some((version, header, fields.u64()?))
        };
        let (version, header, sum) = read().ok_or(NoHeader::Damaged)?;
        if version > VERSION {
            return Err(NoHeader::Newer(version));
        }
        let is_fine = sum == xxh3_64(&b[..48]) && (1..=FIRST_MAX).contains(&header.first);
        is_fine.then_some(header).ok_or(NoHeader::Damaged)
    }

    /// The seed of the first record.
    pub(crate) fn seed(&self) -> u64 {
        xxh3_64(&self.encode())
    }
}

/// How far the records are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The offset behind the last record.
    pub(crate) offset: u64,
    /// Its sequence.
    pub(crate) last: u64,
    /// Its sum.
    pub(crate) seed: u64,
}

impl End {
    /// `stream` is the seed of the header: an end word belongs to one file.
    pub(crate) fn encode(&self, stream: u64) -> [u8; END_LEN] {
        let mut b = [0; END_LEN];
        b[..8].copy_from_slice(&self.offset.to_le_bytes());
        b[8..16].copy_from_slice(&self.last.to_le_bytes());
        b[16..24].copy_from_slice(&self.seed.to_le_bytes());
        let sum = xxh3_64_with_seed(&b[..24], stream);
        b[24..].copy_from_slice(&sum.to_le_bytes());
        b
    }

    pub(crate) fn decode(b: &[u8; END_LEN], stream: u64) -> Option<End> {
        let mut fields = Fields::new(b);
        let end = End {
            offset: fields.u64()?,
            last: fields.u64()?,
            seed: fields.u64()?,
        };
        (fields.u64()? == xxh3_64_with_seed(&b[..24], stream)).then_some(end)
    }
}

/// The fixed part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) len: usize,
    pub(crate) origin_len: usize,
    pub(crate) sequence: u64,
    pub(crate) time_ns: u64,
    pub(crate) sum: u64,
}

impl RecordHead {
    pub(crate) fn decode(b: &[u8; RECORD_LEN]) -> Option<RecordHead> {
        let mut fields = Fields::new(b);
        let head = RecordHead {
            len: fields.u32()? as usize,
            origin_len: {
                let len = usize::from(fields.u16()?);
                // A record that is written again must have the same bytes.
                (fields.u16()? == 0).then_some(len)?
            },
            sequence: fields.u64()?,
            time_ns: fields.u64()?,
            sum: fields.u64()?,
        };
        let is_fine = head.len <= MAX_PAYLOAD && (1..=Name::MAX).contains(&head.origin_len);
        is_fine.then_some(head)
    }

    /// The bytes behind the fixed part.
    pub(crate) fn body_len(&self) -> usize {
        self.origin_len + self.len
    }

    /// The message, if the bytes are those that were written behind the record with this seed.
    pub(crate) fn message(
        &self,
        head: &[u8; RECORD_LEN],
        body: &[u8],
        seed: u64,
    ) -> Option<Message> {
        if sum(&head[..24], body, seed) != self.sum {
            return None;
        }
        let (origin, bytes) = body.split_at_checked(self.origin_len)?;
        Some(Message {
            sequence: self.sequence,
            origin: std::str::from_utf8(origin).ok()?.parse().ok()?,
            time_ns: self.time_ns,
            bytes: bytes.to_vec(),
        })
    }
}

/// A record and its sum, which is the seed of the next one.
pub(crate) fn encode(message: &Message, seed: u64) -> (Vec<u8>, u64) {
    let origin = message.origin.as_str().as_bytes();
    let mut b = Vec::with_capacity(RECORD_LEN + origin.len() + message.bytes.len());
    b.extend_from_slice(&(message.bytes.len() as u32).to_le_bytes());
    b.extend_from_slice(&(origin.len() as u16).to_le_bytes());
    b.extend_from_slice(&[0; 2]);
    b.extend_from_slice(&message.sequence.to_le_bytes());
    b.extend_from_slice(&message.time_ns.to_le_bytes());
    b.extend_from_slice(&[0; 8]);
    b.extend_from_slice(origin);
    b.extend_from_slice(&message.bytes);
    let sum = sum(&b[..24], &b[RECORD_LEN..], seed);
    b[24..32].copy_from_slice(&sum.to_le_bytes());
    (b, sum)
}

pub(crate) fn sum(head: &[u8], body: &[u8], seed: u64) -> u64 {
    let mut hash = Xxh3_64::with_seed(seed);
    hash.update(head);
    hash.update(body);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_format_doc::{Tables, le2, le4, le8};

    const HEADER: Header = Header {
        identity: Identity([7; 16]),
        first: 0x0102,
    };

    fn message() -> Message {
        Message {
            sequence: 0x0102_0304,
            origin: "worker".parse().expect("a name"),
            time_ns: 0x0506_0708,
            bytes: b"a row".to_vec(),
        }
    }

    fn tables() -> Tables {
        Tables::within(include_str!("../FORMAT.md"), "stream table")
    }

    #[test]
    fn the_header_is_as_documented() {
        let b = HEADER.encode();
        assert_eq!(Header::decode(&b), Ok(HEADER));
        let fields = [
            ("magic", MAGIC.to_vec()),
            ("version", le4(1)),
            ("zeros", le4(0)),
            ("identity", vec![7; 16]),
            ("first", le8(0x0102)),
            ("sum", le8(xxh3_64(&b[..48]))),
        ];
        tables().check("header", &b, &fields);
    }

    #[test]
    fn the_end_word_is_as_documented() {
        let end = End {
            offset: 0x0102,
            last: 3,
            seed: 4,
        };
        let b = end.encode(9);
        assert_eq!(End::decode(&b, 9), Some(end));
        assert_eq!(End::decode(&b, 8), None, "of another file");
        let fields = [
            ("offset", le8(0x0102)),
            ("last", le8(3)),
            ("last_sum", le8(4)),
            ("sum", le8(xxh3_64_with_seed(&b[..24], 9))),
        ];
        tables().check("end word", &b, &fields);
    }

    #[test]
    fn a_record_is_as_documented() {
        let (b, sum) = encode(&message(), 5);
        let fields = [
            ("len", le4(5)),
            ("origin_len", le2(6)),
            ("zeros", le2(0)),
            ("sequence", le8(0x0102_0304)),
            ("time", le8(0x0506_0708)),
            ("sum", le8(sum)),
            ("origin", b"worker".to_vec()),
            ("payload", b"a row".to_vec()),
        ];
        tables().check("message", &b, &fields);
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let whole = HEADER.encode();
        for at in 0..whole.len() {
            let mut b = whole;
            b[at] ^= 1;
            assert!(Header::decode(&b).is_err(), "byte {at} of the header");
        }
        let read = |b: &[u8], seed| {
            let (head, body) = b.split_first_chunk::<RECORD_LEN>().expect("a head");
            RecordHead::decode(head)?.message(head, body, seed)
        };
        let (whole, _) = encode(&message(), 5);
        assert_eq!(read(&whole, 5), Some(message()));
        assert_eq!(read(&whole, 6), None, "behind another record");
        for at in 0..whole.len() {
            let mut b = whole.clone();
            b[at] ^= 1;
            assert_eq!(read(&b, 5), None, "byte {at} of the record");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut b = HEADER.encode();
        b[16] = 2;
        assert_eq!(Header::decode(&b), Err(NoHeader::Newer(2)));
    }
}
