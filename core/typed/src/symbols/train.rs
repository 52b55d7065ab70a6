//! Trains a table on samples, in cycles as FSST does.
//!
//! The samples are parsed with the current symbols. The symbols that save most are kept, as many as
//! there are codes, and as many of the most frequent pairs become new symbols. The next parse shows
//! which of both save most. A symbol saves its uses times the codes that its text takes without it,
//! less one; this must exceed its stored bits. The number of symbols doubles from width to width
//! while the total falls. The best width is trained on more samples. Widths are judged by samples
//! that were not used for training, unless the samples are the whole text.
//!
//! With a parse of its own between dropping and adding, tables are as good, and training takes a
//! quarter longer.

use super::matcher::{Matcher, WINDOW, longest, parse};
use super::{Effort, SYMBOL_MAX, Symbol, Symbols, WIDTHS, escape_codes, stored};

/// Bytes of samples that are used, approximately; and for a rough table, whose widths are limited
/// too.
const SAMPLE: usize = 512 << 10;
const ROUGH_SAMPLE: usize = 48 << 10;
const ROUGH_WIDTH: u32 = 10;

/// Bytes of one sample that are used.
const LONGEST: usize = 16 << 10;
/// Long samples are divided into pieces of this length, so that a few of them do not stand for all.
/// With 512 bytes, long text takes 1 % more bytes, and whole, 5 to 30 % more.
const PIECE: usize = 256;
/// Bytes of samples for each symbol.
const PART: usize = 128;

/// Pairs of codes, and how often each occurs.
struct Pairs {
    /// `(first << 16 | second, count)`; a slot with count 0 is free.
    slots: Vec<(u32, u32)>,
    used: usize,
}

impl Pairs {
    fn new() -> Pairs {
        Pairs {
            slots: vec![(0, 0); 1 << 14],
            used: 0,
        }
    }

    #[inline]
    fn add(&mut self, first: u16, second: u16) {
        let key = u32::from(first) << 16 | u32::from(second);
        let at = self.place(key);
        let slot = &mut self.slots[at];
        if slot.1 == 0 {
            *slot = (key, 0);
            self.used += 1;
        }
        slot.1 += 1;
        if self.used * 2 > self.slots.len() {
            self.grow();
        }
    }

    #[inline]
    fn place(&self, key: u32) -> usize {
        let last = self.slots.len() - 1;
        let mut at = (u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & last;
        while self.slots[at].1 != 0 && self.slots[at].0 != key {
            at = (at + 1) & last;
        }
        at
    }

    fn grow(&mut self) {
        let doubled = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); doubled]);
        for slot in old.into_iter().filter(|s| s.1 != 0) {
            let at = self.place(slot.0);
            self.slots[at] = slot;
        }
    }
}

/// What a parse of the samples counts.
struct Counts {
    codes: u64,
    /// By code; 0 is not counted.
    singles: Vec<u32>,
    pairs: Pairs,
    escapes: [u32; 256],
}

/// The number of codes of a symbol's text without this symbol.
fn codes_without(matcher: &Matcher, symbol: &Symbol, code: u16, escape: usize) -> u32 {
    let len = symbol.len();
    let mut window = [0; 2 * WINDOW];
    if let Some(head) = window.first_chunk_mut::<WINDOW>() {
        *head = symbol.0;
        head[SYMBOL_MAX] = 0;
    }
    let find = |at: usize| {
        window[at..]
            .first_chunk()
            .map_or(0, |w| matcher.find(w, len - at).lens)
    };
    // Usually two other symbols are enough.
    let begin = matcher.lens(code) & !(1 << len);
    let mut lens = begin;
    while lens != 0 {
        let n = longest(lens);
        lens ^= 1 << n;
        if find(n) >> (len - n) & 1 == 1 {
            return 2;
        }
    }
    let mut codes = [0u32; SYMBOL_MAX + 1];
    for at in (0..len).rev() {
        codes[at] = codes[at + 1] + escape as u32;
        let mut lens = if at == 0 { begin } else { find(at) };
        while lens != 0 {
            let n = longest(lens);
            lens ^= 1 << n;
            codes[at] = codes[at].min(codes[at + n] + 1);
        }
    }
    codes[0]
}

/// The approximate bits of a symbol in the stored table, if all but its last `fresh` bytes begin
/// another symbol.
fn stored_bits(fresh: usize) -> f64 {
    6.0 + 2.6 * fresh as f64
}

/// The samples, and what the table is for.
struct Task<'a> {
    samples: Vec<&'a [u8]>,
    /// Bits that the table saves if the samples take one code less.
    bits: f64,
    width: u32,
    /// A symbol with fewer uses is dropped.
    least: u32,
}

impl Task<'_> {
    /// The number of codes for symbols.
    fn most(&self) -> usize {
        (1 << self.width) - 1
    }
}

/// A set of symbols in training.
#[derive(Clone)]
struct Learner {
    /// Sorted.
    symbols: Vec<Symbol>,
}

impl Learner {
    fn new() -> Learner {
        let symbols = (0..=u8::MAX).filter_map(|byte| Symbol::new(&[byte]));
        Learner {
            symbols: symbols.collect(),
        }
    }

    /// Parses the samples. Pairs are counted only if `pairs` is true.
    fn count(&self, task: &Task<'_>, matcher: &Matcher, pairs: bool) -> Counts {
        let mut counts = Counts {
            codes: 0,
            singles: vec![0; self.symbols.len() + 1],
            pairs: Pairs::new(),
            escapes: [0; 256],
        };
        for sample in &task.samples {
            let mut before = 0;
            let mut before_len = SYMBOL_MAX;
            parse(matcher, sample, |code, byte| {
                if code == 0 {
                    counts.codes += escape_codes(task.width) as u64;
                    counts.escapes[usize::from(byte)] += 1;
                    before_len = SYMBOL_MAX;
                    return;
                }
                counts.codes += 1;
                counts.singles[usize::from(code)] += 1;
                if pairs {
                    let len = self.symbols[usize::from(code) - 1].len();
                    if before_len + len <= SYMBOL_MAX {
                        counts.pairs.add(before, code);
                    }
                    before = code;
                    before_len = len;
                }
            });
        }
        counts
    }

    /// The codes of all samples.
    fn codes(&self, task: &Task<'_>) -> u64 {
        self.count(task, &Matcher::new(&self.symbols), false).codes
    }

    /// Parses once. Keeps the symbols that save most, and adds the most frequent pairs of all
    /// symbols.
    fn renew(&mut self, task: &Task<'_>) {
        let matcher = Matcher::new(&self.symbols);
        let counts = self.count(task, &matcher, true);
        let mut kept = self.best_by(task, &matcher, &counts);
        kept.extend(self.pairs_by(task, &matcher, counts));
        kept.sort_unstable();
        kept.dedup();
        self.symbols = kept;
    }

    /// The most frequent pairs, and bytes without symbols.
    fn pairs_by(&self, task: &Task<'_>, matcher: &Matcher, counts: Counts) -> Vec<Symbol> {
        let room = task.most();
        let mut fresh: Vec<(f64, Symbol)> = Vec::new();
        for (byte, &uses) in counts.escapes.iter().enumerate() {
            let worth = f64::from(uses) * (escape_codes(task.width) - 1) as f64;
            if worth * task.bits > stored_bits(1) && uses >= task.least {
                fresh.extend(Symbol::new(&[byte as u8]).map(|s| (worth, s)));
            }
        }
        let mut pairs: Vec<(u32, u32)> = counts.pairs.slots;
        pairs.retain(|p| p.1 >= task.least.max(2));
        let order = |a: &(u32, u32), b: &(u32, u32)| b.1.cmp(&a.1).then(a.0.cmp(&b.0));
        let enough = room * 3 / 2;
        if pairs.len() > enough && enough > 0 {
            pairs.select_nth_unstable_by(enough - 1, order);
        }
        pairs.truncate(enough);
        for (key, uses) in pairs {
            let part = |code: u32| self.symbols[code as usize - 1];
            let (first, second) = (part(key >> 16), part(key & 0xffff));
            if f64::from(uses) * task.bits <= stored_bits(second.len()) {
                continue;
            }
            let Some(joined) = first.join(&second) else {
                continue;
            };
            let mut window = joined.0;
            window[SYMBOL_MAX] = 0;
            if matcher.find(&window, joined.len()).longest() < joined.len() {
                fresh.push((f64::from(uses), joined));
            }
        }
        // Different pairs can result in the same text.
        fresh.sort_unstable_by_key(|f| f.1);
        fresh.dedup_by(|b, a| {
            let same = a.1 == b.1;
            if same {
                a.0 += b.0;
            }
            same
        });
        best(&mut fresh, room);
        fresh.into_iter().map(|f| f.1).collect()
    }

    /// Keeps the symbols that save most.
    fn prune(&mut self, task: &Task<'_>) {
        let matcher = Matcher::new(&self.symbols);
        let counts = self.count(task, &matcher, false);
        self.symbols = self.best_by(task, &matcher, &counts);
        self.symbols.sort_unstable();
    }

    /// The symbols that save most.
    fn best_by(&self, task: &Task<'_>, matcher: &Matcher, counts: &Counts) -> Vec<Symbol> {
        let mut kept: Vec<(f64, Symbol)> = Vec::new();
        for (number, symbol) in self.symbols.iter().enumerate() {
            let uses = counts.singles[number + 1];
            if uses < task.least {
                continue;
            }
            let code = number as u16 + 1;
            let prefix = longest(matcher.lens(code) & !(1 << symbol.len()));
            let without = codes_without(matcher, symbol, code, escape_codes(task.width));
            let saved = f64::from(uses) * f64::from(without - 1) * task.bits;
            let gain = saved - stored_bits(symbol.len() - prefix);
            if gain > 0.0 {
                kept.push((gain, *symbol));
            }
        }
        best(&mut kept, task.most());
        kept.into_iter().map(|k| k.1).collect()
    }

    /// Bits of all codes that the table will be used for, and of the table.
    fn cost(&self, task: &Task<'_>, codes: u64) -> f64 {
        codes as f64 * task.bits + 8.0 * stored::len(&self.symbols) as f64
    }

    /// Renews the set `cycles` times.
    fn improve(&mut self, task: &Task<'_>, cycles: usize) {
        for _ in 0..cycles {
            self.renew(task);
        }
        self.prune(task);
    }
}

/// Keeps the `most` greatest. The result does not depend on their order before.
fn best(ranked: &mut Vec<(f64, Symbol)>, most: usize) {
    let order = |a: &(f64, Symbol), b: &(f64, Symbol)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if ranked.len() > most {
        if most > 0 {
            ranked.select_nth_unstable_by(most - 1, order);
        }
        ranked.truncate(most);
    }
    ranked.sort_unstable_by(order);
}

fn bytes(samples: &[&[u8]]) -> usize {
    samples.iter().map(|s| s.len()).sum()
}

/// Values drawn evenly from `samples`, about `budget` bytes.
fn evenly<'a>(samples: &[&'a [u8]], budget: usize) -> Vec<&'a [u8]> {
    let total = bytes(samples);
    if total <= budget {
        return samples.to_vec();
    }
    let mut owed = 0;
    let mut drawn = Vec::new();
    let mut got = 0;
    for sample in samples {
        owed += sample.len() as u64 * budget as u64;
        if owed >= total as u64 * got {
            drawn.push(*sample);
            got += sample.len() as u64;
        }
    }
    drawn
}

/// Trains a table for `usable` bytes of text like `samples`. `None` if no table pays.
pub(super) fn train(samples: &[&[u8]], usable: u64, effort: Effort) -> Option<Symbols> {
    let is_rough = effort == Effort::Rough;
    let begins: Vec<&[u8]> = samples
        .iter()
        .flat_map(|s| s[..s.len().min(LONGEST)].chunks(PIECE))
        .collect();
    let drawn = evenly(&begins, if is_rough { ROUGH_SAMPLE } else { SAMPLE });
    // The samples are read many times, so they are put together in memory.
    let together = drawn.concat();
    let mut rest = &together[..];
    let samples = drawn.iter().map(|sample| {
        let (text, behind) = rest.split_at(sample.len());
        rest = behind;
        text
    });
    let samples: Vec<&[u8]> = samples.collect();
    let total = together.len();
    if total == 0 {
        return None;
    }
    // If the samples are the whole text, a string that occurs once never occurs again, and no
    // samples are kept for judging.
    let partial = usable as f64 > total as f64 * 1.2;
    let (mut judge, mut learn) = (Vec::new(), Vec::new());
    for (n, sample) in samples.iter().enumerate() {
        if partial && n % 8 == 5 {
            judge.push(*sample);
        } else {
            learn.push(*sample);
        }
    }
    if judge.is_empty() {
        judge.clone_from(&learn);
    }
    let task = |samples: Vec<_>, width| Task {
        bits: f64::from(width) * usable as f64 / bytes(&samples).max(1) as f64,
        samples,
        width,
        least: if partial { 2 } else { 1 },
    };
    let mut learner = Learner::new();
    let mut best: Option<(f64, u32, Learner)> = None;
    let mut disappointments = 0;
    for width in WIDTHS {
        if is_rough && width > ROUGH_WIDTH {
            break;
        }
        let cycles = match width {
            _ if is_rough => 1,
            ..12 => 2,
            _ => 1,
        };
        learner.improve(&task(evenly(&learn, PART << width.max(8)), width), cycles);
        let task = task(evenly(&judge, (PART / 2) << width.max(8)), width);
        let cost = learner.cost(&task, learner.codes(&task));
        let lowest = best.as_ref().map_or(f64::INFINITY, |b| b.0);
        // With more than 11 bits, a table exceeds the faster caches, and the first read of a page
        // with it takes a tenth of a millisecond longer.
        if cost < lowest * if width > 11 { 0.96 } else { 1.0 } {
            best = Some((cost, width, learner.clone()));
        }
        if width >= 8 && cost > lowest * 0.96 {
            disappointments += 1;
            if disappointments == 2 || width >= 12 || cost > lowest * 1.2 {
                break;
            }
        }
    }
    let (cost, width, mut learner) = best?;
    if cost >= 8.0 * usable as f64 {
        return None;
    }
    if !is_rough {
        let samples = evenly(&samples, (4 * PART) << width.max(8));
        learner.improve(&task(samples, width), 2);
    }
    Some(Symbols::new(width, learner.symbols))
}
