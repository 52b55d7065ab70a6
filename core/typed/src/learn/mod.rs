//! Learns a model from pages of one family.
//!
//! First, each column: the scale of its decimals, and the form of its text (a template, a
//! dictionary, or none). The form that is cheapest for the sample, including the model's own bytes,
//! is taken. Then the pages are split with these columns. Every stream gets the default parameters,
//! perhaps with a relation to another stream, with which the pages take the fewest bits.

mod defaults;
mod parallel;

use crate::bits::width_of;
use crate::context::PageContext;
use crate::decimal::scale_of;
use crate::model::{Column, Dictionary, Form, Model};
use crate::record::{CUT, Coded, Raw, Small, take_cell};
use crate::split::Split;
use crate::symbols::{Effort, Symbols};
use crate::template::{FIELDS_MAX, Template};
use crate::vector::Vector;
use defaults::learn_defaults;
use densite_sqlite_format::page::Page;
use parallel::in_parallel;
use std::collections::HashMap;

/// The part of a column's values that must be decimals of its scale.
const DECIMAL_PART: f64 = 0.9;
/// Most values in a dictionary.
const DICTIONARY_MAX: usize = 1 << 14;
/// Longest value in a dictionary.
const DICTIONARY_VALUE_MAX: usize = 1 << 10;
/// A column is one of repeated text if only one value in this many differs from the one before.
const REPEATED: usize = 4;
/// and if it has more values than this.
const REPEATED_VALUES: usize = 16;
/// A template must save one part in this many against a dictionary.
const TEMPLATE_GAIN: u64 = 50;
/// Estimated bits of free text, for each byte and for each value, if no symbols were trained.
const FREE_BITS: (u64, u64) = (3, 8);
/// The same for random hexadecimal digits, which no symbols can make smaller.
const HEX_BITS: (u64, u64) = (4, 8);
/// Symbols are not tried if a template takes less than this part of the estimated bits.
const MUCH_SMALLER: u64 = 2;

/// Values of one column over all sample pages.
#[derive(Default)]
struct Sample<'a> {
    texts: Vec<&'a [u8]>,
    blobs: Vec<&'a [u8]>,
    /// Local parts of texts and blobs that continue on overflow pages.
    cuts: Vec<&'a [u8]>,
    reals: Vec<f64>,
}

impl Sample<'_> {
    /// Bytes of text and blobs: they take most of the time.
    fn bytes(&self) -> usize {
        let all = self.texts.iter().chain(&self.blobs).chain(&self.cuts);
        all.map(|value| value.len()).sum()
    }
}

/// Which pages a sample represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// All pages; the sample was drawn evenly from them.
    Whole,
    /// The first of many pages; later pages have larger numbers.
    Beginning,
}

/// What a model is learned for.
#[derive(Debug, Clone, Copy)]
pub struct Purpose {
    /// Reserved bytes at the end of each page, which are not SQLite's.
    pub reserved: usize,
    /// The bytes of pages that the model will be used for.
    pub bytes: u64,
    /// Which pages the sample represents.
    pub outlook: Outlook,
    /// How many threads learn columns at the same time. The result does not depend on it.
    pub threads: usize,
}

impl Purpose {
    /// For `bytes` of pages that are all alike to the sample, learned on this thread.
    pub fn whole(bytes: u64) -> Purpose {
        Purpose {
            reserved: 0,
            bytes,
            outlook: Outlook::Whole,
            threads: 1,
        }
    }
}

impl Model {
    /// Learns a model from sample pages of one length. `None` if no page can be learned from. The
    /// same pages result in the same model.
    pub fn learn(pages: &[&[u8]], purpose: &Purpose) -> Option<Model> {
        learn(pages, purpose, Effort::Full)
    }

    /// A model that is good enough to tell kinds of pages apart, in a fraction of the time if they
    /// have text.
    pub fn learn_roughly(pages: &[&[u8]], purpose: &Purpose) -> Option<Model> {
        learn(pages, purpose, Effort::Rough)
    }
}

fn learn(pages: &[&[u8]], purpose: &Purpose, effort: Effort) -> Option<Model> {
    let context = PageContext {
        number: 3,
        pages: 0,
        reserved: purpose.reserved,
    };
    let sampled: usize = pages.iter().map(|p| p.len()).sum();
    // How many times the size of the sample the model will be used for.
    let times = (purpose.bytes / sampled.max(1) as u64).max(1);
    let samples = samples(pages, purpose.reserved)?;
    let learn = |sample: &Sample<'_>| learn_column(sample, times, effort);
    let mut model = Model {
        columns: in_parallel(&samples, purpose.threads, Sample::bytes, learn),
        defaults: Vec::new(),
    };
    let mut split = Split::default();
    let mut splits = Vec::new();
    for page in pages {
        if split.split(page, &context, &model) {
            splits.push(std::mem::take(&mut split));
        }
    }
    if splits.is_empty() {
        return None;
    }
    model.defaults = learn_defaults(&splits, &model.valued(), purpose.outlook);
    Some(model)
}

/// The values of each column. There are as many columns as most rows have.
fn samples<'a>(pages: &[&'a [u8]], reserved: usize) -> Option<Vec<Sample<'a>>> {
    let mut page = Page::new();
    let mut parsed = false;
    let mut values: Vec<Raw> = Vec::new();
    let mut types = Vec::new();
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    let mut columns: Vec<Sample<'a>> = Vec::new();
    for bytes in pages {
        if !page.parse(bytes, bytes.len().checked_sub(reserved)?, false) {
            continue;
        }
        parsed = true;
        if page.kind.is_table() && page.kind.has_child() {
            continue;
        }
        for cell in &page.cells {
            values.clear();
            types.clear();
            let coded = take_cell(bytes, cell, &mut Small::default(), &mut values, &mut types);
            if coded == Coded::Opaque {
                continue;
            }
            // The last value that is here is also the first one in `types`.
            let columns_here = values.len() + types.len().saturating_sub(1);
            *lengths.entry(columns_here).or_default() += 1;
            if columns.len() < columns_here {
                columns.resize_with(columns_here, Sample::default);
            }
            for (raw, column) in values.iter().zip(&mut columns) {
                let body = raw.body(bytes)?;
                match raw.serial_type {
                    7 => column.reals.push(f64::from_bits(raw.value as u64)),
                    t if t < 12 => {}
                    _ if raw.value == CUT => column.cuts.push(body),
                    t if t % 2 == 1 => column.texts.push(body),
                    _ => column.blobs.push(body),
                }
            }
        }
    }
    let usual = lengths.iter().max_by_key(|(len, count)| (**count, **len));
    columns.truncate(usual.map_or(0, |(len, _)| *len));
    parsed.then_some(columns)
}

fn learn_column(sample: &Sample<'_>, times: u64, effort: Effort) -> Column {
    let scale = if sample.reals.is_empty() {
        0
    } else {
        scale_of(&sample.reals, DECIMAL_PART).unwrap_or(0)
    };
    let mut column = Column {
        scale,
        ..Column::default()
    };
    // Only symbols can code these.
    let never_formed = || sample.blobs.iter().chain(&sample.cuts);
    let all: Vec<&[u8]> = sample.texts.iter().chain(never_formed()).copied().collect();
    if all.is_empty() {
        return column;
    }
    if let Some(vector) = vectors(sample) {
        column.form = Form::Vector(vector);
        return column;
    }
    if let Some(symbols) = repeated(sample, times, effort) {
        column.form = Form::Repeated;
        column.symbols = symbols;
        return column;
    }
    let counts = Counts::of(&sample.texts);
    let template = Template::learn(&sample.texts);
    // Few values that repeat often: symbols are not tried.
    let few = counts.values.len() <= 256 && counts.total >= 8 * counts.values.len() as u64;
    let text_bytes = |values: &[&[u8]]| values.iter().map(|v| v.len() as u64).sum::<u64>();
    let estimate = template.as_ref().and_then(|t| estimate(t, &sample.texts));
    let estimate = estimate.or(few.then_some(FREE_BITS));
    let symbols = if estimate.is_some() && never_formed().next().is_none() {
        None
    } else {
        Symbols::train_with(&all, text_bytes(&all) * times, effort)
    };
    let free = FreeCost::new(symbols.as_ref(), estimate);
    let mut best = (counts.cost_of_free(&free) * times, Form::Free);
    if let Some((cost, dictionary)) = counts.dictionary(&free, times)
        && cost < best.0
    {
        best = (cost, Form::Dictionary(dictionary));
    }
    if let Some(template) = template {
        let cost = template_cost(&template, &sample.texts, &free) * times;
        // A dictionary is faster to decode, so it stays unless the template is clearly smaller.
        let limit = match best.1 {
            Form::Dictionary(_) => best.0 - best.0 / TEMPLATE_GAIN,
            _ => best.0,
        };
        if cost < limit {
            best = (cost, Form::Template(template));
        }
    }
    column.form = best.1;
    column.symbols = match &column.form {
        Form::Free => symbols,
        form => {
            // Symbols are trained only on text that the form does not code.
            let mut fields = [0; FIELDS_MAX];
            let formed = |v: &[u8], fields: &mut [i64; FIELDS_MAX]| match form {
                Form::Free | Form::Repeated | Form::Vector(_) => false,
                Form::Template(t) => t.parse(v, fields),
                Form::Dictionary(d) => d.number_of(v).is_some(),
            };
            let texts = sample.texts.iter().filter(|v| !formed(v, &mut fields));
            let rest: Vec<&[u8]> = texts.chain(never_formed()).copied().collect();
            if rest.is_empty() {
                None
            } else {
                Symbols::train_with(&rest, text_bytes(&rest) * times, effort)
            }
        }
    };
    column
}

/// The vectors that a column has which has no text. `None` if symbols would be smaller, as for blobs
/// in which strings are repeated.
fn vectors(sample: &Sample<'_>) -> Option<Vector> {
    if !sample.texts.is_empty() {
        return None;
    }
    let blobs: Vec<&[u8]> = sample.blobs.iter().chain(&sample.cuts).copied().collect();
    let (vector, bits) = Vector::learn(&blobs)?;
    let bytes = blobs.iter().map(|v| v.len() as u64).sum();
    let symbols = Symbols::train_with(&blobs, bytes, Effort::Rough);
    let free = FreeCost::new(symbols.as_ref(), None);
    let mut codes = Vec::new();
    let by_symbols: u64 = blobs.iter().map(|v| free.of(v, &mut codes)).sum();
    (bits < by_symbols).then_some(vector)
}

/// The symbols of a column in which most texts are those of the row before, as in an index. `None`
/// if it is no such column, or if a template is smaller, whose fields are then runs.
fn repeated(sample: &Sample<'_>, times: u64, effort: Effort) -> Option<Option<Symbols>> {
    let texts = &sample.texts;
    let before = std::iter::once(None).chain(texts.iter().map(Some));
    let new = texts
        .iter()
        .zip(before)
        .filter(|(v, before)| Some(*v) != *before);
    let new: Vec<&[u8]> = new.map(|(v, _)| *v).collect();
    if new.len() * REPEATED > texts.len() {
        return None;
    }
    // A dictionary is for values that come again and again.
    let values = Counts::of(&new).values.len();
    if values <= REPEATED_VALUES || new.len() > 2 * values {
        return None;
    }
    let template = Template::learn(&new);
    if template
        .as_ref()
        .is_some_and(|t| estimate(t, &new).is_some())
    {
        return None;
    }
    let others = sample.blobs.iter().chain(&sample.cuts);
    let all: Vec<&[u8]> = new.iter().chain(others).copied().collect();
    let bytes = all.iter().map(|v| v.len() as u64).sum::<u64>();
    let symbols = Symbols::train_with(&all, bytes * times, effort);
    let free = FreeCost::new(symbols.as_ref(), None);
    let mut codes = Vec::new();
    let cost = |v: &&[u8], codes: &mut Vec<u16>| free.of(v, codes);
    let whole: u64 = new.iter().map(|v| cost(v, &mut codes)).sum();
    if let Some(template) = template
        && template_cost(&template, &new, &free) < whole
    {
        return None;
    }
    Some(symbols)
}

/// The estimated bits of free text, if the template is so much smaller that symbols need not be
/// trained to know it. Training takes most of the time of learning a column.
fn estimate(template: &Template, texts: &[&[u8]]) -> Option<(u64, u64)> {
    if template.is_hexadecimal() {
        return Some(HEX_BITS);
    }
    let free = FreeCost::new(None, Some(FREE_BITS));
    let whole: u64 = texts.iter().map(|v| free.of(v, &mut Vec::new())).sum();
    let formed = template_cost(template, texts, &free);
    (formed * MUCH_SMALLER < whole).then_some(FREE_BITS)
}

/// The cost of free text.
struct FreeCost<'a> {
    symbols: Option<&'a Symbols>,
    /// Bits for each byte and each value without symbols.
    bits: (u64, u64),
}

impl<'a> FreeCost<'a> {
    fn new(symbols: Option<&'a Symbols>, estimate: Option<(u64, u64)>) -> FreeCost<'a> {
        let bits = estimate.unwrap_or((8, FREE_BITS.1));
        FreeCost { symbols, bits }
    }

    /// Bits of one value.
    fn of(&self, value: &[u8], codes: &mut Vec<u16>) -> u64 {
        match self.symbols {
            Some(symbols) => {
                codes.clear();
                symbols.encode(value, codes);
                codes.len() as u64 * u64::from(symbols.width()) + 4
            }
            None => value.len() as u64 * self.bits.0 + self.bits.1,
        }
    }
}

/// How often each value occurs.
struct Counts<'a> {
    /// The most frequent first.
    values: Vec<(&'a [u8], u64)>,
    total: u64,
}

impl<'a> Counts<'a> {
    fn of(texts: &[&'a [u8]]) -> Counts<'a> {
        let mut map: HashMap<&[u8], u64> = HashMap::new();
        for text in texts {
            *map.entry(text).or_default() += 1;
        }
        let mut values: Vec<_> = map.into_iter().collect();
        values.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        Counts {
            values,
            total: texts.len() as u64,
        }
    }

    fn cost_of_free(&self, free: &FreeCost<'_>) -> u64 {
        let mut codes = Vec::new();
        let each = self.values.iter();
        each.map(|(v, n)| free.of(v, &mut codes) * n).sum()
    }

    /// The dictionary with which all values cost least, and that cost in bits, including the
    /// dictionary, for `times` the sample.
    fn dictionary(&self, free: &FreeCost<'_>, times: u64) -> Option<(u64, Dictionary)> {
        let mut codes = Vec::new();
        // The cost as free text of each value and all later ones.
        let mut rest: Vec<u64> = vec![0];
        for (v, n) in self.values.iter().rev() {
            let more = free.of(v, &mut codes) * n + rest.last().copied().unwrap_or(0);
            rest.push(more);
        }
        rest.reverse();
        let repeated = self.values.iter().take_while(|(_, n)| *n > 1).count();
        let mut most = repeated.min(DICTIONARY_MAX);
        let long = |(v, _): &(&[u8], u64)| v.len() > DICTIONARY_VALUE_MAX;
        most = self.values.iter().take(most).position(long).unwrap_or(most);
        let mut best: Option<(u64, usize)> = None;
        let (mut stored, mut covered) = (32, 0);
        for (k, (v, n)) in self.values.iter().enumerate().take(most) {
            stored += (v.len() as u64 + 2) * 8;
            covered += n;
            let count = k + 1;
            if count != most && !count.is_power_of_two() {
                continue;
            }
            let width = u64::from(width_of(k as u64));
            let outside = rest.get(count).copied().unwrap_or(0);
            let flags = if outside > 0 { self.total } else { 0 };
            let cost = stored + times * (covered * width + outside + flags);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, count));
            }
        }
        let (cost, count) = best?;
        // Sorted, because values that are adjacent in the index then have adjacent numbers.
        let mut values: Vec<&[u8]> = self.values.iter().take(count).map(|v| v.0).collect();
        values.sort_unstable();
        Some((cost, Dictionary::new(values.into_iter())))
    }
}

/// Bits of all values if the template's fields are packed by their range.
fn template_cost(template: &Template, texts: &[&[u8]], free: &FreeCost<'_>) -> u64 {
    let mut ranges = [(i64::MAX, i64::MIN); FIELDS_MAX];
    let mut fields = [0; FIELDS_MAX];
    let mut codes = Vec::new();
    let (mut formed, mut cost) = (0, 0);
    for text in texts {
        if template.parse(text, &mut fields) {
            formed += 1;
            for (range, v) in ranges.iter_mut().zip(&fields).take(template.fields()) {
                *range = (range.0.min(*v), range.1.max(*v));
            }
        } else {
            cost += free.of(text, &mut codes) + 1;
        }
    }
    let used = ranges.iter().take(template.fields());
    let width: u32 = used
        .filter(|(low, high)| low <= high)
        .map(|(low, high)| width_of(high.wrapping_sub(*low) as u64))
        .sum();
    cost + formed * u64::from(width)
}
