//! Streams: the sequences of integers that a page becomes, in the order in which they are stored.
//!
//! The encoder lists them as [`Stream`]s over one vector of integers. The decoder reads them back
//! into such a vector bit by bit ([`Streams`]), and raw bytes ([`RawBytes`]).

use crate::bits::{AT_ONCE, BitReader, WIDE, mask};
use crate::ints::{Params, Shape};
use crate::model::Model;

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

/// Streams as they are read.
#[derive(Default)]
pub(crate) struct Streams {
    /// Values of all streams. Behind the used ones are those of earlier pages.
    pub(crate) ints: Vec<i64>,
    pub(crate) used: usize,
    /// Where the values of each stream lie, by its number.
    places: Vec<(usize, usize)>,
    /// Each stream has a bit that says whether it has its own parameters.
    deviant: bool,
    /// Only a stream of this length can be related to another one.
    cells: usize,
    /// No more values than this.
    limit: usize,
}

/// A stream that was read.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// All values are equal.
    pub(crate) constant: Option<i64>,
    /// No value is smaller than the first number or larger than the second.
    pub(crate) range: Option<(i64, i64)>,
}

impl Streams {
    pub(crate) fn begin(&mut self, deviant: bool, cells: usize, limit: usize, streams: usize) {
        self.used = 0;
        self.places.clear();
        self.places.resize(streams, (0, 0));
        self.deviant = deviant;
        self.cells = cells;
        self.limit = limit;
    }

    /// Makes room for `n` values, and [`AT_ONCE`] behind them, which are not cleared. Returns where
    /// it begins; `None` if the page has too many values.
    #[inline]
    pub(crate) fn room(&mut self, n: usize) -> Option<usize> {
        let from = self.used;
        if n > self.limit || from > 8 * self.limit {
            return None;
        }
        self.used += n;
        if self.ints.len() < self.used + AT_ONCE {
            self.ints.resize(self.used + AT_ONCE, 0);
        }
        Some(from)
    }

    /// Reads a stream of `n` values. With `zeros` the stream says by which power of two its values
    /// were divided.
    #[inline]
    pub(crate) fn read(
        &mut self,
        r: &mut BitReader<'_>,
        model: &Model,
        number: usize,
        n: usize,
        zeros: bool,
    ) -> Option<Read> {
        let from = self.room(n)?;
        let to = from + n;
        if n == 0 {
            return Some(Read {
                from,
                to,
                constant: None,
                range: None,
            });
        }
        let defaults = model.defaults_of(number);
        let mut other = defaults
            .relation
            .filter(|_| n == self.cells)
            .and_then(|other| self.places.get(usize::from(other)).copied())
            .filter(|(from, to)| to - from == n);
        let mut params = defaults.params;
        if self.deviant && r.get(1)? == 1 {
            if other.is_some() && r.get(1)? == 0 {
                other = None;
            }
            params = Params::take(r)?;
        } else {
            defaults.take_own(&mut params, r)?;
        }
        let zeros = if zeros { r.get(6)? as u32 } else { 0 };
        let (before, now) = self.ints.split_at_mut_checked(from)?;
        if params.shape == Shape::Frame && (1..=WIDE).contains(&params.width) {
            let run = r.run(n, params.width);
            run?.fill(params.anchor, now.get_mut(..n.next_multiple_of(AT_ONCE))?);
        } else {
            params.read(r, now.get_mut(..n)?)?;
        }
        let now = now.get_mut(..n)?;
        if let Some(other) = other {
            for (v, o) in now.iter_mut().zip(before.get(other.0..other.1)?) {
                *v = v.wrapping_add(*o);
            }
        }
        if zeros > 0 {
            for v in now.iter_mut() {
                *v = v.wrapping_shl(zeros);
            }
        }
        let range = match other.is_none() && zeros == 0 {
            true => range(&params, now),
            false => None,
        };
        // No stream is related to one without default parameters.
        if let Some(place) = self.places.get_mut(number) {
            *place = (from, to);
        }
        let plain = params.shape == Shape::Frame && other.is_none();
        Some(Read {
            from,
            to,
            constant: (plain && params.width == 0).then_some(params.anchor),
            range,
        })
    }

    #[inline]
    pub(crate) fn values(&self, read: Read) -> Option<&[i64]> {
        self.ints.get(read.from..read.to)
    }
}

/// A lower and an upper bound of all values of a stream that is read by these parameters alone, if
/// they follow from the parameters and the last value.
fn range(params: &Params, values: &[i64]) -> Option<(i64, i64)> {
    let (first, last) = (params.anchor, *values.last()?);
    let rise = mask(params.width);
    match params.shape {
        Shape::Frame => Some((first, first.checked_add_unsigned(rise)?)),
        Shape::Delta | Shape::Runs => {
            // Values rise or fall from each to the next, and none overflows.
            let (least, most) = (params.step, params.step.checked_add_unsigned(rise)?);
            let steps = i64::try_from(values.len()).ok()?;
            first.checked_add(steps.checked_mul(least)?)?;
            first.checked_add(steps.checked_mul(most)?)?;
            match (least >= 0, most <= 0) {
                (true, _) => Some((first, last)),
                (_, true) => Some((last, first)),
                _ => None,
            }
        }
        Shape::Curve | Shape::Ramps => None,
    }
}

/// Raw bytes, which are taken in order.
pub(crate) struct RawBytes<'a>(pub(crate) &'a [u8]);

impl<'a> RawBytes<'a> {
    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(n)?;
        self.0 = later;
        Some(now)
    }
}

/// A payload that is being read, its model, and what was read.
pub(crate) struct Source<'a> {
    pub(crate) model: &'a Model,
    pub(crate) r: BitReader<'a>,
    pub(crate) raw: RawBytes<'a>,
    pub(crate) streams: &'a mut Streams,
}

impl Source<'_> {
    /// Reads a stream of `n` values.
    #[inline]
    pub(crate) fn read(&mut self, number: usize, n: usize) -> Option<Read> {
        self.streams.read(&mut self.r, self.model, number, n, false)
    }

    /// Reads a stream of `n` values that says by which power of two they were divided.
    #[inline]
    pub(crate) fn read_divided(&mut self, number: usize, n: usize) -> Option<Read> {
        self.streams.read(&mut self.r, self.model, number, n, true)
    }

    /// Reads a stream of classes of `n` values. Does not keep them if the model says that they are
    /// all the same.
    #[inline]
    pub(crate) fn read_classes(&mut self, number: usize, n: usize) -> Option<Read> {
        let deviant = self.streams.deviant;
        if let Some(constant) = self.model.constant(number)
            && n > 0
            && (!deviant || self.r.peek(1)? == 0)
        {
            self.r.get(u32::from(deviant))?;
            return Some(Read {
                from: 0,
                to: 0,
                constant: Some(constant),
                range: None,
            });
        }
        self.read(number, n)
    }
}
