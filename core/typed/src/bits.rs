//! Bits, lowest first: bit n of a stream is bit `n % 8` of byte `n / 8`.
//!
//! Fields of different widths follow each other without gaps. A field of up to [`WIDE`] bits is
//! read with one load of eight bytes, so [`PADDING`] bytes that do not belong to the stream follow
//! it.

/// The widest field that one load can read: eight bytes less seven bits, because a field can begin
/// at any bit of a byte.
pub const WIDE: u32 = 57;
/// Bytes behind a stream that a reader can load. They can have any values.
pub const PADDING: usize = 8;
/// The most fields that are read with one load.
pub const AT_ONCE: usize = 8;

/// The lowest `width` bits set; `width` is at most 64.
#[inline]
pub fn mask(width: u32) -> u64 {
    u64::MAX.checked_shr(64 - width).unwrap_or(0)
}

/// Bits that `value` needs.
#[inline]
pub fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Writes fields one after the other.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    held: u64,
    held_bits: u32,
}

impl BitWriter {
    /// Discards what was written and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.held = 0;
        self.held_bits = 0;
    }

    /// Writes the lowest `width` bits (at most 64) of `value`; the others must be zero.
    #[inline]
    pub fn put(&mut self, value: u64, width: u32) {
        debug_assert!(value <= mask(width), "{value} in {width} bits");
        self.held |= value << self.held_bits;
        let bits = self.held_bits + width;
        if bits < 64 {
            self.held_bits = bits;
            return;
        }
        self.bytes.extend_from_slice(&self.held.to_le_bytes());
        self.held_bits = bits - 64;
        self.held = value.checked_shr(width - self.held_bits).unwrap_or(0);
    }

    /// Bits written so far.
    pub fn len(&self) -> usize {
        self.bytes.len() * 8 + self.held_bits as usize
    }

    /// Whether no bits were written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the stream to `out`, its last byte filled with zero bits, and begins a new stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        let rest = self.held_bits.div_ceil(8) as usize;
        out.extend(self.held.to_le_bytes().iter().take(rest));
        self.clear();
    }
}

/// Reads fields one after the other. Reading past the end returns `None`.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> BitReader<'a> {
    /// Reads from `padded`, whose last [`PADDING`] bytes do not belong to the stream.
    pub fn new(padded: &'a [u8]) -> BitReader<'a> {
        BitReader {
            bytes: padded,
            at: 0,
            end: padded.len().saturating_sub(PADDING) * 8,
        }
    }

    /// Reads from `bytes`, which belong to the stream to the last one. Reading the last
    /// [`PADDING`] bytes takes longer.
    pub fn unpadded(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader {
            bytes,
            at: 0,
            end: bytes.len() * 8,
        }
    }

    /// The next `width` bits, at most 64.
    #[inline]
    pub fn get(&mut self, width: u32) -> Option<u64> {
        if width <= WIDE {
            let value = self.load()? & mask(width);
            self.at += width as usize;
            return (self.at <= self.end).then_some(value);
        }
        let low = self.get(32)?;
        let high = self.get(width - 32)?;
        Some(low | high << 32)
    }

    /// The next `width` bits, at most [`WIDE`], without consuming them. If the stream ends before,
    /// the bits behind it take part.
    #[inline]
    pub fn peek(&self, width: u32) -> Option<u64> {
        Some(self.load()? & mask(width))
    }

    /// Begins to read `count` fields of `width` bits, at most [`WIDE`]. If the stream has them all,
    /// [`Run::next`] reads each of them without checking for the end.
    #[inline]
    pub fn run(&mut self, count: usize, width: u32) -> Option<Run<'a>> {
        let from = self.at;
        let to = count.checked_mul(width as usize)?.checked_add(from)?;
        if to > self.end || width > WIDE {
            return None;
        }
        self.at = to;
        Some(Run {
            bytes: self.bytes,
            at: from,
            width: width as usize,
            mask: mask(width),
        })
    }

    /// The bits that remain.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// At least [`WIDE`] bits from here on, including those behind the end.
    #[inline]
    fn load(&self) -> Option<u64> {
        let bytes = self.bytes.get(self.at >> 3..)?;
        Some(load(bytes) >> (self.at & 7))
    }
}

/// The first eight bytes; zeros for missing ones.
#[inline(always)]
fn load(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => load_last(bytes),
    }
}

#[cold]
#[inline(never)]
fn load_last(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Fields of one width. See [`BitReader::run`].
#[derive(Debug, Clone)]
pub struct Run<'a> {
    bytes: &'a [u8],
    at: usize,
    width: usize,
    mask: u64,
}

impl Run<'_> {
    /// Reads a field for each value of `out`, and adds `base`. The width must not be 0. It is
    /// fastest if the number of values is a multiple of [`AT_ONCE`]: `out` can be longer than the
    /// run, and the values behind it are then arbitrary.
    #[inline(never)]
    pub fn fill(&mut self, base: i64, out: &mut [i64]) {
        match WIDE as usize / self.width.max(1) {
            AT_ONCE.. => self.fill_by::<AT_ONCE>(base, out),
            4.. => self.fill_by::<4>(base, out),
            2.. => self.fill_by::<2>(base, out),
            _ => self.fill_by::<1>(base, out),
        }
    }

    /// As [`Run::fill`]. `N` fields are always within one load.
    #[inline(always)]
    fn fill_by<const N: usize>(&mut self, base: i64, out: &mut [i64]) {
        let (all, last) = out.as_chunks_mut::<N>();
        for values in all {
            self.fill_once(base, values);
        }
        self.fill_once(base, last);
    }

    /// Reads fields that are all within one load.
    #[inline(always)]
    fn fill_once(&mut self, base: i64, out: &mut [i64]) {
        let mut word = self.load();
        for v in out.iter_mut() {
            *v = base.wrapping_add((word & self.mask) as i64);
            word >>= self.width & 63;
        }
        self.at += self.width * out.len();
    }

    /// At least [`WIDE`] bits from here on; zeros behind the end of the bytes.
    #[inline(always)]
    fn load(&self) -> u64 {
        load(self.bytes.get(self.at >> 3..).unwrap_or_default()) >> (self.at & 7)
    }

    /// The next field; zero behind the end of the bytes.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it has no end to report")]
    pub fn next(&mut self) -> u64 {
        let word = self.load();
        self.at += self.width;
        word & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_are_read_as_they_were_written(fields in prop::collection::vec((any::<u64>(), 0u32..=64), 0..200)) {
            let mut w = BitWriter::default();
            for (value, width) in &fields {
                w.put(value & mask(*width), *width);
            }
            let mut bytes = Vec::new();
            prop_assert_eq!(w.len(), fields.iter().map(|f| f.1 as usize).sum::<usize>());
            w.finish(&mut bytes);
            bytes.extend([0xff; PADDING]);
            let mut r = BitReader::new(&bytes);
            for (value, width) in &fields {
                prop_assert_eq!(r.get(*width), Some(value & mask(*width)));
            }
            prop_assert!(r.left() < 8);
            prop_assert_eq!(r.get(8), None);
            let unpadded = bytes.get(..bytes.len() - PADDING).expect("is padded");
            let mut r = BitReader::unpadded(unpadded);
            for (value, width) in &fields {
                prop_assert_eq!(r.get(*width), Some(value & mask(*width)));
            }
            prop_assert!(r.left() < 8);
            prop_assert_eq!(r.get(8), None);
        }

        #[test]
        fn a_run_reads_the_same_fields(fields in prop::collection::vec(any::<u64>(), 0..200), width in 0u32..=WIDE, before in 0u32..20) {
            let mut w = BitWriter::default();
            w.put(0, before);
            for value in &fields {
                w.put(value & mask(width), width);
            }
            let mut bytes = Vec::new();
            w.finish(&mut bytes);
            bytes.extend([0xff; PADDING]);
            let mut r = BitReader::new(&bytes);
            r.get(before);
            let mut out = vec![0; fields.len()];
            if width > 0 {
                r.clone().run(fields.len(), width).expect("has all fields").fill(5, &mut out);
                for (got, value) in out.iter().zip(&fields) {
                    prop_assert_eq!(*got, ((value & mask(width)) as i64).wrapping_add(5));
                }
            }
            let mut run = r.run(fields.len(), width).expect("has all fields");
            for value in &fields {
                prop_assert_eq!(run.next(), value & mask(width));
            }
            prop_assert!(width == 0 || r.run(9, width).is_none() || width == 1 && r.left() < 8);
        }
    }
}
