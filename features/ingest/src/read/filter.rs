//! A Bloom filter that tells whether a run can have a key. All bits of a key are in one cache line.
//!
//! Twelve bits for each row, and seven of them are set for each key. About one of a hundred absent
//! keys is reported as present (a test counts).

use super::packed::APART_FROM;
use crate::schema::key_code::Code;
use densite_disk::memory::apart;

/// Words of a line.
const WORDS: usize = 8;
const BITS_EACH: usize = 12;
const PROBES: u32 = 7;

/// Aligned to a cache line, so that it does not span two.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; WORDS]);

/// See the module.
#[derive(Default)]
pub(crate) struct Filter(Vec<Line>);

/// A hash in which both words affect all bits.
fn mixed(code: Code) -> u64 {
    let mut x = code.hi ^ code.lo.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for factor in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        x = (x ^ (x >> 30)).wrapping_mul(factor);
    }
    x ^ (x >> 31)
}

impl Filter {
    /// A filter for this many rows.
    pub(crate) fn new(rows: usize) -> Filter {
        let count = (rows * BITS_EACH).div_ceil(WORDS * 64);
        let mut lines = match rows >= APART_FROM {
            true => apart(count),
            false => Vec::with_capacity(count),
        };
        lines.resize(count, Line::default());
        Filter(lines)
    }

    fn line(&self, probe: Probe) -> usize {
        ((u128::from(probe.x) * self.0.len() as u128) >> 64) as usize
    }

    pub(crate) fn add(&mut self, code: Code) {
        let probe = Probe::of(code);
        let line = self.line(probe);
        let Some(line) = self.0.get_mut(line) else {
            return;
        };
        for (word, bit) in probe.bits() {
            if let Some(word) = line.0.get_mut(word) {
                *word |= 1 << bit;
            }
        }
    }

    /// False: no row has this key's code. All bits are read even if the first ones are unset: then
    /// the memory accesses of several filters overlap.
    pub(crate) fn may_have(&self, probe: Probe) -> bool {
        let Some(line) = self.0.get(self.line(probe)) else {
            return true;
        };
        let set = probe.bits().fold(1, |set, (word, bit)| {
            set & line.0.get(word).copied().unwrap_or(0) >> bit
        });
        set == 1
    }
}

/// The bits of a key.
#[derive(Clone, Copy)]
pub(crate) struct Probe {
    x: u64,
}

impl Probe {
    pub(crate) fn of(code: Code) -> Probe {
        Probe { x: mixed(code) }
    }

    /// The words of a line, and the bits in them.
    fn bits(self) -> impl Iterator<Item = (usize, u64)> {
        let bits = self.x.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (0..PROBES).map(move |i| {
            let bits = bits >> (9 * i);
            ((bits >> 6) as usize % WORDS, bits & 63)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_all_added_keys_and_few_others() {
        for rows in [1u64, 100, 200_000] {
            let code = |i: u64| Code {
                hi: 1 << 62 | i << 1,
                lo: i % 3,
            };
            let mut filter = Filter::new(rows as usize);
            (0..rows).for_each(|i| filter.add(code(i)));
            assert!((0..rows).all(|i| filter.may_have(Probe::of(code(i)))));
            let wrong = (0..100_000)
                .filter(|i| filter.may_have(Probe::of(code(rows + i))))
                .count();
            assert!(wrong < 3_000, "{rows}: {wrong}");
        }
        assert!(Filter::default().may_have(Probe::of(Code::default())));
    }
}
