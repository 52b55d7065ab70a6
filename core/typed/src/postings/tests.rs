use super::class::{BITS_MAX, Counts, read, take_wide};
use super::*;
use proptest::prelude::*;

/// Two terms: "0ab" in documents 5 and 7, "0ac" in document 300, deleted.
fn a_blob() -> Vec<u8> {
    let lists = [
        // The first term, and document 5 at positions 0, 1 and 150 of column 1.
        &[3, b'0', b'a', b'b', 5, 12, 1, 1, 2, 3, 0x81, 0x17][..],
        // Document 7 at position 9 of column 0 and 4 of column 2.
        &[2, 8, 11, 1, 2, 6],
        &[2, 1, b'c', 0x82, 0x2c, 7, 1, 1, 9],
        // Many more, so that it is worthwhile.
        &[1, 6, 1, 1, 5].repeat(30),
    ];
    let lists = lists.concat();
    let end = 4 + lists.len() as u16;
    [&[0, 0], &end.to_be_bytes()[..], &lists, &[4, 18]].concat()
}

/// A page of a row with a blob.
fn a_page(blob: &[u8]) -> Vec<u8> {
    let types = [
        0x80 | ((12 + 2 * blob.len()) >> 7) as u8,
        (12 + 2 * blob.len()) as u8 & 0x7f,
    ];
    let record = [&[4, 0], &types[..], blob].concat();
    let size = [0x80 | (record.len() >> 7) as u8, record.len() as u8 & 0x7f];
    let cell = [&size[..], &[9], &record].concat();
    let mut page = vec![0; 512 - cell.len()];
    page[..5].copy_from_slice(&[13, 0, 0, 0, 1]);
    let at = (page.len() as u16).to_be_bytes();
    page[5..7].copy_from_slice(&at);
    page[8..10].copy_from_slice(&at);
    [page, cell].concat()
}

/// Existing files depend on these bytes.
#[test]
fn a_payload_is_pinned() {
    let page = a_page(&a_blob());
    let mut payload = Vec::new();
    assert!(encode(&page, &mut payload));
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    let pinned = [
        "014901b7000a0038010d000000010142000142813b090400827a032042010783b030e0e1181e",
        "980b1020cfa208006060c2c40443495f775289b1e21316070000000000000000000000000000",
        "00",
    ];
    assert_eq!(hex, pinned.concat());
}

#[test]
fn blobs_that_fts5_does_not_write_are_refused() {
    let blob = a_blob();
    let refused = |blob: &[u8]| split::blob(blob, &mut Vec::new()).is_none();
    assert!(!refused(&blob));
    // The addresses of the lists and of the terms, a length, and a number in a longer form.
    for (at, byte) in [(1, 9), (3, 200), (blob.len() - 2, 5), (9, 200), (13, 0x80)] {
        let mut other = blob.clone();
        other[at] = byte;
        assert!(refused(&other), "{byte} at {at}");
    }
}

#[test]
fn several_blobs_of_a_page_are_coded_in_any_order() {
    let record = [&[4, 0, 0x83, 0x3c][..], &a_blob()].concat();
    let blob = a_blob().len();
    let types = 12 + 2 * blob;
    let record = [
        &[4, 0, 0x80 | (types >> 7) as u8, types as u8 & 0x7f],
        &record[4..],
    ]
    .concat();
    let cell = |id: u8| {
        let size = [0x80 | (record.len() >> 7) as u8, record.len() as u8 & 0x7f];
        [&size[..], &[id], &record].concat()
    };
    let mut page = vec![0; 1024];
    let ends = [1024, 1024 - cell(1).len(), 1024 - 2 * cell(1).len()];
    page[..5].copy_from_slice(&[13, 0, 0, 0, 3]);
    // The first row is in the middle.
    let starts = [1, 0, 2].map(|place: usize| ends[place] - cell(1).len());
    for (i, start) in starts.into_iter().enumerate() {
        page[start..start + cell(1).len()].copy_from_slice(&cell(i as u8 + 1));
        page[8 + 2 * i..10 + 2 * i].copy_from_slice(&(start as u16).to_be_bytes());
    }
    page[5..7].copy_from_slice(&(starts[2] as u16).to_be_bytes());
    let mut payload = Vec::new();
    assert!(encode(&page, &mut payload));
    assert_eq!(payload[0], 3);
    let mut out = vec![0xAA; 1024];
    decode(&payload, &mut out).expect("decodes");
    assert!(out == page);
}

proptest! {
    #[test]
    fn numbers_are_read_as_they_were_written(
        numbers in prop::collection::vec((0..1u64 << BITS_MAX, 0..BITS_MAX), 0..200),
    ) {
        let numbers: Vec<u64> = numbers.into_iter().map(|(v, shift)| v >> shift).collect();
        let mut counts: Tables<Counts> = Default::default();
        for number in &numbers {
            counts[1].add(*number);
        }
        let mut w = BitWriter::default();
        let codes = class::put(&counts, &mut w);
        for number in &numbers {
            class::write(&codes[1], *number, &mut w);
            class::put_wide(*number, &mut w);
        }
        let mut bytes = Vec::new();
        w.finish(&mut bytes);
        bytes.extend([0xff; PADDING]);
        let mut bits = Bits::new(&bytes);
        let tables = class::take(&mut bits).expect("codes");
        for number in &numbers {
            prop_assert_eq!(read(&tables[1], &mut bits), Some(*number));
            prop_assert_eq!(take_wide(&mut bits), Some(*number));
        }
        prop_assert!(bits.at_end());
    }
}
