//! Parses a text into symbols.
//!
//! The parser is greedy with look-ahead. Of the symbols that the text begins with, it takes the one
//! after which the longest next symbol reaches farthest. If a long symbol follows the longest one,
//! no other is tried. One after which no symbol could reach farther is not tried either. Dynamic
//! programming would need a few thousandths fewer codes.

use super::matcher::{Found, Matcher, WINDOW, longest};

/// A next symbol of this length is good enough. With 7 instead of 4, text takes as many bytes and
/// more time. With 3 it takes 0.3 % more bytes, and without look-ahead 2 % more.
const GOOD: usize = 4;

/// If text remains, the buffer of `N` bytes is filled again when fewer bytes than this are left: a
/// symbol and the next one.
const MARGIN: usize = 2 * WINDOW;

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
