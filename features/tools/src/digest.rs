//! A digest of a sequence of records: the content of a b-tree in key order, independent of its page
//! layout. The module `digester` walks the tree.
//!
//! The digest of records r1 .. rn is the sum of h(ri) · b^(n-i) modulo 2^61 - 1. Here h is a hash
//! of the payload and row id of a record, and b is a random number for each run. The digest of a
//! tree therefore follows from those of its subtrees, which several threads compute. Two different
//! sequences of hashes have the same digest with a probability of at most n / 2^61.

/// The prime 2^61 - 1.
const P: u64 = (1 << 61) - 1;

/// The random numbers of one comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    base: u64,
    /// The seed for the hashes of records.
    pub(crate) seed: u64,
}

impl Key {
    /// Creates a key from two random numbers.
    pub(crate) fn new(a: u64, b: u64) -> Key {
        Key {
            base: a % (P - 2) + 2,
            seed: b,
        }
    }
}

/// A digest of a sequence of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    /// Number of records.
    pub(crate) records: u64,
    sum: u64,
}

impl Digest {
    /// Appends a record with this hash.
    pub(crate) fn push(&mut self, key: Key, hash: u64) {
        self.records += 1;
        self.sum = add(mul(self.sum, key.base), hash % P);
    }

    /// Appends another sequence.
    pub(crate) fn append(&mut self, key: Key, other: &Digest) {
        let (mut power, mut base, mut n) = (1, key.base, other.records);
        while n > 0 {
            if n & 1 == 1 {
                power = mul(power, base);
            }
            base = mul(base, base);
            n >>= 1;
        }
        self.records += other.records;
        self.sum = add(mul(self.sum, power), other.sum);
    }
}

fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= P { sum - P } else { sum }
}

fn mul(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // 2^61 is 1 modulo P, so the upper bits are added to the lower ones.
    add((product as u64) & P, (product >> 61) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_follows_from_its_parts() {
        let key = Key::new(0x1234_5678_9abc_def0, 7);
        let hashes: Vec<u64> = (0..100u64).map(|i| i.wrapping_mul(u64::MAX / 7)).collect();
        let of = |hashes: &[u64]| {
            let mut digest = Digest::default();
            hashes.iter().for_each(|h| digest.push(key, *h));
            digest
        };
        for cut in [0, 1, 50, 99, 100] {
            let mut front = of(&hashes[..cut]);
            front.append(key, &of(&hashes[cut..]));
            assert_eq!(front, of(&hashes), "cut at {cut}");
        }
        let mut swapped = hashes.clone();
        swapped.swap(3, 4);
        assert_ne!(of(&swapped), of(&hashes));
    }

    #[test]
    fn arithmetic_stays_below_the_prime() {
        assert_eq!(mul(P - 1, P - 1), 1);
        assert_eq!(add(P - 1, 1), 0);
    }
}
