//! Memory that was asked to be in large pages.

#![cfg(target_os = "linux")]

use densite_disk::memory::prefer_large_pages;

/// What the system says of the memory that has this address.
fn flags(address: usize) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("there");
    let mut within = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|r| r.split_once('-'));
        let bounds =
            range.map(|(a, b)| (usize::from_str_radix(a, 16), usize::from_str_radix(b, 16)));
        if let Some((Ok(from), Ok(to))) = bounds {
            within = (from..to).contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| within) {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("no memory at {address:x}");
}

#[test]
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
            assert!(flags(middle).contains(&"hg".to_owned()), "{len}");
        }
    }
}
