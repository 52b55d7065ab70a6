//! XXH3, the checksum of everything that Densite stores. Only this module names the library.
//!
//! Source: <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>, with its seeds and
//! default secret.

use std::hash::Hasher;
use twox_hash::{XxHash3_64, XxHash3_128};

/// The 64-bit hash.
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The 64-bit hash with a seed.
pub fn xxh3_64_with_seed(bytes: &[u8], seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// The 128-bit hash.
pub fn xxh3_128(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// The 128-bit hash with a seed.
pub fn xxh3_128_with_seed(bytes: &[u8], seed: u64) -> u128 {
    XxHash3_128::oneshot_with_seed(seed, bytes)
}

/// An incremental 64-bit hash.
pub struct Xxh3_64(XxHash3_64);

impl Xxh3_64 {
    /// Starts with a seed. Seed 0 gives the same hash as [`xxh3_64`].
    pub fn with_seed(seed: u64) -> Xxh3_64 {
        Xxh3_64(XxHash3_64::with_seed(seed))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The hash of all bytes so far.
    pub fn digest(&self) -> u64 {
        self.0.finish()
    }
}

/// An incremental 128-bit hash.
#[derive(Clone, Default)]
pub struct Xxh3_128(XxHash3_128);

impl Xxh3_128 {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The hash of all bytes so far.
    pub fn digest(&self) -> u128 {
        self.0.finish_128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_bytes() -> Vec<u8> {
        (0..2000u32).map(|i| (i * 7 % 251) as u8).collect()
    }

    /// Every length up to 2000 bytes, each with its own seed. The sums come from another
    /// implementation (xxhash-rust 0.8).
    #[test]
    fn hashes_are_those_of_another_implementation() {
        assert_eq!(xxh3_64(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(xxh3_128(b""), 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
        assert_eq!(xxh3_64(b"Densite"), 0xDA9D_06F1_7404_7F60);
        assert_eq!(
            xxh3_128(b"Densite"),
            0xDC0B_F088_DD5A_F9B3_8E32_234F_9ACB_D360
        );
        let bytes = some_bytes();
        let (mut sum, mut long_sum) = (0u64, 0u128);
        for len in 0..=bytes.len() {
            let (part, seed) = (&bytes[..len], len as u64);
            sum = sum.rotate_left(5) ^ xxh3_64_with_seed(part, seed);
            long_sum = long_sum.rotate_left(5) ^ xxh3_128_with_seed(part, seed);
        }
        assert_eq!(sum, 0x541E_5305_7D07_7530);
        assert_eq!(long_sum, 0xCCFF_0732_8338_9211_11B3_EDAF_A6A4_E9AB);
    }

    #[test]
    fn parts_hash_as_the_whole_at_every_length() {
        let bytes = some_bytes();
        for len in (0..300).chain([512, 1024, 1999]) {
            let whole = &bytes[..len];
            for seed in [0, 0x9E37_79B9_7F4A_7C15] {
                let mut parts = Xxh3_64::with_seed(seed);
                whole.chunks(13).for_each(|part| parts.update(part));
                assert_eq!(parts.digest(), xxh3_64_with_seed(whole, seed), "{len}");
            }
            let mut parts = Xxh3_128::default();
            whole.chunks(13).for_each(|part| parts.update(part));
            assert_eq!(parts.digest(), xxh3_128(whole), "{len}");
        }
        assert_eq!(xxh3_64(&bytes), xxh3_64_with_seed(&bytes, 0));
        assert_eq!(xxh3_128(&bytes), xxh3_128_with_seed(&bytes, 0));
    }
}
