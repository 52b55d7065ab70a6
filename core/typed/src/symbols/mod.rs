//! Symbol tables for text: frequent strings of up to [`SYMBOL_MAX`] bytes in the values of a
//! column, each with a code of fixed width.
//!
//! The method follows FSST (Boncz, Neumann, Leis, VLDB 2020): symbols grow from pairs of symbols in
//! rounds. But symbols are longer, each table has its own width of codes (as OnPair, Gargiulo and
//! Venturini, 2025), and text is parsed with look-ahead. docs/FORMAT.md (Columns, Symbol table) has
//! the codes and the stored table. The number of a text's codes is stored elsewhere.

pub(crate) mod huffman;
mod matcher;
mod stored;
#[cfg(test)]
mod tests;
mod train;

use crate::bits::{AT_ONCE, Run};
use matcher::Matcher;
use std::cmp::Ordering;
use std::fmt;
use std::sync::OnceLock;

/// The longest symbol, in bytes. Decoding can write this many arbitrary bytes behind a value.
pub const SYMBOL_MAX: usize = 31;
/// Widths of codes in bits.
const WIDTHS: std::ops::RangeInclusive<u32> = 4..=13;
/// Bytes before the stored symbols.
const HEADER: usize = 4;

/// A table of symbols for the values of one column. Never changes.
pub struct Symbols {
    width: u32,
    /// By code less one, sorted by their bytes.
    table: Box<[Symbol]>,
    stored: Box<[u8]>,
    /// Built when the first value is encoded: most tables are only decoded from.
    matcher: OnceLock<Matcher>,
}

/// How long training takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// From fewer samples, and with narrow codes only: enough to compare pages.
    Rough,
    /// For pages that are stored.
    Full,
}

impl Symbols {
    /// Trains a table on sample values of one column.
    ///
    /// The table will be used for `usable` bytes of text, and must save more than its own stored
    /// bytes. The same samples result in the same table. `None` if no table pays.
    pub fn train(samples: &[&[u8]], usable: u64) -> Option<Symbols> {
        train::train(samples, usable, Effort::Full)
    }

    /// The same with a given effort.
    pub(crate) fn train_with(samples: &[&[u8]], usable: u64, effort: Effort) -> Option<Symbols> {
        train::train(samples, usable, effort)
    }

    /// A table of these symbols. Symbols beyond the greatest code are dropped.
    fn new(width: u32, mut table: Vec<Symbol>) -> Symbols {
        table.sort_unstable();
        table.dedup();
        table.truncate((1 << width) - 1);
        let mut stored = Vec::new();
        stored::put(&table, &mut stored);
        Symbols {
            width,
            table: table.into(),
            stored: stored.into(),
            matcher: OnceLock::new(),
        }
    }

    /// Bits of a code, 4 to 13.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The number of symbols.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Bytes that [`Symbols::put`] appends.
    pub fn stored_len(&self) -> usize {
        HEADER + self.stored.len()
    }

    /// Appends the stored table.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.width as u8);
        out.extend(self.stored.len().to_le_bytes().iter().take(HEADER - 1));
        out.extend_from_slice(&self.stored);
    }

    /// Reads a stored table from the beginning of `bytes`, and returns it with its length. `None`
    /// if there is no valid table.
    pub fn take(bytes: &[u8]) -> Option<(Symbols, usize)> {
        let (head, rest) = bytes.split_first_chunk::<HEADER>()?;
        let [width, a, b, c] = *head;
        let width = u32::from(width);
        if !WIDTHS.contains(&width) {
            return None;
        }
        let stored = rest.get(..u32::from_le_bytes([a, b, c, 0]) as usize)?;
        let table = stored::take(stored, (1 << width) - 1)?;
        let symbols = Symbols {
            width,
            table: table.into(),
            stored: stored.into(),
            matcher: OnceLock::new(),
        };
        Some((symbols, HEADER + stored.len()))
    }

    /// Appends the codes of `value`. An escape with its byte takes two codes, or three if a code
    /// has less than eight bits.
    pub fn encode(&self, value: &[u8], codes: &mut Vec<u16>) {
        let matcher = self.matcher.get_or_init(|| Matcher::new(&self.table));
        matcher::parse(matcher, value, |code, byte| {
            codes.push(code);
            if code == 0 {
                let byte = u16::from(byte);
                codes.push(byte & ((1 << self.width) - 1));
                if self.width < 8 {
                    codes.push(byte >> self.width);
                }
            }
        });
    }

    /// Decodes the next `count` codes of `run` to `out[at..]`, one text after the other. `codes`
    /// then has the end of each text.
    ///
    /// `None` if the texts do not fit or a code is not in this table. Up to [`SYMBOL_MAX`] bytes
    /// behind the end can be overwritten.
    #[inline]
    pub fn decode(
        &self,
        run: &mut Run<'_>,
        count: usize,
        codes: &mut Codes,
        out: &mut [u8],
        mut at: usize,
    ) -> Option<()> {
        codes.values.resize(count.next_multiple_of(AT_ONCE), 0);
        codes.ends.resize(count + 1, 0);
        run.fill(0, &mut codes.values);
        let (start, ends) = codes.ends.split_first_mut()?;
        *start = at as u32;
        // One loop decodes all texts, because a processor cannot predict where a text ends.
        let mut each = codes.values.iter().zip(ends);
        while let Some((code, end)) = each.next() {
            if let Some(symbol) = self.table.get((*code as usize).wrapping_sub(1)) {
                let to = out.get_mut(at..)?;
                match to.first_chunk_mut() {
                    Some(to) => *to = symbol.0,
                    None => {
                        let text = symbol.text();
                        to.get_mut(..text.len())?.copy_from_slice(text);
                    }
                }
                at += symbol.len();
                *end = at as u32;
            } else {
                // An escape, and its byte in one code or two.
                (*code == 0).then_some(())?;
                *end = Codes::INSIDE;
                let (mut byte, mut end) = each.next()?;
                let mut value = *byte;
                if self.width < 8 {
                    *end = Codes::INSIDE;
                    (byte, end) = each.next()?;
                    value |= *byte << self.width;
                }
                *out.get_mut(at)? = value as u8;
                at += 1;
                *end = at as u32;
            }
        }
        Some(())
    }
}

/// Codes of an escape and its byte.
const fn escape_codes(width: u32) -> usize {
    if width < 8 { 3 } else { 2 }
}

/// Decoded codes, and where the text of each ends.
#[derive(Debug, Default)]
pub struct Codes {
    values: Vec<i64>,
    /// Where the first text begins; then, for each code, where its text ends.
    ends: Vec<u32>,
}

impl Codes {
    /// The value of an end inside an escape: the next code belongs to it.
    const INSIDE: u32 = u32::MAX;

    /// Where the text of the first `count` codes ends; `None` if the last of them is inside an
    /// escape.
    #[inline]
    pub fn end(&self, count: usize) -> Option<usize> {
        let end = *self.ends.get(count)?;
        (end != Codes::INSIDE).then_some(end as usize)
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols")
            .field("width", &self.width)
            .field("count", &self.table.len())
            .field("stored_len", &self.stored_len())
            .finish()
    }
}

/// A string of up to [`SYMBOL_MAX`] bytes at the beginning of an array, zeros behind it, and its
/// length in the last byte. Symbols compare as their strings do. The alignment keeps each of them
/// within one cache line.
#[repr(align(32))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Symbol([u8; SYMBOL_MAX + 1]);

impl Symbol {
    const EMPTY: Symbol = Symbol([0; SYMBOL_MAX + 1]);

    /// A symbol of this text; `None` if it is too long.
    fn new(text: &[u8]) -> Option<Symbol> {
        let mut symbol = Symbol::EMPTY;
        symbol
            .0
            .get_mut(..SYMBOL_MAX)?
            .get_mut(..text.len())?
            .copy_from_slice(text);
        symbol.0[SYMBOL_MAX] = text.len() as u8;
        Some(symbol)
    }

    /// Both together; `None` if they are too long.
    fn join(&self, next: &Symbol) -> Option<Symbol> {
        let (from, to) = (self.len(), self.len() + next.len());
        let mut joined = *self;
        joined
            .0
            .get_mut(..SYMBOL_MAX)?
            .get_mut(from..to)?
            .copy_from_slice(next.text());
        joined.0[SYMBOL_MAX] = to as u8;
        Some(joined)
    }

    /// The bytes as two numbers that compare as the bytes do.
    #[inline]
    fn halves(&self) -> [u128; 2] {
        let half = |bytes: Option<&[u8; 16]>| bytes.map_or(0, |half| u128::from_be_bytes(*half));
        [half(self.0.first_chunk()), half(self.0.last_chunk())]
    }

    #[inline]
    fn len(&self) -> usize {
        usize::from(self.0[SYMBOL_MAX])
    }

    #[inline]
    fn text(&self) -> &[u8] {
        &self.0[..self.len().min(SYMBOL_MAX)]
    }
}

// With these, training takes a twentieth less than with the derived comparison of bytes.
impl Ord for Symbol {
    #[inline]
    fn cmp(&self, other: &Symbol) -> Ordering {
        self.halves().cmp(&other.halves())
    }
}

impl PartialOrd for Symbol {
    #[inline]
    fn partial_cmp(&self, other: &Symbol) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
