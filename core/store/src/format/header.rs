//! The header: identifies the file and its version.
//!
//! ```text
//! offset  size  field
//!      0    16  magic      "Densite format\r\n"
//!     16     4  version    format version, 1
//!     20     4  reserved   0
//!     24     8  salt       random; seeds every checksum of the file
//!     32     8  checksum   xxh3-64 of the 32 bytes above
//! ```
//!
//! A file that lacks the magic and is not longer than the preamble may be one whose creation was
//! interrupted. It is then empty (`recover.rs`).

use crate::bytes::Put;
use densite_disk::Fields;
use densite_disk::hash::xxh3_64;

/// The first bytes of every stored file. The line end reveals damage by text transfers.
pub const MAGIC: &[u8; 16] = b"Densite format\r\n";
/// Length of the header's fields in bytes.
pub(crate) const HEADER_LEN: usize = 40;

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) salt: u64,
}

/// Why a header does not decode.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// The magic is missing.
    Foreign,
    /// Magic and version are readable, the checksum is wrong.
    Damaged,
    /// A newer version, whose further fields are not checked.
    Newer(u32),
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(MAGIC);
        out.put_u32(self.version);
        out.put_u32(0);
        out.put_u64(self.salt);
        let sum = xxh3_64(&out);
        out.put_u64(sum);
        out
    }

    /// Whether the checksum is right.
    pub(crate) fn is_whole(bytes: &[u8]) -> bool {
        let sum = bytes
            .get(32..HEADER_LEN)
            .and_then(|b| b.try_into().ok())
            .map(u64::from_le_bytes);
        bytes.get(..32).is_some_and(|b| sum == Some(xxh3_64(b)))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, HeaderFault> {
        let mut f = Fields::new(bytes);
        if f.bytes(16) != Some(MAGIC.as_slice()) {
            return Err(HeaderFault::Foreign);
        }
        let fields = (|| Some((f.u32()?, f.u32()?, f.u64()?, f.u64()?)))();
        let (version, _, salt, sum) = fields.ok_or(HeaderFault::Damaged)?;
        let right = bytes.get(..32).is_some_and(|b| xxh3_64(b) == sum);
        if version > super::FORMAT_VERSION && (right || version < 1 << 16) {
            return Err(HeaderFault::Newer(version));
        }
        if !right {
            return Err(HeaderFault::Damaged);
        }
        Ok(Header { version, salt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_faults() {
        let h = Header {
            version: 1,
            salt: 77,
        };
        let b = h.encode();
        assert_eq!(b.len(), HEADER_LEN);
        assert_eq!(Header::decode(&b), Ok(h));
        for bit in 0..b.len() * 8 {
            let mut c = b.clone();
            c[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&c).is_err(), "bit {bit}");
        }
        assert_eq!(
            Header::decode(b"SQLite format 3\0"),
            Err(HeaderFault::Foreign)
        );
        let newer = Header {
            version: 9,
            salt: 1,
        }
        .encode();
        assert_eq!(Header::decode(&newer), Err(HeaderFault::Newer(9)));
        assert_eq!(Header::decode(&b[..20]), Err(HeaderFault::Damaged));
    }
}
