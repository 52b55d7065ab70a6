//! Large pages, and mappings of their own.

#![cfg(target_os = "linux")]

use densite_disk::memory::{LARGE, Mapping, apart, prefer_large_pages};

/// The entries of `/proc/self/smaps` for the mapping that has this address; empty if there is none.
fn known(address: usize) -> Vec<(String, String)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("read /proc/self/smaps");
    let (mut within, mut known) = (false, Vec::new());
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|r| r.split_once('-'));
        let bounds =
            range.map(|(a, b)| (usize::from_str_radix(a, 16), usize::from_str_radix(b, 16)));
        if let Some((Ok(from), Ok(to))) = bounds {
            within = (from..to).contains(&address);
        } else if let Some((name, value)) = line.split_once(':').filter(|_| within) {
            known.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    known
}

fn value(address: usize, name: &str) -> Option<String> {
    let mut known = known(address).into_iter();
    known.find_map(|(n, value)| (n == name).then_some(value))
}

// One after the other: a test in parallel could take the addresses that this one frees.
#[test]
fn memory() {
    large_vectors_are_in_large_pages_and_keep_what_they_have();
    memory_apart_takes_what_is_written_and_is_gone_when_dropped();
    a_mapping_is_zero_and_gone_when_dropped();
    pieces_have_their_bytes_and_give_them_back_one_by_one();
}

fn a_mapping_is_zero_and_gone_when_dropped() {
    assert!(Mapping::new(usize::MAX).is_none());
    for len in [4096, 100 << 10, LARGE, 3 * LARGE] {
        let mapping = Mapping::new(len).expect("there is memory");
        let mut mapping = mapping.pieces(usize::MAX).remove(0);
        assert_eq!(mapping.len(), len);
        assert!(mapping.iter().all(|byte| *byte == 0));
        mapping.fill(7);
        assert!(mapping.iter().all(|byte| *byte == 7));
        let address = mapping.as_ptr() as usize;
        assert!(!len.is_multiple_of(LARGE) || address.is_multiple_of(LARGE));
        for at in [address, address + len - 1] {
            assert!(value(at, "Rss").is_some());
        }
        drop(mapping);
        for at in [address, address + len - 1] {
            assert_eq!(value(at, "Rss"), None, "{len}");
        }
    }
}

fn pieces_have_their_bytes_and_give_them_back_one_by_one() {
    const PIECE: usize = 128 << 10;
    for (len, odd) in [(LARGE, 0), (3 * PIECE, 100)] {
        let mapping = Mapping::new(len).expect("there is memory");
        let mut pieces = mapping.pieces(PIECE + odd);
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert_eq!((total, pieces[0].len()), (len, PIECE + odd));
        for (n, piece) in pieces.iter_mut().enumerate() {
            assert!(piece.iter().all(|byte| *byte == 0));
            piece.fill(n as u8 + 1);
        }
        let address = pieces[0].as_ptr() as usize;
        let resident = || {
            let kib = value(address, "Rss").expect("the mapping is there");
            let kib = kib.strip_suffix(" kB").and_then(|kib| kib.parse().ok());
            kib.map_or(0, |kib: usize| kib << 10)
        };
        let before = resident();
        pieces.remove(1);
        let back = if odd == 0 { PIECE } else { 0 };
        assert!(resident() <= before - back, "{before} to {}", resident());
        for (piece, n) in pieces.iter().zip([1].into_iter().chain(3..)) {
            assert!(piece.iter().all(|byte| *byte == n));
        }
        drop(pieces);
        assert_eq!(value(address, "Rss"), None);
    }
}

fn large_vectors_are_in_large_pages_and_keep_what_they_have() {
    let is_known = std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists();
    for len in [0usize, 1, 4 << 10, 2 << 20, 9 << 20] {
        let mut memory: Vec<u8> = Vec::with_capacity(len);
        memory.extend((0..len / 2).map(|i| i as u8));
        prefer_large_pages(&mut memory);
        assert!(memory.iter().enumerate().all(|(i, b)| *b == i as u8));
        memory.extend((len / 2..len).map(|i| i as u8));
        assert!(memory.iter().enumerate().all(|(i, b)| *b == i as u8));
        if is_known && len > 4 << 20 {
            let middle = memory.as_ptr() as usize + len / 2;
            let flags = value(middle, "VmFlags").expect("the mapping has flags");
            assert!(flags.split(' ').any(|flag| flag == "hg"), "{len}: {flags}");
        }
    }
}

fn memory_apart_takes_what_is_written_and_is_gone_when_dropped() {
    for kept in [true, false] {
        // Freed heap memory can be reused.
        let mut before: Vec<Vec<u8>> = (0..20).map(|_| vec![1; 3 << 20]).collect();
        before.truncate(if kept { 10 } else { 0 });
        let mut memory: Vec<u8> = apart(3 << 20);
        memory.resize(3 << 20, 7);
        let address = memory.as_ptr() as usize + (1 << 20);
        let resident = value(address, "Rss").expect("the mapping has a size");
        let resident: u64 = resident.trim_end_matches(" kB").parse().expect("KiB");
        // The advice splits the mapping where the first large page begins.
        assert!((1..=6 << 10).contains(&resident), "{resident}");
        drop(memory);
        assert_eq!(value(address, "Rss"), None);
    }
}
