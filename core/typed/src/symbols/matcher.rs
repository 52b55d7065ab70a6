//! Parses a text into symbols, and finds for that the symbols that a text begins with.
//!
//! The parser is greedy with look-ahead. Of the symbols that the text begins with, it takes the one
//! after which the longest next symbol reaches farthest. If a long symbol follows the longest one,
//! no other is tried. One after which no symbol could reach farther is not tried either. Dynamic
//! programming would need a few thousandths fewer codes.

use super::{SYMBOL_MAX, Symbol};

/// Bytes of text that a search reads.
pub(super) const WINDOW: usize = SYMBOL_MAX + 1;

/// A next symbol of this length is good enough. With 7 instead of 4, text takes as many bytes and
/// more time. With 3 it takes 0.3 % more bytes, and without look-ahead 2 % more.
const GOOD: usize = 4;

/// If text remains, the buffer of `N` bytes is filled again when fewer bytes than this are left: a
/// symbol and the next one.
const MARGIN: usize = 2 * WINDOW;

/// The symbols that begin a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// A symbol of which all of them are beginnings.
    code: u16,
    /// If one of them has `n` bytes, bit `n` is set.
    pub(super) lens: u32,
}

impl Found {
    /// Length of the longest symbol, 0 if there is none.
    #[inline]
    pub(super) fn longest(self) -> usize {
        longest(self.lens)
    }
}

/// The greatest of a set of lengths, 0 if it is empty.
#[inline]
pub(super) fn longest(lens: u32) -> usize {
    (31 - (lens | 1).leading_zeros()) as usize
}

/// Bits of a hash of three bytes.
const MOST_BITS: u32 = 12;

/// The symbols with the same first two bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    /// The code before the first of them. If there are none: the symbol of the first byte alone, or
    /// 0.
    before: u16,
    /// The greatest power of four that is not above the number of these symbols.
    step: u16,
}

/// The symbols of a table, indexed for search. A code is a symbol's index plus one.
///
/// Symbols are sorted by their bytes. All symbols that a text begins with are beginnings of one
/// symbol: the last one that does not sort behind the text. It is searched for among the symbols
/// with the text's first two bytes. Of its beginnings, those that are no longer than what it shares
/// with the text begin the text, too. The search goes in powers of four, and can pass the last
/// symbol of these two bytes, because all later symbols sort behind the text.
#[derive(Debug)]
pub(super) struct Matcher {
    /// By code: the first sixteen bytes, big-endian, with zeros behind the end.
    heads: Box<[u128]>,
    /// By code: the bytes behind the first sixteen.
    tails: Box<[u128]>,
    /// By code: the lengths of the symbols that begin this one, including its own.
    lens: Box<[u32]>,
    /// By code: where the codes of these symbols are in `begins`, shortest first.
    begins_at: Box<[u32]>,
    begins: Box<[u16]>,
    /// By a hash of the first three bytes: length of the longest symbol with these bytes, at least
    /// 2.
    most: Box<[u8; 1 << MOST_BITS]>,
    /// By byte: its row and column in `pairs`. Bytes that are never among the first two of a symbol
    /// have 0.
    class: Box<[u8; 256]>,
    classes: usize,
    pairs: Box<[Pair]>,
}

/// Bytes of a head.
const HEAD: usize = 16;

#[inline]
fn head(window: &[u8; WINDOW]) -> u128 {
    window.first_chunk().map_or(0, |h| u128::from_be_bytes(*h))
}

/// The bytes behind the head, without the last byte: in a symbol, this is its length.
#[inline]
fn tail(window: &[u8; WINDOW]) -> u128 {
    window
        .last_chunk()
        .map_or(0, |t| u128::from_be_bytes(*t) & !0xff)
}

/// A hash of the first three bytes.
#[inline]
fn three(window: &[u8; WINDOW]) -> usize {
    let bytes = u32::from_le_bytes([0, window[0], window[1], window[2]]);
    (bytes.wrapping_mul(0x9E37_79B1) >> (32 - MOST_BITS)) as usize
}

impl Matcher {
    /// Indexes symbols: sorted, at most 65,534, none of them empty.
    pub(super) fn new(symbols: &[Symbol]) -> Matcher {
        let mut used = [false; 256];
        for symbol in symbols {
            for byte in symbol.text().iter().take(2) {
                used[usize::from(*byte)] = true;
            }
        }
        let mut class = Box::new([0u8; 256]);
        let mut classes = 1;
        for (class, used) in class.iter_mut().zip(used) {
            if used {
                // If all 256 bytes are used, the last one gets 0, which no other byte has then.
                *class = classes as u8;
                classes += 1;
            }
        }
        let classes = classes.min(256);
        let codes = symbols.len() + 1;
        let mut heads = Vec::with_capacity(codes);
        let mut tails = Vec::with_capacity(codes);
        let mut lens = Vec::with_capacity(codes);
        let mut begins_at = Vec::with_capacity(codes);
        let mut begins = Vec::with_capacity(codes * 4);
        let mut most = Box::new([2; 1 << MOST_BITS]);
        heads.push(0);
        tails.push(0);
        lens.push(0u32);
        begins_at.push(0u32);
        let mut pairs = vec![Pair::default(); classes * classes];
        let mut before = Symbol::EMPTY;
        for (place, symbol) in symbols.iter().enumerate() {
            heads.push(head(&symbol.0));
            tails.push(tail(&symbol.0));
            // Of the symbols that begin the one before, those that also begin this one.
            let both = shared(&before, symbol);
            let begin = lens[place] & ((2u32 << both) - 1);
            let from = begins_at[place] as usize;
            begins_at.push(begins.len() as u32);
            begins.extend_from_within(from..from + begin.count_ones() as usize);
            begins.push(place as u16 + 1);
            lens.push(begin | 1 << symbol.len());
            if symbol.len() > 2 {
                let most = &mut most[three(&symbol.0)];
                *most = (*most).max(symbol.len() as u8);
            }
            let row = usize::from(class[usize::from(symbol.0[0])]) * classes;
            if symbol.len() == 1 {
                pairs[row..row + classes].fill(Pair {
                    before: place as u16 + 1,
                    step: 0,
                });
            } else {
                let pair = &mut pairs[row + usize::from(class[usize::from(symbol.0[1])])];
                if pair.step == 0 {
                    *pair = Pair {
                        before: place as u16,
                        step: 1,
                    };
                } else if usize::from(pair.before) + 4 * usize::from(pair.step) <= place + 1 {
                    pair.step *= 4;
                }
            }
            before = *symbol;
        }
        Matcher {
            heads: heads.into(),
            tails: tails.into(),
            lens: lens.into(),
            begins_at: begins_at.into(),
            begins: begins.into(),
            most,
            class,
            classes,
            pairs: pairs.into(),
        }
    }

    /// The symbols of at most `room` bytes that `window` begins with.
    #[inline]
    pub(super) fn find(&self, window: &[u8; WINDOW], room: usize) -> Found {
        let row = usize::from(self.class[usize::from(window[0])]) * self.classes;
        let column = usize::from(self.class[usize::from(window[1])]);
        let Some(pair) = self.pairs.get(row + column) else {
            return Found::default();
        };
        let wanted = head(window);
        let mut code = usize::from(pair.before);
        let heads = &*self.heads;
        let le = |at: usize| usize::from(heads.get(at).is_some_and(|head| *head <= wanted));
        let mut step = usize::from(pair.step);
        while step > 0 {
            let steps = le(code + step) + le(code + 2 * step) + le(code + 3 * step);
            code += steps * step;
            step >>= 2;
        }
        let differ = self.heads.get(code).map_or(0, |head| head ^ wanted);
        let mut shared = (differ.leading_zeros() >> 3) as usize;
        if differ == 0 {
            (code, shared) = self.behind_head(code, window);
        }
        let most = shared.min(room) as u32;
        let lens = self.lens.get(code).copied().unwrap_or(0);
        Found {
            code: code as u16,
            lens: lens & ((2u32 << most).wrapping_sub(1)),
        }
    }

    /// `code` is the last of the symbols with the head of `window`. Returns, of these, the last one
    /// that does not sort behind `window`, or else the first, and how many bytes it shares with
    /// `window`.
    fn behind_head(&self, mut code: usize, window: &[u8; WINDOW]) -> (usize, usize) {
        let wanted = tail(window);
        while let (Some(&tail), Some([before, head])) = (
            self.tails.get(code),
            self.heads.get(code.wrapping_sub(1)..=code),
        ) && tail > wanted
            && before == head
        {
            code -= 1;
        }
        let differ = self.tails.get(code).map_or(0, |tail| tail ^ wanted);
        let shared = HEAD + (differ.leading_zeros() >> 3) as usize;
        (code, shared.min(SYMBOL_MAX))
    }

    /// The code of the found symbol of `len` bytes; 0 for no bytes.
    #[inline]
    fn code(&self, found: Found, len: usize) -> u16 {
        let from = self.begins_at.get(usize::from(found.code));
        let shorter = found.lens & ((1 << len) - 1);
        let place = from.map_or(0, |at| *at + shorter.count_ones()) as usize;
        match len {
            0 => 0,
            _ => self.begins.get(place).copied().unwrap_or(0),
        }
    }

    /// An upper bound of the length of the symbols that `window` begins with.
    #[inline]
    fn at_most(&self, window: &[u8; WINDOW]) -> usize {
        usize::from(self.most[three(window)])
    }

    /// The lengths of the symbols that begin the symbol of `code`, including its own.
    pub(super) fn lens(&self, code: u16) -> u32 {
        self.lens.get(usize::from(code)).copied().unwrap_or(0)
    }
}

/// The length of the common beginning.
fn shared(a: &Symbol, b: &Symbol) -> usize {
    let pairs = a.text().iter().zip(b.text());
    pairs.take_while(|(a, b)| a == b).count()
}

/// Calls `each`, in order, for every code of `text` and the first byte that it stands for. Code 0
/// is the escape of that byte.
#[inline]
pub(super) fn parse(matcher: &Matcher, text: &[u8], mut each: impl FnMut(u16, u8)) {
    if text.len() <= 128 - WINDOW {
        parse_buffered::<128>(matcher, text, &mut each);
    } else {
        parse_buffered::<1024>(matcher, text, &mut each);
    }
}

/// Parses `text` through a buffer of `N` bytes, so that all windows are whole.
#[inline]
fn parse_buffered<const N: usize>(matcher: &Matcher, text: &[u8], each: &mut impl FnMut(u16, u8)) {
    let mut buffer = [0u8; N];
    let mut rest = text;
    while !rest.is_empty() {
        let take = rest.len().min(N - WINDOW);
        let (block, behind) = rest.split_at(take);
        let Some(head) = buffer.get_mut(..take) else {
            return;
        };
        head.copy_from_slice(block);
        // Bytes of an earlier block can be behind this one. They are never part of a symbol,
        // because the length of symbols is limited to what remains of the block.
        let stop = if behind.is_empty() {
            take
        } else {
            take - MARGIN
        };
        let done = parse_block(matcher, &buffer, take, stop, each);
        rest = rest.get(done..).unwrap_or_default();
    }
}

/// Parses at least the first `stop` of the `end` bytes in the buffer. Returns how many bytes it
/// parsed.
#[inline]
fn parse_block<const N: usize>(
    matcher: &Matcher,
    buffer: &[u8; N],
    end: usize,
    stop: usize,
    each: &mut impl FnMut(u16, u8),
) -> usize {
    let window = |at: usize| buffer.get(at..).and_then(<[u8]>::first_chunk::<WINDOW>);
    let find =
        |at: usize| window(at).map_or(Found::default(), |window| matcher.find(window, end - at));
    let mut at = 0;
    let mut here = find(0);
    while at < stop {
        let mut len = here.longest();
        let mut next = Found::default();
        let behind = at + len.max(1);
        if behind < end {
            next = find(behind);
            let mut shorter = here.lens & !(1 << len);
            if next.longest() < GOOD && shorter != 0 {
                let mut reach = len + next.longest();
                while shorter != 0 && at + reach < end {
                    let other = longest(shorter);
                    shorter ^= 1 << other;
                    if other + window(at + other).map_or(0, |w| matcher.at_most(w)) <= reach {
                        continue;
                    }
                    let after = find(at + other);
                    if other + after.longest() > reach {
                        reach = other + after.longest();
                        len = other;
                        next = after;
                    }
                }
            }
        }
        each(matcher.code(here, len), buffer[at]);
        at += len.max(1);
        here = next;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(symbols: &BTreeSet<Vec<u8>>, texts: &[Vec<u8>]) {
        let symbols: Vec<Symbol> = symbols.iter().filter_map(|s| Symbol::new(s)).collect();
        assert!(symbols.is_sorted());
        let matcher = Matcher::new(&symbols);
        for text in texts {
            let mut padded = text.clone();
            padded.resize(text.len() + WINDOW, 0);
            for at in 0..text.len() {
                let window = padded[at..].first_chunk().expect("has padding behind it");
                let found = matcher.find(window, text.len() - at);
                let expected = symbols.iter().filter(|s| text[at..].starts_with(s.text()));
                assert_eq!(
                    found.lens,
                    expected.clone().map(|s| 1 << s.len()).sum::<u32>(),
                    "{:?}",
                    &text[at..]
                );
                let longest = expected.max_by_key(|s| s.len());
                let place = usize::from(matcher.code(found, found.longest())).wrapping_sub(1);
                assert_eq!(symbols.get(place), longest);
            }
        }
    }

    proptest! {
        #[test]
        fn all_symbols_are_found(
            symbols in prop::collection::btree_set(prop::collection::vec(b'a'..b'd', 1..12), 0..200),
            texts in prop::collection::vec(prop::collection::vec(b'a'..b'e', 0..60), 1..5),
        ) {
            check(&symbols, &texts);
        }

        #[test]
        fn all_parts_of_a_text_are_found(
            text in prop::collection::vec(any::<u8>(), 100),
            parts in prop::collection::vec((0usize..100, 1..=SYMBOL_MAX), 0..200),
        ) {
            let part = |(from, len)| text.get(from..from + len).map(<[u8]>::to_vec);
            check(&parts.into_iter().filter_map(part).collect(), std::slice::from_ref(&text));
        }
    }
}
