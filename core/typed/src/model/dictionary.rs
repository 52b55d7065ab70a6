//! Dictionaries: values that repeat in a column, and their numbers.

use std::sync::OnceLock;

/// Zero bytes behind a dictionary's values.
pub(crate) const SLACK: usize = 32;

/// Values that repeat, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dictionary {
    /// All values, one after the other, and [`SLACK`] zeros, so that a copy of a fixed number of
    /// bytes stays within them.
    pub(crate) bytes: Vec<u8>,
    /// Begin and length of each value.
    pub(crate) places: Vec<(u32, u32)>,
    /// Length of the longest value.
    pub(crate) longest: usize,
    /// If all values have one length, which integers can also have: their bytes as integers, and
    /// that length.
    pub(crate) words: Option<(Vec<i64>, usize)>,
    /// Built at the first search: most dictionaries are only decoded from.
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
        let words = self
            .values()
            .map(densite_sqlite_format::record::int)
            .collect();
        (alike && matches!(len, 1..=4 | 6 | 8)).then_some((words, len as usize))
    }

    /// The number of a value; `None` if the dictionary does not have it.
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

/// Length, first and last bytes of a value. Up to 16 bytes, they are the whole value.
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

    /// Whether the key determines its value.
    #[inline]
    fn is_all(self) -> bool {
        self.len <= 16
    }
}

/// One value in the index.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: Key,
    /// The number plus one; 0 if the slot is free.
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

    /// The start of the search for a value, before it is reduced to the table's length: a fast
    /// hash, which takes eight bytes at a time.
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
        fn each_value_has_its_number_and_other_values_have_none(
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
    fn values_that_differ_only_in_the_middle_have_their_own_numbers() {
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
