//! The same work for several items, on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads are started only if the items weigh this much in all. Learning so many bytes of text takes
/// tens of milliseconds.
const MUCH: usize = 64 << 10;

/// The results of `work` for all items, in order. The heaviest items come first, because the others
/// then fill the time until the last thread is done. If `work` panics, so does this.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    weight: impl Fn(&T) -> usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let weights: Vec<usize> = items.iter().map(weight).collect();
    if threads < 2 || items.len() < 2 || weights.iter().sum::<usize>() < MUCH {
        return items.iter().map(work).collect();
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|item| std::cmp::Reverse(weights.get(*item)));
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        while let Some(item) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.extend(items.get(*item).map(|it| (*item, work(it))));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.min(items.len()))
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, some).ok())
            .collect();
        let mut done = some();
        for helper in helpers {
            match helper.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(item, _)| *item);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_on_any_number_of_threads() {
        let items: Vec<usize> = (0..100).map(|i| i * 7919 % 1000 * 100).collect();
        let twice: Vec<usize> = items.iter().map(|item| item * 2).collect();
        for threads in [0, 1, 2, 3, 200] {
            assert_eq!(in_parallel(&items, threads, |i| *i, |i| i * 2), twice);
        }
        assert_eq!(in_parallel(&items[..1], 2, |i| *i, |i| i * 2), twice[..1]);
    }

    #[test]
    fn a_panic_of_the_work_is_one_of_the_caller() {
        let panics = |item: &usize| assert_ne!(*item, 3 << 20);
        let all = std::panic::catch_unwind(|| {
            in_parallel(&[1 << 20, 2 << 20, 3 << 20, 4 << 20], 2, |i| *i, panics)
        });
        assert!(all.is_err());
    }
}
