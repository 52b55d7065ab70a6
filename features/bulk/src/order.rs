//! Sorting rows into the order of a table's b-tree.
//!
//! Rows are sorted in SQLite's order: NULL, numbers, text, blobs. Each row gets a 64-bit code that
//! never contradicts that order. If the code holds the whole key (numbers of few bits), only codes
//! are compared. Otherwise rows with equal codes are compared by their values. The order affects
//! only speed: no insert or join depends on it.

use crate::chunk::{Chunk, Data};
use crate::radix;
use crate::rows::{Place, Rows};
use densite_sqlite::ValueRef;
use std::cmp::Ordering;

/// How text is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collation {
    /// Byte by byte. Any other collation except NOCASE is treated like this.
    Binary,
    /// Ignoring the case of A to Z.
    NoCase,
}

/// A column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// The column; 0 is the first.
    pub column: usize,
    /// Largest value first.
    pub descending: bool,
    /// How text is compared.
    pub collation: Collation,
}

/// The rows in order; `None` if they are already in order.
pub(crate) fn sorted(all: &Rows, keys: &[SortKey]) -> Option<Vec<Place>> {
    if keys.is_empty() || all.len() < 2 || ascending(all, keys) {
        return None;
    }
    let Codes { rows, bits, exact } = Codes::of(all, keys);
    let in_order = rows.is_sorted_by(|a, b| {
        let by_code = a.0.cmp(&b.0);
        let by = by_code.then_with(|| match exact {
            true => Ordering::Equal,
            false => by_values(all, keys, a.1, b.1),
        });
        by != Ordering::Greater
    });
    if in_order {
        return None;
    }
    // Places ascend, so equal rows keep their order.
    let mut rows = radix::sort(rows, bits);
    if !exact {
        for equal in rows.chunk_by_mut(|a, b| a.0 == b.0) {
            equal.sort_by(|a, b| by_values(all, keys, a.1, b.1));
        }
    }
    Some(rows.into_iter().map(|(_, place)| place).collect())
}

/// Whether plain integers are in order, checked without codes. False for other values too.
fn ascending(all: &Rows, keys: &[SortKey]) -> bool {
    let [(_, columns)] = all.batches() else {
        return false;
    };
    let integers = keys
        .iter()
        .map(|key| match columns.get(key.column)?.integers()? {
            values if !key.descending => Some(values),
            _ => None,
        });
    let Some(integers) = integers.collect::<Option<Vec<&[i64]>>>() else {
        return false;
    };
    (1..all.len()).all(|row| {
        let pairs = integers
            .iter()
            .filter_map(|values| Some((values.get(row - 1)?, values.get(row)?)));
        let mut pairs = pairs.skip_while(|(a, b)| a == b);
        pairs.next().is_none_or(|(a, b)| a < b)
    })
}

fn by_values(all: &Rows, keys: &[SortKey], a: Place, b: Place) -> Ordering {
    keys.iter().fold(Ordering::Equal, |so_far, key| {
        so_far.then_with(|| {
            let by = compare(
                all.value(a, key.column),
                all.value(b, key.column),
                key.collation,
            );
            if key.descending { by.reverse() } else { by }
        })
    })
}

/// Compares in SQLite's order of values.
fn compare(a: ValueRef<'_>, b: ValueRef<'_>, collation: Collation) -> Ordering {
    use ValueRef::{Blob, Integer, Null, Real, Text};
    let class = |value| match value {
        Null => 0,
        Integer(_) | Real(_) => 1,
        Text(_) => 2,
        Blob(_) => 3,
    };
    match (a, b) {
        (Integer(a), Integer(b)) => a.cmp(&b),
        (Real(a), Real(b)) => by_size(a, b),
        (Integer(a), Real(b)) => integer_and_real(a, b),
        (Real(a), Integer(b)) => integer_and_real(b, a).reverse(),
        (Text(a), Text(b)) => match collation {
            Collation::Binary => a.cmp(b),
            Collation::NoCase => folded(a).cmp(folded(b)),
        },
        (Blob(a), Blob(b)) => a.cmp(b),
        _ => class(a).cmp(&class(b)),
    }
}

/// Compares exactly, as SQLite does (`sqlite3IntFloatCompare`). Converted to f64, two integers
/// beyond 2^53 would both equal a number between them.
fn integer_and_real(a: i64, b: f64) -> Ordering {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if b >= BEYOND {
        Ordering::Less
    } else if b < -BEYOND {
        Ordering::Greater
    } else {
        a.cmp(&(b.trunc() as i64)).then(by_size(b.trunc(), b))
    }
}

/// -0.0 equals 0.0, and SQLite's values include no NaN.
fn by_size(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// NOCASE ignores the bytes after a NUL, but not their number.
fn folded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut ended = false;
    text.iter().map(move |byte| {
        ended |= *byte == 0;
        if ended { 0 } else { byte.to_ascii_lowercase() }
    })
}

/// A code for each row.
struct Codes {
    rows: Vec<(u64, Place)>,
    /// The number of the codes' lowest bits that are used.
    bits: u32,
    /// Whether rows with the same code are equal.
    exact: bool,
}

impl Codes {
    fn of(all: &Rows, keys: &[SortKey]) -> Codes {
        let mut rows: Vec<(u64, Place)> = Vec::with_capacity(all.len());
        for (batch, _) in all.batches().iter().enumerate() {
            rows.extend((0..all.in_batch(batch)).map(|row| (0, Place::new(batch, row))));
        }
        let mut left = u64::BITS;
        for key in keys {
            let Some(range) = Range::of(all, key.column) else {
                // The range of the values is unknown, so the code has only their first bytes. Then
                // values must be compared too.
                let keep = left;
                fill(all, &mut rows, key, keep, |value| {
                    prefix(value, key.collation)
                });
                return Codes::first(rows);
            };
            let bits = range.bits();
            if bits > left {
                fill(all, &mut rows, key, left, |value| {
                    range.code(value) << (u64::BITS - bits)
                });
                return Codes::first(rows);
            }
            fill(all, &mut rows, key, bits, |value| {
                range.code(value) << (u64::BITS - bits)
            });
            left -= bits;
        }
        Codes {
            rows,
            bits: u64::BITS - left,
            exact: true,
        }
    }

    /// Codes that hold only the beginning of the values.
    fn first(rows: Vec<(u64, Place)>) -> Codes {
        Codes {
            rows,
            bits: u64::BITS,
            exact: false,
        }
    }
}

/// Appends the highest `bits` bits of each row's code for a column to the row's code.
fn fill(
    all: &Rows,
    rows: &mut [(u64, Place)],
    key: &SortKey,
    bits: u32,
    code: impl Fn(ValueRef<'_>) -> u64,
) {
    let mut rows = rows.iter_mut();
    for (_, columns) in all.batches() {
        let Some(chunk) = columns.get(key.column) else {
            return;
        };
        let flip = if key.descending { u64::MAX } else { 0 };
        let append = |row: &mut (u64, Place), value| {
            let piece = code(value) ^ flip;
            row.0 = match bits {
                0 => row.0,
                64 => piece,
                _ => row.0 << bits | piece >> (u64::BITS - bits),
            };
        };
        if let Some(values) = chunk.integers() {
            // A separate loop, because finding a row's value in any chunk takes longer than its
            // code.
            for (n, row) in values.iter().zip(rows.by_ref()) {
                append(row, ValueRef::Integer(*n));
            }
            continue;
        }
        for (value, row) in each(chunk).zip(rows.by_ref()) {
            append(row, value);
        }
    }
}

/// The values of a chunk.
fn each(chunk: &Chunk) -> impl Iterator<Item = ValueRef<'_>> {
    (0..chunk.rows).map(|row| chunk.get(row))
}

/// The range of a column's numbers. Code 0 is NULL.
enum Range {
    Integers { least: i64, span: u64 },
    Reals,
}

impl Range {
    /// `None` if the column has values other than numbers of one kind, or if their range is too
    /// large.
    fn of(all: &Rows, column: usize) -> Option<Range> {
        let chunks = || all.chunks(column);
        if chunks().all(|chunk| {
            matches!(
                chunk.data,
                Data::F64(_) | Data::F32(_) | Data::F16(_) | Data::Null
            )
        }) {
            return Some(Range::Reals);
        }
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for chunk in chunks() {
            if let Data::Strings { .. } | Data::Views { .. } = chunk.data {
                return None;
            }
            if let Some(values) = chunk.integers() {
                for n in values {
                    (least, greatest) = (least.min(*n), greatest.max(*n));
                }
                continue;
            }
            for value in each(chunk) {
                match value {
                    ValueRef::Integer(n) => (least, greatest) = (least.min(n), greatest.max(n)),
                    ValueRef::Null => {}
                    _ => return None,
                }
            }
        }
        // The range must have a code left for NULL.
        let span = greatest.wrapping_sub(least).cast_unsigned();
        match least > greatest {
            true => Some(Range::Integers { least: 0, span: 0 }),
            false => (span < u64::MAX - 1).then_some(Range::Integers { least, span }),
        }
    }

    fn bits(&self) -> u32 {
        match self {
            Range::Integers { span, .. } => u64::BITS - (span + 1).leading_zeros(),
            Range::Reals => u64::BITS,
        }
    }

    fn code(&self, value: ValueRef<'_>) -> u64 {
        match (self, value) {
            (Range::Integers { least, .. }, ValueRef::Integer(n)) => {
                n.wrapping_sub(*least).cast_unsigned().saturating_add(1)
            }
            (Range::Reals, ValueRef::Real(x)) => ordered(x),
            _ => 0,
        }
    }
}

/// A code with the order of the numbers; no number has code 0.
fn ordered(x: f64) -> u64 {
    // -0.0 equals 0.0.
    let bits = (x + 0.0).to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// The beginning of a value of any class: two bits for the class, then the first bits of the value.
fn prefix(value: ValueRef<'_>, collation: Collation) -> u64 {
    let (class, rest) = match value {
        ValueRef::Null => (0u64, 0),
        ValueRef::Integer(n) => (1, ordered(n as f64)),
        ValueRef::Real(x) => (1, ordered(x)),
        ValueRef::Text(text) => (2, first_bytes(text, collation)),
        ValueRef::Blob(bytes) => (3, first_bytes(bytes, Collation::Binary)),
    };
    class << 62 | rest >> 2
}

fn first_bytes(bytes: &[u8], collation: Collation) -> u64 {
    let mut first = [0u8; 8];
    match collation {
        Collation::Binary => first
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from),
        Collation::NoCase => first
            .iter_mut()
            .zip(folded(bytes))
            .for_each(|(to, from)| *to = from),
    }
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValueRef::{Integer, Real, Text};

    #[test]
    fn nocase_ends_at_a_nul() {
        for (a, b, order) in [
            ("a\0z", "A\0b", Ordering::Equal),
            ("a\0z", "a\0bb", Ordering::Less),
            ("a\0z", "aA", Ordering::Less),
        ] {
            let (a, b) = (Text(a.as_bytes()), Text(b.as_bytes()));
            assert_eq!(compare(a, b, Collation::NoCase), order);
            let prefixes = prefix(a, Collation::NoCase).cmp(&prefix(b, Collation::NoCase));
            assert!(prefixes == order || prefixes == Ordering::Equal);
        }
    }

    #[test]
    fn integers_and_reals_have_one_order() {
        const LARGE: i64 = 1 << 53;
        let ascending = [
            Real(f64::NEG_INFINITY),
            Integer(i64::MIN),
            Integer(-LARGE - 1),
            Real(-(LARGE as f64)),
            Real(-1.5),
            Integer(-1),
            Real(-0.5),
            Integer(0),
            Real(0.5),
            Integer(LARGE - 1),
            Integer(LARGE),
            Integer(LARGE + 1),
            Real(LARGE as f64 + 2.0),
            Integer(i64::MAX),
            Real(9_223_372_036_854_775_808.0),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(*a, *b, Collation::Binary), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        for (a, b) in [(LARGE, LARGE as f64), (i64::MIN, i64::MIN as f64)] {
            assert_eq!(
                compare(Integer(a), Real(b), Collation::Binary),
                Ordering::Equal
            );
        }
    }
}
