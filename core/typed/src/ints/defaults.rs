//! The default parameters of a stream: parameters that most pages share.

use super::{Params, Shape, Stats, WIDTH_BITS, take_width};
use crate::bits::{BitReader, BitWriter, mask, width_of};

/// Parameters of a stream in its model. Each page can add some of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultParameters {
    /// Shape (never `Curve`), step, widths, and the anchor. If pages have anchors of their own, the
    /// smallest anchor.
    pub params: Params,
    /// If pages have anchors of their own: bits of an anchor less the smallest one.
    pub anchor_width: Option<u32>,
    /// Pages have widths of their own.
    pub own_widths: bool,
    /// The stream is the difference to this earlier stream, value by value.
    pub relation: Option<u16>,
}

impl Default for DefaultParameters {
    fn default() -> Self {
        DefaultParameters::constant(0)
    }
}

impl DefaultParameters {
    /// All values are `value`.
    pub const fn constant(value: i64) -> DefaultParameters {
        DefaultParameters {
            params: Params {
                anchor: value,
                ..Params::NOTHING
            },
            anchor_width: None,
            own_widths: false,
            relation: None,
        }
    }

    /// The value, if all values on all pages are the same.
    #[inline]
    pub fn constant_value(&self) -> Option<i64> {
        let same = self.params.shape == Shape::Frame
            && self.params.width == 0
            && self.anchor_width.is_none()
            && !self.own_widths
            && self.relation.is_none();
        same.then_some(self.params.anchor)
    }

    /// The parameters of a page by these default parameters; `None` if the page deviates from them.
    #[inline]
    pub fn params_for(&self, s: &Stats) -> Option<Params> {
        let h = &self.params;
        let mut p = match h.shape {
            Shape::Frame => s.frame(),
            Shape::Delta => s.delta(),
            Shape::Runs => s.by_runs(),
            Shape::Ramps => s.by_ramps(),
            Shape::Curve => return None,
        };
        match self.anchor_width {
            Some(width) => {
                let above = p.anchor.wrapping_sub(h.anchor) as u64;
                if p.anchor < h.anchor || above > mask(width) {
                    return None;
                }
            }
            None if h.shape == Shape::Frame => {
                if p.anchor < h.anchor {
                    return None;
                }
                let reach = s.max.wrapping_sub(h.anchor) as u64;
                p.anchor = h.anchor;
                p.width = width_of(reach);
            }
            None if p.anchor != h.anchor => return None,
            None => {}
        }
        if h.shape == Shape::Ramps {
            self.ramps_for(s, &mut p)?;
        } else if h.shape != Shape::Frame {
            let (low, high) = if h.shape == Shape::Delta {
                s.step
            } else {
                s.run_step
            };
            let single = s.n < 2 || h.shape == Shape::Runs && s.runs < 2;
            if !single && low < h.step {
                return None;
            }
            p.step = h.step;
            if single {
                (p.width, p.len_width) = (0, 0);
            } else {
                p.width = width_of(high.wrapping_sub(h.step) as u64);
            }
        }
        if !self.own_widths {
            if p.width > h.width || p.len_width > h.len_width || p.first_width > h.first_width {
                return None;
            }
            (p.width, p.len_width, p.first_width) = (h.width, h.len_width, h.first_width);
        }
        Some(p)
    }

    /// The step, low and widths of ramps; `None` if a difference or first value is too small.
    fn ramps_for(&self, s: &Stats, p: &mut Params) -> Option<()> {
        let h = &self.params;
        (p.step, p.low) = (h.step, h.low);
        if s.n > s.ramps {
            let step = u64::try_from(h.step)
                .ok()
                .filter(|step| *step <= s.rise.0)?;
            p.width = width_of(s.rise.1 - step);
        }
        if s.ramps > 1 {
            (s.begin.0 >= h.low).then_some(())?;
            p.first_width = width_of(s.begin.1.wrapping_sub(h.low) as u64);
        }
        Some(())
    }

    /// Bits of what a page adds to the default parameters.
    pub fn own_bits(&self) -> usize {
        let widths = match self.own_widths {
            false => 0,
            true => WIDTH_BITS as usize + self.params.run_widths_bits(),
        };
        self.anchor_width.unwrap_or(0) as usize + widths
    }

    /// Writes what a page adds to the default parameters. `params` come from
    /// [`DefaultParameters::params_for`].
    #[inline]
    pub fn put_own(&self, params: &Params, w: &mut BitWriter) {
        if let Some(width) = self.anchor_width {
            w.put(params.anchor.wrapping_sub(self.params.anchor) as u64, width);
        }
        if self.own_widths {
            w.put(u64::from(params.width), WIDTH_BITS);
            params.put_run_widths(w);
        }
    }

    /// Reads what a page adds to the default parameters: `params` are the defaults, and become the
    /// page's.
    #[inline(always)]
    pub fn take_own(&self, params: &mut Params, r: &mut BitReader<'_>) -> Option<()> {
        if let Some(width) = self.anchor_width {
            params.anchor = params.anchor.wrapping_add(r.get(width)? as i64);
        }
        if self.own_widths {
            params.width = take_width(r)?;
            params.take_run_widths(r)?;
        }
        Some(())
    }

    /// Writes the default parameters, as a model stores them.
    pub fn put(&self, w: &mut BitWriter) {
        self.params.put(w);
        match self.anchor_width {
            Some(width) => w.put(u64::from(width) << 1 | 1, WIDTH_BITS + 1),
            None => w.put(0, 1),
        }
        w.put(u64::from(self.own_widths), 1);
        match self.relation {
            Some(slot) => w.put(u64::from(slot) << 1 | 1, 17),
            None => w.put(0, 1),
        }
    }

    /// Reads the default parameters of stream number `slot` from a model. Any bits are read or
    /// refused.
    pub fn take(r: &mut BitReader<'_>, slot: usize) -> Option<DefaultParameters> {
        let params = Params::take(r)?;
        let anchor_width = if r.get(1)? == 1 {
            Some(take_width(r)?)
        } else {
            None
        };
        let own_widths = r.get(1)? == 1;
        let relation = if r.get(1)? == 1 {
            Some(r.get(16)? as u16)
        } else {
            None
        };
        let right =
            params.shape != Shape::Curve && relation.is_none_or(|other| usize::from(other) < slot);
        right.then_some(DefaultParameters {
            params,
            anchor_width,
            own_widths,
            relation,
        })
    }
}
