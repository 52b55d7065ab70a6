//! Keys as numbers: two words that order keys of any values nearly as SQLite does.
//!
//! ```text
//! hi   2 bits: NULL, number, text, blob; 62 bits of the first column
//! lo   what the first column has left, or the second column; the last bit: other keys may have the same words
//! ```
//!
//! Invariants, for keys `a` and `b` under the same collations (a property test holds them):
//! - `a < b` gives `code(a) <= code(b)`, and `a = b` gives `code(a) = code(b)`;
//! - where `code(a) = code(b)` and its last bit is 0, `a = b`.
//!
//! So the bit is the same for all keys that share the other 127. Integers below 2^59 in one or two columns are exact, as is text of up to 6 bytes, or 13 in a key of one column.

use crate::collation::Collation;
use densite_sqlite::ValueRef;
use std::borrow::Cow;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Code {
    pub(crate) hi: u64,
    pub(crate) lo: u64,
}

const NUMBER: u64 = 1;
const TEXT: u64 = 2;
const BLOB: u64 = 3;
/// Integers from here on, and below its negative, lose their last bits to what `hi` has room for.
const FAR: i64 = 1 << 59;
/// Bytes of text in a word, beside how many there are.
const BYTES: usize = 7;

/// A number as its floor and whether there is more; `None` below all integers.
fn floor(value: ValueRef<'_>) -> Option<(i64, f64)> {
    match value {
        ValueRef::Integer(n) => Some((n, 0.0)),
        ValueRef::Real(x) if x < -9_223_372_036_854_775_808.0 => None,
        ValueRef::Real(x) if x >= 9_223_372_036_854_775_808.0 => Some((i64::MAX, 0.5)),
        ValueRef::Real(x) => Some((x.floor() as i64, x - x.floor())),
        _ => None,
    }
}

/// Up to seven bytes and their number, so that what is shorter comes first.
fn word(bytes: &[u8]) -> u64 {
    let len = bytes.len().min(BYTES);
    let mut word = [0; 8];
    if let (Some(to), Some(from)) = (word.get_mut(..len), bytes.get(..len)) {
        to.copy_from_slice(from);
    }
    u64::from_be_bytes(word) >> 5 | len as u64
}

/// The second column: 2 bits, 61 bits, and whether other values have the same.
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
    /// Of a key, whose columns compare as `key` says.
    pub(crate) fn of<'a>(key: &[Collation], value: impl Fn(usize) -> ValueRef<'a>) -> Code {
        let Some(first) = key.first().copied() else {
            // Without a key rows are all alike.
            return Code::default();
        };
        // What follows the first column, if `hi` says all of that one.
        let rest = || match key {
            [] | [_] => 0,
            [_, how] => second(value(1), *how),
            // There are columns that no word has.
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
                    // Among them is what no integer is below.
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

    /// Whether one key has these words.
    pub(crate) fn is_exact(self) -> bool {
        self.lo & 1 == 0
    }

    /// Whether a key of so many columns may have NULL in it.
    pub(crate) fn may_have_null(self, columns: usize) -> bool {
        let has = |word: u64| word >> 62 == 0;
        match columns {
            1 => has(self.hi),
            2 if self.is_exact() => has(self.hi) || has(self.lo),
            _ => true,
        }
    }

    /// The least and the greatest code of keys that begin with these values: as many of the columns.
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
    /// The first bytes of what compares as this collation compares text; all that the words take, and one more.
    fn folded(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Collation::Binary => Cow::Borrowed(text),
            Collation::NoCase => {
                let some = text.get(..2 * BYTES + 1).unwrap_or(text);
                Cow::Owned(some.to_ascii_lowercase())
            }
            Collation::RTrim => {
                let end = text.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
                Cow::Borrowed(text.get(..end).unwrap_or_default())
            }
            Collation::BinaryUtf16Le => Cow::Owned(utf16(text, u16::to_le_bytes)),
            Collation::BinaryUtf16Be => Cow::Owned(utf16(text, u16::to_be_bytes)),
        }
    }
}

/// As many bytes of UTF-16 as the words take, and one more.
fn utf16(text: &[u8], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    text.encode_utf16()
        .take(BYTES + 1)
        .flat_map(bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_sqlite::Value;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::cmp::Ordering;

    const ALL: [Collation; 5] = [
        Collation::Binary,
        Collation::BinaryUtf16Le,
        Collation::BinaryUtf16Be,
        Collation::NoCase,
        Collation::RTrim,
    ];

    fn value(random: &mut StdRng) -> Value {
        let edges = [
            0,
            1,
            FAR - 1,
            FAR,
            FAR + 1,
            -FAR,
            -FAR - 1,
            -FAR + 1,
            i64::MAX,
            i64::MIN,
            i64::MIN + 7,
            i64::MIN + 8,
            1 << 53,
        ];
        let near = random.random_range(-3..4i64);
        let n = edges[random.random_range(0..edges.len())].saturating_add(near);
        match random.random_range(0..8) {
            0 => Value::Null,
            1..3 => Value::Integer(n),
            3 => Value::Real(n as f64 + f64::from(random.random_range(0..4)) / 4.0),
            4 => Value::Real(
                [
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    -1e19,
                    1e19,
                    -0.0,
                    0.3,
                    0.30000001,
                ][random.random_range(0..7)],
            ),
            kind => {
                let len = random.random_range(0..18);
                let letters = ["a", "A", " ", "\0", "b", "\u{e9}", "\u{1f600}", "\u{ffee}"];
                let some = if random.random_bool(0.7) { 2 } else { 8 };
                let text: String = (0..len)
                    .map(|_| letters[random.random_range(0..some)])
                    .collect();
                match kind {
                    7 => Value::Blob(text.into_bytes()),
                    _ => Value::Text(text),
                }
            }
        }
    }

    /// The invariants of the module, with keys that are near each other and near every bound.
    #[test]
    fn codes_order_keys() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut exact = 0;
        for round in 0..300_000 {
            let columns = random.random_range(1..4);
            let key: Vec<Collation> = (0..columns)
                .map(|_| ALL[random.random_range(0..5)])
                .collect();
            let a: Vec<Value> = (0..columns).map(|_| value(&mut random)).collect();
            let b: Vec<Value> = a
                .iter()
                .map(|v| match random.random_bool(0.6) {
                    true => v.clone(),
                    false => value(&mut random),
                })
                .collect();
            let order = (0..columns).fold(Ordering::Equal, |so_far, i| {
                so_far.then_with(|| key[i].compare(a[i].as_ref(), b[i].as_ref()))
            });
            let code = |v: &[Value]| Code::of(&key, |i| v[i].as_ref());
            let (x, y) = (code(&a), code(&b));
            let what = format!("seed {seed}, round {round}: {key:?} {a:?} {b:?} {x:x?} {y:x?}");
            match order {
                Ordering::Less => assert!(x <= y, "{what}"),
                Ordering::Greater => assert!(x >= y, "{what}"),
                Ordering::Equal => assert_eq!(x, y, "{what}"),
            }
            if x == y && x.is_exact() {
                exact += 1;
                assert_eq!(order, Ordering::Equal, "{what}");
            }
            // What begins with these values lies in the range.
            let some = random.random_range(0..=columns);
            let values: Vec<ValueRef<'_>> = a.iter().take(some).map(Value::as_ref).collect();
            let (low, high) = Code::range(&key, &values);
            assert!(low <= x && x <= high, "{what}");
        }
        assert!(exact > 10_000, "{exact}");
    }

    #[test]
    fn usual_keys_are_exact() {
        let code = |key: &[Collation], v: &[Value]| Code::of(key, |i| v[i].as_ref());
        let one = [Collation::Binary];
        let two = [Collation::Binary, Collation::NoCase];
        assert!(code(&one, &[Value::Integer(FAR + 12_345)]).is_exact());
        assert!(code(&one, &[Value::from("thirteen byte")]).is_exact());
        assert!(!code(&one, &[Value::from("fourteen bytes")]).is_exact());
        assert!(code(&two, &[Value::Integer(-7), Value::Integer(1 << 58)]).is_exact());
        assert!(code(&two, &[Value::from("tenant"), Value::from("DE")]).is_exact());
    }
}
