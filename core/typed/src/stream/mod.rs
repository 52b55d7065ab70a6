//! Streams: the sequences of integers that a page becomes, in the order in which they are stored.
//!
//! The encoder lists them as [`Stream`]s over one vector of integers. The decoder reads them back
//! into such a vector ([`read`]).

mod read;

pub(crate) use read::{RawBytes, Read, Source, Streams};

/// A stream of integers of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// Its number in the model.
    pub(crate) number: usize,
    /// Where its values lie in [`Split::ints`](crate::split::Split::ints).
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// What follows it.
    pub(crate) tail: Tail,
}

/// What follows a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    Nothing,
    /// The codes of the values whose lengths the stream gives, of `width` bits each: a part of
    /// [`Split::codes`](crate::split::Split::codes).
    Codes {
        from: usize,
        to: usize,
        width: u32,
    },
    /// The stream's values were divided by two to this power.
    Zeros(u32),
}

/// The most values of a page, rows times columns. Each takes at least one byte of a record's
/// header, except in rows that end early.
pub(crate) fn most_values(page_len: usize) -> usize {
    2 * page_len
}
