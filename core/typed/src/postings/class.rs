//! Numbers by kind. A number is coded as its class, by a prefix code of its kind, and the bits that
//! the class leaves open.

use crate::bits::{BitWriter, mask, width_of};
use crate::symbols::huffman::{Bits, Code, NUMBERS, Numbers};

/// Numbers below this are classes of their own.
const SMALL: u64 = 16;
/// Bits of the least other number.
const SMALL_BITS: u32 = SMALL.trailing_zeros() + 1;
/// All numbers have at most this many bits, so that one load reads code and bits.
pub(super) const BITS_MAX: u32 = 47;
/// The longest code, in bits: a table of them is quickly made for each page.
const LONGEST: u32 = 9;

/// The kinds of numbers that have a prefix code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From a document's row id to the next one.
    Row = 0,
    /// Numbers in a document's list, and whether it begins otherwise than is usual.
    Count = 1,
    /// The first position in a column.
    First = 2,
    /// From a position to the next one.
    Next = 3,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 4;

/// Something for each kind.
pub(super) type Tables<T> = [T; KINDS];

/// A number's class, its open bits, and how many these are. `None` for numbers that are too large.
fn class_of(value: u64) -> Option<(usize, u64, u32)> {
    if value < SMALL {
        return Some((value as usize, 0, 0));
    }
    let width = width_of(value);
    let open = width - 2;
    let class = SMALL as usize + 2 * (width - SMALL_BITS) as usize + (value >> open & 1) as usize;
    (width <= BITS_MAX).then_some((class, value & mask(open), open))
}

/// How often each class of a kind occurs.
pub(super) struct Counts([u32; NUMBERS]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; NUMBERS])
    }
}

impl Counts {
    pub(super) fn add(&mut self, value: u64) {
        if let Some(count) = class_of(value).and_then(|(class, ..)| self.0.get_mut(class)) {
            *count += 1;
        }
    }
}

/// Writes the codes of all kinds.
pub(super) fn put(counts: &Tables<Counts>, w: &mut BitWriter) -> Tables<Code> {
    counts.each_ref().map(|c| Code::put(&c.0, LONGEST, w))
}

/// Writes a number that was counted.
pub(super) fn write(code: &Code, value: u64, w: &mut BitWriter) {
    if let Some((class, bits, open)) = class_of(value) {
        code.write(class, w);
        w.put(bits, open);
    }
}

/// Reads the codes of all kinds.
pub(super) fn take(bits: &mut Bits<'_>) -> Option<Tables<Numbers>> {
    Some([
        Numbers::take(bits)?,
        Numbers::take(bits)?,
        Numbers::take(bits)?,
        Numbers::take(bits)?,
    ])
}

/// The least number of each class, and how many bits the class leaves open; 64 bits if no number
/// has it. Without branches: which class comes next cannot be predicted.
static CLASSES: [(u64, u32); NUMBERS] = {
    let mut classes = [(0, 64); NUMBERS];
    let mut class = 0;
    while class < NUMBERS {
        let above = class.saturating_sub(SMALL as usize);
        let open = (above >> 1) as u32 + SMALL_BITS - 2;
        if class < SMALL as usize {
            classes[class] = (class as u64, 0);
        } else if open <= BITS_MAX - 2 {
            classes[class] = ((2 | above as u64 & 1) << open, open);
        }
        class += 1;
    }
    classes
};

/// Reads a number.
#[inline(always)]
pub(super) fn read(code: &Numbers, bits: &mut Bits<'_>) -> Option<u64> {
    let word = bits.load()?;
    let (class, len) = code.find(word)?;
    let (least, open) = *CLASSES.get(class)?;
    if open == 64 {
        return None;
    }
    bits.skip(len + open);
    Some(least + (word >> len & ((1 << open) - 1)))
}

/// The bits of a width in [`put_wide`].
const WIDTH_BITS: u32 = 6;

/// Writes a number without a prefix code: its width, and what follows the highest bit.
pub(super) fn put_wide(value: u64, w: &mut BitWriter) {
    let width = width_of(value);
    let open = width.saturating_sub(1);
    w.put(u64::from(width), WIDTH_BITS);
    w.put(value & mask(open), open);
}

/// Reads what [`put_wide`] wrote.
#[inline]
pub(super) fn take_wide(bits: &mut Bits<'_>) -> Option<u64> {
    let word = bits.load()?;
    let width = (word & mask(WIDTH_BITS)) as u32;
    if width > BITS_MAX {
        return None;
    }
    let open = width.saturating_sub(1);
    bits.skip(WIDTH_BITS + open);
    Some(word >> WIDTH_BITS & mask(open) | (1 << width >> 1))
}
