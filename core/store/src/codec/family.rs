//! A page's family: pages that look alike share a dictionary.
//!
//! The family follows from a quick look at the page as SQLite's b-tree format defines it. It
//! consists of the kind of page and, for records, of what the first few have in common: the number
//! of columns, which of them hold text or blobs (unless that differs between them), and in an index
//! how long the first one is. This separates most tables and indexes. All other pages are of the
//! family OTHER. A wrong family costs size, never correctness.

use densite_sqlite_format::header::is_sqlite;
use densite_sqlite_format::page::{Kind, all_max, header_at};
use densite_sqlite_format::{any_varint, be16};

/// A page's family. Equal for pages that are likely to be alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Family(pub u16);

/// A larger number of columns counts as this many.
const COLUMNS_MAX: u16 = 63;

/// The number of records that are read: a column that is NULL in one of them may hold text in the
/// next.
const RECORDS: usize = 16;

// The parts of a family's number: kind, shape of the columns, length of the key, number of columns.
const KIND_SHIFT: u32 = 12;
const SHAPE_SHIFT: u32 = 8;
const SHAPE_BITS: u32 = 4;
/// The length of the key in an index.
const KEY_SHIFT: u32 = 6;

impl Family {
    /// The family of all pages that are not recognised.
    pub const OTHER: Family = Family(0);

    const TABLE_INTERIOR: u16 = 1 << KIND_SHIFT;
    const TABLE_LEAF: u16 = 2 << KIND_SHIFT;
    const INDEX: u16 = 3 << KIND_SHIFT;

    /// The family of a page (or of the first page of a run).
    pub fn of(page: &[u8]) -> Family {
        Self::at(page, header_at(is_sqlite(page))).unwrap_or(Family::OTHER)
    }

    /// The family of a page whose b-tree header is at `header`, or `None` if there is no such
    /// header.
    fn at(page: &[u8], header: usize) -> Option<Family> {
        // A cell begins with a child's page number (interior pages of indexes), then numbers of
        // variable length.
        let page_kind = Kind::from_byte(*page.get(header)?)?;
        let (kind, skip, numbers) = match page_kind {
            Kind::TableInterior => return Some(Family(Self::TABLE_INTERIOR)),
            Kind::TableLeaf => (Self::TABLE_LEAF, 0, 2),
            Kind::IndexLeaf => (Self::INDEX, 0, 1),
            Kind::IndexInterior => (Self::INDEX, 4, 1),
        };
        let pointers = header + page_kind.header_len();
        let cells = be16(page, header + 3)?.min(RECORDS);
        let mut columns = 0;
        let (mut texts, mut texts_of_all) = (0, u32::MAX);
        let mut longest = 0;
        for i in 0..cells {
            let mut at = be16(page, pointers + 2 * i)? + skip;
            for _ in 0..numbers {
                at += any_varint(page.get(at..)?)?.1;
            }
            let record = Record::at(page.get(at..)?)?;
            if i == 0 {
                columns = record.columns;
            }
            texts |= record.texts;
            texts_of_all &= record.texts;
            longest = longest.max(record.first_text);
        }
        if kind == Self::INDEX {
            // Indexes differ in the length of their keys, and often in nothing else.
            let class = (usize::BITS - longest.leading_zeros())
                .saturating_sub(1)
                .clamp(1, 4)
                - 1;
            columns |= (class as u16) << KEY_SHIFT;
        }
        // If a column holds text in some of the rows and not in others, which columns hold text is
        // chance. One table would be many families, with few samples each.
        if texts & !texts_of_all != 0 {
            texts = 0;
        }
        let shape = (texts.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SHAPE_BITS)) as u16;
        (columns > 0).then_some(Family(kind | shape << SHAPE_SHIFT | columns))
    }
}

/// Whether a page is a leaf of a table, and one of its first rows continues on overflow pages.
pub(super) fn long_rows(page: &[u8]) -> bool {
    // Without reserved bytes.
    let most = all_max(Kind::TableLeaf, page.len()) as u64;
    let cells = be16(page, 3).unwrap_or(0).min(RECORDS);
    let is_long = |i: usize| {
        let payload = any_varint(page.get(be16(page, 8 + 2 * i)?..)?)?.0;
        Some(payload > most)
    };
    Kind::of(page, false) == Some(Kind::TableLeaf) && (0..cells).any(|i| is_long(i) == Some(true))
}

/// The fields of a record's header that matter here.
struct Record {
    columns: u16,
    /// The length of the first column, if it is text or a blob; otherwise 0.
    first_text: usize,
    /// Bit `i` is set when column `i` holds text or a blob.
    texts: u32,
}

impl Record {
    fn at(bytes: &[u8]) -> Option<Record> {
        let (size, mut at) = any_varint(bytes)?;
        let size = usize::try_from(size).ok()?.min(bytes.len());
        let mut record = Record {
            columns: 0,
            first_text: 0,
            texts: 0,
        };
        while at < size && record.columns < COLUMNS_MAX {
            let (serial_type, len) = any_varint(bytes.get(at..)?)?;
            if serial_type >= 12 {
                if record.columns == 0 {
                    record.first_text = usize::try_from(serial_type / 2 - 6).unwrap_or(usize::MAX);
                }
                record.texts |= 1 << (record.columns % u32::BITS as u16);
            }
            at += len;
            record.columns += 1;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_sqlite_format::MAGIC;
    use proptest::prelude::*;

    /// A page of one kind with these whole cells at its end.
    fn page(kind: u8, header: usize, cells: &[Vec<u8>]) -> Vec<u8> {
        let mut page = vec![0; 4096];
        if header == 100 {
            page[..16].copy_from_slice(MAGIC);
        }
        page[header] = kind;
        page[header + 3..header + 5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
        let pointers = header + if kind == 2 || kind == 5 { 12 } else { 8 };
        let mut at = page.len();
        for (i, cell) in cells.iter().enumerate() {
            at -= cell.len();
            page[at..at + cell.len()].copy_from_slice(cell);
            page[pointers + 2 * i..pointers + 2 * i + 2]
                .copy_from_slice(&(at as u16).to_be_bytes());
        }
        page
    }

    /// A cell: the bytes before the record, then its header of serial types. It has no values,
    /// since they are not read.
    fn cell(before: &[u8], types: &[u8]) -> Vec<u8> {
        [before, &[types.len() as u8 + 1], types].concat()
    }

    #[test]
    fn tables_are_told_apart_by_columns_and_by_text() {
        let leaf = |types: &[u8]| Family::of(&page(0x0d, 0, &[cell(&[9, 1], types)]));
        assert_ne!(leaf(&[1, 1, 1]), leaf(&[1, 1, 1, 1]), "one column more");
        assert_ne!(leaf(&[1, 33, 1]), leaf(&[1, 1, 33]), "text elsewhere");
        assert_eq!(
            leaf(&[1, 33, 1]),
            leaf(&[8, 91, 7]),
            "other numbers and lengths"
        );
        assert_ne!(
            leaf(&[1, 1, 1]),
            Family::of(&page(0x0a, 0, &[cell(&[9], &[1, 1, 1])])),
            "an index"
        );
        // Which columns are NULL here and there is chance.
        let sparse = |types: [&[u8]; 2]| {
            let [one, two] = types;
            Family::of(&page(0x0d, 0, &[cell(&[9, 1], one), cell(&[9, 2], two)]))
        };
        let one = sparse([&[1, 0, 33], &[1, 33, 33]]);
        assert_eq!(one, sparse([&[1, 33, 33], &[1, 33, 0]]));
        assert_ne!(one, sparse([&[1, 33, 33, 1], &[1, 33, 0, 1]]));
        assert_eq!(sparse([&[1, 33, 1], &[1, 35, 1]]), leaf(&[1, 33, 1]));
        // Longer numbers before the record.
        let long = page(
            0x0d,
            0,
            &[cell(
                &[
                    0x81, 0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                ],
                &[1, 1, 1],
            )],
        );
        assert_eq!(Family::of(&long), leaf(&[1, 1, 1]));
        // Page 1 carries the database header first.
        assert_eq!(
            Family::of(&page(0x0d, 100, &[cell(&[9, 1], &[1, 1, 1])])),
            leaf(&[1, 1, 1])
        );
    }

    #[test]
    fn interior_pages_of_an_index_go_with_its_leaves() {
        let leaf = page(0x0a, 0, &[cell(&[9], &[33, 1])]);
        let interior = page(0x02, 0, &[cell(&[0, 0, 1, 7, 9], &[33, 1])]);
        assert_eq!(Family::of(&leaf), Family::of(&interior));
        assert_ne!(Family::of(&leaf), Family::OTHER);
        assert_ne!(Family::of(&page(0x05, 0, &[])), Family::OTHER);
    }

    #[test]
    fn other_bytes_are_of_family_other() {
        for bytes in [
            &[][..],
            &[0x0d],
            &[0x0d, 0, 0, 0, 1],
            &[0; 4096],
            &[0xff; 4096],
            &page(0x0d, 0, &[]),
        ] {
            assert_eq!(Family::of(bytes), Family::OTHER, "{} bytes", bytes.len());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_family(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), kind in 0usize..5, first in any::<bool>()) {
            if first && bytes.len() >= 16 {
                bytes[..16].copy_from_slice(MAGIC);
            }
            let at = if first { 100 } else { 0 };
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [2, 5, 10, 13, *byte][kind];
            }
            prop_assert_eq!(Family::of(&bytes), Family::of(&bytes));
        }
    }
}
