use proptest::prelude::*;

use super::*;

/// The bytes of a page in a version; all are different.
fn bytes(page: u32, version: u64, len: usize) -> Box<[u8]> {
    let mut x = (u64::from(page) << 32 | version).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len)
        .map(|_| {
            x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (x >> 56) as u8
        })
        .collect()
}

fn has(cache: &Cache, page: u32, version: u64, len: usize) -> bool {
    let mut out = vec![0; len];
    let found = cache.get_into(page, version, &mut out, 0);
    if found {
        assert_eq!(
            out[..],
            bytes(page, version, len)[..],
            "page {page} version {version}"
        );
    }
    found
}

fn put(cache: &Cache, page: u32, version: u64, len: usize) {
    let contents = cache.contents();
    cache.insert_copy(page, version, &bytes(page, version, len), contents);
}

#[test]
fn a_page_comes_back_in_its_version_and_in_parts() {
    let cache = Cache::new(1 << 20);
    put(&cache, 7, 1, 4096);
    assert!(has(&cache, 7, 1, 4096));
    assert!(!has(&cache, 7, 2, 4096));
    assert!(!has(&cache, 8, 1, 4096));
    let mut part = [0; 16];
    assert!(cache.get_into(7, 1, &mut part, 24));
    assert_eq!(part[..], bytes(7, 1, 4096)[24..40]);
    let before = [9; 16];
    part = before;
    assert!(!cache.get_into(7, 1, &mut part, 4090), "past its end");
    assert!(!cache.get_into(7, 1, &mut part, usize::MAX));
    assert_eq!(part, before, "untouched");
    assert!(cache.contains(7, 1));
    cache.clear();
    assert!(!cache.contains(7, 1));
    assert_eq!((cache.len_bytes(), cache.pages()), (0, 0));
}

#[test]
fn pages_that_were_read_before_it_was_cleared_are_not_inserted() {
    let cache = Cache::new(1 << 20);
    let contents = cache.contents();
    cache.clear();
    cache.insert_copy(7, 1, &bytes(7, 1, 4096), contents);
    assert_eq!(cache.pages(), 0);
    put(&cache, 7, 1, 4096);
    assert!(has(&cache, 7, 1, 4096));
}

#[test]
fn a_newer_version_replaces_older_ones_and_an_older_one_does_not_replace_it() {
    let cache = Cache::new(1 << 20);
    put(&cache, 7, 5, 512);
    put(&cache, 7, 4, 512);
    assert!(has(&cache, 7, 4, 512) && has(&cache, 7, 5, 512));
    put(&cache, 7, 6, 512);
    assert!(has(&cache, 7, 6, 512));
    assert!(!has(&cache, 7, 5, 512) && !has(&cache, 7, 4, 512));
    assert_eq!(cache.pages(), 1);
}

#[test]
fn the_budget_is_kept_when_it_changes() {
    let cache = Cache::new(0);
    put(&cache, 1, 1, 4096);
    assert_eq!(cache.len_bytes(), 0, "nothing is kept without a budget");
    for budget in [64 << 20, 9 << 20, 1 << 20, 5000, 64 << 10, 32 << 20, 0] {
        cache.set_budget(budget);
        assert_eq!(cache.budget(), budget);
        for page in 0..5000 {
            put(&cache, page, 1, 4096);
        }
        assert!(
            cache.len_bytes() <= budget,
            "{} of {budget}",
            cache.len_bytes()
        );
        assert!(
            cache.len_bytes() * 10 >= budget.min(20 << 20) * 7 || budget < 8192,
            "{} of {budget}",
            cache.len_bytes()
        );
    }
    // Even a small cache holds a large page.
    cache.set_budget(1 << 20);
    put(&cache, 5, 1, 65536);
    assert!(has(&cache, 5, 1, 65536));
    cache.clear();
    assert_eq!((cache.len_bytes(), cache.pages()), (0, 0));
    assert!(!has(&cache, 5, 1, 65536));
}

#[test]
fn a_scan_does_not_evict_pages_that_are_read_often() {
    for budget in [2 << 20, 16 << 20] {
        let cache = Cache::new(budget);
        let hot = (budget / 4096 / 4) as u32;
        for _ in 0..4 {
            for page in 0..hot {
                if !has(&cache, page, 1, 4096) {
                    put(&cache, page, 1, 4096);
                }
            }
        }
        // A scan ten times as large as the cache, each page wanted once.
        for page in 0..(budget / 4096 * 10) as u32 {
            let page = 1_000_000 + page;
            put(&cache, page, 1, 4096);
        }
        let left = (0..hot).filter(|page| cache.contains(*page, 1)).count();
        assert!(
            left as u32 >= hot * 9 / 10,
            "{left} of {hot} hot pages are left"
        );
    }
}

#[test]
fn a_page_that_comes_back_soon_is_kept() {
    let cache = Cache::new(1 << 20);
    // Twice as many pages as fit, round and round: a plain queue would never hit.
    let mut hits = 0;
    for round in 0..20 {
        for page in 0..480 {
            if has(&cache, page, 1, 4096) {
                hits += u32::from(round >= 10);
            } else {
                put(&cache, page, 1, 4096);
            }
        }
    }
    assert!(hits > 480, "{hits} hits in 4800");
}

#[test]
fn many_threads_never_see_wrong_bytes() {
    let cache = Cache::new(200_000);
    std::thread::scope(|scope| {
        for t in 0..4u32 {
            let cache = &cache;
            scope.spawn(move || {
                let mut x = u64::from(t) + 1;
                for i in 0..20_000u32 {
                    x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    let page = (x >> 33) as u32 % 600;
                    match (x >> 60) as u32 {
                        0..=6 => {
                            has(cache, page, 1, 512);
                        }
                        7..=13 => put(cache, page, 1, 512),
                        14 => put(cache, page, 2, 512),
                        _ if i % 50 == 0 => {
                            cache.set_budget([100_000, 200_000, 9 << 20][i as usize % 3])
                        }
                        _ => (),
                    }
                }
            });
        }
    });
    assert!(cache.len_bytes() <= cache.budget());
}

#[derive(Debug, Clone)]
enum Op {
    Get(u32, u64),
    Insert(u32, u64, usize),
    Budget(usize),
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0u32..40, 0u64..4).prop_map(|(page, version)| Op::Get(page, version)),
        8 => (0u32..40, 0u64..4, prop_oneof![30 => Just(512usize), 1 => Just(1024)]).prop_map(|(p, v, len)| Op::Insert(p, v, len)),
        1 => prop_oneof![Just(0), Just(700), Just(9 << 20), 2000usize..60_000].prop_map(Op::Budget),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    /// The model is a map of everything that was inserted and not removed. The cache may know less
    /// than the model, never more or different bytes.
    #[test]
    fn a_lookup_returns_only_inserted_pages(ops in proptest::collection::vec(op(), 1..400)) {
        let cache = Cache::new(30_000);
        let mut model = std::collections::HashMap::new();
        for op in ops {
            match op {
                Op::Get(page, version) => {
                    let mut out = vec![0xee; 600];
                    for (len, offset) in [(1, 0), (512, 0), (600, 100)] {
                        let out = &mut out[..len];
                        let found = cache.get_into(page, version, out, offset);
                        match model.get(&(page, version)) {
                            Some(&len) if offset + out.len() <= len => {
                                prop_assert!(!found || out[..] == bytes(page, version, len)[offset..offset + out.len()]);
                                prop_assert_eq!(found, cache.contains(page, version));
                            }
                            _ => prop_assert!(!found),
                        }
                    }
                }
                Op::Insert(page, version, len) => {
                    if cache.contains(page, version) {
                        continue;
                    }
                    put(&cache, page, version, len);
                    if cache.budget() > 0 && cache.contains(page, version) {
                        model.retain(|&(p, v), _| p != page || v > version);
                    }
                    model.insert((page, version), len);
                }
                Op::Budget(budget) => cache.set_budget(budget),
                Op::Clear => {
                    cache.clear();
                    model.clear();
                }
            }
            prop_assert!(cache.len_bytes() <= cache.budget());
        }
        let held: usize = model.keys().filter(|(page, version)| cache.contains(*page, *version)).count();
        prop_assert_eq!(held, cache.pages());
    }
}
