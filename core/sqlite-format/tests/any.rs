//! Any bytes are read or refused, without a panic.

use densite_sqlite_format::page::{Kind, Page, local_len, pointers};
use densite_sqlite_format::{
    AutoVacuum, Encoding, HEADER_LEN, Header, MAGIC, any_varint, freelist, header, record, schema,
    wal,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that begin with the magic number, or as any others.
fn database() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 0..4000), any::<bool>()).prop_map(|(mut bytes, begins)| {
        if begins && bytes.len() > 24 {
            bytes[..16].copy_from_slice(MAGIC);
            bytes[16..18].copy_from_slice(&[2, 0]);
        }
        bytes
    })
}

proptest! {
    #[test]
    fn headers_and_freelists(bytes in database(), trunk in 0u32..9, free in 0u32..9, is_full: bool) {
        header::foreign_version(&bytes);
        prop_assert_eq!(header::is_sqlite(&bytes), bytes.starts_with(MAGIC));
        let Some(read) = Header::parse(&bytes) else {
            return Ok(());
        };
        prop_assert_eq!(header::page_size(&bytes), Some(read.page_size));
        prop_assert!((480..=read.page_size).contains(&read.usable));
        let auto_vacuum = if is_full { AutoVacuum::Full } else { AutoVacuum::None };
        let header = Header { free_trunk: trunk, free_pages: free, auto_vacuum, ..read };
        let count = header.pages_in(bytes.len() as u64);
        let list = freelist::list(count, &header, |page, buf| {
            let at = header.offset_of(page) as usize;
            buf.copy_from_slice(&bytes[at..at + buf.len()]);
            Ok::<(), ()>(())
        });
        if let Ok(Some(list)) = list {
            prop_assert_eq!(list.all.len(), u64::from(free));
            prop_assert!(list.leaves.pages().all(|page| (2..=count).contains(&page)));
        }
    }

    #[test]
    fn an_interior_page_and_its_pointers_agree(
        mut page in vec(any::<u8>(), 512),
        kind in prop::sample::select(vec![2u8, 5, 10, 13]),
        cells in 0u8..4,
        first: bool,
        usable in 480usize..600,
    ) {
        let at = if first { HEADER_LEN } else { 0 };
        page[at] = kind;
        page[at + 1..at + 5].copy_from_slice(&[0, 0, 0, cells]);
        let mut named = Vec::new();
        pointers(&page, usable, first, |page, is_child| named.push((page, is_child)));
        let mut parsed = Page::new();
        if parsed.parse(&page, usable, first) {
            prop_assert!(parsed.children().all(|child| named.contains(&(child, true))));
        }
    }

    #[test]
    fn the_local_part_of_a_payload_fits(usable in 480usize..=65_536, payload in 0u64..1 << 31) {
        for kind in [Kind::TableLeaf, Kind::IndexLeaf, Kind::IndexInterior] {
            let local = local_len(kind, usable, payload);
            prop_assert!(local as u64 <= payload && local + 35 <= usable);
            // The rest fills overflow pages, or as little as allowed is in the page.
            let rest = payload - local as u64;
            let least = (usable - 12) * 32 / 255 - 23;
            prop_assert!(rest.is_multiple_of(usable as u64 - 4) || local == least);
        }
    }

    #[test]
    fn records_and_rows_of_the_schema(bytes in vec(any::<u8>(), 0..80), short in 0u8..9) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = short;
        }
        any_varint(&bytes);
        if let Some(values) = record::values(&bytes) {
            prop_assert!(values.len() < usize::from(short));
            for encoding in [Encoding::Utf8, Encoding::Utf16le, Encoding::Utf16be] {
                schema::Row::of(&values, encoding);
            }
        }
    }

    #[test]
    fn wals(bytes in vec(any::<u8>(), 0..2000)) {
        if let (Some(head), Some(size)) = (bytes.first_chunk(), wal::page_size(&bytes)) {
            prop_assert!(size.is_power_of_two());
            if let Some(mut chain) = wal::Chain::begin(head, size as u32) {
                chain.next(&bytes);
            }
        }
        wal::Frame::parse(&bytes);
    }
}
