//! Encoding: writes the streams of a page, with the default parameters or with their own.
//! docs/FORMAT.md (The payload of a page) has the bits. Streams are in the order of `split`. The
//! raw bytes follow: the database header of page 1, reserved bytes, opaque cells, text and blobs
//! that are stored unchanged, unallocated bytes.

use crate::bits::BitWriter;
use crate::context::PageContext;
use crate::ints::{DefaultParameters, Params, Shape, Stats};
use crate::layout::{self, LastOrder};
use crate::mismatch;
use crate::model::Model;
use crate::scrub::may_scrub;
use crate::split::Split;
use crate::stream::{Stream, Tail};
use densite_sqlite_format::page::{Kind, Page};
use std::cell::RefCell;

/// What a stream's own parameters cost, in bits, roughly.
const PARAMS_BITS: usize = 48;

/// How a stream is written.
#[derive(Debug, Clone, Copy)]
struct Plan {
    params: Params,
    /// With the stream's default parameters. Otherwise its parameters are written out.
    by_defaults: bool,
    /// Whether the values are differences to another stream. `None` if they could not be.
    related: Option<bool>,
    /// Where the differences begin in `Encoder::differences`, if the values are such.
    from: usize,
}

/// The memory that a thread encodes with.
#[derive(Default)]
struct Encoder {
    split: Split,
    plans: Vec<Plan>,
    differences: Vec<i64>,
    places: Vec<(usize, usize)>,
    bits: BitWriter,
    order: LastOrder,
}

thread_local! {
    static ENCODER: RefCell<Encoder> = RefCell::default();
}

/// Encodes a page of SQLite by a model and appends the payload to `out`. `decoded` becomes what the
/// payload decodes to: the page, with zeros for unallocated bytes that need not be kept. Every
/// payload is decoded and compared. Returns false, and appends nothing, if this codec cannot code
/// the page.
pub fn encode(
    page: &[u8],
    context: &PageContext,
    model: &Model,
    decoded: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> bool {
    let run = |encoder: &mut Encoder, decoded: &mut Vec<u8>, out: &mut Vec<u8>| {
        encoder.encode(page, context, model, decoded, out)
    };
    let here = ENCODER.try_with(|cell| {
        cell.try_borrow_mut()
            .ok()
            .map(|mut encoder| run(&mut encoder, decoded, out))
    });
    match here {
        Ok(Some(done)) => done,
        _ => run(&mut Encoder::default(), decoded, out),
    }
}

/// As [`encode()`], without decoding the payload. The caller must decode and compare it while it
/// still has the page.
pub fn encode_unchecked(
    page: &[u8],
    context: &PageContext,
    model: &Model,
    out: &mut Vec<u8>,
) -> bool {
    let here = ENCODER.try_with(|cell| {
        let mut encoder = cell.try_borrow_mut().ok()?;
        Some(encoder.code(page, context, model, out))
    });
    match here {
        Ok(Some(done)) => done,
        _ => Encoder::default().code(page, context, model, out),
    }
}

/// Copies a page to `out`, with zeros for its unallocated bytes if it is allowed to lose them.
pub fn scrub(page: &[u8], context: &PageContext, out: &mut Vec<u8>) {
    let run = |parsed: &mut Page, out: &mut Vec<u8>| {
        out.clear();
        out.extend_from_slice(page);
        let usable = page.len().saturating_sub(context.reserved);
        if parsed.parse(page, usable, context.number == 1) && may_scrub(context, page, parsed) {
            parsed.unallocated(|from, to| {
                if let Some(rubbish) = out.get_mut(from..to) {
                    rubbish.fill(0);
                }
            });
        }
    };
    let here = ENCODER.try_with(|cell| {
        cell.try_borrow_mut()
            .map(|mut encoder| run(&mut encoder.split.page, out))
    });
    if !matches!(here, Ok(Ok(()))) {
        run(&mut Page::new(), out);
    }
}

/// Whether `decoded` is the page, or differs only in unallocated bytes that the page is allowed to
/// lose and that are zeros in `decoded`.
pub fn is_scrubbed(page: &[u8], context: &PageContext, decoded: &[u8]) -> bool {
    let run = |split: &mut Split| {
        let usable = page.len().saturating_sub(context.reserved);
        let (parsed, first) = (&mut split.page, context.number == 1);
        (split.even.parse(parsed, page, usable, first) || parsed.parse(page, usable, first))
            && may_scrub(context, page, parsed)
            && decodes_to_page(page, parsed, true, decoded)
    };
    let look = || {
        let here = ENCODER.try_with(|cell| {
            let mut encoder = cell.try_borrow_mut().ok()?;
            Some(run(&mut encoder.split))
        });
        match here {
            Ok(Some(is)) => is,
            _ => run(&mut Split::default()),
        }
    };
    page == decoded || look()
}

/// Whether `decoded` is the page that was parsed into `parsed`. With `scrub` its unallocated bytes
/// must be zeros instead.
fn decodes_to_page(page: &[u8], parsed: &Page, scrub: bool, decoded: &[u8]) -> bool {
    if !scrub {
        return page == decoded;
    }
    let (mut right, mut at) = (page.len() == decoded.len(), 0);
    parsed.unallocated(|from, to| {
        right &= page.get(at..from) == decoded.get(at..from);
        right &= decoded.get(from..to).is_some_and(is_zero);
        at = to;
    });
    right && page.get(at..) == decoded.get(at..)
}

impl Encoder {
    fn encode(
        &mut self,
        page: &[u8],
        context: &PageContext,
        model: &Model,
        decoded: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        let before = out.len();
        if !self.code(page, context, model, out) {
            return false;
        }
        decoded.resize(page.len(), 0);
        let payload = out.get_mut(before..).unwrap_or_default();
        #[cfg(feature = "fuzz")]
        mismatch::fuzz::spoil(payload);
        let right = crate::decode(payload, model, decoded).is_ok()
            && decodes_to_page(page, &self.split.page, self.split.scrub, decoded);
        if !mismatch::check(right) {
            out.truncate(before);
        }
        right
    }

    /// Appends the payload of a page to `out`. False, and nothing appended, if the codec cannot
    /// code it.
    fn code(
        &mut self,
        page: &[u8],
        context: &PageContext,
        model: &Model,
        out: &mut Vec<u8>,
    ) -> bool {
        if !self.split.split(page, context, model) {
            return false;
        }
        self.plan(model);
        let before = out.len();
        let done = self.write(context, model, out).is_some();
        if !done {
            out.truncate(before);
        }
        done
    }

    /// Decides how each stream is written.
    fn plan(&mut self, model: &Model) {
        let cells = self.split.page.count();
        self.plans.clear();
        self.differences.clear();
        self.places.clear();
        for stream in &self.split.streams {
            let values = self
                .split
                .ints
                .get(stream.from..stream.to)
                .unwrap_or_default();
            if self.places.len() <= stream.number {
                self.places.resize(stream.number + 1, (0, 0));
            }
            if let Some(place) = self.places.get_mut(stream.number) {
                *place = (stream.from, stream.to);
            }
            let defaults = model.defaults_of(stream.number);
            if let Some(constant) = defaults.constant_value()
                && are_all(values, constant)
            {
                self.plans.push(Plan {
                    params: defaults.params,
                    by_defaults: true,
                    related: None,
                    from: 0,
                });
                continue;
            }
            let other = defaults
                .relation
                .filter(|_| values.len() == cells)
                .and_then(|r| self.places.get(usize::from(r)))
                .filter(|(from, to)| to - from == cells)
                .and_then(|(from, to)| self.split.ints.get(*from..*to));
            let from = self.differences.len();
            let plan = match other {
                None => choose(defaults, values, None, 0),
                Some(other) => {
                    let pairs = values.iter().zip(other);
                    self.differences
                        .extend(pairs.map(|(v, o)| v.wrapping_sub(*o)));
                    let differences = self.differences.get(from..).unwrap_or_default();
                    let mut plan = choose(defaults, differences, Some(true), from);
                    if !plan.by_defaults {
                        let stats = Stats::of(values);
                        let best = stats.best();
                        if stats.cost(&best) < Stats::of(differences).cost(&plan.params) {
                            self.differences.truncate(from);
                            plan = Plan {
                                params: best,
                                by_defaults: false,
                                related: Some(false),
                                from: 0,
                            };
                        }
                    }
                    plan
                }
            };
            self.plans.push(plan);
        }
    }

    fn write(&mut self, context: &PageContext, model: &Model, out: &mut Vec<u8>) -> Option<()> {
        let Encoder {
            split,
            plans,
            differences,
            bits: w,
            order,
            ..
        } = self;
        w.clear();
        let deviant = plans.iter().any(|p| !p.by_defaults);
        let columns = split.columns != model.columns.len();
        let cells = split.page.count();
        let flag = |w: &mut BitWriter, set: bool| w.put(u64::from(set), 1);
        let kind = Kind::ALL.iter().position(|kind| *kind == split.page.kind)?;
        w.put(kind as u64, 2);
        flag(w, !split.page.layout.is_canonical());
        flag(w, deviant);
        flag(w, split.long);
        flag(w, context.number == 1);
        flag(w, split.residue);
        flag(w, context.reserved > 0);
        flag(w, !split.raw.is_empty());
        flag(w, columns);
        flag(w, cells > 0xff);
        w.put(cells as u64, if cells > 0xff { 16 } else { 8 });
        if context.reserved > 0 {
            w.put(
                u64::try_from(context.reserved).ok().filter(|n| *n < 256)?,
                8,
            );
        }
        if !split.raw.is_empty() {
            w.put(
                u64::try_from(split.raw.len())
                    .ok()
                    .filter(|n| *n < 1 << 17)?,
                17,
            );
        }
        if columns {
            w.put(
                u64::try_from(split.columns).ok().filter(|n| *n < 1 << 15)?,
                15,
            );
        }
        if split.page.kind.has_child() {
            w.put(u64::from(split.page.right), 32);
        }
        if !split.page.layout.is_canonical() {
            layout::put_after(&split.page.layout, order, w);
        }
        for (stream, plan) in split.streams.iter().zip(plans.iter()) {
            let defaults = model.defaults_of(stream.number);
            write_stream(split, differences, stream, defaults, plan, deviant, w)?;
        }
        w.finish(out);
        out.extend_from_slice(&split.raw);
        Some(())
    }
}

fn write_stream(
    split: &Split,
    differences: &[i64],
    stream: &Stream,
    defaults: &DefaultParameters,
    plan: &Plan,
    deviant: bool,
    w: &mut BitWriter,
) -> Option<()> {
    if deviant {
        w.put(u64::from(!plan.by_defaults), 1);
    }
    if plan.by_defaults {
        defaults.put_own(&plan.params, w);
    } else {
        if let Some(related) = plan.related {
            w.put(u64::from(related), 1);
        }
        plan.params.put(w);
    }
    if let Tail::Zeros(zeros) = stream.tail {
        w.put(u64::from(zeros), 6);
    }
    let n = stream.to - stream.from;
    let values = if plan.related == Some(true) {
        differences.get(plan.from..plan.from + n)?
    } else {
        split.ints.get(stream.from..stream.to)?
    };
    plan.params.write(values, w);
    if let Tail::Codes { from, to, width } = stream.tail {
        for code in split.codes.get(from..to)? {
            w.put(u64::from(*code), width);
        }
    }
    Some(())
}

/// Whether all values are equal to `value`. There is no early exit, so the loop is vectorized.
fn are_all(values: &[i64], value: i64) -> bool {
    values.iter().fold(0, |other, v| other | (v ^ value)) == 0
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// Chooses the default parameters if they fit the values and take hardly more bits than a frame of
/// their own; otherwise the best parameters.
fn choose(
    defaults: &DefaultParameters,
    values: &[i64],
    related: Option<bool>,
    from: usize,
) -> Plan {
    let kept = |stats: &Stats| {
        defaults.params_for(stats).filter(|p| {
            let frame = stats.frame();
            defaults.own_bits() + p.value_bits(stats) <= frame.value_bits(stats) + PARAMS_BITS
        })
    };
    let by_defaults = |params| Plan {
        params,
        by_defaults: true,
        related,
        from,
    };
    // Most streams fit their default parameters, which are mostly frames. Then cheap statistics are
    // enough.
    let first_look = match defaults.params.shape {
        Shape::Frame => Some(Stats::of_frame(values)),
        Shape::Delta => Some(Stats::of_steps(values)),
        Shape::Runs => Some(Stats::of_runs(values)),
        Shape::Ramps => Some(Stats::of_ramps(values)),
        Shape::Curve => None,
    };
    if let Some(params) = first_look.as_ref().and_then(kept) {
        return by_defaults(params);
    }
    let stats = Stats::of(values);
    match kept(&stats) {
        Some(params) => by_defaults(params),
        None => Plan {
            by_defaults: false,
            ..by_defaults(stats.best())
        },
    }
}
