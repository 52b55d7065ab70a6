//! The short paths by name, so that a test can switch each of them off and count how often it is
//! taken. Outside of tests every path is on, and nothing is counted.

/// A short path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// [`EvenLeaf::parse`](super::EvenLeaf::parse).
    Even,
    /// [`EvenLeaf::split`](super::EvenLeaf::split).
    Columns,
    /// [`split_rows`](super::split_rows()).
    Rows,
    /// [`write`](super::write()) of records whose types are all the same.
    Alike,
    /// [`write`](super::write()) of other records.
    Each,
}

#[cfg(not(test))]
impl Path {
    #[inline(always)]
    pub(super) fn is_on(self) -> bool {
        true
    }

    /// Takes note that this path gave a result.
    #[inline(always)]
    pub(super) fn count(self) {}
}

#[cfg(test)]
pub(super) use switched::{ALL, counts, with_paths};

#[cfg(test)]
mod switched {
    use super::Path;
    use std::cell::Cell;

    pub(in crate::fast) const ALL: [Path; 5] = [
        Path::Even,
        Path::Columns,
        Path::Rows,
        Path::Alike,
        Path::Each,
    ];

    thread_local! {
        static OFF: Cell<[bool; ALL.len()]> = const { Cell::new([false; ALL.len()]) };
        static COUNTS: Cell<[usize; ALL.len()]> = const { Cell::new([0; ALL.len()]) };
    }

    impl Path {
        pub(in crate::fast) fn is_on(self) -> bool {
            !OFF.get()[self as usize]
        }

        pub(in crate::fast) fn count(self) {
            let mut counts = COUNTS.get();
            counts[self as usize] += 1;
            COUNTS.set(counts);
        }
    }

    /// Runs `job` with only these paths on, in this thread.
    pub(in crate::fast) fn with_paths<T>(on: &[Path], job: impl FnOnce() -> T) -> T {
        OFF.set(ALL.map(|path| !on.contains(&path)));
        let done = job();
        OFF.set([false; ALL.len()]);
        done
    }

    /// How often each path of [`ALL`] was taken in this thread.
    pub(in crate::fast) fn counts() -> [usize; ALL.len()] {
        COUNTS.get()
    }
}
