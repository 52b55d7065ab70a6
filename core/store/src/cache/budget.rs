//! The common budget of the caches of a process whose size is not set: an eighth of the memory that
//! is available, including what they hold.
//!
//! It is computed again while they are used, and by a thread once they are large, at most once in
//! [`PERIOD`]. So they grow while there is memory, and give it back when other programs need it.
//! What is available is what the system and the control groups say.

use super::Cache;
use densite_disk::available_memory;
use densite_disk::sync::{Mutex, MutexGuard};
use densite_disk::wait::pause;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The budget of a cache until the common one is computed, and what a small cache can have without
/// a thread that watches it, in bytes.
pub(super) const FIRST: usize = 64 << 20;

/// The common budget is one part in so many of the available memory.
const PART: u64 = 8;

/// The least common budget, in bytes.
const LEAST: u64 = 8 << 20;

/// What a cache can have at once after a time without use, in bytes, if there is so much.
const ROOM: usize = 16 << 20;

/// The time between two computations.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a new cache waits for the lock. In a child of fork, a thread that does not exist can
/// hold it forever (rule S15). The cache then keeps its first budget.
const PATIENCE: Duration = Duration::from_millis(20);

/// The caches of a process.
struct Common {
    /// The process that they belong to. A child of fork must not use the locks of its parent's.
    process: u32,
    caches: Vec<Weak<Cache>>,
    computed: Option<Instant>,
    /// A thread watches the memory.
    is_watched: bool,
}

static COMMON: Mutex<Common> = Mutex::new(Common::new(0));

impl Common {
    const fn new(process: u32) -> Common {
        Common {
            process,
            caches: Vec::new(),
            computed: None,
            is_watched: false,
        }
    }

    /// Computes the budgets again. Returns how much all caches hold, in bytes.
    fn compute(&mut self) -> usize {
        self.computed = Some(Instant::now());
        self.caches.retain(|cache| cache.strong_count() > 0);
        let caches: Vec<Arc<Cache>> = (self.caches.iter().filter_map(Weak::upgrade))
            .filter(|cache| cache.is_auto())
            .collect();
        match available_memory() {
            Some(available) => divide(&caches, available),
            None => 0,
        }
    }
}

/// The caches of this process; `None` if the lock is a parent's, or another thread has it.
fn of_process(common: Option<MutexGuard<'_, Common>>) -> Option<MutexGuard<'_, Common>> {
    let mut common = common?;
    let process = std::process::id();
    if common.process != process {
        *common = Common::new(process);
    }
    Some(common)
}

/// Lets a cache take part in the common budget while it has no budget of its own.
pub(super) fn join(cache: &Arc<Cache>) {
    if let Some(mut common) = of_process(COMMON.try_lock_for(PATIENCE)) {
        common.caches.retain(|cache| cache.strong_count() > 0);
        common.caches.push(Arc::downgrade(cache));
    }
}

/// Computes the budgets again if it is time. `watched`: a thread may do so from now on.
pub(super) fn check(watched: bool) {
    let Some(mut common) = of_process(COMMON.try_lock()) else {
        return;
    };
    if common.computed.is_some_and(|then| then.elapsed() < PERIOD) {
        return;
    }
    let held = common.compute();
    if held > FIRST && watched && !common.is_watched {
        let name = "densite-memory".to_owned();
        let thread = std::thread::Builder::new().name(name);
        common.is_watched = thread.spawn(watch).is_ok();
    }
}

/// Computes the budgets in each period, until the caches are small.
fn watch() {
    loop {
        pause(PERIOD);
        let mut common = COMMON.lock();
        if common.compute() <= FIRST {
            common.is_watched = false;
            return;
        }
    }
}

/// Gives each cache its part of the common budget. Returns how much they held before, in bytes.
fn divide(caches: &[Arc<Cache>], available: u64) -> usize {
    let held: Vec<usize> = caches.iter().map(|cache| cache.len_bytes()).collect();
    let all: usize = held.iter().sum();
    let budget = (available.saturating_add(all as u64) / PART).max(LEAST);
    let wanted = caches.iter().zip(&held).map(|(cache, held)| {
        // A full cache wants more.
        let full = held + held / 8 >= cache.budget();
        if full {
            usize::MAX
        } else {
            (held + held / 8).max(ROOM)
        }
    });
    let wanted: Vec<usize> = wanted.collect();
    let parts = parts(usize::try_from(budget).unwrap_or(usize::MAX), &wanted);
    for (cache, part) in caches.iter().zip(parts) {
        cache.adjust_budget(part);
    }
    all
}

/// Divides a budget. No cache gets less than an equal part if it wants that much. What is not wanted
/// is divided equally.
fn parts(budget: usize, wanted: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|i| wanted[*i]);
    let (mut parts, mut rest) = (vec![0; wanted.len()], budget);
    for (done, i) in order.iter().enumerate() {
        let part = wanted[*i].min(rest / (wanted.len() - done));
        parts[*i] = part;
        rest -= part;
    }
    let more = rest / wanted.len().max(1);
    parts.iter_mut().for_each(|part| *part += more);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{DecodedCache, Options};
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    fn fill(cache: &Cache, mib: usize) {
        for page in 0..(mib * 256) as u32 {
            cache.insert_copy(page, 1, &[1; 4096], cache.contents());
        }
    }

    #[test]
    fn caches_grow_with_use_and_give_memory_back() {
        let caches = [0; 2].map(|_| Arc::new(Cache::new(FIRST)));
        let budgets = |caches: &[Arc<Cache>]| -> Vec<usize> {
            caches.iter().map(|cache| cache.budget() / MIB).collect()
        };
        let available = |mib: usize| (mib * MIB) as u64;
        assert_eq!(divide(&caches, available(8 * 200)), 0);
        assert_eq!(budgets(&caches), [100, 100], "nothing is used: equal parts");
        fill(&caches[0], 99);
        let held = divide(&caches, available(8 * 200 - 99));
        assert!(held > 95 * MIB, "{held}");
        let got = budgets(&caches);
        assert!(
            got[0] > 180 && got[1] > 14 && got[0] + got[1] <= 200,
            "{got:?}"
        );
        fill(&caches[0], 190);
        fill(&caches[1], 30);
        let held = divide(&caches, available(8 * 200 - 190));
        assert!(held > 180 * MIB, "{held}");
        assert!(caches[1].len_bytes() > 14 * MIB, "it keeps what it has");
        let got = budgets(&caches);
        assert!(got[0] <= 101 && got[1] >= 99, "both are full: {got:?}");
        // Another program takes the memory.
        divide(&caches, available(100));
        let held: usize = caches.iter().map(|cache| cache.len_bytes()).sum();
        assert!(held <= 40 * MIB, "{held}");
        divide(&caches, 0);
        divide(&caches, 0);
        let held: usize = caches.iter().map(|cache| cache.len_bytes()).sum();
        assert!((1..=LEAST as usize).contains(&held), "{held}");
    }

    #[test]
    fn a_cache_in_use_gets_its_part_of_this_machine() {
        let cache = Cache::with(&Options::default());
        assert_eq!(cache.budget(), FIRST);
        fill(&cache, 2);
        if let Some(available) = available_memory() {
            let most = (available / PART) as usize + FIRST;
            let got = cache.budget();
            assert!(got != FIRST && got <= 2 * most, "{got} of {available}");
        }
        cache.set(DecodedCache::Bytes(9 * MIB));
        fill(&cache, 20);
        std::thread::sleep(PERIOD);
        fill(&cache, 20);
        assert_eq!(cache.budget(), 9 * MIB, "a set size stays");
        cache.set(DecodedCache::Auto);
        assert_eq!(cache.budget(), FIRST);
    }

    proptest! {
        #[test]
        fn all_of_the_budget_is_given_and_no_more(budget in 0usize..1000, wanted in prop::collection::vec(prop_oneof![0usize..300, Just(usize::MAX)], 1..8)) {
            let parts = parts(budget, &wanted);
            let sum: usize = parts.iter().sum();
            prop_assert!(sum <= budget && sum + 2 * wanted.len() > budget, "{:?}", parts);
            let equal = budget / wanted.len();
            for (part, wanted) in parts.iter().zip(&wanted) {
                prop_assert!(*part >= equal.min(*wanted));
            }
        }
    }
}
