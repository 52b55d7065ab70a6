//! The end of a rollback journal that names a super-journal: the list of the journals of all
//! databases that one commit changes (<https://www.sqlite.org/atomiccommit.html>, section 5, and
//! `writeSuperJournal` in pager.c).
//!
//! | from | bytes | what |
//! |---|---|---|
//! | 0 | n | the path of the super-journal |
//! | n | 4 | n |
//! | n + 4 | 4 | the sum of the path's bytes, which SQLite adds as signed ones |
//! | n + 8 | 8 | the magic number, with which a journal also begins |

const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The bytes that name a super-journal of this path.
pub fn super_journal(path: &[u8]) -> Vec<u8> {
    let sum = path.iter().fold(0u32, |sum, byte| {
        sum.wrapping_add_signed(i32::from(byte.cast_signed()))
    });
    let len = u32::try_from(path.len()).unwrap_or(0);
    [path, &len.to_be_bytes(), &sum.to_be_bytes(), &MAGIC].concat()
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_those_that_sqlite_reads() {
        let bytes = super::super_journal(b"/a/\xff");
        let sum = u32::from(b'/') * 2 + u32::from(b'a') - 1;
        assert_eq!(bytes.get(..4), Some(&b"/a/\xff"[..]));
        assert_eq!(bytes.get(4..8), Some(&4u32.to_be_bytes()[..]));
        assert_eq!(bytes.get(8..12), Some(&sum.to_be_bytes()[..]));
        assert_eq!(bytes.get(12..), Some(&super::MAGIC[..]));
    }
}
