//! Vectors: blobs that are arrays of floating-point numbers, as embeddings are.
//!
//! The numbers of a page have similar exponents, and many are zero. So each number that is not zero
//! becomes an integer, its *word*: its bits, rotated left by one, so that the exponent is on top and
//! the sign at the bottom. A frame of reference of words leaves out what the exponents have in
//! common. Any blob can be taken apart: what it holds is not looked at.
//!
//! Exponents have a fixed width here. A prefix code for them saves up to two bits of a number in
//! vectors without zeros, and would take twice the time of decoding.

use crate::bits::width_of;

/// The streams of a vector.
pub(crate) const STREAMS: usize = 4;

/// The size of the numbers in the vectors of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vector {
    /// Four bytes each, little-endian.
    Single,
    /// Eight bytes each, little-endian.
    Double,
}

/// The integers of the values of a column: of each, its length in bytes; of each number, 1 if it is
/// not zero; the words of these; and the bytes behind the last whole number.
pub(crate) type Parts = [Vec<i64>; STREAMS];

impl Vector {
    /// Bytes of a number.
    pub(crate) fn size(self) -> usize {
        match self {
            Vector::Single => 4,
            Vector::Double => 8,
        }
    }

    /// The vector whose numbers have this many bytes.
    pub(crate) fn of_size(size: u8) -> Option<Vector> {
        match size {
            4 => Some(Vector::Single),
            8 => Some(Vector::Double),
            _ => None,
        }
    }

    /// Appends the integers of one blob.
    pub(crate) fn part(self, blob: &[u8], parts: &mut [Vec<i64>]) -> Option<()> {
        let [lengths, flags, words, tails] = parts.first_chunk_mut::<STREAMS>()?;
        lengths.push(blob.len() as i64);
        let rest = match self {
            Vector::Single => part_by(blob, word_of_single, flags, words),
            Vector::Double => part_by(blob, word_of_double, flags, words),
        };
        tails.extend(rest.iter().map(|byte| i64::from(*byte)));
        Some(())
    }

    /// Writes numbers to `out`, whose length is a multiple of [`Vector::size`]: for each flag that is
    /// not 0 the next word, and else a zero. `words` has one value more than there are such flags.
    /// Returns how many words it took.
    #[inline]
    pub(crate) fn join(self, flags: &[i64], words: &[i64], out: &mut [u8]) -> Option<usize> {
        match self {
            Vector::Single => join_by(flags, words, out, |word| {
                (word as u32).rotate_right(1).to_le_bytes()
            }),
            Vector::Double => join_by(flags, words, out, |word| word.rotate_right(1).to_le_bytes()),
        }
    }

    /// The vectors that these values of a column are, and the bits that they take so. `None` if that
    /// would save less than a fiftieth.
    pub(crate) fn learn(values: &[&[u8]]) -> Option<(Vector, u64)> {
        let bytes: u64 = values.iter().map(|v| v.len() as u64).sum();
        let all = [Vector::Single, Vector::Double].map(|vector| (vector, vector.bits(values)));
        let best = all.into_iter().min_by_key(|(_, bits)| *bits)?;
        (best.1 * 50 < bytes * 8 * 49).then_some(best)
    }

    /// Bits of values, if pages have about [`GROUP`] bytes of them.
    fn bits(self, values: &[&[u8]]) -> u64 {
        let mut parts = Parts::default();
        let (mut bits, mut numbers, mut zeros) = (0, 0, 0);
        let (mut group, mut last) = (0, values.len());
        for value in values {
            last -= 1;
            group += value.len();
            // Always succeeds.
            let _ = self.part(value, &mut parts);
            if group < GROUP && last > 0 {
                continue;
            }
            let [lengths, flags, words, tails] = &parts;
            let range = words.iter().min().zip(words.iter().max());
            let width = range.map_or(0, |(low, high)| width_of(high.wrapping_sub(*low) as u64));
            bits += words.len() as u64 * u64::from(width);
            bits += 8 * (lengths.len() + tails.len()) as u64;
            numbers += flags.len() as u64;
            zeros += (flags.len() - words.len()) as u64;
            parts.iter_mut().for_each(Vec::clear);
            group = 0;
        }
        bits + if zeros > 0 { numbers } else { 0 }
    }
}

/// Bytes of values that are assumed to be in one page.
const GROUP: usize = 2500;

/// Appends the flag of each number of `N` bytes, and the words of those that are not zero. Returns
/// the bytes behind the last whole number.
fn part_by<'a, const N: usize>(
    blob: &'a [u8],
    word: impl Fn([u8; N]) -> i64,
    flags: &mut Vec<i64>,
    words: &mut Vec<i64>,
) -> &'a [u8] {
    let (numbers, rest) = blob.as_chunks();
    for bytes in numbers {
        let word = word(*bytes);
        flags.push(i64::from(word != 0));
        if word != 0 {
            words.push(word);
        }
    }
    rest
}

/// See [`Vector::join`].
#[inline(always)]
fn join_by<const N: usize>(
    flags: &[i64],
    words: &[i64],
    out: &mut [u8],
    bytes: impl Fn(u64) -> [u8; N],
) -> Option<usize> {
    let mut next = 0;
    for (to, flag) in out.as_chunks_mut().0.iter_mut().zip(flags) {
        *to = bytes(*words.get(next)? as u64 & (*flag as u64).wrapping_neg());
        next += *flag as usize;
    }
    Some(next)
}

fn word_of_single(bytes: [u8; 4]) -> i64 {
    i64::from(u32::from_le_bytes(bytes).rotate_left(1))
}

fn word_of_double(bytes: [u8; 8]) -> i64 {
    u64::from_le_bytes(bytes).rotate_left(1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the streams of one blob are joined to.
    fn joined(vector: Vector, parts: &mut Parts) -> Vec<u8> {
        let [lengths, flags, words, tails] = parts;
        let len = lengths[0] as usize;
        words.push(0);
        let mut out = vec![0; len - len % vector.size()];
        let taken = vector.join(flags, words, &mut out).expect("has all words");
        assert_eq!(taken, words.len() - 1);
        out.extend(tails.iter().map(|byte| *byte as u8));
        out
    }

    proptest! {
        #[test]
        fn any_blob_is_joined_again(
            blob in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
        ) {
            for vector in [Vector::Single, Vector::Double] {
                let mut parts = Parts::default();
                vector.part(&blob, &mut parts).expect("four streams");
                prop_assert_eq!(&joined(vector, &mut parts), &blob);
            }
        }
    }

    #[test]
    fn similar_numbers_save_most_of_their_exponents_and_zeros() {
        let number = |n: u32| match n % 3 {
            0 => 0.0,
            _ => 0.5 + (n.wrapping_mul(0x9E37_79B1) >> 8) as f32 / (1 << 25) as f32,
        };
        let blobs: Vec<Vec<u8>> = (0..40)
            .map(|row| {
                (0..256)
                    .flat_map(|n| number(row * 256 + n).to_le_bytes())
                    .collect()
            })
            .collect();
        let blobs: Vec<&[u8]> = blobs.iter().map(Vec::as_slice).collect();
        let (vector, bits) = Vector::learn(&blobs).expect("saves much");
        assert_eq!(vector, Vector::Single);
        // Two thirds of the numbers, 24 bits each, and a bit for every number.
        let numbers = 40 * 256;
        assert!(
            bits <= numbers * 2 / 3 * 24 + numbers + 40 * 8 + 1000,
            "{bits}"
        );
        let text = [&b"some text that is no vector of numbers"[..]; 100];
        assert_eq!(Vector::learn(&text), None);
        let double = |n: u64| 1.0 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) as f64 / u64::MAX as f64;
        let doubles: Vec<Vec<u8>> = (0..40)
            .map(|row| {
                (0..64)
                    .flat_map(|n| double(row * 64 + n).to_le_bytes())
                    .collect()
            })
            .collect();
        let doubles: Vec<&[u8]> = doubles.iter().map(Vec::as_slice).collect();
        assert_eq!(Vector::learn(&doubles).map(|v| v.0), Some(Vector::Double));
    }
}
