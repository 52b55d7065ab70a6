//! Dictionaries: values of a column that repeat, by number.

use std::sync::OnceLock;

/// Zeros behind a dictionary's values.
pub(crate) const SLACK: usize = 32;

/// Values that repeat, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dictionary {
    /// All values one behind the other, and some zeros behind them, so that a fixed number of bytes
    /// can be copied.
    pub(crate) bytes: Vec<u8>,
    /// Where each begins, and how long it is.
    pub(crate) places: Vec<(u32, u32)>,
    /// Bytes of the longest.
    pub(crate) longest: usize,
    /// If all are of one length that numbers have, too: their bytes as numbers, and that length.
    pub(crate) words: Option<(Vec<i64>, usize)>,
    /// Made when the first value is sought: most dictionaries are only read.
    index: OnceLock<Index>,
}

impl Dictionary {
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a [u8]>) -> Dictionary {
        let mut d = Dictionary::default();
        for value in values {
            d.places.push((d.bytes.len() as u32, value.len() as u32));
            d.bytes.extend_from_slice(value);
        }
        d.longest = d.places.iter().map(|p| p.1 as usize).max().unwrap_or(0);
        d.words = d.as_words();
        d.bytes.extend([0; SLACK]);
        d
    }

    fn as_words(&self) -> Option<(Vec<i64>, usize)> {
        let len = self.places.first()?.1;
        let alike = self.places.iter().all(|p| p.1 == len);
        let words = self.values().map(crate::record::int).collect();
        (alike && matches!(len, 1..=4 | 6 | 8)).then_some((words, len as usize))
    }

    /// The number of a value, if it is here.
    #[inline]
    pub(crate) fn number_of(&self, value: &[u8]) -> Option<u32> {
        let index = self.index.get_or_init(|| Index::new(self));
        let key = Key::of(value);
        let last = index.slots.len().wrapping_sub(1);
        let mut at = index.begin(key, value);
        loop {
            let slot = index.slots.get(at & last).filter(|slot| slot.behind > 0)?;
            let number = slot.behind - 1;
            if slot.key == key && (key.is_all() || self.value(number) == value) {
                return Some(number);
            }
            at += 1;
        }
    }

    fn value(&self, number: u32) -> &[u8] {
        let place = self.places.get(number as usize);
        place.map_or(&[], |(at, len)| {
            self.bytes
                .get(*at as usize..(*at + *len) as usize)
                .unwrap_or_default()
        })
    }

    /// The values in the order of their numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.places.len() as u32).map(|number| self.value(number))
    }
}

/// Length and both ends of a value: up to 16 bytes they are all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Key {
    first: u64,
    last: u64,
    len: u32,
}

impl Key {
    #[inline]
    fn of(value: &[u8]) -> Key {
        let (first, last) = match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => match (value.first_chunk::<4>(), value.last_chunk::<4>()) {
                (Some(first), Some(last)) => (
                    u64::from(u32::from_le_bytes(*first)),
                    u64::from(u32::from_le_bytes(*last)),
                ),
                _ => {
                    let all = value.iter().fold(0, |all, b| all << 8 | u64::from(*b));
                    (all, 0)
                }
            },
        };
        Key {
            first,
            last,
            len: value.len() as u32,
        }
    }

    /// Whether it says all of its value.
    #[inline]
    fn is_all(self) -> bool {
        self.len <= 16
    }
}

/// One value in the index.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: Key,
    /// The number plus one; 0: nothing is here.
    behind: u32,
}

/// A hash table with open addressing, half full at most.
#[derive(Debug, Clone)]
struct Index {
    slots: Box<[Slot]>,
}

impl Index {
    fn new(d: &Dictionary) -> Index {
        let len = (2 * d.places.len()).next_power_of_two().max(2);
        let mut index = Index {
            slots: vec![Slot::default(); len].into(),
        };
        for (value, behind) in d.values().zip(1..) {
            let key = Key::of(value);
            let mut at = index.begin(key, value);
            while let Some(slot) = index.slots.get_mut(at & (len - 1)) {
                if slot.behind == 0 {
                    *slot = Slot { key, behind };
                    break;
                }
                at += 1;
            }
        }
        index
    }

    /// Where the search for a value begins, before it is cut to the table's length: a quick hash,
    /// eight bytes at a time.
    #[inline]
    fn begin(&self, key: Key, value: &[u8]) -> usize {
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = (key.first ^ u64::from(key.len)).wrapping_mul(MIX) ^ key.last;
        if !key.is_all() {
            for word in value.as_chunks::<8>().0 {
                hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(MIX);
            }
        }
        (hash.wrapping_mul(MIX) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_value_has_its_number_and_no_other_has(
            values in prop::collection::btree_set(prop::collection::vec(0u8..3, 0..24), 0..100),
            others in prop::collection::vec(prop::collection::vec(0u8..3, 0..24), 0..50),
        ) {
            let d = Dictionary::new(values.iter().map(Vec::as_slice));
            for (value, number) in values.iter().zip(0..) {
                prop_assert_eq!(d.number_of(value), Some(number));
            }
            for other in others.iter().filter(|o| !values.contains(*o)) {
                prop_assert_eq!(d.number_of(other), None);
            }
        }
    }

    #[test]
    fn values_that_differ_in_the_middle_alone_are_told_apart() {
        let values: BTreeSet<String> = (0..500)
            .map(|n| format!("the same {n:03} the same"))
            .collect();
        let d = Dictionary::new(values.iter().map(|v| v.as_bytes()));
        for (value, number) in values.iter().zip(0..) {
            assert_eq!(d.number_of(value.as_bytes()), Some(number));
        }
        assert_eq!(d.number_of(b"the same 500 the same"), None);
    }
}
