//! A digest of a sequence of records: of what a b-tree holds, in the order of its keys, whatever
//! its pages look like (`digester` walks it).
//!
//! The digest of records r1 .. rn is the sum of h(ri) · b^(n-i) modulo 2^61 - 1, with h a hash of
//! the record's payload and row id, and b chosen at random for each run. So that of a tree follows
//! from those of its subtrees, which several threads work on; and two different sequences of hashes
//! meet with a probability of n / 2^61 at most.

/// The prime 2^61 - 1.
const P: u64 = (1 << 61) - 1;

/// What is chosen at random for one comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    base: u64,
    /// For the hashes of records.
    pub(crate) seed: u64,
}

impl Key {
    /// Of two random numbers.
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
    /// Records.
    pub(crate) records: u64,
    sum: u64,
}

impl Digest {
    /// Puts a record of this hash behind the others.
    pub(crate) fn push(&mut self, key: Key, hash: u64) {
        self.records += 1;
        self.sum = add(mul(self.sum, key.base), hash % P);
    }

    /// Puts another sequence behind this one.
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
    // 2^61 is 1 modulo P: the upper bits count as much as the lower ones.
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
