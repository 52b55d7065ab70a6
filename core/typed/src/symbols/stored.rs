//! The stored symbols of a table. docs/FORMAT.md (Symbol table) has the bits.
//!
//! Each symbol is stored as its difference from the one before it: how many bytes of that one it
//! drops, and its own further bytes. A *token* names a byte: the likely one behind two bytes, a new
//! one, or one of the list of bytes that were behind the same byte. The form is valid if and only
//! if it is read to its last byte and no symbol is longer than [`SYMBOL_MAX`]. What is read is
//! always sorted.

use super::huffman::{Bits, Code, LONGEST, NUMBERS, Numbers};
use super::{SYMBOL_MAX, Symbol};
use crate::bits::{BitWriter, PADDING};

/// Bits of the number of symbols.
const COUNT_BITS: u32 = 13;
/// The token of the byte that came last behind the same two bytes.
const LIKELY: usize = 0;
/// The token of a byte that no token has named yet.
const NEW: usize = 1;
/// The token of the first byte in the list of a byte.
const LISTED: usize = 2;

const LIKELY_BITS: u32 = 11;

/// Predicts the next byte from the bytes before it.
struct Guesser {
    /// By a hash of two bytes: the byte that came last behind them.
    likely: [u8; 1 << LIKELY_BITS],
    /// All bytes that tokens have named, in order of appearance.
    all: [u8; 256],
    known: usize,
    /// By byte: the index of its list plus one; 0 if it has no list yet.
    list_of: [u16; 256],
    /// The first `known` bytes of each list are the bytes in `all`, in another order.
    lists: Vec<[u8; 256]>,
}

impl Guesser {
    fn new() -> Guesser {
        Guesser {
            likely: [0; 1 << LIKELY_BITS],
            all: [0; 256],
            known: 0,
            list_of: [0; 256],
            lists: Vec::new(),
        }
    }

    /// The hash of the last two bytes of `path`, and the last byte; zeros for missing bytes.
    #[inline]
    fn likely_at(path: &[u8]) -> (usize, u8) {
        let (last, before) = match path {
            [.., before, last] => (*last, *before),
            [last] => (*last, 0),
            [] => (0, 0),
        };
        let both = u32::from(last) << 8 | u32::from(before);
        let hash = both.wrapping_mul(0x9E37_79B1) >> (32 - LIKELY_BITS);
        (hash as usize, last)
    }

    /// The list of the bytes behind `last`.
    #[inline]
    fn list(&mut self, last: u8) -> Option<&mut [u8; 256]> {
        let place = &mut self.list_of[usize::from(last)];
        if *place == 0 {
            self.lists.push(self.all);
            *place = self.lists.len() as u16;
        }
        self.lists.get_mut(usize::from(*place) - 1)
    }

    /// The index of `byte` in the list of `last`; `known` if no token has named it.
    fn place(&mut self, last: u8, byte: u8) -> usize {
        let known = self.known;
        let listed = self.list(last).and_then(|l| l.get(..known));
        listed
            .and_then(|l| l.iter().position(|b| *b == byte))
            .unwrap_or(known)
    }

    /// Records that `byte`, at this index of the list, is behind `last`.
    #[inline]
    fn learn(&mut self, hash: usize, last: u8, byte: u8, place: usize) {
        self.likely[hash] = byte;
        if place == self.known && self.known < 256 {
            self.all[self.known] = byte;
            for list in &mut self.lists {
                list[self.known] = byte;
            }
            self.known += 1;
        }
        let to = place / 2;
        if let Some(list) = self.list(last)
            && place < list.len()
        {
            // Usually one or two bytes move. A call to `memmove` would take longer.
            for at in (to..place).rev() {
                list[at + 1] = list[at];
            }
            list[to] = byte;
        }
    }

    /// The token of `byte` behind `path`.
    fn token(&mut self, path: &[u8], byte: u8) -> usize {
        let (hash, last) = Self::likely_at(path);
        if self.likely[hash] == byte {
            return LIKELY;
        }
        let place = self.place(last, byte);
        let token = if place == self.known {
            NEW
        } else {
            LISTED + place
        };
        self.learn(hash, last, byte, place);
        token
    }

    /// The byte of a token behind `path`.
    #[inline]
    fn byte(&mut self, path: &[u8], token: usize, bits: &mut Bits<'_>) -> Option<u8> {
        let (hash, last) = Self::likely_at(path);
        let (byte, place) = match token {
            LIKELY => return Some(self.likely[hash]),
            NEW => {
                let byte = bits.take(8)? as u8;
                (byte, self.place(last, byte))
            }
            _ => {
                let place = token - LISTED;
                if place >= self.known {
                    return None;
                }
                (*self.list(last)?.get(place)?, place)
            }
        };
        self.learn(hash, last, byte, place);
        Some(byte)
    }

    /// Records a byte behind `path` that is stored as a difference.
    #[inline]
    fn note_wrong_guess(&mut self, path: &[u8], byte: u8) {
        let (hash, _) = Self::likely_at(path);
        self.likely[hash] = byte;
    }
}

/// The codes, in the order in which they are stored.
const DROP: usize = 0;
const LEN: usize = 1;
const DIFFERENCE: usize = 3;
const TOKEN: usize = 4;
const CODES: usize = 5;

/// The code of a length, which depends on whether bytes are dropped.
#[inline]
fn len_code(drop: usize) -> usize {
    LEN + usize::from(drop > 0)
}

/// Appends `symbols`: sorted, all different, none empty or longer than [`SYMBOL_MAX`], fewer than
/// 2^13.
pub(super) fn put(symbols: &[Symbol], out: &mut Vec<u8>) {
    let mut numbers = Vec::new();
    let mut guesser = Guesser::new();
    let mut before = Symbol::EMPTY;
    for symbol in symbols {
        let text = symbol.text();
        let pairs = text.iter().zip(before.text());
        let shared = pairs.take_while(|(a, b)| a == b).count();
        let drop = before.len() - shared;
        numbers.push((DROP, drop));
        numbers.push((len_code(drop), text.len() - shared - 1));
        for at in shared..text.len() {
            if at == shared && drop > 0 {
                let difference = text[at] - before.0[at] - 1;
                numbers.push((DIFFERENCE, usize::from(difference)));
                guesser.note_wrong_guess(&text[..at], text[at]);
                continue;
            }
            let token = guesser.token(&text[..at], text[at]);
            numbers.push((TOKEN, token));
            if token == NEW {
                numbers.push((CODES, usize::from(text[at])));
            }
        }
        before = *symbol;
    }
    let mut counts = [[0u32; NUMBERS]; CODES];
    for (code, number) in &numbers {
        if let Some(counts) = counts.get_mut(*code) {
            counts[*number] += 1;
        }
    }
    let mut bits = BitWriter::default();
    bits.put(symbols.len() as u64, COUNT_BITS);
    let codes = counts.map(|counts| Code::put(&counts, LONGEST, &mut bits));
    for (code, number) in numbers {
        match codes.get(code) {
            Some(code) => code.write(number, &mut bits),
            None => bits.put(number as u64, 8),
        }
    }
    bits.finish(out);
}

/// Bytes that [`put`] appends.
pub(super) fn len(symbols: &[Symbol]) -> usize {
    let mut out = Vec::new();
    put(symbols, &mut out);
    out.len()
}

/// Reads what [`put`] wrote: at most `most` symbols, sorted. `None` if there are more, or the bytes
/// are invalid.
pub(super) fn take(bytes: &[u8], most: usize) -> Option<Vec<Symbol>> {
    let padded = [bytes, &[0; PADDING]].concat();
    let mut bits = Bits::new(&padded);
    let bits = &mut bits;
    let count = bits.take(COUNT_BITS)?;
    if count > most {
        return None;
    }
    let [drops, lens, lens_dropped, differences, tokens] = [
        Numbers::take(bits)?,
        Numbers::take(bits)?,
        Numbers::take(bits)?,
        Numbers::take(bits)?,
        Numbers::take(bits)?,
    ];
    let mut guesser = Guesser::new();
    let mut symbols = Vec::with_capacity(count);
    let mut symbol = Symbol::EMPTY;
    for _ in 0..count {
        let drop = drops.next(bits)?;
        let lens = if drop > 0 { &lens_dropped } else { &lens };
        let shared = symbol.len().checked_sub(drop)?;
        let end = shared + lens.next(bits)? + 1;
        if end > SYMBOL_MAX {
            return None;
        }
        let mut text = symbol.0;
        for byte in text.iter_mut().take(symbol.len()).skip(end) {
            *byte = 0;
        }
        for at in shared..end {
            let (path, rest) = text.split_at_mut(at);
            let place = rest.first_mut()?;
            if at == shared && drop > 0 {
                let more = differences.next(bits)? + 1;
                *place = u8::try_from(usize::from(*place) + more).ok()?;
                guesser.note_wrong_guess(path, *place);
            } else {
                let token = tokens.next(bits)?;
                *place = guesser.byte(path, token, bits)?;
            }
        }
        text[SYMBOL_MAX] = end as u8;
        symbol = Symbol(text);
        symbols.push(symbol);
    }
    bits.at_end().then_some(symbols)
}
