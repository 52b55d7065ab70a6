//! The header of a zstd frame as the store leaves it out: it follows from the raw length.
//!
//! size     field
//!    4     magic number, 28 b5 2f fd
//!    1     descriptor: content size field of 1, 2, 4 or 8 bytes, single segment, no checksum, no dictionary number
//!  1 to 8  content size, little-endian; in the 2-byte form less 256
//!
//! See RFC 8878, section 3.1.1.1.

/// The longest header.
pub(super) const MAX: usize = 13;

/// The header of a frame with `raw_len` bytes of content.
pub(super) struct FrameHeader {
    bytes: [u8; MAX],
    len: usize,
}

impl FrameHeader {
    /// Makes the header for `raw_len` bytes.
    pub(super) fn new(raw_len: usize) -> FrameHeader {
        let n = raw_len as u64;
        let (code, field, width) = match n {
            0..=0xff => (0u8, n, 1),
            0x100..=0x100ff => (1, n - 0x100, 2),
            0x10100..=0xffff_ffff => (2, n, 4),
            _ => (3, n, 8),
        };
        let [a, b, c, d, e, f, g, h] = field.to_le_bytes();
        FrameHeader { bytes: [0x28, 0xb5, 0x2f, 0xfd, code << 6 | 0x20, a, b, c, d, e, f, g, h], len: 5 + width }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
