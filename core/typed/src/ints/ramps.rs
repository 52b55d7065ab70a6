//! Ramps: row ids in an index of repeated keys rise within each key and begin low again at the next
//! one. One ramp begins at each value that is less than the one before.

use super::Params;
use crate::bits::{BitReader, BitWriter, WIDE, width_of};

/// Iterates over ramps.
#[derive(Clone)]
pub(super) struct Ramps<'a>(&'a [i64]);

impl<'a> Ramps<'a> {
    pub(super) fn of(values: &'a [i64]) -> Ramps<'a> {
        Ramps(values)
    }
}

impl<'a> Iterator for Ramps<'a> {
    type Item = &'a [i64];

    fn next(&mut self) -> Option<&'a [i64]> {
        let pairs = self.0.iter().zip(self.0.get(1..)?);
        let len = pairs.take_while(|(a, b)| a <= b).count() + 1;
        let (ramp, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(ramp)
    }
}

impl Params {
    /// Writes the number of ramps, and in turn of each its length and its values.
    pub(super) fn write_ramps(&self, values: &[i64], w: &mut BitWriter) {
        let ramps = Ramps::of(values);
        let count = ramps.clone().count();
        w.put(count as u64, width_of(values.len() as u64));
        for (i, ramp) in ramps.enumerate() {
            if i > 0
                && let Some(first) = ramp.first()
            {
                w.put(first.wrapping_sub(self.low) as u64, self.first_width);
            }
            if i + 1 < count {
                w.put(ramp.len() as u64 - 1, self.len_width);
            }
            for (a, b) in ramp.iter().zip(ramp.iter().skip(1)) {
                let difference = b.wrapping_sub(*a).wrapping_sub(self.step);
                w.put(difference as u64, self.width);
            }
        }
    }

    /// Reads ramps until `out` is full.
    pub(super) fn read_ramps(&self, r: &mut BitReader<'_>, out: &mut [i64]) -> Option<()> {
        let ramps = r.get(width_of(out.len() as u64))?;
        let (mut first, mut rest) = (self.anchor, out);
        for _ in 1..ramps {
            let len = usize::try_from(r.get(self.len_width)?).ok()?;
            let (ramp, later) = rest.split_at_mut_checked(len.checked_add(1)?)?;
            self.read_ramp(first, r, ramp)?;
            first = self.low.wrapping_add(r.get(self.first_width)? as i64);
            rest = later;
        }
        self.read_ramp(first, r, rest)
    }

    /// Reads one ramp.
    #[inline(always)]
    fn read_ramp(&self, first: i64, r: &mut BitReader<'_>, out: &mut [i64]) -> Option<()> {
        let Some((to, rest)) = out.split_first_mut() else {
            return Some(());
        };
        let mut at = first;
        *to = at;
        if self.width <= WIDE {
            let mut run = r.run(rest.len(), self.width)?;
            for v in rest {
                at = at.wrapping_add(self.step).wrapping_add(run.next() as i64);
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
}
