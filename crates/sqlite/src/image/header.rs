//! The first 100 bytes of a SQLite database, as far as Densite needs them.

/// The size of the header in bytes.
pub const HEADER_LEN: usize = 100;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The used fields, with checked values.
///
/// ```text
/// offset  size  field (big-endian)
///      0    16  "SQLite format 3\0"
///     16     2  page size; 1 means 65536
///     18     1  write version: 1 rollback journal, 2 WAL
///     20     1  reserved bytes at the end of each page
///     24     4  change counter
///     28     4  pages, valid if the field at 92 equals the change counter
///     32     4  first trunk page of the freelist, 0 if none
///     36     4  pages on the freelist
///     52     4  not 0: pointer-map pages exist (auto_vacuum)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The page size in bytes: a power of two, 512 to 65536.
    pub page_size: u32,
    /// The bytes of a page that SQLite uses.
    pub usable: u32,
    /// Whether the file is in WAL mode.
    pub wal: bool,
    /// The first trunk page of the freelist; 0 if there is none.
    pub free_trunk: u32,
    /// The number of pages on the freelist.
    pub free_pages: u32,
    /// Whether pointer-map pages exist.
    pub auto_vacuum: bool,
}

impl Header {
    /// Parses a header; `None` if this is not the start of a SQLite database.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_LEN] = bytes.get(..HEADER_LEN)?.try_into().ok()?;
        if bytes.get(..16)? != MAGIC {
            return None;
        }
        let page_size = match u32::from(u16_at(bytes, 16)?) {
            1 => 65536,
            n => n,
        };
        let reserved = u32::from(*bytes.get(20)?);
        if !(512..=65536).contains(&page_size)
            || !page_size.is_power_of_two()
            || page_size - reserved < 480
        {
            return None;
        }
        Some(Header {
            page_size,
            usable: page_size - reserved,
            wal: *bytes.get(18)? == 2,
            free_trunk: u32_at(bytes, 32)?,
            free_pages: u32_at(bytes, 36)?,
            auto_vacuum: u32_at(bytes, 52)? != 0,
        })
    }
}

/// Whether these are the first bytes of a SQLite database.
pub fn is_sqlite(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(
        b.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

/// The big-endian number at `at`.
pub fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(
        b.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> [u8; HEADER_LEN] {
        let mut b = [0u8; HEADER_LEN];
        b[..16].copy_from_slice(MAGIC);
        b[16..18].copy_from_slice(&4096u16.to_be_bytes());
        b[18] = 2;
        b[20] = 8;
        b[36..40].copy_from_slice(&9u32.to_be_bytes());
        b
    }

    #[test]
    fn parses_the_fields() {
        let h = Header::parse(&sample()).expect("a header");
        assert_eq!(
            (h.page_size, h.usable, h.wal, h.free_pages),
            (4096, 4088, true, 9)
        );
        let mut big = sample();
        big[16..18].copy_from_slice(&1u16.to_be_bytes());
        assert_eq!(Header::parse(&big).map(|h| h.page_size), Some(65536));
    }

    #[test]
    fn refuses_invalid_headers() {
        assert_eq!(Header::parse(&sample()[..99]), None);
        for (at, byte) in [(0usize, b'x'), (16, 0x11), (17, 0x01)] {
            let mut b = sample();
            b[at] = byte;
            assert_eq!(Header::parse(&b), None, "byte {at}");
        }
        let mut b = sample();
        b[16..18].copy_from_slice(&512u16.to_be_bytes());
        b[20] = 255;
        assert_eq!(Header::parse(&b), None);
    }
}
