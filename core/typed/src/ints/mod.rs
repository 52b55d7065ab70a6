//! Streams of integers, to which all properties and values of a page's cells are reduced.
//!
//! The reader knows the length of a stream. It is written as bit-packed differences (see
//! [`Params`]) in one of five shapes. The parameters follow from the stream's
//! [`DefaultParameters`], and then take no bits or those of an anchor, or they are written out in
//! about forty bits. All arithmetic wraps, so every sequence can be coded. docs/FORMAT.md (Streams)
//! has the bits and the sources.

mod defaults;
mod ramps;
mod runs;
mod stats;

pub use defaults::DefaultParameters;
pub use stats::Stats;

use crate::bits::{BitReader, BitWriter, WIDE, mask, width_of};
use runs::Runs;

/// How differences are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// From the anchor.
    Frame = 0,
    /// From the previous value, less the step.
    Delta = 1,
    /// From the previous value and the previous difference, less `low`.
    Curve = 2,
    /// Runs of equal values: their lengths, and their values as in `Delta`.
    Runs = 3,
    /// Ramps of values that do not fall: their lengths and first values, and the other values as in
    /// `Delta`. See [`ramps`].
    Ramps = 4,
}

impl Shape {
    /// The shape of this number.
    pub fn of(number: u64) -> Option<Shape> {
        Some(match number {
            0 => Shape::Frame,
            1 => Shape::Delta,
            2 => Shape::Curve,
            3 => Shape::Runs,
            4 => Shape::Ramps,
            _ => return None,
        })
    }

    /// Its name, for display.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Frame => "frame",
            Shape::Delta => "delta",
            Shape::Curve => "delta2",
            Shape::Runs => "runs",
            Shape::Ramps => "ramps",
        }
    }
}

/// What is needed to read a stream besides its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// The shape.
    pub shape: Shape,
    /// `Frame`: subtracted from every value; the others: the first value.
    pub anchor: i64,
    /// `Delta`, `Runs`, `Ramps`: subtracted from every difference; `Curve`: the first difference.
    pub step: i64,
    /// `Curve`: subtracted from every difference of differences; `Ramps`: from the first value of
    /// every ramp but the first.
    pub low: i64,
    /// Bits of a packed difference.
    pub width: u32,
    /// `Runs`, `Ramps`: bits of a run's length less one.
    pub len_width: u32,
    /// `Ramps`: bits of the first value of a ramp, less `low`.
    pub first_width: u32,
}

/// So many values of a run are written at once.
const SHORT_RUN: usize = 8;
/// Bits of a width, if it is written out.
const WIDTH_BITS: u32 = 7;
/// Bits of the number of a shape.
const SHAPE_BITS: u32 = 3;
/// Bits of the width of run lengths, if it is written out.
const LEN_WIDTH_BITS: u32 = 5;

impl Params {
    /// A frame of zeros.
    pub const NOTHING: Params = Params {
        shape: Shape::Frame,
        anchor: 0,
        step: 0,
        low: 0,
        width: 0,
        len_width: 0,
        first_width: 0,
    };

    /// Bits of values with these statistics, without the parameters.
    pub fn value_bits(&self, stats: &Stats) -> usize {
        let (n, runs) = (stats.n, stats.runs);
        let width = self.width as usize;
        match self.shape {
            Shape::Frame => n * width,
            Shape::Delta => n.saturating_sub(1) * width,
            Shape::Curve => n.saturating_sub(2) * width,
            Shape::Runs => {
                let more = runs.saturating_sub(1);
                more * (width + self.len_width as usize) + width_of(n as u64) as usize
            }
            Shape::Ramps => {
                let more = stats.ramps.saturating_sub(1);
                more * (self.len_width + self.first_width) as usize
                    + n.saturating_sub(stats.ramps) * width
                    + width_of(n as u64) as usize
            }
        }
    }

    /// Bits that [`Params::put`] takes.
    pub fn own_bits(&self) -> usize {
        let number = |v: i64| (WIDTH_BITS + width_of(zigzag(v))) as usize;
        let more = match self.shape {
            Shape::Frame => 0,
            Shape::Delta => number(self.step),
            Shape::Curve => number(self.step) + number(self.low),
            Shape::Runs => number(self.step),
            Shape::Ramps => number(self.step) + number(self.low),
        };
        (SHAPE_BITS + WIDTH_BITS) as usize + number(self.anchor) + more + self.run_widths_bits()
    }

    /// Writes the parameters out.
    pub fn put(&self, w: &mut BitWriter) {
        w.put(self.shape as u64, SHAPE_BITS);
        w.put(u64::from(self.width), WIDTH_BITS);
        put_number(self.anchor, w);
        if self.shape != Shape::Frame {
            put_number(self.step, w);
        }
        if matches!(self.shape, Shape::Curve | Shape::Ramps) {
            put_number(self.low, w);
        }
        self.put_run_widths(w);
    }

    /// Writes the widths that only runs and ramps have.
    #[inline]
    fn put_run_widths(&self, w: &mut BitWriter) {
        if matches!(self.shape, Shape::Runs | Shape::Ramps) {
            w.put(u64::from(self.len_width), LEN_WIDTH_BITS);
        }
        if self.shape == Shape::Ramps {
            w.put(u64::from(self.first_width), WIDTH_BITS);
        }
    }

    /// Reads what [`Params::put_run_widths`] wrote.
    #[inline(always)]
    fn take_run_widths(&mut self, r: &mut BitReader<'_>) -> Option<()> {
        if matches!(self.shape, Shape::Runs | Shape::Ramps) {
            self.len_width = r.get(LEN_WIDTH_BITS)? as u32;
        }
        if self.shape == Shape::Ramps {
            self.first_width = take_width(r)?;
        }
        Some(())
    }

    /// Bits that [`Params::put_run_widths`] takes.
    fn run_widths_bits(&self) -> usize {
        (match self.shape {
            Shape::Runs => LEN_WIDTH_BITS,
            Shape::Ramps => LEN_WIDTH_BITS + WIDTH_BITS,
            _ => 0,
        }) as usize
    }

    /// Reads parameters that were written out.
    #[inline(never)]
    pub fn take(r: &mut BitReader<'_>) -> Option<Params> {
        let shape = Shape::of(r.get(SHAPE_BITS)?)?;
        let width = take_width(r)?;
        let anchor = take_number(r)?;
        let step = if shape == Shape::Frame {
            0
        } else {
            take_number(r)?
        };
        let low = if matches!(shape, Shape::Curve | Shape::Ramps) {
            take_number(r)?
        } else {
            0
        };
        let mut params = Params {
            shape,
            anchor,
            step,
            low,
            width,
            ..Params::NOTHING
        };
        params.take_run_widths(r)?;
        Some(params)
    }

    /// Writes the values, which must fit the parameters.
    pub fn write(&self, values: &[i64], w: &mut BitWriter) {
        let width = self.width;
        match self.shape {
            Shape::Frame => {
                if width > 0 {
                    for v in values {
                        w.put(v.wrapping_sub(self.anchor) as u64, width);
                    }
                }
            }
            Shape::Delta => {
                if width > 0 {
                    for (a, b) in values.iter().zip(values.iter().skip(1)) {
                        w.put(b.wrapping_sub(*a).wrapping_sub(self.step) as u64, width);
                    }
                }
            }
            Shape::Curve => {
                let mut before = self.step;
                for (i, (a, b)) in values.iter().zip(values.iter().skip(1)).enumerate() {
                    let d = b.wrapping_sub(*a);
                    if i > 0 {
                        w.put(d.wrapping_sub(before).wrapping_sub(self.low) as u64, width);
                    }
                    before = d;
                }
            }
            Shape::Runs => {
                let runs = Runs::of(values);
                w.put(runs.clone().count() as u64, width_of(values.len() as u64));
                let mut last: Option<(i64, usize)> = None;
                for (v, len) in runs {
                    if let Some((before, len)) = last {
                        w.put(len as u64 - 1, self.len_width);
                        w.put(v.wrapping_sub(before).wrapping_sub(self.step) as u64, width);
                    }
                    last = Some((v, len));
                }
            }
            Shape::Ramps => self.write_ramps(values, w),
        }
    }

    /// Reads values until `out` is full. Any bits are read or refused.
    #[inline]
    pub fn read(&self, r: &mut BitReader<'_>, out: &mut [i64]) -> Option<()> {
        match self.shape {
            Shape::Frame => self.read_frame(r, out),
            Shape::Delta => self.read_delta(r, out),
            Shape::Curve => self.read_curve(r, out),
            Shape::Runs => self.read_runs(r, out),
            Shape::Ramps => self.read_ramps(r, out),
        }
    }

    #[inline]
    fn read_frame(&self, r: &mut BitReader<'_>, out: &mut [i64]) -> Option<()> {
        if self.width == 0 {
            out.fill(self.anchor);
        } else if self.width <= WIDE {
            r.run(out.len(), self.width)?.fill(self.anchor, out);
        } else {
            for v in out {
                *v = self.anchor.wrapping_add(r.get(self.width)? as i64);
            }
        }
        Some(())
    }

    #[inline]
    fn read_delta(&self, r: &mut BitReader<'_>, out: &mut [i64]) -> Option<()> {
        let Some((first, rest)) = out.split_first_mut() else {
            return Some(());
        };
        let mut at = self.anchor;
        *first = at;
        if self.width == 0 {
            for v in rest {
                at = at.wrapping_add(self.step);
                *v = at;
            }
        } else if self.width <= WIDE {
            r.run(rest.len(), self.width)?.fill(self.step, rest);
            for v in rest {
                at = at.wrapping_add(*v);
                *v = at;
            }
        } else {
            for v in rest {
                at = at
                    .wrapping_add(self.step)
                    .wrapping_add(r.get(self.width)? as i64);
                *v = at;
            }
        }
        Some(())
    }

    fn read_curve(&self, r: &mut BitReader<'_>, out: &mut [i64]) -> Option<()> {
        let (mut at, mut d) = (self.anchor, self.step);
        for (i, v) in out.iter_mut().enumerate() {
            if i > 1 {
                d = d
                    .wrapping_add(self.low)
                    .wrapping_add(r.get(self.width)? as i64);
            }
            if i > 0 {
                at = at.wrapping_add(d);
            }
            *v = at;
        }
        Some(())
    }

    fn read_runs(&self, r: &mut BitReader<'_>, out: &mut [i64]) -> Option<()> {
        let runs = r.get(width_of(out.len() as u64))?;
        let count = usize::try_from(runs.saturating_sub(1)).ok()?;
        let both = self.len_width + self.width;
        if both <= WIDE {
            // One load reads the length and the difference of a run.
            let (mut pairs, lens) = (r.run(count, both)?, mask(self.len_width));
            self.fill_runs(count, out, || {
                let pair = pairs.next();
                Some((pair & lens, pair >> self.len_width))
            })
        } else {
            self.fill_runs(count, out, || {
                Some((r.get(self.len_width)?, r.get(self.width)?))
            })
        }
    }

    /// Fills `out` with `count` runs and one more. `next` returns the stored length and difference
    /// of a run.
    #[inline(always)]
    fn fill_runs(
        &self,
        count: usize,
        out: &mut [i64],
        mut next: impl FnMut() -> Option<(u64, u64)>,
    ) -> Option<()> {
        let mut rest = out;
        let mut at = self.anchor;
        for _ in 0..count {
            let (len, difference) = next()?;
            let len = usize::try_from(len).ok()?.checked_add(1)?;
            // Most runs are short, and a processor cannot predict how short. So some values behind
            // the run are written, too.
            if let Some(first) = rest.first_chunk_mut::<SHORT_RUN>() {
                *first = [at; SHORT_RUN];
                if len > SHORT_RUN {
                    rest.get_mut(SHORT_RUN..len)?.fill(at);
                }
            } else {
                rest.get_mut(..len)?.fill(at);
            }
            rest = rest.get_mut(len..)?;
            at = at.wrapping_add(self.step).wrapping_add(difference as i64);
        }
        rest.fill(at);
        Some(())
    }
}

/// Maps numbers near zero, of either sign, to small numbers.
pub(crate) fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

/// Writes any number in about as many bits as it needs, and seven.
pub(crate) fn put_number(v: i64, w: &mut BitWriter) {
    let z = zigzag(v);
    let width = width_of(z);
    w.put(u64::from(width), WIDTH_BITS);
    w.put(z, width);
}

/// Reads what [`put_number`] wrote.
pub(crate) fn take_number(r: &mut BitReader<'_>) -> Option<i64> {
    let width = take_width(r)?;
    Some(unzigzag(r.get(width)?))
}

fn take_width(r: &mut BitReader<'_>) -> Option<u32> {
    let width = r.get(WIDTH_BITS)? as u32;
    (width <= 64).then_some(width)
}

#[cfg(test)]
mod tests;
