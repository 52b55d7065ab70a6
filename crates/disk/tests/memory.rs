//! Memory that was asked to be in large pages.

#![cfg(target_os = "linux")]

use densite_disk::memory::{LargePage, prefer_large_pages};

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

#[test]
fn a_large_page_is_aligned_and_zero_and_given_back() {
    let is_known = std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists();
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/statm").expect("there");
        let pages = maps.split(' ').next().and_then(|n| n.parse::<usize>().ok());
        pages.expect("a number") * 4096
    };
    let before = mapped();
    for n in 0..1000 {
        let page = LargePage::new().expect("there is memory");
        let start = page.start().as_ptr();
        assert_eq!(start as usize % LargePage::BYTES, 0);
        // SAFETY: the page's own bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, LargePage::BYTES) };
        if n < 3 {
            assert!(bytes.iter().all(|b| *b == 0));
            bytes.fill(7);
            assert!(!is_known || flags(start as usize).contains(&"hg".to_owned()));
        }
    }
    let grown = mapped().saturating_sub(before);
    assert!(grown < 200 * LargePage::BYTES, "{grown} bytes are kept");
}
