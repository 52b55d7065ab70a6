//! The numbers of a column that is being filled, and where those of a long result lie.
//!
//! A batch that is kept is memory that was never used before: with pages of 4 KiB the system takes as long to give it as we take to fill it. So the
//! batches of a result that goes on beyond its first lie in large pages ([`Pages`]), one behind the other. Each array has a share of its page, which goes
//! back to the system with the last of them: whoever keeps one array keeps two mebibytes at most besides it.

use crate::memory::Plain;
use densite_disk::memory::LargePage;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A vector of numbers, whose memory may be a piece of a page.
pub(crate) struct Run<T> {
    /// `room` values lie in `memory` from here on, of which the first `len` are written.
    start: NonNull<T>,
    len: usize,
    room: usize,
    memory: Memory<T>,
}

enum Memory<T> {
    /// For its memory alone: what its own length is does not matter.
    Own(Vec<T>),
    Page(Arc<LargePage>),
}

// SAFETY: numbers in memory that is this run's alone.
unsafe impl<T: Plain> Send for Run<T> {}
// SAFETY: as above: who has a reference only reads.
unsafe impl<T: Plain> Sync for Run<T> {}

impl<T: Plain> Run<T> {
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        if self.len == self.room {
            self.grow();
        }
        // SAFETY: there is room behind the values.
        unsafe { self.start.add(self.len).write(value) };
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mut values = self.take();
        values.reserve(1);
        *self = Run::from(values);
    }

    /// Goes to memory of its own, for values that are much less than a page.
    pub(crate) fn leave_page(&mut self) {
        if matches!(self.memory, Memory::Page(_)) {
            *self = Run::from(self.take());
        }
    }

    /// The values, as a vector.
    fn take(&mut self) -> Vec<T> {
        let values = match std::mem::replace(&mut self.memory, Memory::Own(Vec::new())) {
            Memory::Own(mut memory) => {
                // SAFETY: its memory is where the run is, of which so many values are written.
                unsafe { memory.set_len(self.len) };
                memory
            }
            // SAFETY: the page is alive until the end of this arm, and so many values are written.
            Memory::Page(_page) => unsafe {
                std::slice::from_raw_parts(self.start.as_ptr(), self.len).to_vec()
            },
        };
        *self = Run::from(Vec::new());
        values
    }
}

impl<T> From<Vec<T>> for Run<T> {
    fn from(mut values: Vec<T>) -> Run<T> {
        Run {
            // A vector's pointer is never null.
            start: NonNull::new(values.as_mut_ptr()).unwrap_or(NonNull::dangling()),
            len: values.len(),
            room: values.capacity(),
            memory: Memory::Own(values),
        }
    }
}

impl<T> Deref for Run<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many values are written, in memory that lives with the run.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Pages of which runs take pieces, one at a time.
#[derive(Default)]
pub(crate) struct Pages {
    page: Option<Arc<LargePage>>,
    /// Bytes of it that are taken.
    used: usize,
}

/// Where buffers begin: Arrow asks for multiples of this many bytes.
const ALIGNED: usize = 64;

impl Pages {
    /// A run with room for so many values: in a page, if there is one.
    pub(crate) fn run<T: Plain>(&mut self, room: usize) -> Run<T> {
        let bytes = room
            .saturating_mul(size_of::<T>())
            .checked_next_multiple_of(ALIGNED);
        let bytes = bytes.filter(|&bytes| bytes <= LargePage::BYTES);
        match bytes.and_then(|bytes| self.piece(bytes)) {
            Some((start, page)) => Run {
                start: start.cast(),
                len: 0,
                room,
                memory: Memory::Page(page),
            },
            None => Run::from(Vec::with_capacity(room)),
        }
    }

    /// So many bytes that nobody else gets: a multiple of [`ALIGNED`], one page at most.
    fn piece(&mut self, bytes: usize) -> Option<(NonNull<u8>, Arc<LargePage>)> {
        if self.page.is_none() || self.used + bytes > LargePage::BYTES {
            self.page = Some(Arc::new(LargePage::new()?));
            self.used = 0;
        }
        let page = self.page.as_ref()?;
        // SAFETY: within the page.
        let start = unsafe { page.start().add(self.used) };
        self.used += bytes;
        Some((start, Arc::clone(page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_page_keep_their_values_apart_and_after_it() {
        let mut pages = Pages::default();
        let mut runs: Vec<Run<i64>> = (0..9).map(|_| pages.run(1 << 16)).collect();
        let mut ends: Run<i32> = pages.run((1 << 16) + 1);
        for n in 0..1 << 16 {
            for (i, run) in (0..).zip(&mut runs) {
                run.push(n * 10 + i);
            }
        }
        for n in 0..=1 << 16 {
            ends.push(n);
        }
        drop(pages);
        let last = runs.pop().expect("nine");
        runs.truncate(3);
        for (i, run) in (0..).zip(&runs).chain([(8, &last)]) {
            assert_eq!(run.as_ptr() as usize % ALIGNED, 0);
            assert!(
                run.iter().copied().eq((0..1 << 16).map(|n| n * 10 + i)),
                "{i}"
            );
        }
        assert!(ends.iter().copied().eq(0..=1 << 16));
    }

    #[test]
    fn a_run_grows_beyond_its_room() {
        let mut pages = Pages::default();
        let rooms = [
            pages.run(5),
            pages.run(LargePage::BYTES),
            Run::from(vec![0u64; 3]),
        ];
        for mut run in rooms {
            let from = run.len() as u64;
            (from..1000).for_each(|n| run.push(n));
            assert!(run.iter().skip(3).copied().eq(3..1000));
            run.leave_page();
            run.push(1000);
            assert!(run.iter().skip(3).copied().eq(3..=1000));
            assert!(!matches!(run.memory, Memory::Page(_)));
        }
    }
}
