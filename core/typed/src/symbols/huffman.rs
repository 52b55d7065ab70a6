//! Prefix codes for small numbers. The code is stored before the numbers that it codes.
//!
//! Codes are canonical Huffman codes; the first bit of a code is the lowest. docs/FORMAT.md (Symbol
//! table) has the stored form. It is valid if and only if the lengths fill the code space, or at
//! most one number occurs. A number that occurs alone takes no bits.

use crate::bits::{BitWriter, PADDING};

/// The longest code, in bits.
pub(crate) const LONGEST: u32 = 11;
/// All numbers are below this.
pub(crate) const NUMBERS: usize = 258;
/// Bits of the count of lengths.
const COUNT_BITS: u32 = 9;

/// Lengths of codes, by number, of which no code is longer than `longest` bits.
fn lengths(counts: &[u32; NUMBERS], longest: u32) -> [u8; NUMBERS] {
    let mut lengths = [0; NUMBERS];
    let mut counts = *counts;
    loop {
        // Trees that are not joined yet: their count and the numbers in them.
        let mut trees: Vec<(u64, Vec<u16>)> = (0..NUMBERS as u16)
            .filter(|n| counts[usize::from(*n)] > 0)
            .map(|n| (u64::from(counts[usize::from(n)]), vec![n]))
            .collect();
        lengths.fill(0);
        if let [(_, only)] = &trees[..] {
            lengths[usize::from(only[0])] = 1;
        }
        // The two smallest trees are last.
        trees.sort_by_key(|t| std::cmp::Reverse(t.0));
        while let (Some(a), Some(b)) = (trees.pop(), trees.pop()) {
            let count = a.0 + b.0;
            let numbers = [a.1, b.1].concat();
            for number in &numbers {
                lengths[usize::from(*number)] += 1;
            }
            if trees.is_empty() {
                break;
            }
            let at = trees.partition_point(|t| t.0 > count);
            trees.insert(at, (count, numbers));
        }
        if lengths.iter().all(|l| u32::from(*l) <= longest) {
            return lengths;
        }
        for count in &mut counts {
            *count = count.div_ceil(2);
        }
    }
}

/// Assigns codes: calls `each` with every number that occurs, its code (the first bit is the
/// lowest) and its length.
fn assign(lengths: &[u8], mut each: impl FnMut(usize, u32, u32)) {
    let mut code = 0u32;
    for len in 1..=LONGEST {
        for (number, _) in lengths
            .iter()
            .enumerate()
            .filter(|l| u32::from(*l.1) == len)
        {
            each(number, code.reverse_bits() >> (32 - len), len);
            code += 1;
        }
        code <<= 1;
    }
}

/// A code for writing.
pub(crate) struct Code {
    /// By number: its code and length.
    codes: [(u32, u32); NUMBERS],
}

impl Code {
    /// Makes the best code of at most `longest` bits (up to [`LONGEST`]) for numbers that occur
    /// `counts` times, and stores it.
    pub(crate) fn put(counts: &[u32; NUMBERS], longest: u32, out: &mut BitWriter) -> Code {
        let lengths = lengths(counts, longest);
        let used = lengths.iter().rposition(|l| *l > 0).map_or(0, |n| n + 1);
        out.put(used as u64, COUNT_BITS);
        let mut rest = &lengths[..used];
        while let Some(&len) = rest.first() {
            let zeros = rest.iter().take_while(|l| **l == 0).count().min(16);
            let (nibble, numbers) = match zeros {
                0 | 1 => (u64::from(len), 1),
                _ => (11 + u64::from(zeros.ilog2()), 1 << zeros.ilog2()),
            };
            out.put(nibble, 4);
            rest = &rest[numbers..];
        }
        let mut codes = [(0, 0); NUMBERS];
        if lengths.iter().filter(|l| **l > 0).count() > 1 {
            assign(&lengths, |number, code, len| codes[number] = (code, len));
        }
        Code { codes }
    }

    /// Writes a number that has a count.
    pub(crate) fn write(&self, number: usize, out: &mut BitWriter) {
        let (code, len) = self.codes[number];
        out.put(u64::from(code), len);
    }
}

/// Bits from which codes are read.
#[derive(Clone, Copy)]
pub(crate) struct Bits<'a> {
    /// Has [`PADDING`] bytes behind the end.
    padded: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    /// Reads from `padded`, whose last [`PADDING`] bytes do not belong to the stream.
    pub(crate) fn new(padded: &'a [u8]) -> Bits<'a> {
        Bits { padded, at: 0 }
    }

    /// The next bits, at least 57; `None` a few bytes behind the end.
    #[inline]
    pub(crate) fn load(&self) -> Option<u64> {
        let chunk = self.padded.get(self.at >> 3..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*chunk) >> (self.at & 7))
    }

    /// Goes on behind the next `width` bits, which [`Bits::load`] has read.
    #[inline]
    pub(crate) fn skip(&mut self, width: u32) {
        self.at += width as usize;
    }

    /// The next `width` bits, at most 32.
    #[inline]
    pub(crate) fn take(&mut self, width: u32) -> Option<usize> {
        let bits = self.load()? & ((1 << width) - 1);
        self.at += width as usize;
        Some(bits as usize)
    }

    /// Whether all bits are read, except spare bits of the last byte.
    pub(crate) fn at_end(&self) -> bool {
        self.at.div_ceil(8) + PADDING == self.padded.len()
    }
}

/// A code for reading.
pub(crate) struct Numbers {
    /// By the next bits: a number `<< 4 |` the length of its code; [`NONE`] if these bits begin no
    /// code.
    table: Vec<u16>,
    mask: u64,
}

const NONE: u16 = u16::MAX;

impl Numbers {
    /// Reads a code that [`Code::put`] stored.
    pub(crate) fn take(bits: &mut Bits<'_>) -> Option<Numbers> {
        let used = bits.take(COUNT_BITS)?;
        let mut lengths = [0u8; NUMBERS];
        let lengths = lengths.get_mut(..used)?;
        let mut at = 0;
        while at < used {
            match bits.take(4)? {
                len @ ..=11 => {
                    *lengths.get_mut(at)? = len as u8;
                    at += 1;
                }
                zeros => at += 2 << (zeros - 12),
            }
        }
        let mut standing = lengths.iter().enumerate().filter(|l| *l.1 > 0);
        let first = standing.next();
        if standing.next().is_none() {
            return Some(Numbers {
                table: vec![first.map_or(NONE, |(number, _)| (number as u16) << 4)],
                mask: 0,
            });
        }
        let longest = lengths.iter().copied().max().map_or(0, u32::from);
        let used = lengths.iter().filter(|l| **l > 0);
        let space: u32 = used.map(|l| 1 << longest >> *l).sum();
        if space != 1 << longest {
            return None;
        }
        let mut table = vec![NONE; 1 << longest];
        assign(lengths, |number, code, len| {
            let entry = (number as u16) << 4 | len as u16;
            let same = table.iter_mut().skip(code as usize);
            same.step_by(1 << len).for_each(|place| *place = entry);
        });
        Some(Numbers {
            table,
            mask: (1 << longest) - 1,
        })
    }

    /// The next number, below [`NUMBERS`].
    #[inline]
    pub(crate) fn next(&self, bits: &mut Bits<'_>) -> Option<usize> {
        let (number, len) = self.find(bits.load()?)?;
        bits.skip(len);
        Some(number)
    }

    /// The number whose code `word` begins with, and the length of its code.
    #[inline]
    pub(crate) fn find(&self, word: u64) -> Option<(usize, u32)> {
        let entry = *self.table.get((word & self.mask) as usize)?;
        (entry != NONE).then_some((usize::from(entry >> 4), u32::from(entry & 15)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(numbers in prop::collection::vec(prop_oneof![0usize..3, 0..NUMBERS, Just(70)], 0..400), power in 0u32..30, longest in 9..=LONGEST) {
            let mut counts = [0; NUMBERS];
            for number in &numbers {
                counts[*number] += 1;
            }
            // Counts with which codes would be very long.
            for (n, count) in counts.iter_mut().enumerate().take(power as usize) {
                *count += 1 << n;
            }
            let mut out = BitWriter::default();
            let code = Code::put(&counts, longest, &mut out);
            for number in &numbers {
                code.write(*number, &mut out);
            }
            let mut bytes = Vec::new();
            out.finish(&mut bytes);
            bytes.extend([0xff; PADDING]);
            let mut bits = Bits::new(&bytes);
            let code = Numbers::take(&mut bits).expect("reads the stored code");
            for number in &numbers {
                prop_assert_eq!(code.next(&mut bits), Some(*number));
            }
            prop_assert!(bits.at_end());
        }

        #[test]
        fn any_bits_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            bytes.extend([0xff; PADDING]);
            let mut bits = Bits::new(&bytes);
            if let Some(code) = Numbers::take(&mut bits) {
                while let Some(number) = code.next(&mut bits) {
                    prop_assert!(number < NUMBERS);
                    if code.mask == 0 {
                        break;
                    }
                }
            }
        }
    }
}
