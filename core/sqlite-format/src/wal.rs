//! The write-ahead log (<https://www.sqlite.org/fileformat2.html#the_write_ahead_log>): a header,
//! then frames, each a header and a page.
//!
//! | from | bytes | the WAL's header | | from | bytes | a frame's header |
//! |---|---|---|---|---|---|---|
//! | 0 | 4 | 0x377f0682, or 0x377f0683 if checksums are big-endian | | 0 | 4 | page number |
//! | 4 | 4 | format: 3007000 | | 4 | 4 | pages of the database after this commit; 0 inside one |
//! | 8 | 4 | page size | | 8 | 8 | salts, as in the WAL's header |
//! | 12 | 4 | how often the WAL was restarted | | 16 | 8 | checksum |
//! | 16 | 8 | salts | | | | |
//! | 24 | 8 | checksum of the 24 bytes before | | | | |
//!
//! A frame counts if and only if its salts are those of the header, its checksum continues the chain
//! of checksums from the header, and a frame at or after it ends a commit.

use crate::be32;

/// Bytes of the WAL's own header.
pub const HEADER_LEN: usize = 32;
/// Bytes of a frame's header.
pub const FRAME_HEADER_LEN: usize = 24;

const MAGIC: u32 = 0x377f_0682;
const FORMAT: u32 = 3_007_000;

/// The page size in the WAL's own header.
pub fn page_size(header: &[u8]) -> Option<usize> {
    let size = be32(header, 8)?;
    (size.is_power_of_two() && (512..=1 << 16).contains(&size)).then_some(size as usize)
}

/// What a frame's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The number of its page.
    pub page: u32,
    /// The number of pages of the database, if the frame ends a commit; otherwise 0.
    pub commit: u32,
}

impl Frame {
    /// Reads a header, whose checksum is not looked at.
    pub fn parse(header: &[u8]) -> Option<Frame> {
        header.get(..FRAME_HEADER_LEN)?;
        Some(Frame {
            page: be32(header, 0)?,
            commit: be32(header, 4)?,
        })
    }
}

/// The chain of checksums, up to some frame.
#[derive(Debug, Clone)]
pub struct Chain {
    big_endian: bool,
    salts: [u8; 8],
    sum: (u32, u32),
}

impl Chain {
    /// Begins with the header of a WAL; `None` if SQLite does not read this WAL for a database with
    /// pages of this size.
    pub fn begin(header: &[u8; HEADER_LEN], page_size: u32) -> Option<Chain> {
        let (head, sum) = header.split_last_chunk::<8>()?;
        let big_endian = be32(head, 0)? & 1 == 1;
        let chain = Chain {
            big_endian,
            salts: *head.last_chunk()?,
            sum: checksum(big_endian, (0, 0), head),
        };
        let is_valid = be32(head, 0)? | 1 == MAGIC | 1
            && be32(head, 4)? == FORMAT
            && be32(head, 8)? == page_size
            && chain.is_at(sum);
        is_valid.then_some(chain)
    }

    /// Takes the next frame, with its page; `None` if it is not valid.
    pub fn next(&mut self, frame: &[u8]) -> Option<Frame> {
        let (head, page) = frame.split_at_checked(FRAME_HEADER_LEN)?;
        let sum = checksum(self.big_endian, self.sum, head.get(..8)?);
        self.sum = checksum(self.big_endian, sum, page);
        let is_valid = head.get(8..16)? == self.salts && self.is_at(head.last_chunk()?);
        Frame::parse(head).filter(|frame| is_valid && frame.page != 0)
    }

    fn is_at(&self, sum: &[u8; 8]) -> bool {
        (be32(sum, 0), be32(sum, 4)) == (Some(self.sum.0), Some(self.sum.1))
    }
}

/// SQLite's checksum over `bytes`, whose length is a multiple of 8, continued from another.
pub fn checksum(big_endian: bool, (mut a, mut b): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |bytes: [u8; 4]| match big_endian {
        true => u32::from_be_bytes(bytes),
        false => u32::from_le_bytes(bytes),
    };
    for pair in bytes.as_chunks::<4>().0.as_chunks::<2>().0 {
        let [x, y] = pair.map(word);
        a = a.wrapping_add(x).wrapping_add(b);
        b = b.wrapping_add(y).wrapping_add(a);
    }
    (a, b)
}
