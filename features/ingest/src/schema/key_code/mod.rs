//! Keys as numbers: two words that order keys of any values almost as SQLite does.
//!
//! Invariants, for keys `a` and `b` under the same collations: `a < b` gives `code(a) <= code(b)`;
//! `a = b` gives `code(a) = code(b)`; if the codes are equal and their last bit is 0, `a = b`. So
//! the last bit is the same for all keys that share the other 127 bits. Integers below 2^59 in one
//! or two columns are exact, and text of up to 6 bytes, or 13 in a key of one column.

use crate::schema::collation::{Collation, without_case};
use densite_sqlite::ValueRef;
use std::borrow::Cow;

/// The code of a key.
///
/// `hi` has 2 bits (NULL, number, text, blob) and 62 bits of the first column. `lo` has the rest of
/// the first column, or the second column. Its last bit is 1 if other keys can have the same words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Code {
    pub(crate) hi: u64,
    pub(crate) lo: u64,
}

const NUMBER: u64 = 1;
const TEXT: u64 = 2;
const BLOB: u64 = 3;
/// From here on, and below its negative, `hi` has no room for the last bits of integers.
const FAR: i64 = 1 << 59;
/// Bytes of text in a word, which also holds their number.
const BYTES: usize = 7;

/// The floor of a number and the rest; `None` for numbers below all integers.
fn floor(value: ValueRef<'_>) -> Option<(i64, f64)> {
    match value {
        ValueRef::Integer(n) => Some((n, 0.0)),
        ValueRef::Real(x) if x < -9_223_372_036_854_775_808.0 => None,
        ValueRef::Real(x) if x >= 9_223_372_036_854_775_808.0 => Some((i64::MAX, 0.5)),
        ValueRef::Real(x) => Some((x.floor() as i64, x - x.floor())),
        _ => None,
    }
}

/// Up to seven bytes and their number, so that a prefix sorts first.
fn word(bytes: &[u8]) -> u64 {
    let len = bytes.len().min(BYTES);
    let mut word = [0; 8];
    if let (Some(to), Some(from)) = (word.get_mut(..len), bytes.get(..len)) {
        to.copy_from_slice(from);
    }
    u64::from_be_bytes(word) >> 5 | len as u64
}

/// The second column: 2 bits, 61 bits, and whether other values have the same code.
fn second(value: ValueRef<'_>, how: Collation) -> u64 {
    let (class, payload, rough) = match value {
        ValueRef::Null => (0, 0, false),
        ValueRef::Integer(_) | ValueRef::Real(_) => {
            let (payload, rough) = match floor(value) {
                None => (0, true),
                Some((n, _)) if n >= FAR => ((3 << 59) + ((n - FAR) >> 5), true),
                Some((n, _)) if n < -FAR => (n.wrapping_sub(i64::MIN) >> 5, true),
                Some((n, part)) => ((1 << 60) + n, part != 0.0),
            };
            (NUMBER, payload as u64, rough)
        }
        ValueRef::Text(text) => {
            let folded = how.folded(text);
            (TEXT, word(&folded), folded.len() >= BYTES)
        }
        ValueRef::Blob(bytes) => (BLOB, word(bytes), bytes.len() >= BYTES),
    };
    class << 62 | payload << 1 | u64::from(rough)
}

impl Code {
    /// The code of a key. `key` says how its columns compare.
    pub(crate) fn of<'a>(key: &[Collation], value: impl Fn(usize) -> ValueRef<'a>) -> Code {
        let Some(first) = key.first().copied() else {
            // Without a key all rows are equal.
            return Code::default();
        };
        // The second column, if `hi` holds the first one completely.
        let rest = || match key {
            [] | [_] => 0,
            [_, how] => second(value(1), *how),
            // No word holds the further columns.
            [_, how, ..] => second(value(1), *how) | 1,
        };
        let texts = |class: u64, bytes: &[u8]| {
            let hi = class << 62 | word(bytes);
            let lo = match bytes.get(BYTES..) {
                None => rest(),
                Some(more) => word(more) << 1 | u64::from(more.len() >= BYTES || key.len() > 1),
            };
            Code { hi, lo }
        };
        match value(0) {
            ValueRef::Null => Code { hi: 0, lo: 1 },
            number @ (ValueRef::Integer(_) | ValueRef::Real(_)) => {
                let several = u64::from(key.len() > 1);
                let far = |base: u64, n: u64, rough: bool| Code {
                    hi: NUMBER << 62 | (base + (n >> 3)),
                    lo: (n & 7) << 2 | u64::from(rough) << 1 | several | u64::from(rough),
                };
                match floor(number) {
                    None => far(0, 0, true),
                    // Reals below all integers share this code.
                    Some((n, _)) if n < -FAR && n.wrapping_sub(i64::MIN) < 8 => far(0, 0, true),
                    Some((n, part)) if n < -FAR => {
                        far(0, n.wrapping_sub(i64::MIN) as u64, part != 0.0)
                    }
                    Some((n, part)) if n >= FAR => far(3 << 60, (n - FAR) as u64, part != 0.0),
                    Some((n, part)) => {
                        let hi =
                            NUMBER << 62 | ((1 << 61) + (n << 1)) as u64 | u64::from(part != 0.0);
                        let lo = match part {
                            0.0 => rest(),
                            _ => ((part * (1u64 << 52) as f64) as u64) << 1 | 1,
                        };
                        Code { hi, lo }
                    }
                }
            }
            ValueRef::Text(text) => texts(TEXT, &first.folded(text)),
            ValueRef::Blob(bytes) => texts(BLOB, bytes),
        }
    }

    /// Whether only one key has these words.
    pub(crate) fn is_exact(self) -> bool {
        self.lo & 1 == 0
    }

    /// The integer value of a column, or the integer that it equals, if the words contain it. The
    /// key has `columns` columns.
    pub(crate) fn integer(self, columns: usize, place: usize) -> Option<i64> {
        let first = || {
            if self.hi >> 62 != NUMBER {
                return None;
            }
            let n = self.hi & ((1 << 62) - 1);
            let rough = match n >> 60 {
                1 | 2 => n & 1,
                _ => self.lo >> 1 & 1,
            };
            let far = |n: u64| n << 3 | self.lo >> 2 & 7;
            (rough == 0).then_some(match n >> 60 {
                0 => i64::MIN.wrapping_add(far(n) as i64),
                1 | 2 => (n as i64 - (1 << 61)) >> 1,
                _ => FAR.wrapping_add(far(n - (3 << 60)) as i64),
            })
        };
        match (columns, place) {
            (_, 0) => first(),
            (2, 1) if self.is_exact() => {
                let second = self.lo.wrapping_sub(NUMBER << 62 | 1 << 61) as i64;
                let near = 2 * -FAR..2 * FAR;
                first()
                    .filter(|_| near.contains(&second))
                    .map(|_| second >> 1)
            }
            _ => None,
        }
    }

    /// Whether a key with `columns` columns can contain NULL.
    pub(crate) fn may_have_null(self, columns: usize) -> bool {
        let has = |word: u64| word >> 62 == 0;
        match columns {
            1 => has(self.hi),
            2 if self.is_exact() => has(self.hi) || has(self.lo),
            _ => true,
        }
    }

    /// The least and the greatest code of keys whose first columns have these values.
    pub(crate) fn range(key: &[Collation], values: &[ValueRef<'_>]) -> (Code, Code) {
        let value = |i: usize| values.get(i).copied().unwrap_or(ValueRef::Null);
        let code = Code::of(key, value);
        match values.len() {
            0 => (
                Code::default(),
                Code {
                    hi: u64::MAX,
                    lo: u64::MAX,
                },
            ),
            1 if key.len() > 1 => (
                Code { hi: code.hi, lo: 0 },
                Code {
                    hi: code.hi,
                    lo: u64::MAX,
                },
            ),
            _ => (code, code),
        }
    }
}

impl Collation {
    /// The first bytes of the text that this collation compares: all that the words hold, and one
    /// more.
    fn folded(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Collation::Binary => Cow::Borrowed(text),
            Collation::NoCase => Cow::Owned(without_case(text).take(2 * BYTES + 1).collect()),
            Collation::RTrim => {
                let end = text.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
                Cow::Borrowed(text.get(..end).unwrap_or_default())
            }
            Collation::BinaryUtf16Le => Cow::Owned(utf16(text, u16::to_le_bytes)),
            Collation::BinaryUtf16Be => Cow::Owned(utf16(text, u16::to_be_bytes)),
        }
    }
}

/// The UTF-16 bytes that the words hold, and one more.
fn utf16(text: &[u8], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    text.encode_utf16()
        .take(BYTES + 1)
        .flat_map(bytes)
        .collect()
}

#[cfg(test)]
mod tests;
