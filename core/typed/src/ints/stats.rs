//! Statistics of a stream, from which the cost of every shape follows.

use super::ramps::Ramps;
use super::runs::Runs;
use super::{Params, Shape};
use crate::bits::width_of;

/// What the shapes need to know of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Values.
    pub n: usize,
    /// The first one.
    pub first: i64,
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
    /// Smallest and largest difference of neighbours.
    pub step: (i64, i64),
    /// Runs of equal values.
    pub runs: usize,
    /// Smallest and largest difference of neighbouring runs.
    pub run_step: (i64, i64),
    /// Length of the longest run.
    pub longest: usize,
    /// Second value less the first.
    pub first_step: i64,
    /// Smallest and largest difference of neighbouring differences.
    pub bend: (i64, i64),
    /// Ramps: see [`Shape::Ramps`].
    pub ramps: usize,
    /// Smallest and largest difference of neighbours within ramps.
    pub rise: (u64, u64),
    /// Smallest and largest first value of a ramp behind the first one.
    pub begin: (i64, i64),
    /// Length of the longest ramp.
    pub longest_ramp: usize,
}

impl Stats {
    /// The statistics that the shape `Frame` needs. The other fields are those of a single value.
    #[inline]
    pub fn of_frame(values: &[i64]) -> Stats {
        let first = values.first().copied().unwrap_or(0);
        let (mut min, mut max) = (first, first);
        for v in values {
            min = min.min(*v);
            max = max.max(*v);
        }
        Stats {
            n: values.len(),
            first,
            min,
            max,
            step: (0, 0),
            runs: usize::from(!values.is_empty()),
            run_step: (0, 0),
            longest: values.len(),
            first_step: 0,
            bend: (0, 0),
            ramps: usize::from(!values.is_empty()),
            rise: (0, 0),
            begin: (0, 0),
            longest_ramp: values.len(),
        }
    }

    /// The statistics that the shapes `Frame` and `Delta` need. The other fields are those of a
    /// single value.
    #[inline]
    pub fn of_steps(values: &[i64]) -> Stats {
        if let Some(regular) = Stats::of_regular(values) {
            return regular;
        }
        let mut s = Stats::of_frame(values);
        let Some(second) = values.get(1) else {
            return s;
        };
        s.first_step = second.wrapping_sub(s.first);
        let (mut low, mut high) = (s.first_step, s.first_step);
        for (a, b) in values.iter().zip(values.iter().skip(1)) {
            let d = b.wrapping_sub(*a);
            low = low.min(d);
            high = high.max(d);
        }
        s.step = (low, high);
        s
    }

    /// As [`Stats::of_steps`], if there are at least two values and all differences are the same,
    /// as in a counter. This is frequent.
    #[inline]
    fn of_regular(values: &[i64]) -> Option<Stats> {
        let (&first, rest) = values.split_first()?;
        let step = rest.first()?.wrapping_sub(first);
        let pairs = values.iter().zip(rest);
        let other = pairs.fold(0, |other, (a, b)| other | (b.wrapping_sub(*a) ^ step));
        // If the values do not wrap, the first and the last are the extremes.
        let whole = i64::try_from(rest.len()).ok()?.checked_mul(step)?;
        let last = first.checked_add(whole)?;
        (other == 0).then(|| Stats {
            n: values.len(),
            min: first.min(last),
            max: first.max(last),
            step: (step, step),
            first_step: step,
            ..Stats::of_frame(&[first])
        })
    }

    /// The statistics that the shapes `Frame` and `Runs` need. The other fields are those of a
    /// single value.
    pub fn of_runs(values: &[i64]) -> Stats {
        let mut s = Stats::of_frame(values.get(..1).unwrap_or_default());
        s.n = values.len();
        (s.runs, s.longest) = (0, 0);
        let mut step = (i64::MAX, i64::MIN);
        let mut before = None;
        for (v, len) in Runs::of(values) {
            s.runs += 1;
            s.longest = s.longest.max(len);
            if let Some(before) = before {
                let d = v.wrapping_sub(before);
                step = (step.0.min(d), step.1.max(d));
                (s.min, s.max) = (s.min.min(v), s.max.max(v));
            }
            before = Some(v);
        }
        if s.runs > 1 {
            s.run_step = step;
        }
        s
    }

    /// The statistics that the shapes `Frame` and `Ramps` need. The other fields are those of a
    /// single value.
    pub fn of_ramps(values: &[i64]) -> Stats {
        let mut s = Stats::of_frame(values);
        s.add_ramps(values);
        s
    }

    /// Fills in the statistics of ramps.
    fn add_ramps(&mut self, values: &[i64]) {
        (self.ramps, self.longest_ramp) = (0, 0);
        let (mut rise, mut begin) = ((u64::MAX, 0), (i64::MAX, i64::MIN));
        for ramp in Ramps::of(values) {
            if let Some(first) = ramp.first().filter(|_| self.ramps > 0) {
                begin = (begin.0.min(*first), begin.1.max(*first));
            }
            self.ramps += 1;
            self.longest_ramp = self.longest_ramp.max(ramp.len());
            for (a, b) in ramp.iter().zip(ramp.iter().skip(1)) {
                let d = b.wrapping_sub(*a) as u64;
                rise = (rise.0.min(d), rise.1.max(d));
            }
        }
        self.rise = if rise.0 <= rise.1 { rise } else { (0, 0) };
        self.begin = if self.ramps > 1 { begin } else { (0, 0) };
    }

    /// All statistics of `values`.
    pub fn of(values: &[i64]) -> Stats {
        let first = values.first().copied().unwrap_or(0);
        let mut s = Stats {
            n: values.len(),
            first,
            min: first,
            max: first,
            step: (0, 0),
            runs: usize::from(!values.is_empty()),
            run_step: (0, 0),
            longest: 0,
            first_step: 0,
            bend: (0, 0),
            ramps: 0,
            rise: (0, 0),
            begin: (0, 0),
            longest_ramp: 0,
        };
        s.add_ramps(values);
        let Some(second) = values.get(1) else {
            s.longest = s.n;
            return s;
        };
        s.first_step = second.wrapping_sub(first);
        s.step = (s.first_step, s.first_step);
        s.run_step = (i64::MAX, i64::MIN);
        s.bend = (i64::MAX, i64::MIN);
        let mut run = 1;
        let mut last_step = s.first_step;
        for (a, &b) in values.iter().zip(values.iter().skip(1)) {
            s.min = s.min.min(b);
            s.max = s.max.max(b);
            let d = b.wrapping_sub(*a);
            s.step = (s.step.0.min(d), s.step.1.max(d));
            let e = d.wrapping_sub(last_step);
            s.bend = (s.bend.0.min(e), s.bend.1.max(e));
            last_step = d;
            if d == 0 {
                run += 1;
            } else {
                s.run_step = (s.run_step.0.min(d), s.run_step.1.max(d));
                s.longest = s.longest.max(run);
                s.runs += 1;
                run = 1;
            }
        }
        s.longest = s.longest.max(run);
        if s.runs == 1 {
            s.run_step = (0, 0);
        }
        s
    }

    /// The parameters with which the stream takes the fewest bits, including the parameters.
    pub fn best(&self) -> Params {
        let frame = self.frame();
        let mut best = (self.cost(&frame), frame);
        let mut offer = |params: Params| {
            let cost = self.cost(&params);
            if cost < best.0 {
                best = (cost, params);
            }
        };
        if frame.width > 0 && self.n > 1 {
            offer(self.delta());
            offer(self.by_runs());
            offer(self.by_ramps());
            if self.n > 3 {
                offer(self.curve());
            }
        }
        best.1
    }

    /// Bits of the stream with these parameters, written out.
    pub fn cost(&self, params: &Params) -> usize {
        params.own_bits() + params.value_bits(self)
    }

    /// The parameters of shape `Frame`.
    pub fn frame(&self) -> Params {
        Params {
            shape: Shape::Frame,
            anchor: self.min,
            step: 0,
            low: 0,
            width: range_width((self.min, self.max)),
            ..Params::NOTHING
        }
    }

    /// The parameters of shape `Delta`.
    pub fn delta(&self) -> Params {
        Params {
            shape: Shape::Delta,
            anchor: self.first,
            step: self.step.0,
            low: 0,
            width: range_width(self.step),
            ..Params::NOTHING
        }
    }

    /// The parameters of shape `Curve`.
    pub fn curve(&self) -> Params {
        let (low, high) = if self.n > 2 { self.bend } else { (0, 0) };
        Params {
            shape: Shape::Curve,
            anchor: self.first,
            step: self.first_step,
            low,
            width: range_width((low, high)),
            ..Params::NOTHING
        }
    }

    /// The parameters of shape `Runs`.
    pub fn by_runs(&self) -> Params {
        Params {
            shape: Shape::Runs,
            anchor: self.first,
            step: self.run_step.0,
            low: 0,
            width: range_width(self.run_step),
            len_width: width_of(self.longest.saturating_sub(1) as u64),
            first_width: 0,
        }
    }

    /// The parameters of shape `Ramps`.
    pub fn by_ramps(&self) -> Params {
        Params {
            shape: Shape::Ramps,
            anchor: self.first,
            step: self.rise.0 as i64,
            low: self.begin.0,
            width: width_of(self.rise.1.wrapping_sub(self.rise.0)),
            len_width: width_of(self.longest_ramp.saturating_sub(1) as u64),
            first_width: range_width(self.begin),
        }
    }
}

/// Bits of the greatest difference from the lower end of a range.
fn range_width((low, high): (i64, i64)) -> u32 {
    width_of(high.wrapping_sub(low) as u64)
}
