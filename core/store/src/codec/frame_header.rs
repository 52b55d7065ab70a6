//! The header of a zstd frame (RFC 8878, section 3.1.1.1), which the store does not keep because it
//! follows from the raw length: 4 bytes magic number, 1 byte descriptor (single segment, no
//! checksum, no dictionary number), and the content size in 1 to 8 bytes, in the 2-byte form less
//! 256.
//!
//! A frame without the single-segment bit has a window byte after the descriptor, and possibly no
//! content size. Its blocks stay valid after a header of the form above, whose window is the whole
//! content.

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SINGLE_SEGMENT: u8 = 1 << 5;
/// All bits of the descriptor except the width of the content size and the single-segment bit.
const REST: u8 = 0x1f;
/// The longest header.
const MAX: usize = 13;

/// The header of a frame.
pub(super) struct FrameHeader {
    bytes: [u8; MAX],
    len: usize,
}

impl FrameHeader {
    /// Makes the header for `raw_len` bytes of content.
    pub(super) fn new(raw_len: usize) -> FrameHeader {
        let n = raw_len as u64;
        let (code, field, width) = match n {
            0..=0xff => (0u8, n, 1),
            0x100..=0x100ff => (1, n - 0x100, 2),
            0x10100..=0xffff_ffff => (2, n, 4),
            _ => (3, n, 8),
        };
        let [a, b, c, d, e, f, g, h] = field.to_le_bytes();
        let [m, n, o, p] = MAGIC;
        FrameHeader {
            bytes: [
                m,
                n,
                o,
                p,
                code << 6 | SINGLE_SEGMENT,
                a,
                b,
                c,
                d,
                e,
                f,
                g,
                h,
            ],
            len: 5 + width,
        }
    }

    /// The bytes of the header.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The blocks of `frame`, without its header. `None` if it has a checksum or a dictionary number,
/// or is not a frame.
pub(super) fn blocks(frame: &[u8]) -> Option<&[u8]> {
    let (&descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & REST != 0 {
        return None;
    }
    let single = descriptor & SINGLE_SEGMENT != 0;
    let window = usize::from(!single);
    let size = match descriptor >> 6 {
        0 => usize::from(single),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    rest.get(window + size..)
}
