//! The zstd level of pages with long values: overflow pages, and leaves with rows that continue on
//! them.
//!
//! Such values are documents: written once, as a rule, and not changed. So these pages get a higher
//! level than others. The time to decode is the same.

use super::family::{Family, long_rows};
use densite_sqlite_format::page::next_overflow;

/// How many levels higher such pages are coded. At 3 + 3, text is a tenth smaller.
const EFFORT: i32 = 3;
/// The levels that are raised. Lower ones are for those who want to write fast.
const RAISED: std::ops::RangeInclusive<i32> = 3..=16;

/// The zstd level of pages of `page_size` bytes from `number` on, if that of others is `level`.
pub(super) fn level(raw: &[u8], page_size: usize, number: u32, level: i32) -> i32 {
    let mut pages = raw.chunks(page_size.max(1)).zip(number..);
    if RAISED.contains(&level) && pages.all(|(page, number)| is_long(page, number)) {
        level + EFFORT
    } else {
        level
    }
}

/// Whether a page belongs to long values. An overflow page names the page behind it, or none.
fn is_long(page: &[u8], number: u32) -> bool {
    let is_overflow = || {
        let next = next_overflow(page);
        next == Some(0) || next.is_some() && next == number.checked_add(1)
    };
    long_rows(page) || is_overflow() && Family::of(page) == Family::OTHER
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf of a table with a row of so many bytes of payload.
    fn leaf(payload: u16) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[..8].copy_from_slice(&[0x0d, 0, 0, 0, 1, 0x08, 0, 0]);
        page[8..10].copy_from_slice(&[0x08, 0]);
        let [high, low] = [(payload >> 7) as u8 | 0x80, payload as u8 & 0x7f];
        page[0x800..0x807].copy_from_slice(&[high, low, 1, 4, 0x80, 0x80, 1]);
        page
    }

    #[test]
    fn long_values_are_coded_at_a_higher_level() {
        let overflow = |next: u32| [&next.to_be_bytes()[..], &[b'x'; 4092]].concat();
        let of = |page: &[u8], wanted| level(page, 4096, 7, wanted) - wanted;
        for page in [overflow(8), overflow(0), leaf(4062), leaf(9000)] {
            assert_eq!(of(&page, 3), EFFORT);
            assert_eq!((of(&page, 1), of(&page, 19), of(&page, -7)), (0, 0, 0));
        }
        for page in [overflow(9), overflow(7), leaf(4061), leaf(100)] {
            assert_eq!(of(&page, 3), 0);
        }
        let run = [overflow(8), overflow(9)].concat();
        assert_eq!(of(&run, 3), EFFORT);
        let mixed = [overflow(8), leaf(100)].concat();
        assert_eq!(of(&mixed, 3), 0);
    }
}
