//! Leaves whose cells are all of one size, as most are that hold few numbers and nothing else: then the cells need not be listed.
//!
//! They lie back to back, in whatever order, so that their places follow from their ranks; and what comes before their records is of one length.
//! What is found of such a page is what [`Page::parse`] finds, but for the list.

use super::parse::Rule;
use super::{BLOCK_MIN, Page};

/// Most bytes of a row id.
const ROWID_MAX: usize = 4;

/// What cells have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Even {
    /// Bytes of the payload, all of them in the page.
    pub(crate) payload: usize,
    /// Where it begins, counted from the cell's beginning.
    pub(crate) payload_at: usize,
}

impl Page {
    /// As [`Page::parse`], but only of such a page. False if it is none, or no well-formed page at all.
    pub(crate) fn parse_even(&mut self, page: &[u8], usable: usize, first: bool) -> bool {
        self.clear();
        self.even = self.take_even(page, usable, first);
        if self.even.is_none() {
            self.clear();
        }
        self.even.is_some()
    }

    fn take_even(&mut self, page: &[u8], usable: usize, first: bool) -> Option<Even> {
        let (body, head) = self.take_head(page, usable, first)?;
        let nothing_between = head.first_block == 0 && head.fragments == 0;
        if self.kind.has_child() || !nothing_between {
            return None;
        }
        let cells = head.pointers.len();
        let at = usize::from(u16::from_be_bytes(*head.pointers.first()?));
        let payload = *body.get(at)?;
        let all_max = Rule::of(self.kind, usable).all_max;
        if payload >= 0x80 || usize::from(payload) > all_max {
            return None;
        }
        let rowid_len = match self.kind.is_table() {
            true => 1 + body.get(at + 1..)?.iter().position(|byte| *byte < 0x80)?,
            false => 0,
        };
        let size = 1 + rowid_len + usize::from(payload);
        if size < BLOCK_MIN || head.content_start + cells * size != usable {
            return None;
        }

        self.starts.clear();
        let starts = head.pointers.iter().map(|two| u16::from_be_bytes(*two));
        self.starts.extend(starts);
        let (mut other, mut packed, mut below) = (0, true, usable);
        for start in &self.starts {
            let at = usize::from(*start);
            other |= *body.get(at)? ^ payload;
            packed &= at + size == below;
            below = at;
        }
        if other != 0 {
            return None;
        }
        if !packed {
            self.take_ranks(usable, size)?;
        }
        if rowid_len > 0 {
            self.take_rowids(body, rowid_len)?;
        }
        Some(Even {
            payload: usize::from(payload),
            payload_at: 1 + rowid_len,
        })
    }

    /// The order of cells of `size` bytes; `None` if two lie in one place or one between places.
    fn take_ranks(&mut self, usable: usize, size: usize) -> Option<()> {
        const NONE: u16 = u16::MAX;
        let order = &mut self.layout.order;
        order.resize(self.starts.len(), NONE);
        // A division for each cell would take longer than all else.
        let reciprocal = (1u64 << 32) / size as u64 + 1;
        for (index, start) in self.starts.iter().enumerate() {
            let from_end = usable.checked_sub(usize::from(*start))?;
            let rank = ((from_end as u64 * reciprocal) >> 32) as usize;
            if rank * size != from_end {
                return None;
            }
            let place = order.get_mut(rank.checked_sub(1)?)?;
            if *place != NONE {
                return None;
            }
            *place = index as u16;
        }
        Some(())
    }

    /// The row ids, if all of them take `len` bytes and not more than they need.
    fn take_rowids(&mut self, body: &[u8], len: usize) -> Option<()> {
        if len > ROWID_MAX {
            return None;
        }
        let unused = 8 * (ROWID_MAX - len) as u32;
        let tops = 0x8080_8080 >> unused;
        let (mut other, mut least) = (0, u32::MAX);
        let body = body.get(1..)?;
        self.rowids.resize(self.starts.len(), 0);
        for (to, start) in self.rowids.iter_mut().zip(&self.starts) {
            let at = usize::from(*start);
            let four = body.get(at..at + ROWID_MAX)?.first_chunk()?;
            let bytes = u32::from_be_bytes(*four) >> unused;
            other |= (bytes ^ (tops ^ 0x80)) & tops;
            let id = bytes & 0x7f
                | bytes >> 1 & 0x3f80
                | bytes >> 2 & 0x1f_c000
                | bytes >> 3 & 0xfe0_0000;
            least = least.min(id);
            *to = i64::from(id);
        }
        let shortest = len == 1 || least >> (7 * (len - 1)) != 0;
        (other == 0 && shortest).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rusqlite::Connection;
    use std::sync::LazyLock;

    /// Leaves of a few numbers, of small and of large pages: in order, in another order, with cells gone, and interior pages.
    static PAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut pages = Vec::new();
        for size in [512, 4096, 65536] {
            let path = dir.path().join(size.to_string());
            let db = Connection::open(&path).expect("opens");
            db.execute_batch(&format!(
                "PRAGMA page_size = {size};
                 CREATE TABLE pairs(a, b, c, PRIMARY KEY (a, b));
                 WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                 INSERT INTO pairs(a, b) SELECT 200 + i / 1000, 200 + i % 1000 FROM n;
                 CREATE TABLE short(a);
                 INSERT INTO short SELECT NULL FROM pairs;
                 CREATE TABLE gone(a, b);
                 INSERT INTO gone SELECT a, b FROM pairs;
                 DELETE FROM gone WHERE a > 210 AND b % 7 = 0;
                 CREATE INDEX random ON pairs(b * 7919 % 20011);",
            ))
            .expect("runs");
            drop(db);
            let bytes = std::fs::read(&path).expect("reads");
            pages.extend(bytes.chunks(size).skip(1).map(<[u8]>::to_vec));
        }
        pages
    });

    /// Whether a page is even; it must be what parsing finds then.
    fn is_even(page: &[u8], reserved: usize) -> bool {
        let (mut even, mut parsed) = (Page::new(), Page::new());
        let usable = page.len() - reserved;
        if !even.parse_even(page, usable, false) {
            assert!(even.even.is_none() && even.count() == 0);
            return false;
        }
        assert!(parsed.parse(page, usable, false), "well-formed");
        let all = even.even.expect("it is");
        let is_table = even.kind.is_table();
        assert_eq!(even.kind, parsed.kind);
        assert_eq!(even.count(), parsed.cells.len());
        assert_eq!(even.layout.order, parsed.layout.order);
        assert_eq!(even.layout.items, parsed.layout.items);
        for (i, cell) in parsed.cells.iter().enumerate() {
            assert_eq!(u32::from(even.starts[i]), cell.start);
            assert_eq!(all.payload as u64, cell.payload);
            assert_eq!(all.payload as u32, cell.local_len);
            assert_eq!(cell.start + all.payload_at as u32, cell.local_at);
            if is_table {
                assert_eq!(even.rowids[i], cell.rowid);
            }
        }
        let regions = |page: &Page| {
            let mut regions = Vec::new();
            page.unallocated(|from, to| regions.push((from, to)));
            regions
        };
        assert_eq!(regions(&even), regions(&parsed));
        true
    }

    #[test]
    fn what_is_even_is_what_parsing_finds() {
        let (mut even, mut ordered, mut others) = (0, 0, 0);
        let mut parsed = Page::new();
        for page in PAGES.iter() {
            match is_even(page, 0) {
                false => others += 1,
                true => {
                    even += 1;
                    assert!(parsed.parse(page, page.len(), false));
                    ordered += usize::from(!parsed.layout.order.is_empty());
                }
            }
        }
        assert!(
            even > 1000 && ordered > 300 && others > 100,
            "{even}, {ordered} of them in another order, {others}"
        );
    }

    #[test]
    fn what_lies_between_places_is_not_even() {
        // Twelve cells of six bytes, all of them 5.
        let mut page = vec![5; 512];
        page[..8].copy_from_slice(&[10, 0, 0, 0, 12, 1, 0xb8, 0]);
        let mut lay = |starts: [u16; 12]| {
            for (start, to) in starts.iter().zip(page[8..32].chunks_mut(2)) {
                to.copy_from_slice(&start.to_be_bytes());
            }
            is_even(&page, 0)
        };
        let mut starts = std::array::from_fn(|i| 506 - 6 * i as u16);
        assert!(lay(starts));
        starts.swap(3, 7);
        assert!(lay(starts));
        starts[3] -= 1;
        assert!(!lay(starts), "between two places");
        starts[3] = starts[4];
        assert!(!lay(starts), "two in one place");
    }

    #[test]
    fn a_row_id_that_is_longer_than_need_be_is_not_even() {
        // Two cells of eight bytes, with row ids of two bytes.
        let mut page = vec![1; 512];
        page[..12].copy_from_slice(&[13, 0, 0, 0, 2, 1, 0xf0, 0, 1, 0xf8, 1, 0xf0]);
        page[504..507].copy_from_slice(&[5, 0x81, 1]);
        page[496..499].copy_from_slice(&[5, 0x81, 2]);
        assert!(is_even(&page, 0));
        page[497] = 0x80;
        assert!(!is_even(&page, 0));
        page[497..499].copy_from_slice(&[0x81, 0x81]);
        assert!(!is_even(&page, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn what_is_spoiled_is_even_only_if_it_is_well_formed(
            which: prop::sample::Index,
            reserved in prop_oneof![Just(0usize), 0usize..8],
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u8..3, any::<u8>()), 0..3),
        ) {
            let mut page = PAGES[which.index(PAGES.len())].clone();
            for (at, place, byte) in changes {
                let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
                let pointers = 8 + 2 * cells.min(page.len() / 4);
                let at = match place {
                    // The header, the pointers or the beginning of a cell.
                    0 => at.index(8),
                    1 => at.index(pointers),
                    _ => {
                        let pointer = 8 + at.index(pointers - 8 + 1) / 2 * 2;
                        let start = usize::from(u16::from_be_bytes([page[pointer], page[pointer + 1]]));
                        start + usize::from(byte) % 8
                    }
                };
                if let Some(to) = page.get_mut(at) {
                    *to = match byte % 3 {
                        0 => to.wrapping_add(1),
                        1 => *to ^ 0x80,
                        _ => byte,
                    };
                }
            }
            is_even(&page, reserved);
        }
    }
}
