//! What a blob consists of, as a sequence of numbers.

use super::class::{self, BITS_MAX, Counts, Kind, Tables};
use crate::bits::{BitWriter, width_of};

/// One number, and how it is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// By the prefix code of its kind.
    Coded(Kind, u64),
    /// By its width.
    Wide(u64),
    /// In so many bits.
    Bits(u64, u32),
}

impl Event {
    /// Whether the number can be coded.
    pub(super) fn is_possible(&self) -> bool {
        match self {
            Event::Coded(_, value) | Event::Wide(value) => width_of(*value) <= BITS_MAX,
            Event::Bits(value, width) => width_of(*value) <= *width,
        }
    }
}

/// Writes the prefix codes of these numbers and then the numbers.
pub(super) fn put(events: &[Event], w: &mut BitWriter) {
    let mut counts: Tables<Counts> = Default::default();
    for event in events {
        if let Event::Coded(kind, value) = event
            && let Some(counts) = counts.get_mut(*kind as usize)
        {
            counts.add(*value);
        }
    }
    let codes = class::put(&counts, w);
    for event in events {
        match *event {
            Event::Coded(kind, value) => {
                if let Some(code) = codes.get(kind as usize) {
                    class::write(code, value, w);
                }
            }
            Event::Wide(value) => class::put_wide(value, w),
            Event::Bits(value, width) => w.put(value, width),
        }
    }
}
